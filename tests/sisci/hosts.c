/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Nodes of two hosts. `hosts owner` serves until it is told to end; `hosts user NODE` uses what the
 * owner offers: connecting, transfers of all kinds, maps, interrupts, errors, the removal of a
 * segment. `hosts waiter NODE` connects and waits until the owner is lost, then until another one
 * answers; `hosts worker NODE` works until it is killed.
 * `hosts stores NODE BYTES ROUNDS flush|self` stores words, `hosts loads NODE BYTES polls|idle`
 * loads them (`scripts/sisci-stores.sh`).
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "sisci_api.h"

enum { SIZE = 3 << 20, DATA = 500, DONE = 501, ROUNDS = 50 };
/* Words that are stored to by turns, in the order of their addresses, in two pages. */
enum { LOW = 600, HIGH = 601, NEXT = 1100, LAST = 1800, TURNS = 20000, COPIED = 2000, SHOWN = 2001 };
static sci_error_t e;
static sci_desc_t sd;

#define OK(call) do { e = SCI_ERR_BUSY; call; if (!CHECK_SAME(e, SCI_ERR_OK)) printf("  %s: %s\n", #call, SCIGetErrorString(e)); } while (0)
#define GIVES(call, error) do { e = SCI_ERR_OK; call; if (!CHECK_SAME(e, error)) printf("  %s: %s\n", #call, SCIGetErrorString(e)); } while (0)
#define MUST(call) do { call; if (e != SCI_ERR_OK) { printf("%s: %s\n", #call, SCIGetErrorString(e)); exit(9); } } while (0)

static uint32_t pattern(size_t at, uint32_t seed) { return (uint32_t)at * 2654435761u ^ seed; }
static void fill(volatile uint32_t *at, size_t words, uint32_t seed) {
    for (size_t i = 0; i < words; i++) at[i] = pattern(i, seed);
}
static size_t wrong(volatile uint32_t *at, size_t words, uint32_t seed) {
    size_t n = 0;
    for (size_t i = 0; i < words; i++) n += at[i] != pattern(i, seed);
    return n;
}

static sci_local_segment_t offer(unsigned int id, size_t size, int available) {
    sci_local_segment_t s;
    MUST(SCICreateSegment(sd, &s, id, size, NULL, NULL, 0, &e));
    MUST(SCIPrepareSegment(s, 0, 0, &e));
    if (available) MUST(SCISetSegmentAvailable(s, 0, 0, &e));
    return s;
}

/* Its events in their order, as digits. A slow machine may be out of order for a while. */
static sci_callback_action_t note(void *word, sci_local_segment_t s, sci_segment_cb_reason_t reason, unsigned int node, unsigned int adapter, sci_error_t error) {
    (void)s, (void)node, (void)adapter, (void)error;
    volatile uint32_t *events = word;
    if (reason != SCI_CB_NOT_OPERATIONAL && reason != SCI_CB_OPERATIONAL) *events = *events * 10 + reason;
    return SCI_CALLBACK_CONTINUE;
}

/*
 * Segment 1 is for all; 2 appears on interrupt 10 and is withdrawn on 11; each data interrupt comes
 * back with its bytes turned round.
 */
static int owner(unsigned int user) {
    sci_local_interrupt_t appear, vanish, end;
    sci_local_data_interrupt_t echo;
    sci_remote_data_interrupt_t back;
    sci_local_segment_t all, some;
    sci_map_t map;
    unsigned int number;
    static volatile uint32_t events;
    MUST(SCICreateSegment(sd, &all, 1, SIZE, note, (void *)&events, SCI_FLAG_USE_CALLBACK, &e));
    MUST(SCIPrepareSegment(all, 0, 0, &e));
    volatile uint32_t *at = SCIMapLocalSegment(all, &map, 0, SIZE, NULL, 0, &e);
    if (!at) exit(8);
    fill(at, SIZE / 4, 7);
    number = 10;
    MUST(SCICreateInterrupt(sd, &appear, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    number = 11;
    MUST(SCICreateInterrupt(sd, &vanish, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    number = 12;
    MUST(SCICreateInterrupt(sd, &end, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    number = 20;
    MUST(SCICreateDataInterrupt(sd, &echo, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO, &e));
    MUST(SCISetSegmentAvailable(all, 0, 0, &e));
    if (user == 0) for (;;) pause();
    MUST(SCIConnectDataInterrupt(sd, &back, user, 0, 21, SCI_INFINITE_TIMEOUT, 0, &e));
    for (int i = 0; i < ROUNDS; i++) {
        unsigned char data[4096];
        unsigned int length = sizeof data;
        MUST(SCIWaitForDataInterrupt(echo, data, &length, SCI_INFINITE_TIMEOUT, 0, &e));
        for (unsigned int a = 0, b = length - 1; a < b; a++, b--) {
            unsigned char t = data[a];
            data[a] = data[b], data[b] = t;
        }
        MUST(SCITriggerDataInterrupt(back, data, length, 0, &e));
    }
    MUST(SCIWaitForInterrupt(appear, SCI_INFINITE_TIMEOUT, 0, &e));
    some = offer(2, 8192, 1);
    MUST(SCIWaitForInterrupt(vanish, SCI_INFINITE_TIMEOUT, 0, &e));
    GIVES(SCIRemoveSegment(some, 0, &e), SCI_ERR_BUSY); /* mapped by the user */
    MUST(SCIDisconnectDataInterrupt(back, 0, &e));
    MUST(SCIConnectDataInterrupt(sd, &back, user, 0, 21, SCI_INFINITE_TIMEOUT, 0, &e));
    MUST(SCITriggerDataInterrupt(back, "busy", 4, 0, &e));
    MUST(SCIWaitForInterrupt(vanish, SCI_INFINITE_TIMEOUT, 0, &e));
    int tries = 0;
    do SCIRemoveSegment(some, 0, &e); while (e == SCI_ERR_BUSY && ++tries < 40);
    CHECK_SAME(e, SCI_ERR_OK);
    /* What the user's last call stored, its interrupt does not overtake. */
    for (unsigned int n = 1; n <= 200; n++) {
        MUST(SCIWaitForInterrupt(end, SCI_INFINITE_TIMEOUT, 0, &e));
        if (!CHECK(at[DONE] >= n)) break;
    }
    MUST(SCITriggerDataInterrupt(back, "end", 3, 0, &e));
    /* A store at a higher address is never here without an earlier one below it. */
    uint32_t last;
    size_t early = 0, looks = 0;
    do {
        last = at[LAST];
        uint32_t next = at[NEXT], high = at[HIGH], low = at[LOW];
        early += next < last || high < next || low < high;
        if (++looks % 64 == 0) usleep(50);
    } while (last != TURNS);
    CHECK_SAME(early, 0);
    MUST(SCITriggerDataInterrupt(back, "turns", 5, 0, &e));
    while (at[COPIED] != 0x61616161u) usleep(50);
    at[SHOWN] = 0;
    MUST(SCITriggerDataInterrupt(back, "copied", 6, 0, &e));
    at[SHOWN] = 0x62626262u;
    for (int n = 0; events != 12 && n < 20000; n++) usleep(1000);
    CHECK_SAME(events, 12); /* connected, disconnected */
    MUST(SCIDisconnectDataInterrupt(back, 0, &e));
    return check_end();
}

static void transfers(sci_remote_segment_t r) {
    sci_local_segment_t mine = NULL;
    sci_map_t map = NULL, rmap = NULL, part = NULL;
    sci_dma_queue_t dq = NULL;
    sci_sequence_t q = NULL;
    check_group("transfers");
    OK(SCICreateSegment(sd, &mine, 0, SIZE, NULL, NULL, SCI_FLAG_PRIVATE, &e));
    volatile uint32_t *at = SCIMapLocalSegment(mine, &map, 0, SIZE, NULL, 0, &e);
    OK(SCICreateDMAQueue(sd, &dq, 0, 8, 0, &e));
    /* All of it, read, changed, written, read again. */
    OK(SCIStartDmaTransfer(dq, mine, r, 0, SIZE, 0, NULL, NULL, SCI_FLAG_DMA_READ | SCI_FLAG_DMA_WAIT, &e));
    CHECK_SAME(wrong(at, SIZE / 4, 7), 0);
    fill(at, SIZE / 4, 8);
    OK(SCIStartDmaTransfer(dq, mine, r, 0, SIZE, 0, NULL, NULL, 0, &e));
    OK(CHECK_SAME(SCIWaitForDMAQueue(dq, SCI_INFINITE_TIMEOUT, 0, &e), SCI_DMAQUEUE_DONE));
    memset((void *)at, 0, SIZE);
    OK(SCIResetDMAQueue(dq, 0, &e));
    OK(SCIEnqueueDMATransfer(dq, mine, r, 4096, 4096, SIZE - 4096, SCI_FLAG_DMA_READ, &e));
    OK(SCIEnqueueDMATransfer(dq, mine, r, 0, 0, 4096, SCI_FLAG_DMA_READ, &e));
    OK(SCIPostDMAQueue(dq, NULL, NULL, 0, &e));
    OK(CHECK_SAME(SCIWaitForDMAQueue(dq, SCI_INFINITE_TIMEOUT, 0, &e), SCI_DMAQUEUE_DONE));
    CHECK_SAME(wrong(at, SIZE / 4, 8), 0);
    GIVES(SCIStartDmaTransfer(dq, mine, r, 0, SIZE, 8, NULL, NULL, SCI_FLAG_DMA_WAIT, &e), SCI_ERR_OUT_OF_RANGE);
    GIVES(SCIStartDmaTransfer(dq, mine, r, 0, ~(size_t)7, 0, NULL, NULL, SCI_FLAG_DMA_WAIT, &e), SCI_ERR_OUT_OF_RANGE);

    check_group("maps");
    volatile uint32_t *rat = SCIMapRemoteSegment(r, &rmap, 0, SIZE, NULL, 0, &e);
    CHECK(rat != NULL);
    if (!rat) exit(7);
    OK(SCICreateMapSequence(rmap, &q, 0, &e));
    CHECK_SAME(wrong(rat, SIZE / 4, 8), 0);
    OK(CHECK_SAME(SCIStartSequence(q, 0, &e), SCI_SEQ_OK));
    /* Stores here and there, and at the edges of pages. */
    uint32_t seed = 1;
    for (int i = 0; i < 300; i++) {
        seed = seed * 1664525u + 1013904223u;
        rat[seed % (SIZE / 4)] = seed;
        at[seed % (SIZE / 4)] = seed;
    }
    ((volatile unsigned char *)rat)[4095] = 1, ((volatile unsigned char *)at)[4095] = 1;
    ((volatile unsigned char *)rat)[SIZE - 1] = 2, ((volatile unsigned char *)at)[SIZE - 1] = 2;
    OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_OK));
    static uint32_t there[SIZE / 4];
    OK(SCIMemCpy(q, there, rmap, 0, SIZE, SCI_FLAG_BLOCK_READ | SCI_FLAG_ERROR_CHECK, &e));
    CHECK_SAME(memcmp(there, (void *)at, SIZE), 0);
    /* Others write. A map shows it after a flush of read buffers, and keeps its own stores. */
    uint32_t word = 4711;
    OK(SCIStartDmaTransferMem(dq, &word, r, 4, 4 * DATA, NULL, NULL, SCI_FLAG_DMA_WAIT, &e));
    rat[DATA + 1] = 4712;
    SCIFlushReadBuffers(q);
    CHECK(rat[DATA] == 4711 && rat[DATA + 1] == 4712);
    OK(SCIMemCpy(q, &word, rmap, 4 * (DATA + 1), 4, SCI_FLAG_BLOCK_READ, &e));
    CHECK_SAME(word, 4712);
    /* Stores behind a barrier come later than those before it. */
    rat[DATA] = 1;
    SCIStoreBarrier(q, 0);
    rat[0] = 2;
    SCIFlush(q, 0);
    OK(SCIMemCpy(NULL, there, rmap, 0, 8192, SCI_FLAG_BLOCK_READ, &e));
    CHECK(there[DATA] == 1 && there[0] == 2);
    /* Copies into a map, and between two. */
    for (size_t i = 0; i < 1000; i++) there[i] = (uint32_t)i;
    OK(SCIMemCpy(q, there, rmap, 40, 4000, SCI_FLAG_ERROR_CHECK, &e));
    CHECK(rat[10] == 0 && rat[1009] == 999);
    volatile uint32_t *half = SCIMapRemoteSegment(r, &part, 4096, 8192, NULL, SCI_FLAG_READONLY_MAP, &e);
    CHECK(half != NULL);
    OK(SCITransferBlock(rmap, 40, map, 80, 4000, 0, &e));
    CHECK(at[20] == 0 && at[1019] == 999);
    /* Memory that is a map itself: it may have to be fetched meanwhile. */
    OK(SCIMemCpy(q, (void *)&rat[2048], rmap, 40, 4000, SCI_FLAG_ERROR_CHECK, &e));
    CHECK_SAME(memcmp((void *)&rat[10], (void *)&rat[2048], 4000), 0);
    OK(SCIStartDmaTransferMem(dq, (void *)&rat[4096], r, 4000, 40, NULL, NULL, SCI_FLAG_DMA_WAIT, &e));
    OK(SCIMemCpy(q, (void *)&rat[8192], rmap, 40, 4000, SCI_FLAG_BLOCK_READ, &e));
    CHECK_SAME(memcmp((void *)&rat[8192], (void *)&rat[4096], 4000), 0);
    GIVES(SCITransferBlock(rmap, 40, part, 80, 4000, 0, &e), SCI_ERR_ACCESS);
    GIVES(SCIMemCpy(NULL, there, part, 0, 8, 0, &e), SCI_ERR_ACCESS);
    GIVES(SCIMemCpy(q, there, rmap, SIZE - 8, 16, 0, &e), SCI_ERR_OUT_OF_RANGE);
    OK(SCIUnmapSegment(part, 0, &e));
    GIVES(SCIDisconnectSegment(r, 0, &e), SCI_ERR_BUSY);
    OK(SCIRemoveSequence(q, 0, &e));
    OK(SCIUnmapSegment(rmap, 0, &e));
    OK(SCIRemoveDMAQueue(dq, 0, &e));
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIRemoveSegment(mine, 0, &e));
}

/* How often a thread of this process has gone to sleep; ~0 if there is none of that name. */
static unsigned long sleeps_of(const char *name) {
    char path[300], line[200];
    unsigned long sleeps = ~0ul;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && (task = readdir(tasks)) != NULL;) {
        snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
        FILE *status = fopen(path, "r");
        if (!status) continue;
        int is_it = fgets(line, sizeof line, status) && strstr(line, name);
        while (is_it && fgets(line, sizeof line, status)) sscanf(line, "voluntary_ctxt_switches: %lu", &sleeps);
        fclose(status);
    }
    if (tasks) closedir(tasks);
    return sleeps;
}

/* Stores of which nobody says that they are to leave. */
static void by_themselves(volatile uint32_t *at, sci_local_data_interrupt_t back) {
    unsigned char answer[64];
    unsigned int length = sizeof answer;
    int compares = getenv("BELLWIRE_SISCI") && strstr(getenv("BELLWIRE_SISCI"), "stores=compare");
    check_group("stores that leave by themselves");
    for (uint32_t n = 1; n <= TURNS; n++) {
        at[LOW] = n;
        at[HIGH] = n;
        at[NEXT] = n;
        at[LAST] = n;
        if (n % 500 == 0) usleep(300); /* pages grow cold */
    }
    OK(SCIWaitForDataInterrupt(back, answer, &length, 60000, 0, &e));
    CHECK(length == 5 && memcmp(answer, "turns", 5) == 0);
    /* A system call stores; where it may not, it says so. */
    int pipes[2] = { -1, -1 };
    CHECK(pipe(pipes) == 0 && write(pipes[1], "aaaa", 4) == 4);
    if (read(pipes[0], (void *)&at[COPIED], 4) != 4) {
        CHECK(errno == EFAULT && geteuid() != 0);
        at[COPIED] = 0x61616161u;
    }
    close(pipes[0]), close(pipes[1]);
    length = sizeof answer;
    OK(SCIWaitForDataInterrupt(back, answer, &length, 60000, 0, &e));
    CHECK(length == 6 && memcmp(answer, "copied", 6) == 0);
    /* Loads of which nobody says that they are to be fresh. */
    if (getenv("BELLWIRE_SISCI") && strstr(getenv("BELLWIRE_SISCI"), "loads=")) {
        while (at[SHOWN] != 0x62626262u) usleep(50);
        /* With nobody who loads, nothing is fetched. */
        unsigned long before = sleeps_of("bellwire-fetch"), after = before + 1;
        CHECK(before != ~0ul);
        for (int tries = 0; !compares && before != after && tries < 20; tries++) {
            before = sleeps_of("bellwire-fetch");
            usleep(200000);
            after = sleeps_of("bellwire-fetch");
        }
        CHECK(compares || before == after);
    }
    /* With nothing to send, nobody wakes up. The last rounds may be late on a busy machine. */
    unsigned long before = sleeps_of("bellwire-flush"), after = before + 1;
    CHECK(before != ~0ul);
    for (int tries = 0; !compares && before != after && tries < 20; tries++) {
        before = sleeps_of("bellwire-flush");
        usleep(200000);
        after = sleeps_of("bellwire-flush");
    }
    CHECK(compares || before == after);
}

static int user(unsigned int node) {
    sci_remote_segment_t r = NULL, some = NULL;
    sci_remote_interrupt_t appear = NULL, vanish = NULL, end = NULL, none = NULL;
    sci_local_data_interrupt_t back = NULL;
    sci_remote_data_interrupt_t echo = NULL;
    sci_map_t map = NULL;
    sci_sequence_t q = NULL;
    sci_error_t status;
    unsigned int number = 21, length;
    unsigned char data[4096], answer[4096];
    check_group("connecting");
    OK(SCICreateDataInterrupt(sd, &back, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO, &e));
    OK(SCIConnectSegment(sd, &r, node, 1, 0, NULL, NULL, 30000, 0, &e));
    if (e) exit(6);
    CHECK_SAME(SCIGetRemoteSegmentSize(r), SIZE);
    OK(CHECK_SAME(SCIProbeNode(sd, 0, node, 0, &e), 1));
    GIVES(SCIConnectSegment(sd, &some, node, 2, 0, NULL, NULL, 20, 0, &e), SCI_ERR_NO_SUCH_SEGMENT);
    GIVES(SCIConnectInterrupt(sd, &none, node, 0, 99, 20, 0, &e), SCI_ERR_NO_SUCH_INTNO);
    transfers(r);

    check_group("data interrupts");
    OK(SCIConnectDataInterrupt(sd, &echo, node, 0, 20, 30000, 0, &e));
    for (unsigned int i = 0; i < ROUNDS; i++) {
        unsigned int bytes = i == 0 ? 1 : i == 1 ? 4096 : 1 + i * 7919 % 4096;
        for (unsigned int at = 0; at < bytes; at++) data[at] = (unsigned char)(at * 7 + i);
        OK(SCITriggerDataInterrupt(echo, data, bytes, 0, &e));
        length = sizeof answer;
        OK(SCIWaitForDataInterrupt(back, answer, &length, 30000, 0, &e));
        int same = length == bytes;
        for (unsigned int at = 0; same && at < bytes; at++) same = answer[at] == data[bytes - 1 - at];
        CHECK(same);
    }
    GIVES(SCITriggerDataInterrupt(echo, data, 4097, 0, &e), SCI_ERR_OUT_OF_RANGE);

    check_group("segments that come and go");
    OK(SCIConnectInterrupt(sd, &appear, node, 0, 10, 30000, 0, &e));
    OK(SCIConnectInterrupt(sd, &vanish, node, 0, 11, 30000, 0, &e));
    sci_remote_segment_t beside = NULL;
    OK(SCIConnectSegment(sd, &beside, node, 2, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, SCI_FLAG_ASYNCHRONOUS_CONNECT, &e));
    OK(SCITriggerInterrupt(appear, 0, &e));
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(beside, &status, 60000, 0, &e), SCI_CB_CONNECT));
    CHECK_SAME(status, SCI_ERR_OK);
    CHECK_SAME(SCIGetRemoteSegmentSize(beside), 8192);
    OK(SCIDisconnectSegment(beside, 0, &e));
    OK(SCIConnectSegment(sd, &some, node, 2, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    volatile uint32_t *at = SCIMapRemoteSegment(some, &map, 0, 8192, NULL, 0, &e);
    CHECK(at != NULL);
    OK(SCICreateMapSequence(map, &q, 0, &e));
    OK(SCITriggerInterrupt(vanish, 0, &e));
    length = sizeof answer;
    OK(SCIWaitForDataInterrupt(back, answer, &length, 60000, 0, &e));
    CHECK(length == 4 && memcmp(answer, "busy", 4) == 0);
    OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_OK));
    OK(SCIRemoveSequence(q, 0, &e));
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCITriggerInterrupt(vanish, 0, &e));
    OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(some, &status, 30000, 0, &e), SCI_CB_DISCONNECT));
    CHECK(SCIMapRemoteSegment(some, &map, 0, 8192, NULL, 0, &e) == NULL);
    CHECK_SAME(e, SCI_ERR_NOT_CONNECTED);
    OK(SCIDisconnectSegment(some, 0, &e));

    check_group("interrupts behind stores");
    OK(SCIConnectInterrupt(sd, &end, node, 0, 12, 30000, 0, &e));
    at = SCIMapRemoteSegment(r, &map, 0, 8192, NULL, 0, &e);
    CHECK(at != NULL);
    at[LOW] = at[HIGH] = at[NEXT] = at[LAST] = 0;
    for (unsigned int n = 1; n <= 200; n++) {
        at[DONE] = n;
        OK(SCITriggerInterrupt(end, 0, &e));
    }
    length = sizeof answer;
    OK(SCIWaitForDataInterrupt(back, answer, &length, 60000, 0, &e));
    CHECK(length == 3 && memcmp(answer, "end", 3) == 0);
    by_themselves(at, back);
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIDisconnectInterrupt(end, 0, &e));
    OK(SCIDisconnectInterrupt(appear, 0, &e));
    OK(SCIDisconnectInterrupt(vanish, 0, &e));
    OK(SCIDisconnectDataInterrupt(echo, 0, &e));
    OK(SCIRemoveDataInterrupt(back, 0, &e));
    return check_end();
}

/* Says "ready", waits until the owner is lost, sees errors, and connects again. */
static int waiter(unsigned int node) {
    sci_remote_segment_t r = NULL;
    sci_remote_interrupt_t t = NULL;
    sci_map_t map = NULL;
    sci_sequence_t q = NULL;
    sci_dma_queue_t dq = NULL;
    sci_error_t status = SCI_ERR_OK;
    uint32_t word = 1;
    int silent = 0;
    OK(SCIConnectSegment(sd, &r, node, 1, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    volatile uint32_t *at = SCIMapRemoteSegment(r, &map, 0, SIZE, NULL, 0, &e);
    OK(SCICreateMapSequence(map, &q, 0, &e));
    OK(SCIConnectInterrupt(sd, &t, node, 0, 10, 30000, 0, &e));
    OK(SCICreateDMAQueue(sd, &dq, 0, 8, 0, &e));
    if (!at) exit(7);
    printf("ready\n");
    fflush(stdout);
    sci_segment_cb_reason_t reason;
    while ((reason = SCIWaitForRemoteSegmentEvent(r, &status, 60000, 0, &e)) == SCI_CB_NOT_OPERATIONAL || reason == SCI_CB_OPERATIONAL) {
        silent |= reason == SCI_CB_NOT_OPERATIONAL;
        if (reason == SCI_CB_NOT_OPERATIONAL) OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_PENDING));
    }
    CHECK_SAME(e, SCI_ERR_OK);
    CHECK_SAME(reason, SCI_CB_LOST);
    CHECK_SAME(status, SCI_ERR_NODE_NOT_RESPONDING);
    printf("lost%s\n", silent ? ", not operational before" : "");
    at[0] = 1; /* no fault */
    OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_NOT_RETRIABLE));
    GIVES(SCIStartDmaTransferMem(dq, &word, r, 4, 0, NULL, NULL, SCI_FLAG_DMA_WAIT, &e), SCI_ERR_SEGMENT_NOT_CONNECTED);
    SCITriggerInterrupt(t, 0, &e);
    CHECK_SAME(e, SCI_ERR_NOT_CONNECTED);
    SCIMemCpy(NULL, &word, map, 0, 4, 0, &e);
    CHECK(e != SCI_ERR_OK);
    OK(SCIRemoveSequence(q, 0, &e));
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIDisconnectInterrupt(t, 0, &e));
    SCIConnectSegment(sd, &r, node, 1, 0, NULL, NULL, 0, 0, &e);
    /* Nobody is there, or not yet, or the next owner. */
    CHECK(e == SCI_ERR_NODE_NOT_RESPONDING || e == SCI_ERR_NO_SUCH_SEGMENT || e == SCI_ERR_OK);
    if (e == SCI_ERR_OK) OK(SCIDisconnectSegment(r, 0, &e));
    OK(SCIConnectSegment(sd, &r, node, 1, 0, NULL, NULL, 60000, 0, &e));
    OK(SCIStartDmaTransferMem(dq, &word, r, 4, 0, NULL, NULL, SCI_FLAG_DMA_READ | SCI_FLAG_DMA_WAIT, &e));
    CHECK_SAME(word, pattern(0, 7));
    OK(SCIDisconnectSegment(r, 0, &e));
    return check_end();
}

/* Connects, writes, leaves, for ever: whatever the owner does, calls end with an error or well. */
static int worker(unsigned int node, int rounds) {
    static uint32_t words[16384];
    sci_remote_segment_t r;
    sci_map_t map;
    sci_dma_queue_t dq;
    OK(SCICreateDMAQueue(sd, &dq, 0, 8, 0, &e));
    for (int n = 0; rounds == 0 || n < rounds; n++) {
        SCIConnectSegment(sd, &r, node, 1, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e);
        if (e != SCI_ERR_OK) continue;
        for (int i = 0; i < 20; i++) SCIStartDmaTransferMem(dq, words, r, sizeof words, (size_t)i * 4096, NULL, NULL, i % 2 ? SCI_FLAG_DMA_WAIT : 0, &e);
        volatile uint32_t *at = SCIMapRemoteSegment(r, &map, 0, 65536, NULL, 0, &e);
        if (at) {
            at[n % 16384] = (uint32_t)n;
            SCIUnmapSegment(map, 0, &e);
        }
        SCIWaitForDMAQueue(dq, SCI_INFINITE_TIMEOUT, 0, &e);
        OK(SCIDisconnectSegment(r, 0, &e));
    }
    return check_end();
}

/* Stores a word into a page of a map of so many bytes, and has it leave: its costs are counted. */
static int stores(unsigned int node, size_t bytes, int rounds, int flushes) {
    sci_remote_segment_t r = NULL;
    sci_map_t map = NULL;
    sci_sequence_t q = NULL;
    OK(SCIConnectSegment(sd, &r, node, 1, 0, NULL, NULL, 30000, 0, &e));
    volatile uint32_t *at = SCIMapRemoteSegment(r, &map, 0, bytes, NULL, 0, &e);
    if (!at) exit(7);
    OK(SCICreateMapSequence(map, &q, 0, &e));
    for (int n = 1; n <= rounds; n++) {
        at[(size_t)n * 1024 % (bytes / 4)] = (uint32_t)n;
        if (flushes) SCIStoreBarrier(q, 0);
        else usleep(5000);
    }
    OK(SCIRemoveSequence(q, 0, &e));
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIDisconnectSegment(r, 0, &e));
    return check_end();
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/*
 * Has a map of so many bytes kept fresh (BELLWIRE_SISCI=loads=..) for two seconds, while it loads a
 * word each millisecond, or nothing: the processor time of all threads, in ms a second.
 */
static int loads(unsigned int node, size_t bytes, int polls) {
    sci_remote_segment_t r = NULL;
    sci_map_t map = NULL;
    uint32_t sum = 0;
    OK(SCIConnectSegment(sd, &r, node, 1, 0, NULL, NULL, 30000, 0, &e));
    volatile uint32_t *at = SCIMapRemoteSegment(r, &map, 0, bytes, NULL, 0, &e);
    if (!at) exit(7);
    double began = seconds_of(CLOCK_MONOTONIC), used = seconds_of(CLOCK_PROCESS_CPUTIME_ID);
    while (seconds_of(CLOCK_MONOTONIC) < began + 2) {
        usleep(polls ? 1000 : 100000);
        if (polls) sum += at[7];
    }
    used = seconds_of(CLOCK_PROCESS_CPUTIME_ID) - used;
    printf("%.1f\n", used * 1e3 / (seconds_of(CLOCK_MONOTONIC) - began));
    OK(SCIUnmapSegment(map, 0, &e));
    OK(SCIDisconnectSegment(r, 0, &e));
    return sum == 1;
}

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    unsigned int node = argc > 2 ? (unsigned int)atoi(argv[2]) : 0;
    OK(SCIInitialize(0, &e));
    OK(SCIOpen(&sd, 0, &e));
    if (strcmp(argv[1], "owner") == 0) return owner(node);
    if (strcmp(argv[1], "user") == 0) return user(node);
    if (strcmp(argv[1], "waiter") == 0) return waiter(node);
    if (strcmp(argv[1], "stores") == 0 && argc == 6) return stores(node, (size_t)atol(argv[3]), atoi(argv[4]), strcmp(argv[5], "flush") == 0);
    if (strcmp(argv[1], "loads") == 0 && argc == 5) return loads(node, (size_t)atol(argv[3]), strcmp(argv[4], "polls") == 0);
    if (strcmp(argv[1], "worker") == 0) return worker(node, argc > 3 ? atoi(argv[3]) : 0);
    return 2;
}
