/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The interface in one process, which connects to its own segments; and each call used wrongly.
 * Compiled as C11 and as C++17.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sisci_api.h"

static sci_error_t e;
static unsigned int node;
static sci_desc_t sd;

#define OK(call) do { e = SCI_ERR_BUSY; call; if (!CHECK_SAME(e, SCI_ERR_OK)) printf("  %s: %s\n", #call, SCIGetErrorString(e)); } while (0)
#define GIVES(call, expected) do { e = SCI_ERR_OK; call; if (!CHECK_SAME(e, expected)) printf("  %s: %s\n", #call, SCIGetErrorString(e)); } while (0)

static sci_local_segment_t local(unsigned int id, size_t size) {
    sci_local_segment_t segment = NULL;
    OK(SCICreateSegment(sd, &segment, id, size, NULL, NULL, 0, &e));
    OK(SCIPrepareSegment(segment, 0, 0, &e));
    OK(SCISetSegmentAvailable(segment, 0, 0, &e));
    return segment;
}

static sci_remote_segment_t remote(unsigned int id) {
    sci_remote_segment_t segment = NULL;
    OK(SCIConnectSegment(sd, &segment, node, id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    return segment;
}

/* What a connection that is asked for beside the program has come to. */
static volatile int told, told_status;
static sci_callback_action_t tell(void *argument, sci_remote_segment_t segment, sci_segment_cb_reason_t reason, sci_error_t status) {
    (void)argument, (void)segment;
    told_status = (int)status;
    told = (int)reason;
    return SCI_CALLBACK_CONTINUE;
}

static void connecting_beside(void) {
    check_group("connections beside the program");
    sci_remote_segment_t r = NULL, other = NULL;
    sci_map_t map = NULL;
    sci_error_t status = SCI_ERR_BUSY;
    OK(SCIConnectSegment(sd, &r, node, 60, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, SCI_FLAG_ASYNCHRONOUS_CONNECT, &e));
    CHECK_SAME(SCIGetRemoteSegmentSize(r), 0);
    GIVES(SCIMapRemoteSegment(r, &map, 0, 64, NULL, 0, &e), SCI_ERR_NOT_CONNECTED);
    GIVES(SCIWaitForRemoteSegmentEvent(r, &status, 20, 0, &e), SCI_ERR_TIMEOUT);
    OK(SCIConnectSegment(sd, &other, node, 60, 0, tell, NULL, SCI_INFINITE_TIMEOUT, SCI_FLAG_ASYNCHRONOUS_CONNECT | SCI_FLAG_USE_CALLBACK, &e));
    sci_local_segment_t mine = local(60, 4096);
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(r, &status, SCI_INFINITE_TIMEOUT, 0, &e), SCI_CB_CONNECT));
    CHECK_SAME(status, SCI_ERR_OK);
    CHECK_SAME(SCIGetRemoteSegmentSize(r), 4096);
    while (!told) usleep(100);
    CHECK_SAME(told, SCI_CB_CONNECT);
    CHECK_SAME(told_status, SCI_ERR_OK);
    volatile char *at = (volatile char *)SCIMapRemoteSegment(r, &map, 0, 4096, NULL, 0, &e);
    CHECK(at != NULL);
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIDisconnectSegment(other, 0, &e));
    OK(SCIRemoveSegment(mine, 0, &e));
    /* Nobody comes; and nobody waits any more. */
    OK(SCIConnectSegment(sd, &r, node, 61, 0, NULL, NULL, 30, SCI_FLAG_ASYNCHRONOUS_CONNECT, &e));
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(r, &status, SCI_INFINITE_TIMEOUT, 0, &e), SCI_CB_CONNECT));
    CHECK_SAME(status, SCI_ERR_NO_SUCH_SEGMENT);
    OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIConnectSegment(sd, &r, node, 62, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, SCI_FLAG_ASYNCHRONOUS_CONNECT, &e));
    OK(SCIDisconnectSegment(r, 0, &e));
    mine = local(62, 4096);
    /* A try that was under way comes and leaves. */
    int come = 0, left = 0;
    do {
        sci_segment_cb_reason_t reason = SCIWaitForLocalSegmentEvent(mine, NULL, NULL, 500, 0, &e);
        come += reason == SCI_CB_CONNECT;
        left += reason == SCI_CB_DISCONNECT;
    } while (e == SCI_ERR_OK);
    CHECK_SAME(e, SCI_ERR_TIMEOUT);
    CHECK(come == left && come <= 1);
    OK(SCIRemoveSegment(mine, 0, &e));
}

static void segments(void) {
    check_group("segments");
    sci_local_segment_t mine = local(1, 100000), other = NULL;
    CHECK_SAME(SCIGetLocalSegmentId(mine), 1);
    CHECK_SAME(SCIGetLocalSegmentSize(mine), 100000);
    GIVES(SCICreateSegment(sd, &other, 1, 10, NULL, NULL, 0, &e), SCI_ERR_SEGMENTID_USED);
    GIVES(SCICreateSegment(sd, &other, 2, 0, NULL, NULL, 0, &e), SCI_ERR_SIZE_ALIGNMENT);
    GIVES(SCICreateSegment(sd, &other, 2, ~(size_t)0, NULL, NULL, 0, &e), SCI_ERR_SIZE_ALIGNMENT);
    GIVES(SCICreateSegment(sd, &other, 2, (size_t)1 << 60, NULL, NULL, 0, &e), SCI_ERR_NOSPC);
    GIVES(SCICreateSegment(sd, &other, 2, 10, NULL, NULL, 0x80000000u, &e), SCI_ERR_ILLEGAL_FLAG);
    GIVES(SCICreateSegment(sd, &other, 2, 10, NULL, NULL, SCI_FLAG_CUDA_BUFFER, &e), SCI_ERR_NOT_SUPPORTED);
    GIVES(SCICreateSegment(sd, &other, 2, 10, NULL, NULL, SCI_FLAG_USE_CALLBACK, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCICreateSegment(sd, NULL, 2, 10, NULL, NULL, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIPrepareSegment(mine, 0, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    GIVES(SCIPrepareSegment(mine, 3, 0, &e), SCI_ERR_NO_SUCH_ADAPTERNO);
    GIVES(SCIPrepareSegment(mine, 300, 0, &e), SCI_ERR_ILLEGAL_ADAPTERNO);
    GIVES(SCISetSegmentAvailable(mine, 0, 0, &e), SCI_ERR_ILLEGAL_OPERATION);

    sci_remote_segment_t theirs = remote(1), none = NULL;
    CHECK_SAME(SCIGetRemoteSegmentSize(theirs), 100000);
    CHECK_SAME(SCIGetRemoteSegmentId(theirs), 1);
    unsigned int from = 0, adapter = 9;
    OK(CHECK_SAME(SCIWaitForLocalSegmentEvent(mine, &from, &adapter, 5000, 0, &e), SCI_CB_CONNECT));
    CHECK(from == node && adapter == 0);
    GIVES(SCIWaitForLocalSegmentEvent(mine, NULL, NULL, 1, 0, &e), SCI_ERR_TIMEOUT);
    GIVES(SCIConnectSegment(sd, &none, node, 77, 0, NULL, NULL, 20, 0, &e), SCI_ERR_NO_SUCH_SEGMENT);
    GIVES(SCIConnectSegment(sd, &none, 0, 77, 0, NULL, NULL, 20, 0, &e), SCI_ERR_ILLEGAL_NODEID);
    GIVES(SCIConnectSegment(sd, &none, 70000, 77, 0, NULL, NULL, 20, 0, &e), SCI_ERR_ILLEGAL_NODEID);

    sci_map_t map = NULL, rmap = NULL;
    char *at = (char *)SCIMapLocalSegment(mine, &map, 0, 100000, NULL, 0, &e);
    volatile char *rat = (volatile char *)SCIMapRemoteSegment(theirs, &rmap, 4096, 90000, NULL, 0, &e);
    CHECK(at != NULL && rat != NULL && e == SCI_ERR_OK);
    rat[5] = 'x';
    CHECK_SAME(at[4096 + 5], 'x');
    at[4096 + 89999] = 'y';
    CHECK_SAME(rat[89999], 'y');
    GIVES(CHECK(SCIMapRemoteSegment(theirs, &rmap, 4096, 96000, NULL, 0, &e) == NULL), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIMapRemoteSegment(theirs, &rmap, ~(size_t)7, 16, NULL, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIMapRemoteSegment(theirs, &rmap, 3, 16, NULL, 0, &e), SCI_ERR_OFFSET_ALIGNMENT);
    GIVES(SCIMapRemoteSegment(theirs, &rmap, 0, 0, NULL, 0, &e), SCI_ERR_SIZE_ALIGNMENT);
    GIVES(SCIMapRemoteSegment(theirs, &rmap, 0, 16, (void *)at, SCI_FLAG_FIXED_MAP_ADDR, &e), SCI_ERR_ILLEGAL_ADDRESS);
    GIVES(SCIMapRemoteSegment(theirs, &rmap, 0, 16, NULL, SCI_FLAG_LOCK_OPERATION, &e), SCI_ERR_FLAG_NOT_IMPLEMENTED);
    GIVES(SCIMapLocalSegment(mine, NULL, 0, 16, NULL, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIDisconnectSegment(theirs, 0, &e), SCI_ERR_BUSY);

    /* At an address that the program chooses. */
    sci_map_t fixed = NULL;
    char *free_at = (char *)mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(free_at, 8192);
    volatile char *there = (volatile char *)SCIMapRemoteSegment(theirs, &fixed, 4096, 4096, free_at, SCI_FLAG_FIXED_MAP_ADDR, &e);
    CHECK(there == free_at && e == SCI_ERR_OK && there[5] == 'x');
    OK(SCIUnmapSegment(fixed, 0, &e));
    GIVES(SCIUnmapSegment(fixed, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);

    /* Beyond a map: a fault, of the one that stores alone. */
    pid_t child = fork();
    if (child == 0) {
        rat[(90000 + 4095) / 4096 * 4096 + 1] = 1;
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);

    OK(SCIUnmapSegment(rmap, 0, &e));
    OK(SCIDisconnectSegment(theirs, 0, &e));
    OK(CHECK_SAME(SCIWaitForLocalSegmentEvent(mine, NULL, NULL, 5000, 0, &e), SCI_CB_DISCONNECT));
    OK(SCISetSegmentUnavailable(mine, 0, 0, &e));
    GIVES(SCIConnectSegment(sd, &none, node, 1, 0, NULL, NULL, 20, 0, &e), SCI_ERR_CONNECTION_REFUSED);
    GIVES(SCIRemoveSegment(mine, 0, &e), SCI_ERR_BUSY);
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIRemoveSegment(mine, 0, &e));
    GIVES(SCIRemoveSegment(mine, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    /* The id is free at once. */
    mine = local(1, 10);
    OK(SCIRemoveSegment(mine, 0, &e));
}

/* A removal waits for users that have it mapped, and for no others. */
static void removal(void) {
    check_group("removal of segments");
    sci_map_t map = NULL, second = NULL;
    sci_error_t status = SCI_ERR_OK;
    sci_local_segment_t mine = local(5, 8192);
    sci_remote_segment_t theirs = remote(5);
    volatile char *at = (volatile char *)SCIMapRemoteSegment(theirs, &map, 0, 4096, NULL, 0, &e);
    CHECK(at != NULL && SCIMapRemoteSegment(theirs, &second, 4096, 4096, NULL, 0, &e) != NULL);
    OK(SCIUnmapSegment(second, 0, &e));
    GIVES(SCIRemoveSegment(mine, 0, &e), SCI_ERR_BUSY);
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIRemoveSegment(mine, 0, &e));
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(theirs, &status, 20000, 0, &e), SCI_CB_DISCONNECT));
    GIVES(SCIMapRemoteSegment(theirs, &map, 0, 4096, NULL, 0, &e), SCI_ERR_NOT_CONNECTED);
    OK(SCIDisconnectSegment(theirs, 0, &e));

    mine = local(5, 8192);
    theirs = remote(5);
    at = (volatile char *)SCIMapRemoteSegment(theirs, &map, 0, 4096, NULL, 0, &e);
    CHECK(at != NULL);
    OK(SCIRemoveSegment(mine, SCI_FLAG_FORCE_REMOVE, &e));
    at[0] = 1; /* no fault */
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIDisconnectSegment(theirs, 0, &e));

    /* A second owner that has mapped it. */
    sci_local_segment_t also = NULL;
    size_t size = 0;
    mine = local(5, 8192);
    OK(SCIShareSegment(mine, 0, &e));
    OK(SCIAttachLocalSegment(sd, &also, 5, &size, NULL, NULL, 0, &e));
    CHECK(SCIMapLocalSegment(also, &map, 0, 4096, NULL, 0, &e) != NULL);
    GIVES(SCIRemoveSegment(mine, 0, &e), SCI_ERR_BUSY);
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIRemoveSegment(mine, 0, &e));
    OK(SCIRemoveSegment(also, 0, &e));
}

static void kinds(void) {
    check_group("kinds of segments");
    sci_local_segment_t s = NULL, again = NULL;
    OK(SCICreateSegment(sd, &s, 5, 4096, NULL, NULL, SCI_FLAG_PRIVATE, &e));
    OK(SCICreateSegment(sd, &again, 5, 4096, NULL, NULL, SCI_FLAG_PRIVATE, &e));
    OK(SCIPrepareSegment(s, 0, 0, &e));
    GIVES(SCISetSegmentAvailable(s, 0, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    OK(SCIRemoveSegment(s, 0, &e));
    OK(SCIRemoveSegment(again, 0, &e));

    OK(SCICreateSegment(sd, &s, 0, 4096, NULL, NULL, SCI_FLAG_AUTO_ID, &e));
    OK(SCICreateSegment(sd, &again, 0, 4096, NULL, NULL, SCI_FLAG_AUTO_ID, &e));
    CHECK(SCIGetLocalSegmentId(s) != SCIGetLocalSegmentId(again));
    GIVES(SCISetSegmentAvailable(s, 0, 0, &e), SCI_ERR_SEGMENT_NOT_PREPARED);
    OK(SCIRemoveSegment(s, 0, &e));
    OK(SCIRemoveSegment(again, 0, &e));

    /* The program's own pages. */
    sci_map_t map = NULL;
    int *own = (int *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    own[3] = 33;
    OK(SCICreateSegment(sd, &s, 6, 8192, NULL, NULL, SCI_FLAG_EMPTY, &e));
    GIVES(SCIPrepareSegment(s, 0, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    GIVES(SCIMapLocalSegment(s, &map, 0, 16, NULL, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    GIVES(SCIRegisterSegmentMemory((char *)own + 8, 8192, s, 0, &e), SCI_ERR_OFFSET_ALIGNMENT);
    GIVES(SCIRegisterSegmentMemory(own, 4096, s, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIRegisterSegmentMemory(NULL, 8192, s, 0, &e), SCI_ERR_ILLEGAL_ADDRESS);
    GIVES(SCIRegisterSegmentMemory((void *)(uintptr_t)0x10000, 8192, s, 0, &e), SCI_ERR_ILLEGAL_ADDRESS);
    OK(SCIRegisterSegmentMemory(own, 8192, s, SCI_FLAG_LOCK_USER_MEM, &e));
    GIVES(SCIRegisterSegmentMemory(own, 8192, s, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    OK(SCIPrepareSegment(s, 0, 0, &e));
    OK(SCISetSegmentAvailable(s, 0, 0, &e));
    sci_remote_segment_t r = remote(6);
    volatile int *far = (volatile int *)SCIMapRemoteSegment(r, &map, 0, 8192, NULL, 0, &e);
    CHECK(far != NULL && far[3] == 33);
    far[4] = 44;
    CHECK_SAME(own[4], 44);
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIRemoveSegment(s, SCI_FLAG_FORCE_REMOVE, &e));
    CHECK(own[3] == 33 && own[4] == 44);
    sci_error_t status = SCI_ERR_OK;
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(r, &status, 5000, 0, &e), SCI_CB_DISCONNECT));
    GIVES(SCIMapRemoteSegment(r, &map, 0, 16, NULL, 0, &e), SCI_ERR_NOT_CONNECTED);
    OK(SCIDisconnectSegment(r, 0, &e));
    munmap(own, 8192);

    /* Shared. */
    size_t size = 0;
    s = local(7, 5000);
    GIVES(SCIAttachLocalSegment(sd, &again, 7, &size, NULL, NULL, 0, &e), SCI_ERR_ACCESS);
    GIVES(SCIAttachLocalSegment(sd, &again, 8, &size, NULL, NULL, 0, &e), SCI_ERR_NO_SUCH_SEGMENT);
    OK(SCIShareSegment(s, 0, &e));
    OK(SCIAttachLocalSegment(sd, &again, 7, &size, NULL, NULL, 0, &e));
    CHECK_SAME(size, 5000);
    sci_map_t second = NULL;
    char *a = (char *)SCIMapLocalSegment(s, &map, 0, 5000, NULL, 0, &e), *b = (char *)SCIMapLocalSegment(again, &second, 0, 5000, NULL, 0, &e);
    b[4999] = 'z';
    CHECK_SAME(a[4999], 'z');
    GIVES(SCISetSegmentAvailable(again, 0, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIUnmapSegment(second, 0, &e));
    OK(SCIRemoveSegment(again, 0, &e));
    OK(SCIRemoveSegment(s, 0, &e));
    /* A user that has left keeps no owner from removing the segment, at once. */
    for (int n = 0; n < 200; n++) {
        s = local(8, 64);
        r = remote(8);
        OK(SCIDisconnectSegment(r, 0, &e));
        OK(SCIRemoveSegment(s, 0, &e));
    }
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int seen[8];

static void saw(int what) {
    pthread_mutex_lock(&lock);
    seen[what]++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}
static void until(int what, int times) {
    pthread_mutex_lock(&lock);
    while (seen[what] < times) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}
static sci_callback_action_t on_local(void *arg, sci_local_segment_t s, sci_segment_cb_reason_t reason, unsigned int from, unsigned int adapter, sci_error_t error) {
    CHECK(arg == &seen && s != NULL && from == node && adapter == 0 && error == SCI_ERR_OK);
    saw(reason);
    return SCI_CALLBACK_CONTINUE;
}
static sci_callback_action_t on_remote(void *arg, sci_remote_segment_t s, sci_segment_cb_reason_t reason, sci_error_t status) {
    CHECK(arg == &seen && s != NULL && status == SCI_ERR_OK && reason == SCI_CB_DISCONNECT);
    saw(6);
    return SCI_CALLBACK_CONTINUE;
}
static sci_callback_action_t on_interrupt(void *arg, sci_local_interrupt_t i, sci_error_t status) {
    CHECK(arg == &seen && i != NULL && status == SCI_ERR_OK);
    saw(7);
    return seen[7] < 3 ? SCI_CALLBACK_CONTINUE : SCI_CALLBACK_CANCEL;
}

static void callbacks(void) {
    check_group("callbacks");
    sci_local_segment_t s = NULL;
    sci_remote_segment_t r = NULL;
    OK(SCICreateSegment(sd, &s, 9, 4096, on_local, &seen, SCI_FLAG_USE_CALLBACK, &e));
    OK(SCIPrepareSegment(s, 0, 0, &e));
    OK(SCISetSegmentAvailable(s, 0, 0, &e));
    GIVES(SCIWaitForLocalSegmentEvent(s, NULL, NULL, 0, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    OK(SCIConnectSegment(sd, &r, node, 9, 0, on_remote, &seen, 1000, SCI_FLAG_USE_CALLBACK, &e));
    until(SCI_CB_CONNECT, 1);
    OK(SCISetSegmentUnavailable(s, 0, SCI_FLAG_NOTIFY, &e));
    until(6, 1);
    OK(SCIDisconnectSegment(r, 0, &e));
    until(SCI_CB_DISCONNECT, 1);
    OK(SCIRemoveSegment(s, 0, &e));

    sci_local_interrupt_t i = NULL;
    sci_remote_interrupt_t t = NULL;
    unsigned int number = 12;
    OK(SCICreateInterrupt(sd, &i, 0, &number, on_interrupt, &seen, SCI_FLAG_USE_CALLBACK | SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    OK(SCIConnectInterrupt(sd, &t, node, 0, 12, 1000, 0, &e));
    for (int n = 0; n < 5; n++) OK(SCITriggerInterrupt(t, 0, &e));
    until(7, 3);
    OK(SCIRemoveInterrupt(i, 0, &e));
    CHECK_SAME(seen[7], 3);
    for (int n = 0; n < 100000; n++) {
        SCITriggerInterrupt(t, 0, &e);
        if (e != SCI_ERR_OK) break;
        usleep(100);
    }
    CHECK_SAME(e, SCI_ERR_NOT_CONNECTED);
    OK(SCIDisconnectInterrupt(t, 0, &e));
}

static void sequences(void) {
    check_group("sequences and copies");
    sci_local_segment_t s = local(20, 8192);
    sci_remote_segment_t r = remote(20);
    sci_map_t map = NULL, lmap = NULL, ro = NULL;
    char *near = (char *)SCIMapLocalSegment(s, &lmap, 0, 8192, NULL, 0, &e), word[] = "segments", back[16] = "";
    SCIMapRemoteSegment(r, &map, 0, 8192, NULL, 0, &e);
    SCIMapRemoteSegment(r, &ro, 0, 8192, NULL, SCI_FLAG_READONLY_MAP, &e);
    sci_sequence_t q = NULL;
    OK(SCICreateMapSequence(map, &q, 0, &e));
    OK(CHECK_SAME(SCIStartSequence(q, 0, &e), SCI_SEQ_OK));
    OK(SCIMemCpy(q, word, map, 8184, 8, SCI_FLAG_ERROR_CHECK, &e));
    SCIStoreBarrier(q, 0);
    SCIFlushReadBuffers(q);
    SCIFlush(q, 0);
    OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_OK));
    CHECK(memcmp(near + 8184, word, 8) == 0);
    OK(SCIMemCpy(NULL, back, map, 8184, 8, SCI_FLAG_BLOCK_READ, &e));
    CHECK(memcmp(back, word, 8) == 0);
    OK(SCIMemCopy(word, map, 0, 3, 0, &e));
    CHECK(memcmp(near, "seg", 3) == 0);
    OK(SCIMemWrite(word, near + 100, 8, 0, &e));
    OK(SCITransferBlock(lmap, 100, map, 200, 8, 0, &e));
    CHECK(memcmp(near + 200, word, 8) == 0);
    OK(SCITransferBlock(map, 200, map, 204, 8, 0, &e));
    CHECK(memcmp(near + 204, word, 8) == 0);
    GIVES(SCIMemCpy(q, word, map, 8185, 8, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIMemCpy(q, word, map, ~(size_t)0, 8, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIMemCpy(q, word, map, 8, ~(size_t)0, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIMemCpy(q, NULL, map, 8, 8, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIMemCpy(q, word, ro, 8, 8, 0, &e), SCI_ERR_ACCESS);
    GIVES(SCIMemCpy((sci_sequence_t)map, word, map, 8, 8, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCITransferBlock(lmap, 8000, map, 0, 193, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCITransferBlock(lmap, 0, ro, 0, 8, 0, &e), SCI_ERR_ACCESS);

    sci_block_transfer_t b = NULL;
    OK(SCITransferBlockAsync(lmap, 0, map, 4096, 4096, &b, NULL, NULL, 0, &e));
    OK(SCIWaitForBlockTransfer(b, SCI_INFINITE_TIMEOUT, 0, &e));
    CHECK(memcmp(near, near + 4096, 4096) == 0);
    GIVES(SCIWaitForBlockTransfer(b, 0, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIAbortBlockTransfer(b, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);

    OK(SCIUnmapSegment(ro, 0, &e));
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCISetSegmentUnavailable(s, 0, SCI_FLAG_FORCE_DISCONNECT, &e));
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(r, NULL, 5000, 0, &e), SCI_CB_DISCONNECT));
    OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_NOT_RETRIABLE));
    OK(SCIRemoveSequence(q, 0, &e));
    GIVES(CHECK_SAME(SCIStartSequence(q, 0, &e), SCI_SEQ_NOT_RETRIABLE), SCI_ERR_ILLEGAL_PARAMETER);
    OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIUnmapSegment(lmap, 0, &e));
    OK(SCIRemoveSegment(s, 0, &e));
}

static int ends;
static sci_callback_action_t on_end(void *arg, sci_dma_queue_t q, sci_error_t status) {
    CHECK(q != NULL && status == SCI_ERR_OK);
    pthread_mutex_lock(&lock);
    ++*(int *)arg;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    return SCI_CALLBACK_CONTINUE;
}

static void dma(void) {
    enum { SIZE = 4 << 20 };
    check_group("DMA");
    sci_local_segment_t s = local(30, SIZE), t = local(31, SIZE);
    sci_remote_segment_t r = remote(31);
    sci_map_t map = NULL, tmap = NULL;
    unsigned char *from = (unsigned char *)SCIMapLocalSegment(s, &map, 0, SIZE, NULL, 0, &e), *to = (unsigned char *)SCIMapLocalSegment(t, &tmap, 0, SIZE, NULL, 0, &e);
    for (int i = 0; i < SIZE; i++) from[i] = (unsigned char)(i * 7 + i / 256);
    sci_dma_queue_t q = NULL;
    GIVES(SCICreateDMAQueue(sd, &q, 0, 0, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    OK(SCICreateDMAQueue(sd, &q, 0, 2, 0, &e));
    CHECK_SAME(SCIDMAQueueState(q), SCI_DMAQUEUE_IDLE);
    GIVES(SCIWaitForDMAQueue(q, 0, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    GIVES(SCIAbortDMAQueue(q, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    GIVES(SCIPostDMAQueue(q, NULL, NULL, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    /* Gathered. */
    OK(CHECK_SAME(SCIEnqueueDMATransfer(q, s, r, 0, 0, 1 << 20, 0, &e), SCI_DMAQUEUE_GATHER));
    OK(SCIEnqueueDMATransfer(q, s, r, 1 << 20, 1 << 20, 100, 0, &e));
    GIVES(SCIEnqueueDMATransfer(q, s, r, 0, 0, 1, 0, &e), SCI_ERR_MAX_ENTRIES);
    GIVES(SCIEnqueueDMATransfer(q, s, r, SIZE - 8, 0, 9, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIEnqueueDMATransfer(q, s, r, 0, ~(size_t)0, 9, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIStartDmaTransfer(q, s, r, 0, 8, 0, NULL, NULL, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    OK(SCIPostDMAQueue(q, on_end, &ends, SCI_FLAG_USE_CALLBACK, &e));
    OK(CHECK_SAME(SCIWaitForDMAQueue(q, SCI_INFINITE_TIMEOUT, 0, &e), SCI_DMAQUEUE_DONE));
    CHECK(memcmp(from, to, (1 << 20) + 100) == 0 && to[(1 << 20) + 100] == 0);
    pthread_mutex_lock(&lock);
    while (ends < 1) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    GIVES(SCIEnqueueDMATransfer(q, s, r, 0, 0, 1, 0, &e), SCI_ERR_ILLEGAL_OPERATION);
    OK(SCIResetDMAQueue(q, 0, &e));
    CHECK_SAME(SCIDMAQueueState(q), SCI_DMAQUEUE_IDLE);
    /* Started; read; of memory; of a vector. */
    OK(SCIStartDmaTransfer(q, s, r, 8, SIZE - 8, 8, NULL, NULL, SCI_FLAG_DMA_WAIT, &e));
    CHECK(memcmp(from, to, SIZE) == 0);
    memset(from, 0, SIZE);
    OK(SCIStartDmaTransfer(q, s, r, 100, SIZE - 100, 100, NULL, NULL, SCI_FLAG_DMA_READ, &e));
    OK(CHECK_SAME(SCIWaitForDMAQueue(q, SCI_INFINITE_TIMEOUT, 0, &e), SCI_DMAQUEUE_DONE));
    CHECK(memcmp(from + 100, to + 100, SIZE - 100) == 0 && from[99] == 0);
    char memory[] = "memory of the program";
    OK(SCIStartDmaTransferMem(q, memory, r, sizeof memory, 64, NULL, NULL, SCI_FLAG_DMA_WAIT, &e));
    CHECK(strcmp((char *)to + 64, memory) == 0);
    dis_dma_vec_t parts[2] = {{10, 1000, 2000, 0}, {20, 3000, 4000, 0}};
    OK(SCIStartDmaTransferVec(q, s, r, 2, parts, NULL, NULL, SCI_FLAG_DMA_WAIT, &e));
    CHECK(memcmp(from + 1000, to + 2000, 10) == 0 && memcmp(from + 3000, to + 4000, 20) == 0);
    GIVES(SCIStartDmaTransferVec(q, s, r, 129, parts, NULL, NULL, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIStartDmaTransferVec(q, s, r, 1, NULL, NULL, NULL, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIStartDmaTransfer(q, s, (sci_remote_segment_t)s, 0, 8, 0, NULL, NULL, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIStartDmaTransfer(q, s, r, 0, 8, 0, NULL, NULL, SCI_FLAG_DMA_PHDMA, &e), SCI_ERR_NOT_SUPPORTED);
    /* Aborted: all or a part arrives, and nothing after the return. */
    memset(to, 0, SIZE);
    OK(SCIStartDmaTransfer(q, s, r, 0, SIZE, 0, NULL, NULL, 0, &e));
    SCIAbortDMAQueue(q, 0, &e);
    unsigned char last = to[SIZE - 1];
    sci_dma_queue_state_t state = SCIWaitForDMAQueue(q, SCI_INFINITE_TIMEOUT, 0, &e);
    CHECK(state == SCI_DMAQUEUE_ABORTED || state == SCI_DMAQUEUE_DONE);
    CHECK_SAME(to[SIZE - 1], last);
    /* A broken connection. */
    OK(SCIUnmapSegment(tmap, 0, &e));
    OK(SCIRemoveSegment(t, SCI_FLAG_FORCE_REMOVE, &e));
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(r, NULL, 5000, 0, &e), SCI_CB_DISCONNECT));
    GIVES(SCIStartDmaTransfer(q, s, r, 0, SIZE, 0, NULL, NULL, SCI_FLAG_DMA_WAIT, &e), SCI_ERR_SEGMENT_NOT_CONNECTED);
    OK(SCIRemoveDMAQueue(q, 0, &e));
    CHECK_SAME(SCIDMAQueueState(q), SCI_DMAQUEUE_ERROR);
    OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIRemoveSegment(s, 0, &e));
}

static void interrupts(void) {
    check_group("interrupts");
    sci_local_interrupt_t i = NULL, j = NULL;
    sci_remote_interrupt_t t = NULL;
    unsigned int number = 0, same = 0, shared = 40;
    OK(SCICreateInterrupt(sd, &i, 0, &number, NULL, NULL, 0, &e));
    same = number;
    GIVES(SCICreateInterrupt(sd, &j, 0, &same, NULL, NULL, SCI_FLAG_FIXED_INTNO, &e), SCI_ERR_INTNO_USED);
    GIVES(SCICreateInterrupt(sd, &j, 0, &same, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_SHARED_INT, &e), SCI_ERR_INTNO_USED);
    GIVES(SCICreateInterrupt(sd, &j, 0, NULL, NULL, NULL, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIConnectInterrupt(sd, &t, node, 0, 4711, 10, 0, &e), SCI_ERR_NO_SUCH_INTNO);
    OK(SCIConnectInterrupt(sd, &t, node, 0, number, 10, 0, &e));
    GIVES(SCIWaitForInterrupt(i, 5, 0, &e), SCI_ERR_TIMEOUT);
    OK(SCITriggerInterrupt(t, 0, &e));
    OK(SCITriggerInterrupt(t, 0, &e));
    OK(SCIWaitForInterrupt(i, SCI_INFINITE_TIMEOUT, 0, &e));
    GIVES(SCIWaitForInterrupt(i, 0, 0, &e), SCI_ERR_TIMEOUT);
    OK(SCIDisconnectInterrupt(t, 0, &e));
    GIVES(SCITriggerInterrupt(t, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    OK(SCIRemoveInterrupt(i, 0, &e));
    OK(SCICreateInterrupt(sd, &i, 0, &shared, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_SHARED_INT, &e));
    OK(SCICreateInterrupt(sd, &j, 0, &shared, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_SHARED_INT, &e));
    OK(SCIConnectInterrupt(sd, &t, node, 0, shared, 10, 0, &e));
    OK(SCITriggerInterrupt(t, 0, &e));
    OK(SCIWaitForInterrupt(i, 5000, 0, &e));
    OK(SCIWaitForInterrupt(j, 5000, 0, &e));
    OK(SCIDisconnectInterrupt(t, 0, &e));
    OK(SCIRemoveInterrupt(i, 0, &e));
    OK(SCIRemoveInterrupt(j, 0, &e));

    sci_local_data_interrupt_t d = NULL;
    sci_remote_data_interrupt_t to = NULL;
    char data[5000], got[5000] = "";
    unsigned int length = 0;
    OK(SCICreateDataInterrupt(sd, &d, 0, &number, NULL, NULL, 0, &e));
    OK(SCIConnectDataInterrupt(sd, &to, node, 0, number, 10, 0, &e));
    memset(data, 'd', sizeof data);
    OK(SCITriggerDataInterrupt(to, data, 4096, 0, &e));
    OK(SCITriggerDataInterrupt(to, data, 1, 0, &e));
    OK(SCITriggerDataInterrupt(to, data, 100, 0, &e));
    GIVES(SCITriggerDataInterrupt(to, data, 4097, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCITriggerDataInterrupt(to, data, 0, 0, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCITriggerDataInterrupt(to, NULL, 5, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    length = sizeof got;
    OK(SCIWaitForDataInterrupt(d, got, &length, 5000, 0, &e));
    CHECK(length == 4096 && memcmp(got, data, 4096) == 0);
    length = sizeof got;
    OK(SCIWaitForDataInterrupt(d, got, &length, 5000, 0, &e));
    CHECK_SAME(length, 1);
    length = 10;
    GIVES(SCIWaitForDataInterrupt(d, got, &length, 5000, 0, &e), SCI_ERR_OVERFLOW);
    CHECK_SAME(length, 100);
    length = sizeof got;
    GIVES(SCIWaitForDataInterrupt(d, got, &length, 5, 0, &e), SCI_ERR_TIMEOUT);
    GIVES(SCIWaitForDataInterrupt(d, NULL, &length, 5, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    int sent = 0;
    for (e = SCI_ERR_OK; e == SCI_ERR_OK && sent < 100000; sent++) SCITriggerDataInterrupt(to, data, 4000, 0, &e);
    CHECK_SAME(e, SCI_ERR_EWOULD_BLOCK);
    OK(SCIRemoveDataInterrupt(d, 0, &e));
    GIVES(SCITriggerDataInterrupt(to, data, 10, 0, &e), SCI_ERR_NOT_CONNECTED);
    OK(SCIDisconnectDataInterrupt(to, 0, &e));
}

/* Each call with handles that name nothing, with and without a place for the error. */
static void nonsense(void) {
    check_group("nonsense");
    static const uint64_t handles[] = {0, 1, 0xffffffffffffffffu, 0xb501000001000000u, 0xb502000001000000u, 0xb504000002000007u, 0x7fffffffe000u};
    for (unsigned int n = 0; n < sizeof handles / sizeof *handles; n++) {
        void *h = (void *)(uintptr_t)handles[n];
        for (int error = 0; error < 2; error++) {
            sci_error_t *p = error ? &e : NULL;
#define BAD(call) do { e = SCI_ERR_OK; call; if (p) CHECK(e != SCI_ERR_OK); } while (0)
            if (h != (void *)sd) BAD(SCIClose((sci_desc_t)h, 0, p));
            BAD(SCIPrepareSegment((sci_local_segment_t)h, 0, 0, p));
            BAD(SCISetSegmentAvailable((sci_local_segment_t)h, 0, 0, p));
            BAD(SCISetSegmentUnavailable((sci_local_segment_t)h, 0, 0, p));
            BAD(SCIRemoveSegment((sci_local_segment_t)h, 0, p));
            BAD(SCIShareSegment((sci_local_segment_t)h, 0, p));
            BAD(SCIMapLocalSegment((sci_local_segment_t)h, NULL, 0, 1, NULL, 0, p));
            BAD(SCIWaitForLocalSegmentEvent((sci_local_segment_t)h, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, p));
            BAD(SCIDisconnectSegment((sci_remote_segment_t)h, 0, p));
            BAD(SCIMapRemoteSegment((sci_remote_segment_t)h, NULL, 0, 1, NULL, 0, p));
            BAD(SCIWaitForRemoteSegmentEvent((sci_remote_segment_t)h, NULL, SCI_INFINITE_TIMEOUT, 0, p));
            BAD(SCIUnmapSegment((sci_map_t)h, 0, p));
            BAD(SCICreateMapSequence((sci_map_t)h, NULL, 0, p));
            BAD(SCIStartSequence((sci_sequence_t)h, 0, p));
            BAD(SCICheckSequence((sci_sequence_t)h, 0, p));
            BAD(SCIRemoveSequence((sci_sequence_t)h, 0, p));
            SCIStoreBarrier((sci_sequence_t)h, 0);
            BAD(SCIMemCpy((sci_sequence_t)h, &e, (sci_map_t)h, 0, 1, 0, p));
            BAD(SCITransferBlock((sci_map_t)h, 0, (sci_map_t)h, 0, 1, 0, p));
            BAD(SCIWaitForBlockTransfer((sci_block_transfer_t)h, SCI_INFINITE_TIMEOUT, 0, p));
            BAD(SCIRemoveDMAQueue((sci_dma_queue_t)h, 0, p));
            BAD(SCIEnqueueDMATransfer((sci_dma_queue_t)h, (sci_local_segment_t)h, (sci_remote_segment_t)h, 0, 0, 1, 0, p));
            BAD(SCIPostDMAQueue((sci_dma_queue_t)h, NULL, NULL, 0, p));
            BAD(SCIWaitForDMAQueue((sci_dma_queue_t)h, SCI_INFINITE_TIMEOUT, 0, p));
            BAD(SCIWaitForInterrupt((sci_local_interrupt_t)h, SCI_INFINITE_TIMEOUT, 0, p));
            BAD(SCIRemoveInterrupt((sci_local_interrupt_t)h, 0, p));
            BAD(SCITriggerInterrupt((sci_remote_interrupt_t)h, 0, p));
            BAD(SCIDisconnectInterrupt((sci_remote_interrupt_t)h, 0, p));
            BAD(SCIRemoveDataInterrupt((sci_local_data_interrupt_t)h, 0, p));
            BAD(SCIWaitForDataInterrupt((sci_local_data_interrupt_t)h, &e, NULL, SCI_INFINITE_TIMEOUT, 0, p));
            BAD(SCITriggerDataInterrupt((sci_remote_data_interrupt_t)h, &e, 1, 0, p));
            BAD(SCIRegisterInterruptFlag(0, NULL, (sci_local_segment_t)h, 0, NULL, NULL, 0, p));
            BAD(SCIBorrowDevice((sci_desc_t)h, NULL, 0, 0, p));
        }
    }
    GIVES(SCIBorrowDevice(sd, NULL, 0, 0, &e), SCI_ERR_NOT_SUPPORTED);
    CHECK(strstr(SCIGetErrorString(SCI_ERR_NOSPC), "SCI_ERR_NOSPC") != NULL);
    CHECK(SCIGetErrorString((sci_error_t)77) != NULL);
}

static void queries(void) {
    check_group("queries");
    unsigned int value = 0;
    char text[64] = "";
    sci_query_adapter_t a = {0, 0, SCI_Q_ADAPTER_NODEID, &value};
    sci_query_string_t s = {text, sizeof text};
    OK(SCIQuery(SCI_Q_ADAPTER, &a, 0, &e));
    CHECK_SAME(value, node);
    a.subcommand = 999;
    GIVES(SCIQuery(SCI_Q_ADAPTER, &a, 0, &e), SCI_ERR_ILLEGAL_QUERY);
    GIVES(SCIQuery(SCI_Q_ADAPTER, NULL, 0, &e), SCI_ERR_ILLEGAL_PARAMETER);
    GIVES(SCIQuery(999, &a, 0, &e), SCI_ERR_ILLEGAL_QUERY);
    OK(SCIQuery(SCI_Q_API, &s, 0, &e));
    CHECK(strstr(text, "Bellwire") != NULL);
    s.length = 3;
    GIVES(SCIQuery(SCI_Q_API, &s, 0, &e), SCI_ERR_OUT_OF_RANGE);
    OK(CHECK_SAME(SCIProbeNode(sd, 0, node, 0, &e), 1));
    GIVES(CHECK_SAME(SCIProbeNode(sd, 0, 0, 0, &e), 0), SCI_ERR_ILLEGAL_NODEID);
    GIVES(SCIProbeNode(sd, 1, node, 0, &e), SCI_ERR_NO_SUCH_ADAPTERNO);
}

/* A forked child has nothing of its parent's until it starts the library itself. */
static void forked(void) {
    check_group("fork");
    sci_local_segment_t s = local(50, 4096);
    pid_t child = fork();
    if (child == 0) {
        sci_error_t error;
        sci_remote_segment_t r;
        int well = 1;
        SCIRemoveSegment(s, 0, &error);
        well &= error == SCI_ERR_NOT_INITIALIZED;
        SCIInitialize(0, &error);
        SCIOpen(&sd, 0, &error);
        SCIRemoveSegment(s, 0, &error);
        well &= error == SCI_ERR_ILLEGAL_PARAMETER;
        SCIConnectSegment(sd, &r, node, 50, 0, NULL, NULL, 5000, 0, &error);
        well &= error == SCI_ERR_OK;
        _exit(well ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK_SAME(status, 0);
    OK(SCIRemoveSegment(s, SCI_FLAG_FORCE_REMOVE, &e));
}

int main(void) {
    GIVES(SCIOpen(&sd, 0, &e), SCI_ERR_NOT_INITIALIZED);
    OK(SCIInitialize(0, &e));
    OK(SCIOpen(&sd, 0, &e));
    OK(SCIGetLocalNodeId(0, &node, 0, &e));
    segments();
    connecting_beside();
    removal();
    kinds();
    callbacks();
    sequences();
    dma();
    interrupts();
    nonsense();
    queries();
    forked();
    sci_local_segment_t s = local(60, 10);
    GIVES(SCIClose(sd, 0, &e), SCI_ERR_BUSY);
    OK(SCIRemoveSegment(s, 0, &e));
    OK(SCIClose(sd, 0, &e));
    SCITerminate();
    GIVES(SCIOpen(&sd, 0, &e), SCI_ERR_NOT_INITIALIZED);
    return check_end();
}
