/* SPDX-License-Identifier: MIT OR Apache-2.0
 * Remote memory by librpma, which stands on librdmacm and libibverbs:
 *   rpma server ADDRESS PORT      offers memory to one client, and checks what that wrote
 *   rpma client ADDRESS PORT      reads it, writes it, flushes, writes eight bytes atomically
 * Prints "all well".
 */
#include <infiniband/verbs.h>
#include <librpma.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 1 << 20, WRITES = 64 };

#define MUST(call)                                                                \
    do {                                                                          \
        int result_ = (call);                                                     \
        if (result_ != 0) fail(#call, result_);                                   \
    } while (0)

static void fail(const char *what, int result) {
    fprintf(stderr, "%s: %s\n", what, rpma_err_2str(result));
    exit(1);
}

static unsigned char pattern(size_t i, unsigned round) { return (unsigned char)(i * 7 + round); }

static void await(struct rpma_conn *connection, enum rpma_conn_event expected) {
    enum rpma_conn_event event;
    MUST(rpma_conn_next_event(connection, &event));
    if (event != expected) fail(rpma_utils_conn_event_2str(event), 0);
}

static void completed(struct rpma_conn *connection) {
    struct rpma_cq *cq;
    struct ibv_wc wc;
    MUST(rpma_conn_get_cq(connection, &cq));
    int result = rpma_cq_get_wc(cq, 1, &wc, NULL);
    while (result == RPMA_E_NO_COMPLETION) {
        MUST(rpma_cq_wait(cq));
        result = rpma_cq_get_wc(cq, 1, &wc, NULL);
    }
    MUST(result);
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "a request ended with %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
}

static void serve(struct rpma_peer *peer, const char *address, const char *port) {
    unsigned char *memory = aligned_alloc(4096, BYTES);
    for (size_t i = 0; i < BYTES; i++) memory[i] = pattern(i, 0);
    struct rpma_mr_local *mr;
    MUST(rpma_mr_reg(peer, memory, BYTES, RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr));
    unsigned char descriptor[256];
    size_t length;
    MUST(rpma_mr_get_descriptor_size(mr, &length));
    if (length > sizeof descriptor) fail("the descriptor is long", 0);
    MUST(rpma_mr_get_descriptor(mr, descriptor));
    struct rpma_ep *endpoint;
    MUST(rpma_ep_listen(peer, address, port, &endpoint));
    puts("listening");
    fflush(stdout);
    struct rpma_conn_req *request;
    struct rpma_conn *connection;
    struct rpma_conn_private_data data = {.ptr = descriptor, .len = (uint8_t)length};
    MUST(rpma_ep_next_conn_req(endpoint, NULL, &request));
    MUST(rpma_conn_req_connect(&request, &data, &connection));
    await(connection, RPMA_CONN_ESTABLISHED);
    await(connection, RPMA_CONN_CLOSED);
    for (size_t i = 8; i < BYTES; i++)
        if (memory[i] != pattern(i, WRITES)) fail("what the client wrote is not here", 0);
    if (memcmp(memory, "8 bytes.", 8) != 0) fail("the atomic write is not here", 0);
    rpma_conn_disconnect(connection);
    MUST(rpma_conn_delete(&connection));
    MUST(rpma_ep_shutdown(&endpoint));
    MUST(rpma_mr_dereg(&mr));
}

static void use(struct rpma_peer *peer, const char *address, const char *port) {
    unsigned char *memory = aligned_alloc(4096, BYTES);
    memset(memory, 0, BYTES);
    struct rpma_mr_local *mr;
    MUST(rpma_mr_reg(peer, memory, BYTES, RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC, &mr));
    struct rpma_conn_req *request;
    struct rpma_conn *connection;
    MUST(rpma_conn_req_new(peer, address, port, NULL, &request));
    MUST(rpma_conn_req_connect(&request, NULL, &connection));
    await(connection, RPMA_CONN_ESTABLISHED);
    struct rpma_conn_private_data data;
    struct rpma_mr_remote *remote;
    MUST(rpma_conn_get_private_data(connection, &data));
    MUST(rpma_mr_remote_from_descriptor(data.ptr, data.len, &remote));

    MUST(rpma_read(connection, mr, 0, remote, 0, BYTES, RPMA_F_COMPLETION_ALWAYS, NULL));
    completed(connection);
    for (size_t i = 0; i < BYTES; i++)
        if (memory[i] != pattern(i, 0)) fail("what was read is not what is there", 0);
    for (unsigned round = 1; round <= WRITES; round++) {
        for (size_t i = 0; i < BYTES; i++) memory[i] = pattern(i, round);
        MUST(rpma_write(connection, remote, 0, mr, 0, BYTES, RPMA_F_COMPLETION_ON_ERROR, NULL));
        /* A flush is a read behind the writes: when it is done, they are. */
        MUST(rpma_flush(connection, remote, 0, BYTES, RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS, NULL));
        completed(connection);
    }
    MUST(rpma_atomic_write(connection, remote, 0, "8 bytes.", RPMA_F_COMPLETION_ALWAYS, NULL));
    completed(connection);
    MUST(rpma_conn_disconnect(connection));
    await(connection, RPMA_CONN_CLOSED);
    MUST(rpma_mr_remote_delete(&remote));
    MUST(rpma_conn_delete(&connection));
    MUST(rpma_mr_dereg(&mr));
}

int main(int argc, char **argv) {
    if (argc != 4) return fprintf(stderr, "rpma server|client ADDRESS PORT\n"), 2;
    int is_server = strcmp(argv[1], "server") == 0;
    struct ibv_context *context;
    struct rpma_peer *peer;
    MUST(rpma_utils_get_ibv_context(argv[2], is_server ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE, &context));
    MUST(rpma_peer_new(context, &peer));
    (is_server ? serve : use)(peer, argv[2], argv[3]);
    MUST(rpma_peer_delete(&peer));
    puts("all well");
    return 0;
}
