/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* All operations of UCP between two processes that connect by a socket address, which over RDMA is
   rdma_cm: tagged messages, streams, active messages, put, get, atomics. Every byte is checked.
     operations PORT          serves one client
     operations PORT HOST     is the client */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucp/api/ucp.h>

enum { MOST = 1 << 20, WORDS_AT = MOST, BYTES = MOST + 64 };
static const size_t sizes[] = {1, 8, 1000, 5000, 70000, MOST};
static ucp_worker_h worker;
static ucp_ep_h ep;
static ucp_conn_request_h asked;
static unsigned char *data, *window, *am_data;
static void *am_waits;
static size_t am_bytes;
static int am_has_come, has_failed;

#define MUST(what) \
    do { \
        if (!(what)) { \
            fprintf(stderr, "line %d: %s\n", __LINE__, #what); \
            exit(1); \
        } \
    } while (0)

static void waited(ucs_status_ptr_t request) {
    ucs_status_t status = UCS_PTR_IS_PTR(request) ? UCS_INPROGRESS : UCS_PTR_STATUS(request);
    while (status == UCS_INPROGRESS && !has_failed) {
        ucp_worker_progress(worker);
        status = ucp_request_check_status(request);
    }
    if (UCS_PTR_IS_PTR(request))
        ucp_request_free(request);
    if (status != UCS_OK)
        fprintf(stderr, "%s\n", ucs_status_string(status));
    /* Its end and that of the connection may come in one look. */
    MUST(status == UCS_OK);
}
static void failed(void *arg, ucp_ep_h which, ucs_status_t status) {
    (void)arg, (void)which;
    fprintf(stderr, "the connection ended: %s\n", ucs_status_string(status));
    has_failed = 1;
}
static void on_request(ucp_conn_request_h request, void *arg) {
    (void)arg;
    asked = request;
}
static const ucp_request_param_t none;
static void fill(size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        data[i] = (unsigned char)(i * 7 + i / 251 + (size_t)seed);
}
static void holds(const unsigned char *at, size_t n, int seed) {
    for (size_t i = 0; i < n; i++)
        MUST(at[i] == (unsigned char)(i * 7 + i / 251 + (size_t)seed));
}

static ucs_status_t on_am(void *arg, const void *header, size_t header_length, void *bytes, size_t length, const ucp_am_recv_param_t *param) {
    (void)arg, (void)header, (void)header_length;
    MUST(length <= MOST);
    am_bytes = length;
    am_has_come = 1;
    if (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) {
        /* Received by the loop below: waiting is not allowed here. */
        am_waits = bytes;
        return UCS_INPROGRESS;
    }
    memcpy(am_data, bytes, length);
    return UCS_OK;
}

static void tag_send(size_t n) { waited(ucp_tag_send_nbx(ep, data, n, 5, &none)); }
static void tag_receive(size_t n) { waited(ucp_tag_recv_nbx(worker, data, n, 5, ~(ucp_tag_t)0, &none)); }
static void stream_send(size_t n) { waited(ucp_stream_send_nbx(ep, data, n, &none)); }
static void stream_receive(size_t n) {
    ucp_request_param_t all = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS, .flags = UCP_STREAM_RECV_FLAG_WAITALL};
    size_t got = n;
    waited(ucp_stream_recv_nbx(ep, data, n, &got, &all));
}
static void am_send(size_t n) { waited(ucp_am_send_nbx(ep, 3, NULL, 0, data, n, &none)); }
static void am_receive(size_t n) {
    while (!am_has_come && !has_failed)
        ucp_worker_progress(worker);
    MUST(am_has_come && am_bytes == n);
    am_has_come = 0;
    if (am_waits)
        waited(ucp_am_recv_data_nbx(worker, am_waits, data, n, &none));
    else
        memcpy(data, am_data, n);
    am_waits = NULL;
}
static void there_and_back(int serves, const char *what, void (*send)(size_t), void (*receive)(size_t)) {
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        size_t n = sizes[i];
        if (!serves) {
            fill(n, (int)i);
            send(n);
        }
        memset(data, 0xee, serves ? n : 0);
        receive(n);
        holds(data, n, (int)i + !serves);
        if (serves) {
            fill(n, (int)i + 1);
            send(n);
        }
    }
    printf("%s\n", what);
}

static uint64_t word(int at) {
    uint64_t w;
    memcpy(&w, window + WORDS_AT + 8 * at, 8);
    return w;
}
static void atomic(ucp_rkey_h key, uint64_t base, ucp_atomic_op_t op, size_t width, int at, uint64_t operand, uint64_t *before) {
    ucp_request_param_t p = {.op_attr_mask = UCP_OP_ATTR_FIELD_DATATYPE, .datatype = ucp_dt_make_contig(width)};
    if (before) {
        p.op_attr_mask |= UCP_OP_ATTR_FIELD_REPLY_BUFFER;
        p.reply_buffer = before;
    }
    waited(ucp_atomic_op_nbx(ep, op, &operand, 1, base + WORDS_AT + 8 * (uint64_t)at, key, &p));
}
static void remote_memory(int serves, ucp_context_h context) {
    if (serves) {
        ucp_mem_map_params_t mp = {.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH, .address = window, .length = BYTES};
        ucp_mem_h memory;
        void *packed;
        size_t length;
        uint64_t words[8] = {10, 20, 30, 40, 50, 60, 70, 80};
        memcpy(window + WORDS_AT, words, sizeof words);
        MUST(ucp_mem_map(context, &mp, &memory) == UCS_OK && ucp_rkey_pack(context, memory, &packed, &length) == UCS_OK && length < 1000);
        uint64_t base = (uintptr_t)window;
        memcpy(data, &base, 8);
        memcpy(data + 8, packed, length);
        ucp_rkey_buffer_release(packed);
        tag_send(1008);
        tag_receive(1);
        holds(window, MOST, 77);
        MUST(word(0) == 11 && word(1) == 25 && word(2) == 5 && word(3) == 6 && word(4) == 50 && (uint32_t)word(5) == 67 && word(6) == 70 && word(7) == 80);
        MUST(ucp_mem_unmap(context, memory) == UCS_OK);
    } else {
        ucp_rkey_h key;
        uint64_t base, got, packed[126];
        tag_receive(1008);
        memcpy(&base, data, 8);
        memcpy(packed, data + 8, 1000);
        MUST(ucp_ep_rkey_unpack(ep, packed, &key) == UCS_OK);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            fill(sizes[i], 77);
            waited(ucp_put_nbx(ep, data, sizes[i], base, key, &none));
            waited(ucp_ep_flush_nbx(ep, &none));
            memset(data, 0xee, sizes[i]);
            waited(ucp_get_nbx(ep, data, sizes[i], base, key, &none));
            holds(data, sizes[i], 77);
        }
        printf("put and get\n");
        atomic(key, base, UCP_ATOMIC_OP_ADD, 8, 0, 1, NULL);
        atomic(key, base, UCP_ATOMIC_OP_ADD, 8, 1, 5, &got);
        MUST(got == 20);
        atomic(key, base, UCP_ATOMIC_OP_SWAP, 8, 2, 5, &got);
        MUST(got == 30);
        got = 6; /* what is put there if it holds the operand */
        atomic(key, base, UCP_ATOMIC_OP_CSWAP, 8, 3, 40, &got);
        MUST(got == 40);
        got = 6;
        atomic(key, base, UCP_ATOMIC_OP_CSWAP, 8, 4, 40, &got);
        MUST(got == 50);
        uint64_t half = 0;
        atomic(key, base, UCP_ATOMIC_OP_ADD, 4, 5, 7, &half);
        MUST((uint32_t)half == 60);
        waited(ucp_ep_flush_nbx(ep, &none));
        printf("atomics\n");
        tag_send(1);
        ucp_rkey_destroy(key);
    }
}

int main(int argc, char **argv) {
    MUST(argc > 1);
    int serves = argc == 2;
    ucp_context_h context;
    ucp_config_t *config;
    ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
        .features = UCP_FEATURE_TAG | UCP_FEATURE_STREAM | UCP_FEATURE_AM | UCP_FEATURE_RMA | UCP_FEATURE_AMO32 | UCP_FEATURE_AMO64};
    ucp_worker_params_t single = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE, .thread_mode = UCS_THREAD_MODE_SINGLE};
    MUST(ucp_config_read(NULL, NULL, &config) == UCS_OK && ucp_init(&params, config, &context) == UCS_OK);
    MUST(ucp_worker_create(context, &single, &worker) == UCS_OK);
    MUST((data = malloc(MOST)) && (am_data = malloc(MOST)) && !posix_memalign((void **)&window, 4096, BYTES));
    ucp_am_handler_param_t am = {.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_CB, .id = 3, .cb = on_am};
    MUST(ucp_worker_set_am_recv_handler(worker, &am) == UCS_OK);

    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[1]))};
    ucp_ep_params_t how = {.field_mask = UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
        .err_mode = UCP_ERR_HANDLING_MODE_PEER, .err_handler.cb = failed};
    ucp_listener_h listener = NULL;
    if (serves) {
        ucp_listener_params_t lp = {.field_mask = UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER,
            .sockaddr = {(struct sockaddr *)&at, sizeof at}, .conn_handler.cb = on_request};
        MUST(ucp_listener_create(worker, &lp, &listener) == UCS_OK);
        printf("listening\n");
        fflush(stdout);
        while (!asked)
            ucp_worker_progress(worker);
        how.field_mask |= UCP_EP_PARAM_FIELD_CONN_REQUEST;
        how.conn_request = asked;
    } else {
        MUST(inet_pton(AF_INET, argv[2], &at.sin_addr) == 1);
        how.field_mask |= UCP_EP_PARAM_FIELD_FLAGS | UCP_EP_PARAM_FIELD_SOCK_ADDR;
        how.flags = UCP_EP_PARAMS_FLAGS_CLIENT_SERVER;
        how.sockaddr.addr = (struct sockaddr *)&at;
        how.sockaddr.addrlen = sizeof at;
    }
    MUST(ucp_ep_create(worker, &how, &ep) == UCS_OK);
    there_and_back(serves, "tagged messages", tag_send, tag_receive);
    there_and_back(serves, "streams", stream_send, stream_receive);
    there_and_back(serves, "active messages", am_send, am_receive);
    remote_memory(serves, context);
    /* The last message is taken before either side goes. */
    if (!serves)
        tag_receive(1);
    tag_send(1);
    /* The client's message leaves after the server's has come, and so tells of it. A flush by the
       server would wait for an acknowledgement that, once lost, a client that has gone does not
       send again. */
    if (serves)
        tag_receive(1);
    else
        waited(ucp_ep_flush_nbx(ep, &none));
    printf("operations: all well\n");
    fflush(stdout);
    /* The client is to hear that its last message has come; then it goes, which ends the connection. */
    while (serves && !has_failed)
        ucp_worker_progress(worker);
    _Exit(0);
}
