/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Programs that rely on how soon a device acts: it reads a datagram as it is posted, and answers
   requests that have come before their queue pair ends. Compiles as C and as C++. */
#include "sides.h"

enum { DATAGRAMS = 16, LENGTH = 1000, ROUTE = 40 };

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

/* The first datagrams to a process wait for a connection. UCX writes the next one into the same
   memory before it has seen their completions. */
static void datagrams(struct side *a, struct side *b)
{
    MUST((a->qp = create(a, IBV_QPT_UD)) && (b->qp = create(b, IBV_QPT_UD)));
    to_ready(a->qp);
    to_ready(b->qp);
    for (int i = 0; i < DATAGRAMS; i++) {
        struct ibv_sge into = {(uintptr_t)b->memory + (unsigned)i * 2048, ROUTE + LENGTH, b->mr->lkey};
        struct ibv_recv_wr take, *refused;
        memset(&take, 0, sizeof take);
        take.wr_id = (uint64_t)i;
        take.sg_list = &into;
        take.num_sge = 1;
        MUST(!ibv_post_recv(b->qp, &take, &refused));
    }
    struct ibv_ah_attr route;
    memset(&route, 0, sizeof route);
    route.port_num = 1;
    route.is_global = 1;
    MUST(!ibv_query_gid(b->context, 1, 0, &route.grh.dgid));
    struct ibv_ah *ah = ibv_create_ah(a->pd, &route);
    MUST(ah);
    struct ibv_sge sge = {(uintptr_t)a->memory, LENGTH, a->mr->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = b->qp->qp_num;
    wr.wr.ud.remote_qkey = 0x111;
    for (int i = 0; i < DATAGRAMS; i++) {
        memset(a->memory, 'a' + i, LENGTH);
        wr.wr_id = (uint64_t)i;
        MUST(!ibv_post_send(a->qp, &wr, &bad));
    }
    memset(a->memory, 0, LENGTH);
    for (int i = 0; i < DATAGRAMS; i++) {
        struct ibv_wc wc = next(b);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == (uint64_t)i && wc.byte_len == ROUTE + LENGTH);
        const char *data = b->memory + (unsigned)i * 2048 + ROUTE;
        CHECK(data[0] == 'a' + i && data[LENGTH - 1] == 'a' + i);
        CHECK(next(a).status == IBV_WC_SUCCESS);
    }
    CHECK(!ibv_destroy_ah(ah) && !ibv_destroy_qp(a->qp) && !ibv_destroy_qp(b->qp));
}

/* Messages that have come complete at both ends, though the receiver ends its queue pair or has it
   fail without having looked. */
static void farewells(struct side *a, struct side *b)
{
    for (int round = 0; round < 50; round++) {
        MUST((a->qp = create(a, IBV_QPT_RC)) && (b->qp = create(b, IBV_QPT_RC)));
        connect_so(a, b, 8, 1, 1);
        CHECK(!receive(b, 64, 1) && !receive(b, 64, 2));
        CHECK(!post(a, IBV_WR_SEND, 64, a->mr->lkey, 0, 0, 3));
        if (round == 0)
            ends_well(a, 3, IBV_WC_SEND);
        CHECK(!post(a, IBV_WR_SEND, 64, a->mr->lkey, 0, 0, 4));
        struct ibv_qp_attr failed;
        memset(&failed, 0, sizeof failed);
        failed.qp_state = IBV_QPS_ERR;
        int fails = round % 2;
        if (fails) {
            MUST(!ibv_modify_qp(b->qp, &failed, IBV_QP_STATE));
            ends_well(b, 1, IBV_WC_RECV);
            ends_well(b, 2, IBV_WC_RECV);
        }
        /* The sender, too, has its answer when it gives up. */
        if (fails && round % 4 == 1)
            MUST(!ibv_modify_qp(a->qp, &failed, IBV_QP_STATE));
        CHECK(!ibv_destroy_qp(b->qp));
        if (round != 0)
            ends_well(a, 3, IBV_WC_SEND);
        ends_well(a, 4, IBV_WC_SEND);
        CHECK(!ibv_destroy_qp(a->qp));
    }
}

/* Calls of write by this process so far; -1: the kernel does not count. */
static long writes(void)
{
    long n = -1;
    char line[64];
    FILE *io = fopen("/proc/self/io", "r");
    while (io && fgets(line, sizeof line, io))
        sscanf(line, "syscw: %ld", &n);
    if (io)
        fclose(io);
    return n;
}

/* A completion queue that stays armed (UCX has such) does not have the peer ring for each message
   to a program that polls another one. Between two processes: quick rounds, in which both run at
   the same time, show it; beside other programs there may be none. */
static void armed_for_ever(void)
{
    enum { MESSAGES = 500, RINGS_MAX = MESSAGES / 4, QUICK_MAX = 200, SECONDS = 20 };
    int pipes[2][2];
    struct side s;
    MUST(!pipe(pipes[0]) && !pipe(pipes[1]));
    pid_t child = fork();
    MUST(child >= 0);
    int is_child = child == 0, other;
    alarm(3 * SECONDS);
    open_side(&s, device());
    int own = (int)s.qp->qp_num;
    MUST(write(pipes[is_child][1], &own, sizeof own) == sizeof own && read(pipes[!is_child][0], &other, sizeof other) == sizeof other);
    MUST(!to_init(s.qp) && !to_rtr(s.qp, (uint32_t)other) && !to_rts(s.qp, 20, 7, 7) && !receive(&s, 8, 2));
    struct ibv_comp_channel *channel = ibv_create_comp_channel(s.context);
    struct ibv_cq *silent = ibv_create_cq(s.context, 16, NULL, channel, 0);
    MUST(channel && silent && !ibv_req_notify_cq(silent, 0));
    /* Nobody polls: the bell is armed for the helper thread. Then both receive before one sends. */
    usleep(50000);
    MUST(write(pipes[is_child][1], &own, sizeof own) == sizeof own && read(pipes[!is_child][0], &other, sizeof other) == sizeof other);
    long rings = MESSAGES;
    int quick = 0;
    double end = now() + SECONDS;
    for (int is_over = 0; !is_over;) {
        long before = writes();
        double began = now();
        for (int i = 0; i < MESSAGES; i++) {
            int wanted = 2;
            struct ibv_wc wc;
            if (!is_child) {
                s.memory[0] = (char)(i == 0 && (before < 0 || rings <= RINGS_MAX || quick == QUICK_MAX || began > end));
                is_over |= s.memory[0];
                MUST(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 1));
            }
            while (wanted) {
                int n = ibv_poll_cq(s.cq, 1, &wc);
                MUST(n >= 0 && (n == 0 || wc.status == IBV_WC_SUCCESS));
                wanted -= n;
                if (n && wc.opcode == IBV_WC_RECV) {
                    is_over |= is_child && s.memory[BYTES / 2];
                    MUST(!receive(&s, 8, 2));
                    MUST(!is_child || !post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 1));
                }
            }
        }
        long written = writes() - before;
        rings = written < rings ? written : rings;
        quick += now() - began < 0.02;
    }
    if (is_child)
        exit(0);
    int status;
    CHECK(rings <= RINGS_MAX || quick < QUICK_MAX);
    if (rings > RINGS_MAX && quick < QUICK_MAX)
        printf("SKIPPED a queue that stays armed: the machine is too busy, or does not count\n");
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    alarm(0);
}

int main(void)
{
    /* Between hosts there is no bell. */
    if (!getenv("BELLWIRE_SHM"))
        armed_for_ever();
    struct side a, b;
    open_side(&a, device());
    open_side(&b, device());
    CHECK(!ibv_destroy_qp(a.qp) && !ibv_destroy_qp(b.qp));
    datagrams(&a, &b);
    farewells(&a, &b);
    printf("%d failures\n", failures);
    return failures != 0;
}
