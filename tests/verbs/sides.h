/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the test programs of this folder have in common: a device with its objects, connecting two, posting, waiting. Compiles as C and as C++. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static int failures;
#define CHECK(what) ((what) ? (void)0 : (void)(failures++, fprintf(stderr, "FAILED line %d: %s\n", __LINE__, #what)))
#define MUST(what) ((what) ? (void)0 : (fprintf(stderr, "FAILED line %d: %s (%s)\n", __LINE__, #what, strerror(errno)), exit(1)))

struct side {
    struct ibv_context *context;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_qp *qp;
    struct ibv_mr *mr;
    char *memory;
};
enum { BYTES = 65536, ALL = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static struct ibv_qp *create(struct side *s, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr a;
    memset(&a, 0, sizeof a);
    a.send_cq = a.recv_cq = s->cq;
    a.cap.max_send_wr = a.cap.max_recv_wr = 16;
    a.cap.max_send_sge = a.cap.max_recv_sge = 4;
    a.qp_type = type;
    return ibv_create_qp(s->pd, &a);
}

static void open_side(struct side *s, struct ibv_context *context)
{
    s->context = context;
    MUST(s->pd = ibv_alloc_pd(context));
    MUST(s->cq = ibv_create_cq(context, 4096, NULL, NULL, 0));
    MUST((s->memory = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
    MUST(s->mr = ibv_reg_mr(s->pd, s->memory, BYTES, ALL));
    MUST(s->qp = create(s, IBV_QPT_RC));
}

static struct ibv_context *device(void)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    MUST(list && n == 1);
    struct ibv_context *c = ibv_open_device(list[0]);
    MUST(c);
    ibv_free_device_list(list);
    return c;
}

static int to_init(struct ibv_qp *qp)
{
    struct ibv_qp_attr a;
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 1;
    a.qp_access_flags = ALL;
    return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
}

static int to_rtr(struct ibv_qp *qp, uint32_t peer)
{
    struct ibv_qp_attr a;
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = peer;
    a.max_dest_rd_atomic = 1;
    a.min_rnr_timer = 1;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    MUST(!ibv_query_gid(qp->context, 1, 0, &a.ah_attr.grh.dgid));
    return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
}

static int to_rts(struct ibv_qp *qp, int timeout, int retries, int rnr)
{
    struct ibv_qp_attr a;
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_RTS;
    a.timeout = (uint8_t)timeout;
    a.retry_cnt = (uint8_t)retries;
    a.rnr_retry = (uint8_t)rnr;
    a.max_rd_atomic = 1;
    return ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC);
}

static int reset(struct ibv_qp *qp)
{
    struct ibv_qp_attr a;
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_RESET;
    return ibv_modify_qp(qp, &a, IBV_QP_STATE);
}

/* Connects two queue pairs anew, with how patient they are. */
static void connect_so(struct side *a, struct side *b, int timeout, int retries, int rnr)
{
    struct side *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        MUST(!reset(both[i]->qp));
        MUST(!to_init(both[i]->qp));
        MUST(!to_rtr(both[i]->qp, both[1 - i]->qp->qp_num));
        MUST(!to_rts(both[i]->qp, timeout, retries, rnr));
    }
}

static inline int post(struct side *s, enum ibv_wr_opcode opcode, uint32_t length, uint32_t lkey, uint64_t remote, uint32_t rkey, uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)s->memory, length, lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
        wr.wr.atomic.remote_addr = remote;
        wr.wr.atomic.rkey = rkey;
        wr.wr.atomic.compare_add = 5;
    } else {
        wr.wr.rdma.remote_addr = remote;
        wr.wr.rdma.rkey = rkey;
    }
    return ibv_post_send(s->qp, &wr, &bad);
}

static int receive(struct side *s, uint32_t length, uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)s->memory + BYTES / 2, length, s->mr->lkey};
    struct ibv_recv_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    return ibv_post_recv(s->qp, &wr, &bad);
}

static struct ibv_wc next(struct side *s)
{
    struct ibv_wc wc;
    double end = now() + 30;
    memset(&wc, 0, sizeof wc);
    while (ibv_poll_cq(s->cq, 1, &wc) == 0) {
        MUST(now() < end);
    }
    return wc;
}

static inline void connect_two(struct side *a, struct side *b)
{
    connect_so(a, b, 14, 7, 7);
}

static inline void ends_well(struct side *s, uint64_t id, enum ibv_wc_opcode opcode)
{
    struct ibv_wc wc = next(s);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == id && wc.opcode == opcode);
}

/* Another queue pair for a side, with a completion queue that tells a new channel. */
static inline struct ibv_comp_channel *listen_anew(struct side *s, void *context)
{
    struct ibv_comp_channel *channel = ibv_create_comp_channel(s->context);
    MUST(channel);
    MUST(s->cq = ibv_create_cq(s->context, 16, context, channel, 0));
    MUST(s->qp = create(s, IBV_QPT_RC));
    return channel;
}

static inline int readable(int fd, int ms)
{
    struct pollfd p = {fd, POLLIN, 0};
    return poll(&p, 1, ms) == 1;
}

static inline enum ibv_event_type event_of(struct side *s, void *element)
{
    struct ibv_async_event e;
    memset(&e, 0xff, sizeof e);
    CHECK(readable(s->context->async_fd, 10000));
    MUST(!ibv_get_async_event(s->context, &e));
    CHECK(e.element.qp == element);
    ibv_ack_async_event(&e);
    return e.event_type;
}

static inline int modify_state(struct side *s, enum ibv_qp_state state)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = state;
    return ibv_modify_qp(s->qp, &attr, IBV_QP_STATE);
}

/*
 * Two processes, each with a side that is connected to the other's and sixteen receives: the child (0), with these faults unless they are NULL, and the parent, which gets the child's number.
 * What the child writes to `to_parent` the parent reads.
 */
static inline pid_t two_processes(struct side *s, const char *faults, int timeout, int to_parent[2])
{
    int to_child[2];
    uint32_t numbers[2];
    MUST(!pipe(to_child) && !pipe(to_parent));
    pid_t child = fork();
    if (!child && faults)
        setenv("BELLWIRE_FAULTS", faults, 1);
    open_side(s, device());
    numbers[0] = s->qp->qp_num;
    MUST(write(child ? to_child[1] : to_parent[1], numbers, 4) == 4 && read(child ? to_parent[0] : to_child[0], numbers + 1, 4) == 4);
    MUST(!to_init(s->qp));
    for (int i = 0; i < 16; i++)
        MUST(!receive(s, 8, 7));
    MUST(!to_rtr(s->qp, numbers[1]) && !to_rts(s->qp, timeout, 6, 7));
    return child;
}
