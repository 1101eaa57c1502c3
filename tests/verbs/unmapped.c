/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that unmaps memory which it has registered, and does not look any more: its peer's
   requests end, and the program goes on. (On a device the pages stay. UCX frees the receives of
   its datagrams so, keeps them registered in its cache, and then destroys the queue pair.) This
   compiles as C and as C++. */
#include "sides.h"

enum { LENGTH = 1000, ROUNDS = 5 };
struct told {
    uint32_t qp, datagrams, rkey;
    uint64_t address;
};

static void give(int fd, const void *what, size_t bytes) { MUST(write(fd, what, bytes) == (ssize_t)bytes); }
static void take(int fd, void *what, size_t bytes) { MUST(read(fd, what, bytes) == (ssize_t)bytes); }

static void to_ready(struct ibv_qp *qp)
{
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = 0x111;
    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    attr.qp_state = IBV_QPS_RTR;
    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    attr.qp_state = IBV_QPS_RTS;
    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void post_receive(struct side *s, struct ibv_qp *qp)
{
    struct ibv_sge into = {(uintptr_t)s->memory, 2048, s->mr->lkey};
    struct ibv_recv_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &into;
    wr.num_sge = 1;
    MUST(!ibv_post_recv(qp, &wr, &bad));
}

/* Connects one side; the other does the same. */
static void connect_to(struct ibv_qp *qp, uint32_t peer)
{
    MUST(!to_init(qp));
    MUST(!to_rtr(qp, peer));
    MUST(!to_rts(qp, 14, 7, 7));
}

static enum ibv_wc_status outcome(struct side *s)
{
    struct ibv_wc wc;
    double end = now() + 60;
    while (ibv_poll_cq(s->cq, 1, &wc) == 0) MUST(now() < end);
    return wc.status;
}

/* First each operation is by a new queue pair, to memory that is not there; then its queue pair
   ends meanwhile. */
static void receiver(int from, int to)
{
    struct side s;
    open_side(&s, device());
    for (int i = 0; i < 2 * ROUNDS; i++) {
        char go;
        if (i != 0) {
            MUST((s.memory = (char *)mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)) != MAP_FAILED);
            MUST(s.mr = ibv_reg_mr(s.pd, s.memory, BYTES, ALL));
            MUST(s.qp = create(&s, IBV_QPT_RC));
        }
        struct ibv_qp *datagrams = create(&s, IBV_QPT_UD);
        MUST(datagrams);
        to_ready(datagrams);
        struct told mine = {s.qp->qp_num, datagrams->qp_num, s.mr->rkey, (uintptr_t)s.memory}, theirs;
        give(to, &mine, sizeof mine);
        take(from, &theirs, sizeof theirs);
        connect_to(s.qp, theirs.qp);
        for (int n = 0; n < 8; n++) {
            post_receive(&s, s.qp);
            post_receive(&s, datagrams);
        }
        /* Gone, and nothing else comes there. */
        MUST(mmap(s.memory, BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == s.memory);
        give(to, "g", 1);
        /* The peer has an answer, or (second half) has posted. */
        take(from, &go, 1);
        CHECK(ibv_destroy_qp(datagrams) == 0);
        CHECK(ibv_destroy_qp(s.qp) == 0);
        CHECK(ibv_dereg_mr(s.mr) == 0);
        give(to, "e", 1);
        struct ibv_wc wc;
        while (ibv_poll_cq(s.cq, 1, &wc) > 0) {}
    }
}

static void sender(int from, int to, int is_kept)
{
    static const enum ibv_wr_opcode OPERATIONS[ROUNDS] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND};
    struct side s;
    open_side(&s, device());
    for (int i = 0; i < 2 * ROUNDS; i++) {
        char go;
        int which = i % ROUNDS, waits = i < ROUNDS;
        struct told theirs;
        take(from, &theirs, sizeof theirs);
        int by_datagram = which == ROUNDS - 1;
        if (i != 0) MUST(s.qp = create(&s, IBV_QPT_RC));
        struct told mine = {s.qp->qp_num, 0, 0, 0};
        give(to, &mine, sizeof mine);
        connect_to(s.qp, theirs.qp);
        take(from, &go, 1);
        if (by_datagram) {
            struct ibv_qp *qp = create(&s, IBV_QPT_UD);
            MUST(qp);
            to_ready(qp);
            struct ibv_ah_attr route;
            memset(&route, 0, sizeof route);
            route.port_num = 1;
            route.is_global = 1;
            MUST(!ibv_query_gid(s.context, 1, 0, &route.grh.dgid));
            struct ibv_ah *ah = ibv_create_ah(s.pd, &route);
            MUST(ah);
            struct ibv_sge sge = {(uintptr_t)s.memory, LENGTH, s.mr->lkey};
            struct ibv_send_wr wr, *bad;
            memset(&wr, 0, sizeof wr);
            wr.sg_list = &sge;
            wr.num_sge = 1;
            wr.opcode = IBV_WR_SEND;
            wr.send_flags = IBV_SEND_SIGNALED;
            wr.wr.ud.ah = ah;
            wr.wr.ud.remote_qpn = theirs.datagrams;
            wr.wr.ud.remote_qkey = 0x111;
            for (int n = 0; n < 4; n++) MUST(!ibv_post_send(qp, &wr, &bad));
            for (int n = 0; n < 4; n++) CHECK(outcome(&s) == IBV_WC_SUCCESS);
            /* A connected message behind them: its answer says that they were taken. */
            if (waits) {
                MUST(!post(&s, IBV_WR_SEND, 0, s.mr->lkey, 0, 0, 1));
                CHECK(outcome(&s) == IBV_WC_SUCCESS);
            }
            CHECK(ibv_destroy_ah(ah) == 0);
            CHECK(ibv_destroy_qp(qp) == 0);
        } else {
            int bytes = OPERATIONS[which] == IBV_WR_ATOMIC_FETCH_AND_ADD ? 8 : LENGTH;
            MUST(!post(&s, OPERATIONS[which], (uint32_t)bytes, s.mr->lkey, theirs.address, theirs.rkey, 1));
            if (waits) {
                enum ibv_wc_status status = outcome(&s);
                int is_refused = status == IBV_WC_REM_OP_ERR || status == IBV_WC_REM_ACCESS_ERR;
                if (!(is_refused || (is_kept && status == IBV_WC_SUCCESS))) {
                    failures++;
                    fprintf(stderr, "FAILED operation %d: status %d\n", which, status);
                }
            }
        }
        give(to, "d", 1);
        take(from, &go, 1);
        /* A request that was out when the peer's queue pair ended has an outcome, too. */
        if (!waits && !by_datagram) (void)outcome(&s);
        CHECK(ibv_destroy_qp(s.qp) == 0);
    }
}

/* unmapped [kept]: memory may have been adopted, whose pages stay. */
int main(int argc, char **argv)
{
    int is_kept = argc > 1 && strcmp(argv[1], "kept") == 0, down[2], up[2], status;
    MUST(pipe(down) == 0 && pipe(up) == 0);
    pid_t child = fork();
    MUST(child >= 0);
    if (child == 0) {
        sender(down[0], up[1], is_kept);
        return failures != 0;
    }
    receiver(up[0], down[1]);
    MUST(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    printf("%d failures\n", failures);
    return failures != 0;
}
