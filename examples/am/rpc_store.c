/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Remote procedure calls: the first process of a job keeps numbered values; the others put values of all sizes there, get them back, and compare. (crates/rpc/examples/kv_store.rs is a larger
 * one, in Rust.)
 *
 *   bellwire run -n 3 rpc_store [values]        or mpiexec, mpirun, srun
 */
#include <am.h>
#include <bellwire_rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MAX = 4096, BYTES_MAX = 300000, NO_SUCH_VALUE = 1 };
/* Of the procedures' arguments and results, as bytes: changes when they do. */
static const uint64_t TYPE = 1;

#define TRY(call)                                                                                \
    do {                                                                                         \
        int code_ = (call);                                                                      \
        if (code_ != 0) {                                                                        \
            fprintf(stderr, "%s: %d: %s%s\n", #call, code_, bw_rpc_reason(), AMX_Reason());      \
            exit(1);                                                                             \
        }                                                                                        \
    } while (0)

/* ---- the server */

static struct { unsigned char *data; size_t nbytes; } values[VALUES_MAX];
static int finished;

/* Arguments: the number of a value, and its bytes. What a caller sends is checked. */
static void put(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    uint32_t number;
    (void)context;
    if (nbytes < sizeof number || (memcpy(&number, arguments, sizeof number), number >= VALUES_MAX)) {
        bw_rpc_refuse(call);
        return;
    }
    free(values[number].data);
    values[number].nbytes = nbytes - sizeof number;
    values[number].data = malloc(nbytes);
    if (values[number].data == NULL) exit(1);
    memcpy(values[number].data, (const char *)arguments + sizeof number, values[number].nbytes);
    bw_rpc_return(call, NULL, 0);
}

/* Arguments: the number of a value. Result: its bytes. */
static void get(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    uint32_t number;
    (void)context;
    if (nbytes != sizeof number || (memcpy(&number, arguments, sizeof number), number >= VALUES_MAX)) {
        bw_rpc_refuse(call);
        return;
    }
    if (values[number].data == NULL) {
        bw_rpc_fail(call, NO_SUCH_VALUE, "there is no such value");
        return;
    }
    bw_rpc_return(call, values[number].data, values[number].nbytes);
}

static void finish(bw_rpc_call_t *call, const void *arguments, size_t nbytes, void *context) {
    (void)arguments; (void)nbytes; (void)context;
    finished++;
    bw_rpc_return(call, NULL, 0);
}

static void serve(bw_rpc_node_t *node, int clients) {
    TRY(bw_rpc_serve(node, "store/put", TYPE, put, NULL));
    TRY(bw_rpc_serve(node, "store/get", TYPE, get, NULL));
    TRY(bw_rpc_serve(node, "store/finish", TYPE, finish, NULL));
    while (finished < clients) TRY(bw_rpc_sleep(node, -1));
}

/* ---- clients */

static size_t fill(unsigned char *data, uint32_t number) {
    size_t nbytes = number * 7919u % (number % 10 == 9 ? BYTES_MAX : 500), i;
    for (i = 0; i < nbytes; i++) data[i] = (unsigned char)(i * 31 + number);
    return nbytes;
}

static void check(bw_rpc_node_t *node, bw_rpc_pending_t pending, uint32_t number) {
    static unsigned char expected[BYTES_MAX];
    size_t nbytes, wanted = fill(expected, number);
    void *result;
    TRY(bw_rpc_wait(node, pending));
    TRY(bw_rpc_take(node, pending, &result, &nbytes));
    if (nbytes != wanted || memcmp(result, expected, nbytes) != 0) {
        fprintf(stderr, "value %u is another\n", number);
        exit(1);
    }
    bw_rpc_free(result);
}

static void work(bw_rpc_node_t *node, bw_rpc_peer_t server, uint32_t first, uint32_t count) {
    static unsigned char arguments[4 + BYTES_MAX];
    enum { WINDOW = 16 };
    bw_rpc_pending_t under_way[WINDOW];
    uint32_t number, i;
    for (number = first; number < first + count; number++) {
        memcpy(arguments, &number, sizeof number);
        TRY(bw_rpc_call(node, server, "store/put", TYPE, arguments, 4 + fill(arguments + 4, number), 30000, NULL, NULL));
    }
    /* Gets: many under way. */
    for (i = 0; i < count + WINDOW; i++) {
        if (i >= WINDOW && i - WINDOW < count) check(node, under_way[i % WINDOW], first + i - WINDOW);
        number = first + i;
        if (i < count) TRY(bw_rpc_start(node, server, "store/get", TYPE, &number, sizeof number, 30000, &under_way[i % WINDOW]));
    }
    number = VALUES_MAX - 1;
    if (bw_rpc_call(node, server, "store/get", TYPE, &number, sizeof number, -1, NULL, NULL) != BW_RPC_FAILED || bw_rpc_failure() != NO_SUCH_VALUE) exit(1);
    TRY(bw_rpc_call(node, server, "store/finish", TYPE, NULL, 0, -1, NULL, NULL));
}

int main(int count, char **arguments) {
    uint32_t each = count > 1 ? (uint32_t)atoi(arguments[1]) : 500;
    bw_rpc_address_t own, *all;
    bw_rpc_node_t *node;
    bw_rpc_peer_t server;
    eb_t bundle;
    ep_t endpoint;
    TRY(AMX_Start(&bundle, &endpoint)); /* who am I, and how many are we */
    if (AMX_Size() < 2 || each * (uint32_t)(AMX_Size() - 1) >= VALUES_MAX) {
        fprintf(stderr, "a server and at least one client, and at most %d values: bellwire run -n 3 rpc_store\n", VALUES_MAX - 1);
        return 1;
    }
    TRY(bw_rpc_open(&node));
    TRY(bw_rpc_address(node, &own));
    all = malloc(sizeof own * (size_t)AMX_Size());
    TRY(AMX_AllGather(&own, sizeof own, all));
    if (AMX_Rank() == 0) {
        serve(node, AMX_Size() - 1);
        printf("%u values of each of %d clients, all well\n", each, AMX_Size() - 1);
    } else {
        TRY(bw_rpc_connect(node, &all[0], &server));
        work(node, server, each * (uint32_t)(AMX_Rank() - 1), each);
    }
    free(all);
    TRY(AMX_Finish());
    TRY(bw_rpc_close(node));
    return 0;
}
