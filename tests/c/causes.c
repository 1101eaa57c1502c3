/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Why a connection broke, by VipxQueryCause. This program starts itself again as the peer, which
 * disconnects, closes its NIC, or is killed; the survivor notices before or after it posts.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ends.h"

static VIP_NIC_HANDLE nic;

/* The reason, checked; waits for it. */
static void expect_cause(End *end, VIP_UINT32 by, VIP_UINT32 cause, const char *text) {
    VIPX_CAUSE_INFO info;
    double until = now_ms() + WAIT_MS;
    do {
        memset(&info, 0xff, sizeof info);
        info.Size = sizeof info;
        if (!CHECK_RETURN(VipxQueryCause(end->vi, &info), VIP_SUCCESS)) return;
    } while (info.Cause != cause && now_ms() < until);
    CHECK_SAME(info.Size, sizeof info);
    CHECK_SAME(info.By, by);
    CHECK_SAME(info.Cause, cause);
    if (!CHECK(strcmp(info.Text, text) == 0)) printf("it says: %s\n", info.Text);
}

typedef struct {
    End end;
    pid_t peer;
} Pair;

static void pair_make(Pair *pair, const char *job) {
    Address at;
    AddressText text;
    address_unique(&at, nic);
    text = address_text(&at);
    end_create(&pair->end, nic, NULL);
    pair->peer = start_again(job, text.hex);
    CHECK_RETURN(end_accept(&pair->end, &at, WAIT_MS), VIP_SUCCESS);
    /* A peer with another job may have done it already. */
    if (strcmp(job, "stay") == 0) expect_cause(&pair->end, VIPX_BY_NONE, VIPX_CAUSE_NONE, "");
}

static void peer_dies(const Pair *pair) {
    CHECK(kill(pair->peer, SIGKILL) == 0);
    CHECK(waitpid(pair->peer, NULL, 0) == pair->peer);
}

/* The peer: connects, and does as it is told; or does nothing until it is killed. */
static int peer(const char *job, const char *hex) {
    End end;
    Address at;
    nic = nic_open();
    address_of_text(&at, nic, hex);
    end_create(&end, nic, NULL);
    CHECK_RETURN(end_request(&end, &at, WAIT_MS), VIP_SUCCESS);
    if (strcmp(job, "disconnect") == 0) {
        CHECK_RETURN(VipDisconnect(end.vi), VIP_SUCCESS);
    } else if (strcmp(job, "close") == 0) {
        /* With the VI as it is: the link ends first. */
        _exit(VipCloseNic(nic) == VIP_SUCCESS ? 0 : 1);
    }
    for (;;) pause();
}

static void noticed_before_a_post(void) {
    Pair pair;
    VIP_DESCRIPTOR *d;
    check_group("a killed peer, noticed before a post");
    pair_make(&pair, "stay");
    peer_dies(&pair);
    expect_state(&pair.end, VIP_STATE_ERROR);
    expect_cause(&pair.end, VIPX_BY_LINK, VIPX_CAUSE_PEER_DIED, "the peer process exited");
    post_send(&pair.end, work_send(&pair.end, 0, 0, 100));
    expect_send(&pair.end, &pair.end.descriptors[0], VIP_STATUS_DESC_FLUSHED_ERROR);
    expect_cause(&pair.end, VIPX_BY_LINK, VIPX_CAUSE_PEER_DIED, "the peer process exited");
    /* It stays when the VI is idle again. */
    CHECK_RETURN(VipDisconnect(pair.end.vi), VIP_SUCCESS);
    CHECK(VipSendDone(pair.end.vi, &d) == VIP_NOT_DONE);
    expect_cause(&pair.end, VIPX_BY_LINK, VIPX_CAUSE_PEER_DIED, "the peer process exited");
    end_destroy(&pair.end);
}

static void noticed_after_a_post(void) {
    Pair pair;
    check_group("a killed peer, noticed after a post");
    pair_make(&pair, "stay");
    peer_dies(&pair);
    /* It may leave still, and is lost; or it finds the end of the link. */
    VipPostSend(pair.end.vi, work_send(&pair.end, 0, 0, 100), pair.end.memory);
    expect_state(&pair.end, VIP_STATE_ERROR);
    expect_cause(&pair.end, VIPX_BY_LINK, VIPX_CAUSE_PEER_DIED, "the peer process exited");
    end_destroy(&pair.end);
}

static void told_by_the_peer(void) {
    Pair pair;
    check_group("a peer that disconnects");
    pair_make(&pair, "disconnect");
    expect_cause(&pair.end, VIPX_BY_PEER, VIPX_CAUSE_DISCONNECTED, "the peer disconnected");
    peer_dies(&pair);
    end_destroy(&pair.end);
    check_group("a peer that closes its NIC");
    pair_make(&pair, "close");
    expect_cause(&pair.end, VIPX_BY_LINK, VIPX_CAUSE_PEER_CLOSED, "the peer closed its NIC");
    CHECK(waitpid(pair.peer, NULL, 0) == pair.peer);
    end_destroy(&pair.end);
}

/* Both ends know it: one has no receive posted. */
static void within_a_process(void) {
    End a, b;
    check_group("a message that finds no receive");
    ends_pair(&a, nic, &b, nic, NULL);
    post_send(&a, work_send(&a, 0, 0, 100));
    expect_state(&b, VIP_STATE_ERROR);
    expect_cause(&b, VIPX_BY_HERE, VIPX_CAUSE_RECEIVE_QUEUE_EMPTY, "a message found no receive posted");
    expect_cause(&a, VIPX_BY_PEER, VIPX_CAUSE_RECEIVE_QUEUE_EMPTY, "the peer had no receive posted for a message");
    end_destroy(&a);
    end_destroy(&b);
}

static void wrong_arguments(void) {
    End a;
    VIPX_CAUSE_INFO info = {0};
    check_group("wrong arguments");
    end_create(&a, nic, NULL);
    CHECK_RETURN(VipxQueryCause(a.vi, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxQueryCause(a.vi, &info), VIP_INVALID_PARAMETER);
    info.Size = sizeof info - 1;
    CHECK_RETURN(VipxQueryCause(a.vi, &info), VIP_INVALID_PARAMETER);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryCause(NULL, &info), VIP_INVALID_PARAMETER);
    end_destroy(&a);
}

int main(int argc, char **argv) {
    Errors errors;
    if (argc > 2) return peer(argv[1], argv[2]);
    nic = nic_open();
    errors_watch(nic, &errors);
    noticed_before_a_post();
    noticed_after_a_post();
    told_by_the_peer();
    within_a_process();
    wrong_arguments();
    CHECK_RETURN(VipErrorCallback(nic, NULL, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    return check_end();
}
