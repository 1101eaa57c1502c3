/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Two processes, of one node and of two: stores, transfers and interrupts between them; deaths;
 * other users.
 */
#include <grp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "check.h"
#include "sisci_api.h"

enum { SIZE = 1 << 20, ROUNDS = 20000 };
static sci_error_t e;
static sci_desc_t sd;

#define OK(call) do { e = SCI_ERR_BUSY; call; if (!CHECK_SAME(e, SCI_ERR_OK)) printf("  %s: %s\n", #call, SCIGetErrorString(e)); } while (0)
#define MUST(call) do { call; if (e != SCI_ERR_OK) { printf("%s: %s\n", #call, SCIGetErrorString(e)); _exit(9); } } while (0)

static pid_t start(const char *variable, void (*run)(int), int argument) {
    fflush(stdout);
    pid_t child = fork();
    if (child != 0) return child;
    /* An orphan would keep its names from the next run. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (variable) setenv("BELLWIRE_SISCI", variable, 1);
    /* A node whose address is known may come up; one without is an error at once. */
    setenv("BELLWIRE_SISCI_NODES", "4=127.0.0.4,8=127.0.0.8,16=127.0.0.1", 1);
    SCIInitialize(0, &e);
    if (e == SCI_ERR_OK) SCIOpen(&sd, 0, &e);
    if (e != SCI_ERR_OK) _exit(8);
    run(argument);
    fflush(stdout);
    _exit(0);
}

static int end(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static sci_local_segment_t offer(unsigned int id) {
    sci_local_segment_t s;
    MUST(SCICreateSegment(sd, &s, id, SIZE, NULL, NULL, 0, &e));
    MUST(SCIPrepareSegment(s, 0, 0, &e));
    MUST(SCISetSegmentAvailable(s, 0, 0, &e));
    return s;
}

static unsigned int peer_node;

/* Each side has a segment, and spins on it as plain programs of SISCI do. */
static void ping(int side) {
    sci_map_t map, rmap;
    sci_remote_segment_t r;
    unsigned int node = peer_node;
    sci_local_segment_t s = offer(100 + (unsigned int)side);
    if (node == 0) MUST(SCIGetLocalNodeId(0, &node, 0, &e));
    else if (side == 1) node = 4;
    MUST(SCIConnectSegment(sd, &r, node, 101 - (unsigned int)side, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    volatile int *mine = SCIMapLocalSegment(s, &map, 0, SIZE, NULL, 0, &e), *theirs = SCIMapRemoteSegment(r, &rmap, 0, SIZE, NULL, 0, &e);
    if (!mine || !theirs) _exit(7);
    for (int n = 1; n <= ROUNDS; n++) {
        if (side == 0) theirs[0] = n;
        for (long spins = 0; mine[0] != n; spins++)
            if (spins % 1000 == 999) usleep(0);
        if (side == 1) {
            /* Program order: the payload before the flag. */
            theirs[100] = n;
            theirs[0] = n;
        } else if (mine[100] != n) {
            _exit(6);
        }
    }
    /* Interrupt and data interrupt. */
    sci_local_interrupt_t i;
    sci_remote_interrupt_t t;
    sci_local_data_interrupt_t d;
    sci_remote_data_interrupt_t td;
    unsigned int number = 50 + (unsigned int)side, data = 0, length;
    MUST(SCICreateInterrupt(sd, &i, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    MUST(SCICreateDataInterrupt(sd, &d, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO, &e));
    MUST(SCIConnectInterrupt(sd, &t, node, 0, 51 - (unsigned int)side, SCI_INFINITE_TIMEOUT, 0, &e));
    MUST(SCIConnectDataInterrupt(sd, &td, node, 0, 51 - (unsigned int)side, SCI_INFINITE_TIMEOUT, 0, &e));
    for (unsigned int n = 1; n <= 2000; n++) {
        if (side == 0) MUST(SCITriggerInterrupt(t, 0, &e));
        MUST(SCIWaitForInterrupt(i, SCI_INFINITE_TIMEOUT, 0, &e));
        if (side == 1) MUST(SCITriggerInterrupt(t, 0, &e));
        if (side == 0) MUST(SCITriggerDataInterrupt(td, &n, sizeof n, 0, &e));
        length = sizeof data;
        MUST(SCIWaitForDataInterrupt(d, &data, &length, SCI_INFINITE_TIMEOUT, 0, &e));
        if (data != n || length != sizeof data) _exit(5);
        if (side == 1) MUST(SCITriggerDataInterrupt(td, &n, sizeof n, 0, &e));
    }
    MUST(SCIUnmapSegment(rmap, 0, &e));
    MUST(SCIDisconnectSegment(r, 0, &e));
}

static void between(unsigned int node, const char *one, const char *two) {
    peer_node = node;
    pid_t a = start(one, ping, 0), b = start(two, ping, 1);
    CHECK_SAME(end(a), 0);
    CHECK_SAME(end(b), 0);
}

static void owner(int id) {
    offer((unsigned int)id);
    pause();
}

static void deaths(void) {
    unsigned int node;
    sci_remote_segment_t r;
    sci_map_t map;
    sci_sequence_t q;
    sci_error_t status;
    OK(SCIGetLocalNodeId(0, &node, 0, &e));
    for (int round = 0; round < 3; round++) {
        /* Reconnecting, each time to another process. */
        pid_t child = start("node=16", owner, 200);
        OK(SCIConnectSegment(sd, &r, node, 200, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
        volatile int *at = SCIMapRemoteSegment(r, &map, 0, SIZE, NULL, 0, &e);
        OK(SCICreateMapSequence(map, &q, 0, &e));
        OK(CHECK_SAME(SCIStartSequence(q, 0, &e), SCI_SEQ_OK));
        at[0] = 1;
        OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_OK));
        kill(child, SIGKILL);
        OK(CHECK_SAME(SCIWaitForRemoteSegmentEvent(r, &status, 20000, 0, &e), SCI_CB_LOST));
        CHECK_SAME(status, SCI_ERR_NODE_NOT_RESPONDING);
        CHECK_SAME(end(child), SIGKILL);
        at[1] = 2; /* no fault */
        OK(CHECK_SAME(SCICheckSequence(q, 0, &e), SCI_SEQ_NOT_RETRIABLE));
        OK(SCIRemoveSequence(q, 0, &e));
        OK(SCIUnmapSegment(map, 0, &e));
        OK(SCIDisconnectSegment(r, 0, &e));
    }
    SCIConnectSegment(sd, &r, node, 200, 0, NULL, NULL, 10, 0, &e);
    CHECK_SAME(e, SCI_ERR_NO_SUCH_SEGMENT);
}

static void user(int id) {
    unsigned int node;
    sci_remote_segment_t r;
    MUST(SCIGetLocalNodeId(0, &node, 0, &e));
    MUST(SCIConnectSegment(sd, &r, node, (unsigned int)id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    pause();
}

static void lost_users(void) {
    sci_local_segment_t s = offer(300);
    unsigned int from = 0;
    pid_t child = start("node=16", user, 300);
    OK(CHECK_SAME(SCIWaitForLocalSegmentEvent(s, &from, NULL, 20000, 0, &e), SCI_CB_CONNECT));
    kill(child, SIGKILL);
    OK(CHECK_SAME(SCIWaitForLocalSegmentEvent(s, &from, NULL, 20000, 0, &e), SCI_CB_LOST));
    CHECK_SAME(end(child), SIGKILL);
    OK(SCIRemoveSegment(s, 0, &e));
}

/* A user that unmaps a moment later, and stays connected. */
static void leaving(int id) {
    unsigned int node;
    sci_remote_segment_t r;
    sci_map_t map;
    MUST(SCIGetLocalNodeId(0, &node, 0, &e));
    MUST(SCIConnectSegment(sd, &r, node, (unsigned int)id, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    volatile int *at = SCIMapRemoteSegment(r, &map, 0, SIZE, NULL, 0, &e);
    MUST((void)at);
    at[0] = 1;
    usleep(50000);
    MUST(SCIUnmapSegment(map, 0, &e));
    sci_error_t status;
    if (SCIWaitForRemoteSegmentEvent(r, &status, 20000, 0, &e) != SCI_CB_DISCONNECT) _exit(4);
    MUST(SCIDisconnectSegment(r, 0, &e));
}
static void leaving_users(void) {
    sci_local_segment_t s = offer(301);
    sci_map_t map;
    volatile int *at = SCIMapLocalSegment(s, &map, 0, SIZE, NULL, 0, &e);
    pid_t child = start("node=16", leaving, 301);
    while (at[0] != 1 && waitpid(child, NULL, WNOHANG) == 0) usleep(100);
    OK(SCIUnmapSegment(map, 0, &e));
    int tries = 0;
    do SCIRemoveSegment(s, 0, &e); while (e == SCI_ERR_BUSY && ++tries < 40);
    CHECK_SAME(e, SCI_ERR_OK);
    CHECK_SAME(end(child), 0);
}

/* As another user, which the owner has not let in. */
static void stranger(int expected) {
    unsigned int node;
    sci_remote_segment_t r;
    sci_remote_interrupt_t t;
    MUST(SCIGetLocalNodeId(0, &node, 0, &e));
    SCIConnectSegment(sd, &r, node, 400, 0, NULL, NULL, 1000, 0, &e);
    if (e != (sci_error_t)expected) _exit(3);
    SCIConnectInterrupt(sd, &t, node, 0, 400, 100, 0, &e);
    if (e != (sci_error_t)expected) _exit(4);
}
static void as_nobody(int expected) {
    if (setgroups(0, NULL) != 0 || setgid(65534) != 0 || setuid(65534) != 0) _exit(2);
    stranger(expected);
}
static void let_in(int expected) {
    unsigned int number = 400;
    sci_local_interrupt_t i;
    offer(400);
    MUST(SCICreateInterrupt(sd, &i, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO, &e));
    pid_t child = start(NULL, as_nobody, expected);
    _exit(end(child) == 0 ? 0 : 1);
}
static void users(void) {
    if (geteuid() != 0) {
        printf("skipped: other users (not root)\n");
        return;
    }
    CHECK_SAME(end(start(NULL, let_in, SCI_ERR_CONNECTION_REFUSED)), 0);
    CHECK_SAME(end(start("users=all", let_in, SCI_ERR_OK)), 0);
}

int main(void) {
    check_group("between processes");
    between(0, NULL, NULL);
    check_group("between nodes of a host");
    between(8, "node=4", "node=8");
    check_group("other users");
    users();
    setenv("BELLWIRE_SISCI_NODES", "16=127.0.0.1", 1);
    OK(SCIInitialize(0, &e));
    OK(SCIOpen(&sd, 0, &e));
    check_group("nodes");
    CHECK_SAME(SCIProbeNode(sd, 0, 5, 0, &e), 0);
    CHECK_SAME(e, SCI_ERR_NO_SUCH_NODEID);
    sci_remote_segment_t none;
    SCIConnectSegment(sd, &none, 5, 1, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e);
    CHECK_SAME(e, SCI_ERR_NO_SUCH_NODEID);
    check_group("deaths of owners");
    deaths();
    check_group("deaths of users");
    lost_users();
    check_group("users that are leaving");
    leaving_users();
    return check_end();
}
