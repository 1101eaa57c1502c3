/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * kills N: N times an owner or a user of segments and interrupts is killed at a random moment of
 * its work; the other one must hear of it, go on, and connect to the next one. Nothing may be
 * left behind: no descriptors, no memory, no names.
 */
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sisci_api.h"

enum { SIZE = 256 << 10 };
static sci_error_t e;
static sci_desc_t sd;
static unsigned int node;

static int descriptors(void) {
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

static void open_library(void) {
    SCIInitialize(0, &e);
    if (e == SCI_ERR_OK) SCIOpen(&sd, 0, &e);
    if (e == SCI_ERR_OK) SCIGetLocalNodeId(0, &node, 0, &e);
    if (e != SCI_ERR_OK) _exit(9);
}

/*
 * Connects, stores, transfers, triggers, leaves, for ever; whatever the other side does, a call
 * ends with an error or well.
 */
static void use(void) {
    sci_remote_segment_t r;
    sci_remote_interrupt_t t;
    sci_local_segment_t own;
    sci_map_t map;
    sci_sequence_t q;
    sci_dma_queue_t dq;
    SCICreateSegment(sd, &own, 0, SIZE, NULL, NULL, SCI_FLAG_PRIVATE, &e);
    SCICreateDMAQueue(sd, &dq, 0, 4, 0, &e);
    for (;;) {
        SCIConnectSegment(sd, &r, node, 500, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e);
        if (e != SCI_ERR_OK) continue;
        volatile int *at = SCIMapRemoteSegment(r, &map, 0, SIZE, NULL, 0, &e);
        if (at) {
            SCICreateMapSequence(map, &q, 0, &e);
            SCIConnectInterrupt(sd, &t, node, 0, 500, 0, 0, &e);
            int has = e == SCI_ERR_OK;
            for (int n = 0; n < 50 && SCICheckSequence(q, 0, &e) == SCI_SEQ_OK; n++) {
                for (int i = 0; i < 1000; i++) at[i] = n;
                SCIStartDmaTransfer(dq, own, r, 0, SIZE, 0, NULL, NULL, 0, &e);
                if (has) SCITriggerInterrupt(t, 0, &e);
                SCIWaitForDMAQueue(dq, SCI_INFINITE_TIMEOUT, 0, &e);
            }
            if (has) SCIDisconnectInterrupt(t, 0, &e);
            SCIRemoveSequence(q, 0, &e);
            SCIUnmapSegment(map, 0, &e);
        }
        SCIDisconnectSegment(r, 0, &e);
    }
}

static sci_local_segment_t segment;
static sci_local_interrupt_t interrupt;

static void offer(void) {
    unsigned int number = 500;
    do SCICreateSegment(sd, &segment, 500, SIZE, NULL, NULL, 0, &e); while (e == SCI_ERR_SEGMENTID_USED);
    SCIPrepareSegment(segment, 0, 0, &e);
    SCISetSegmentAvailable(segment, 0, 0, &e);
    do SCICreateInterrupt(sd, &interrupt, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO, &e); while (e == SCI_ERR_INTNO_USED);
}

static pid_t start(int owner) {
    pid_t child = fork();
    if (child == 0) {
        open_library();
        if (owner) {
            offer();
            for (;;) SCIWaitForLocalSegmentEvent(segment, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e);
        }
        use();
    }
    return child;
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 60;
    unsigned int seed = 1;
    check_group("users die");
    open_library();
    offer();
    int before = 0;
    for (int n = 0; n < rounds / 2; n++) {
        pid_t child = start(0);
        SCIWaitForInterrupt(interrupt, 20000, 0, &e);
        CHECK_SAME(e, SCI_ERR_OK);
        usleep((useconds_t)(rand_r(&seed) % 3000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        /* All of it is heard: as many connections as ends. */
        int connected = 0;
        do {
            sci_segment_cb_reason_t reason = SCIWaitForLocalSegmentEvent(segment, NULL, NULL, connected ? 20000 : 5, 0, &e);
            if (e == SCI_ERR_TIMEOUT) break;
            connected += reason == SCI_CB_CONNECT ? 1 : -1;
        } while (1);
        CHECK_SAME(connected, 0);
        check_group("users die"); /* the watchdog begins anew */
        if (n == 2) before = descriptors();
    }
    if (before) CHECK(descriptors() <= before + 4);
    SCIRemoveSegment(segment, 0, &e);
    CHECK_SAME(e, SCI_ERR_OK);
    SCIRemoveInterrupt(interrupt, 0, &e);
    CHECK_SAME(e, SCI_ERR_OK);

    check_group("owners die");
    pid_t user = start(0);
    for (int n = 0; n < rounds - rounds / 2; n++) {
        pid_t child = start(1);
        sci_remote_segment_t r;
        SCIConnectSegment(sd, &r, node, 500, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e);
        CHECK_SAME(e, SCI_ERR_OK);
        usleep((useconds_t)(rand_r(&seed) % 3000));
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        sci_error_t status;
        CHECK_SAME(SCIWaitForRemoteSegmentEvent(r, &status, 20000, 0, &e), SCI_CB_LOST);
        SCIDisconnectSegment(r, 0, &e);
        CHECK_SAME(e, SCI_ERR_OK);
        check_group("owners die");
    }
    CHECK_SAME(waitpid(user, NULL, WNOHANG), 0); /* it lives, and finds the next owner */
    offer();
    SCIWaitForInterrupt(interrupt, 20000, 0, &e);
    CHECK_SAME(e, SCI_ERR_OK);
    kill(user, SIGKILL);
    waitpid(user, NULL, 0);
    return check_end();
}
