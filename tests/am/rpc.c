/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Remote procedure calls in C: every way that a call can end, between two processes; and when the other is killed. Compiled as C11 and as C++17. */
#include "check.h"

#include <bellwire_rpc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LARGE = 1000000 };

static bw_rpc_reply_t *held[64];
static int holds;

static void echo(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    bw_rpc_reply_t *reply;
    if (context != NULL) {
        if (bw_rpc_defer(call, &reply) == BW_RPC_OK) bw_rpc_reply_return(reply, arguments, nbytes);
    } else {
        bw_rpc_return(call, arguments, nbytes);
    }
}

static void fail(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    (void)arguments; (void)context;
    if (nbytes > 0) bw_rpc_refuse(call);
    else bw_rpc_fail(call, -5, "as asked");
}

/* Held until "release" is called. */
static void hold(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    (void)arguments; (void)nbytes; (void)context;
    if (bw_rpc_defer(call, &held[holds]) == BW_RPC_OK) holds++;
}

/* How many of those that were held were cancelled, and the milliseconds left. */
static void release(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    int64_t answer[2] = {0, bw_rpc_time_left(call)};
    (void)arguments; (void)nbytes; (void)context;
    while (holds > 0) {
        holds--;
        answer[0] += bw_rpc_reply_cancelled(held[holds]);
        if (holds % 2) bw_rpc_reply_fail(held[holds], holds, NULL);
        else bw_rpc_reply_return(held[holds], "ok", 2);
    }
    bw_rpc_return(call, answer, sizeof answer);
}

static void silent(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    (void)call; (void)arguments; (void)nbytes; (void)context;
}

static void nested(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    int code = bw_rpc_sleep((bw_rpc_node_t *)context, 0), closed = bw_rpc_close((bw_rpc_node_t *)context);
    (void)arguments; (void)nbytes;
    bw_rpc_return(call, &code, closed == BW_RPC_ERR_MOMENT ? sizeof code : 0);
}

static void server(int to) {
    bw_rpc_node_t *node;
    bw_rpc_address_t address;
    if (bw_rpc_open(&node) != BW_RPC_OK || bw_rpc_address(node, &address) != BW_RPC_OK) _exit(1);
    if (bw_rpc_serve(node, "echo", 1, echo, NULL) || bw_rpc_serve(node, "later", 1, echo, node) || bw_rpc_serve(node, "fail", 1, fail, NULL) ||
        bw_rpc_serve(node, "hold", 1, hold, NULL) || bw_rpc_serve(node, "release", 1, release, NULL) || bw_rpc_serve(node, "silent", 1, silent, NULL) ||
        bw_rpc_serve(node, "nested", 1, nested, node) || bw_rpc_serve(node, "echo", 1, echo, NULL) != BW_RPC_ERR_ARGUMENT)
        _exit(1);
    if (write(to, &address, sizeof address) != (ssize_t)sizeof address) _exit(1);
    for (;;)
        if (bw_rpc_sleep(node, -1) != BW_RPC_OK) _exit(1);
}

static void sizes(bw_rpc_node_t *node, bw_rpc_peer_t peer) {
    static const size_t all[] = {0, 1, 28, 29, 1000, 64000, 64001, LARGE};
    unsigned char *data = (unsigned char *)malloc(LARGE);
    size_t i, k, n;
    for (i = 0; i < LARGE; i++) data[i] = (unsigned char)(i * 31 ^ i >> 8);
    for (k = 0; k < sizeof all / sizeof *all; k++) {
        const char *names[] = {"echo", "later"};
        for (i = 0; i < 2; i++) {
            void *result = NULL;
            CHECK_SAME(bw_rpc_call(node, peer, names[i], 1, data, all[k], 30000, &result, &n), BW_RPC_OK);
            CHECK(n == all[k] && result != NULL && memcmp(result, data, n) == 0);
            bw_rpc_free(result);
        }
    }
    free(data);
}

static void ends(bw_rpc_node_t *node, bw_rpc_peer_t peer) {
    bw_rpc_pending_t pending[8];
    int64_t answer[2], *released;
    int i, *nested_code;
    size_t n;
    void *result;
    CHECK_SAME(bw_rpc_call(node, peer, "fail", 1, NULL, 0, -1, NULL, NULL), BW_RPC_FAILED);
    CHECK(bw_rpc_failure() == -5 && strcmp(bw_rpc_reason(), "as asked") == 0);
    CHECK_SAME(bw_rpc_call(node, peer, "fail", 1, "x", 1, -1, NULL, NULL), BW_RPC_BAD_ARGUMENTS);
    CHECK_SAME(bw_rpc_call(node, peer, "nobody", 1, NULL, 0, -1, NULL, NULL), BW_RPC_UNKNOWN_PROCEDURE);
    CHECK_SAME(bw_rpc_call(node, peer, "echo", 2, NULL, 0, -1, NULL, NULL), BW_RPC_WRONG_TYPE);
    CHECK_SAME(bw_rpc_call(node, peer, "silent", 1, NULL, 0, -1, NULL, NULL), BW_RPC_DROPPED);
    CHECK_SAME(bw_rpc_call(node, peer, "hold", 1, NULL, 0, 20, NULL, NULL), BW_RPC_DEADLINE);
    CHECK_SAME(bw_rpc_call(node, peer, "nested", 1, NULL, 0, -1, &result, &n), BW_RPC_OK);
    nested_code = (int *)result;
    CHECK(n == sizeof *nested_code && *nested_code == BW_RPC_ERR_MOMENT);
    bw_rpc_free(result);
    for (i = 0; i < 8; i++) CHECK_SAME(bw_rpc_start(node, peer, "hold", 1, &i, sizeof i, -1, &pending[i]), BW_RPC_OK);
    CHECK_SAME(bw_rpc_take(node, pending[0], NULL, NULL), BW_RPC_ERR_NOT_DONE);
    CHECK_SAME(bw_rpc_cancel(node, pending[3]), BW_RPC_OK);
    CHECK(bw_rpc_is_done(node, pending[3]) && !bw_rpc_is_done(node, pending[4]));
    CHECK_SAME(bw_rpc_abandon(node, pending[5]), BW_RPC_OK);
    CHECK_SAME(bw_rpc_call(node, peer, "release", 1, NULL, 0, 60000, &result, &n), BW_RPC_OK);
    released = (int64_t *)result;
    memcpy(answer, released, sizeof answer);
    bw_rpc_free(result);
    CHECK_SAME(answer[0], 3); /* with the one whose time was over */
    CHECK(answer[1] > 0 && answer[1] <= 60000);
    for (i = 0; i < 8; i++) {
        int end;
        if (i == 5) continue;
        CHECK_SAME(bw_rpc_wait(node, pending[i]), BW_RPC_OK);
        end = bw_rpc_take(node, pending[i], NULL, &n);
        /* The call whose time was over was held first. */
        CHECK_SAME(end, i == 3 ? BW_RPC_CANCELLED : i % 2 ? BW_RPC_OK : BW_RPC_FAILED);
        CHECK_SAME(bw_rpc_take(node, pending[i], NULL, NULL), BW_RPC_ERR_ARGUMENT);
    }
}

/* A process that was killed: on one host that is what calls say. Between hosts it has fallen
 * silent, or nobody is at its address. */
static void is_gone(int end) {
    static const char says[] = "the peer is gone: ";
    CHECK_SAME(end, BW_RPC_GONE);
    CHECK(strncmp(bw_rpc_reason(), says, sizeof says - 1) == 0 && strlen(bw_rpc_reason()) > sizeof says);
    CHECK(getenv("BELLWIRE_UDP") != NULL || strcmp(bw_rpc_reason(), "the peer is gone: the peer process exited") == 0);
}

static void arguments(bw_rpc_node_t *node, bw_rpc_peer_t peer) {
    bw_rpc_address_t none;
    bw_rpc_peer_t other;
    bw_rpc_pending_t pending;
    memset(&none, 0xff, sizeof none);
    CHECK_SAME(bw_rpc_open(NULL), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_poll(NULL), BW_RPC_ERR_ARGUMENT);
    CHECK(bw_rpc_reason()[0] != 0);
    CHECK_SAME(bw_rpc_connect(node, &none, &other), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_connect(node, NULL, &other), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_serve(node, NULL, 1, echo, NULL), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_serve(node, "", 1, echo, NULL), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_serve(node, "x", 1, NULL, NULL), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_withdraw(node, "x"), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_start(node, peer + 1, "echo", 1, NULL, 0, -1, &pending), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_start(node, peer, "echo", 1, NULL, 5, -1, &pending), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_start(node, peer, "echo", 1, NULL, 0, -1, NULL), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_take(node, ~(bw_rpc_pending_t)0, NULL, NULL), BW_RPC_ERR_ARGUMENT);
    CHECK(bw_rpc_bytes_type(1) != bw_rpc_bytes_type(2));
    CHECK_SAME(bw_rpc_set_limits(node, 2, 2, 1000), BW_RPC_OK);
    CHECK_SAME(bw_rpc_set_limits(node, 64, 256, 1 << 30), BW_RPC_OK);
}

int main(void) {
    int ways[2], i;
    bw_rpc_address_t address;
    bw_rpc_node_t *node;
    bw_rpc_peer_t peer;
    bw_rpc_pending_t pending[20];
    pid_t child;
    CHECK(pipe(ways) == 0);
    child = fork();
    if (child == 0) server(ways[1]);
    CHECK(read(ways[0], &address, sizeof address) == (ssize_t)sizeof address);
    CHECK_SAME(bw_rpc_open(&node), BW_RPC_OK);
    CHECK_SAME(bw_rpc_connect(node, &address, &peer), BW_RPC_OK);
    check_group("sizes");
    sizes(node, peer);
    check_group("ends");
    ends(node, peer);
    check_group("arguments");
    arguments(node, peer);
    check_group("killed");
    for (i = 0; i < 20; i++) CHECK_SAME(bw_rpc_start(node, peer, "hold", 1, NULL, 0, -1, &pending[i]), BW_RPC_OK);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    for (i = 0; i < 20; i++) {
        CHECK_SAME(bw_rpc_wait(node, pending[i]), BW_RPC_OK);
        is_gone(bw_rpc_take(node, pending[i], NULL, NULL));
    }
    is_gone(bw_rpc_call(node, peer, "echo", 1, NULL, 0, -1, NULL, NULL));
    CHECK_SAME(bw_rpc_disconnect(node, peer), BW_RPC_OK);
    CHECK_SAME(bw_rpc_disconnect(node, peer), BW_RPC_ERR_ARGUMENT);
    CHECK_SAME(bw_rpc_close(node), BW_RPC_OK);
    return check_end();
}
