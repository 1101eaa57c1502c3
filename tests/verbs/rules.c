/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Errors, completion codes, flushing, forks and many queue pairs, as the manual pages have them.
 * Compiles as C and as C++; two devices of one process, or (with "dies", "reasons" or "still") two
 * processes.
 */
#include "sides.h"
#include <sys/prctl.h>

static void connect(struct side *a, struct side *b, int rnr)
{
    connect_so(a, b, 14, 7, rnr);
}

static void attributes(struct side *s)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;
    struct ibv_send_wr wr, *bad;
    CHECK(!reset(s->qp));
    CHECK(to_rtr(s->qp, 1) == EINVAL);
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_INIT;
    a.port_num = 2;
    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == EINVAL);
    CHECK(ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX) == EINVAL);
    CHECK(!to_init(s->qp));
    CHECK(!ibv_query_qp(s->qp, &a, IBV_QP_STATE, &init) && a.qp_state == IBV_QPS_INIT && init.cap.max_send_wr == 16);
    memset(&wr, 0, sizeof wr);
    CHECK(ibv_post_send(s->qp, &wr, &bad) == EINVAL && bad == &wr);
    for (int i = 0; i < 16; i++)
        CHECK(!receive(s, 8, 1));
    CHECK(receive(s, 8, 1) == ENOMEM);
    CHECK(ibv_reg_mr(s->pd, s->memory, BYTES, IBV_ACCESS_REMOTE_WRITE) == NULL && errno == EINVAL);
    void *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(ibv_reg_mr(s->pd, hole, 4096, IBV_ACCESS_LOCAL_WRITE) == NULL && errno == EFAULT);
    CHECK(ibv_dealloc_pd(s->pd) == EBUSY && ibv_destroy_cq(s->cq) == EBUSY);
    CHECK(ibv_create_cq(s->context, 0, NULL, NULL, 0) == NULL && errno == EINVAL);
    union ibv_gid gid;
    CHECK(ibv_query_gid(s->context, 1, 7, &gid) == -1);
    CHECK(reset(s->qp) == 0);
}

/* A request fails with `mine`, the other side sees `theirs` (or nothing), both queue pairs are in the error state, and what is posted is flushed. */
static void fails(struct side *a, struct side *b, int outcome, enum ibv_wc_status mine, int other, enum ibv_wc_status theirs)
{
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    CHECK(outcome == 0);
    struct ibv_wc wc = next(a);
    CHECK(wc.status == mine && wc.wr_id == 1);
    if (wc.status != mine)
        fprintf(stderr, "  %s instead of %s\n", ibv_wc_status_str(wc.status), ibv_wc_status_str(mine));
    CHECK(!ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_ERR);
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 2));
    wc = next(a);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 2);
    CHECK(!receive(a, 8, 3));
    wc = next(a);
    CHECK(wc.status == IBV_WC_WR_FLUSH_ERR && wc.wr_id == 3);
    if (other) {
        wc = next(b);
        CHECK(wc.status == theirs);
    }
}

static void codes(struct side *a, struct side *b)
{
    uint64_t there = (uintptr_t)b->memory;
    uint32_t key = b->mr->rkey;
    for (int again = 0; again < 2; again++) {
        /* The second time by what was granted in between, if anything is. */
        connect(a, b, 7);
        for (int i = 0; again && i < 200; i++) {
            CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, there, key, 1));
            CHECK(next(a).status == IBV_WC_SUCCESS);
        }
        fails(a, b, post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, there + BYTES - 4, key, 1), IBV_WC_REM_ACCESS_ERR, 0, IBV_WC_SUCCESS);
        connect(a, b, 7);
        fails(a, b, post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, there, key + 1, 1), IBV_WC_REM_ACCESS_ERR, 0, IBV_WC_SUCCESS);
        connect(a, b, 7);
        fails(a, b, post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, there - 1, key, 1), IBV_WC_REM_ACCESS_ERR, 0, IBV_WC_SUCCESS);
        connect(a, b, 7);
        fails(a, b, post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, a->mr->lkey, there + 4, key, 1), IBV_WC_REM_INV_REQ_ERR, 0, IBV_WC_SUCCESS);
    }
    connect(a, b, 7);
    fails(a, b, post(a, IBV_WR_SEND, 8, a->mr->lkey + 1, 0, 0, 1), IBV_WC_LOC_PROT_ERR, 0, IBV_WC_SUCCESS);
    connect(a, b, 7);
    CHECK(!receive(b, 4, 9));
    fails(a, b, post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1), IBV_WC_REM_INV_REQ_ERR, 1, IBV_WC_LOC_LEN_ERR);
    connect(a, b, 2);
    fails(a, b, post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1), IBV_WC_RNR_RETRY_EXC_ERR, 0, IBV_WC_SUCCESS);
    /* A receive that comes late, but not too late. */
    connect(a, b, 7);
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
    usleep(20000);
    CHECK(!receive(b, 8, 9));
    CHECK(next(b).status == IBV_WC_SUCCESS && next(a).status == IBV_WC_SUCCESS);
    /* Memory of another protection domain. */
    struct ibv_pd *pd = ibv_alloc_pd(b->context);
    struct ibv_mr *mr = ibv_reg_mr(pd, b->memory, BYTES, ALL);
    MUST(pd && mr);
    fails(a, b, post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, there, mr->rkey, 1), IBV_WC_REM_ACCESS_ERR, 0, IBV_WC_SUCCESS);
    CHECK(!ibv_dereg_mr(mr) && !ibv_dealloc_pd(pd));
    /* A queue pair that is not there. */
    connect(a, b, 7);
    CHECK(!reset(b->qp));
    double began = now();
    fails(a, b, post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1), IBV_WC_RETRY_EXC_ERR, 0, IBV_WC_SUCCESS);
    CHECK(now() - began > 0.4);
}

/* What is sent inline is kept until there is a receive, whatever becomes of the memory; oftener than a queue has places. */
static void kept(struct side *a, struct side *b)
{
    connect(a, b, 7);
    for (uint64_t i = 0; i < 50; i++) {
        uint64_t value = 1000 + i;
        struct ibv_sge sge = {(uintptr_t)&value, 8, 0};
        struct ibv_send_wr wr, *bad;
        struct ibv_wc wc;
        memset(&wr, 0, sizeof wr);
        wr.wr_id = i;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.opcode = i % 3 ? IBV_WR_SEND : IBV_WR_SEND_WITH_IMM;
        wr.imm_data = (uint32_t)i;
        wr.send_flags = IBV_SEND_SIGNALED | (i % 5 ? IBV_SEND_INLINE : 0);
        if (!(wr.send_flags & IBV_SEND_INLINE)) {
            memcpy(a->memory, &value, 8);
            sge.addr = (uintptr_t)a->memory;
            sge.lkey = a->mr->lkey;
        }
        CHECK(!ibv_post_send(a->qp, &wr, &bad));
        value = 0;
        /* It finds no receive, and is refused. */
        for (int n = 0; n < 20; n++)
            CHECK(ibv_poll_cq(b->cq, 1, &wc) == 0 && ibv_poll_cq(a->cq, 1, &wc) == 0);
        CHECK(!receive(b, 8, i));
        wc = next(b);
        memcpy(&value, b->memory + BYTES / 2, 8);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i && wc.byte_len == 8 && value == 1000 + i);
        CHECK(i % 3 ? !(wc.wc_flags & IBV_WC_WITH_IMM) : wc.wc_flags & IBV_WC_WITH_IMM && wc.imm_data == i);
        wc = next(a);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == i && wc.opcode == IBV_WC_SEND);
    }
}

/* Memory that was registered belongs to the parent and the child apart after a fork, and the parent's goes on being reached. */
static void forks(struct side *a, struct side *b)
{
    connect(a, b, 7);
    strcpy(b->memory, "before");
    pid_t child = fork();
    if (child == 0) {
        strcpy(b->memory, "child's");
        usleep(50000);
        _exit(strcmp(b->memory, "child's") != 0);
    }
    strcpy(a->memory, "parent");
    for (int i = 0; i < 1000; i++) {
        CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, (uintptr_t)b->memory, b->mr->rkey, 1));
        CHECK(next(a).status == IBV_WC_SUCCESS);
    }
    CHECK(!strcmp(b->memory, "parent"));
    int status = 1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(!strcmp(b->memory, "parent"));
}

static void thousand(struct side *a, struct side *b)
{
    enum { N = 1000 };
    static struct ibv_qp *here[N], *there[N];
    struct ibv_qp *own = a->qp, *other = b->qp;
    for (int i = 0; i < N; i++) {
        MUST((here[i] = create(a, IBV_QPT_RC)) && (there[i] = create(b, IBV_QPT_RC)));
        a->qp = here[i];
        b->qp = there[i];
        connect(a, b, 7);
        CHECK(!receive(b, 8, (uint64_t)i));
    }
    for (int i = 0; i < N; i++) {
        a->qp = here[i];
        CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, (uint64_t)i));
    }
    long sum = 0;
    for (int i = 0; i < N; i++) {
        struct ibv_wc wc = next(b);
        CHECK(wc.status == IBV_WC_SUCCESS);
        sum += (long)wc.wr_id;
        CHECK(next(a).status == IBV_WC_SUCCESS);
    }
    CHECK(sum == (long)N * (N - 1) / 2);
    for (int i = 0; i < N; i++)
        CHECK(!ibv_destroy_qp(here[i]) && !ibv_destroy_qp(there[i]));
    a->qp = own;
    b->qp = other;
}

/* kill -9 of a process: the other's queue pair fails within the time that it asked for. */
static void dies(void)
{
    int to_parent[2];
    uint32_t word = 0;
    struct side s;
    pid_t child = two_processes(&s, NULL, 14, to_parent);
    if (!child) {
        next(&s);
        MUST(write(to_parent[1], &word, 4) == 4);
        for (;;)
            pause();
    }
    CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 1));
    CHECK(next(&s).status == IBV_WC_SUCCESS);
    MUST(read(to_parent[0], &word, 4) == 4);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    double began = now();
    CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 5));
    struct ibv_wc wc = next(&s);
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == 5);
    /* 67 ms, seven times: 0.47 s; and what a busy machine takes. */
    CHECK(now() - began < 10);
    for (int i = 0; i < 16; i++)
        CHECK(next(&s).status == IBV_WC_WR_FLUSH_ERR);
}

/* Values of vendor_err, as bellwire-verbs(7) has them. */
enum { PEER_DIED = 1, NOBODY_THERE = 9, NO_QUEUE_PAIR = 14 };

/* A request fails since the peer does not answer, for this reason; so is the rest flushed. */
static void unanswered(struct side *s, uint64_t id, uint32_t reason)
{
    struct ibv_wc wc = next(s);
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == id);
    for (int i = 0; i <= 16; i++) {
        if (wc.vendor_err != reason) {
            failures++;
            fprintf(stderr, "FAILED: vendor_err is %u, not %u (status %d)\n", wc.vendor_err, reason, (int)wc.status);
        }
        if (i < 16) {
            wc = next(s);
            CHECK(wc.status == IBV_WC_WR_FLUSH_ERR);
        }
    }
}

/*
 * A queue pair whose peer was killed says so, whether its request was posted before that was
 * noticed, or after. One whose peer never was says that, too.
 */
static void reasons(void)
{
    int to_parent[2], status;
    struct side s;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    pid_t child = two_processes(&s, NULL, 8, to_parent);
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        struct ibv_wc wc;
        next(&s);
        /* A receiver that looks once more answers. */
        MUST(ibv_poll_cq(s.cq, 1, &wc) == 0);
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    MUST(!ibv_query_qp(s.qp, &attr, IBV_QP_DEST_QPN, &init));
    uint32_t peer = attr.dest_qp_num;
    CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 1));
    CHECK(next(&s).status == IBV_WC_SUCCESS);
    MUST(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    /* It is posted to a process that is stopped, and then killed. */
    CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 2));
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    unanswered(&s, 2, PEER_DIED);
    /* So it was noticed: by another queue pair, and by the same one, begun anew. */
    struct ibv_qp *first = s.qp;
    MUST((s.qp = create(&s, IBV_QPT_RC)) && !reset(first));
    for (int i = 0; i < 2; i++) {
        MUST(!to_init(s.qp));
        for (int n = 0; n < 16; n++)
            MUST(!receive(&s, 8, 7));
        MUST(!to_rtr(s.qp, peer) && !to_rts(s.qp, 8, 6, 7));
        CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 3));
        unanswered(&s, 3, PEER_DIED);
        s.qp = first;
    }
    /* Nobody ever was at another place; and this process has no such queue pair. */
    uint32_t nobody = s.qp->qp_num ^ (s.qp->qp_num >> 13 == 1 ? 2u << 13 : 1u << 13);
    uint32_t numbers[2] = {nobody, (s.qp->qp_num & ~8191u) + 77}, wanted[2] = {NOBODY_THERE, NO_QUEUE_PAIR};
    for (int i = 0; i < 2; i++) {
        MUST(!reset(s.qp) && !to_init(s.qp));
        for (int n = 0; n < 16; n++)
            MUST(!receive(&s, 8, 7));
        MUST(!to_rtr(s.qp, numbers[i]) && !to_rts(s.qp, 8, 6, 7));
        CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 4));
        unanswered(&s, 4, wanted[i]);
    }
}

/* A process that gets no processor when it is first written to, for longer than the queue pair waits for answers: it is there, and is waited for. */
static void stands_still(void)
{
    int to_parent[2], status;
    struct side s;
    pid_t child = two_processes(&s, NULL, 14, to_parent);
    if (!child) {
        /* A parent that fails must not leave it behind, stopped. */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        raise(SIGSTOP);
        for (;;)
            pause();
    }
    MUST(waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
    CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 1));
    struct ibv_wc wc;
    for (double end = now() + 1.5; now() < end;)
        CHECK(ibv_poll_cq(s.cq, 1, &wc) == 0);
    kill(child, SIGCONT);
    CHECK(next(&s).status == IBV_WC_SUCCESS);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "dies")) {
        dies();
    } else if (argc > 1 && !strcmp(argv[1], "reasons")) {
        reasons();
    } else if (argc > 1 && !strcmp(argv[1], "still")) {
        stands_still();
    } else {
        struct side a, b;
        CHECK(!ibv_fork_init());
        open_side(&a, device());
        open_side(&b, device());
        attributes(&a);
        codes(&a, &b);
        kept(&a, &b);
        forks(&a, &b);
        thousand(&a, &b);
        CHECK(!ibv_destroy_qp(a.qp) && !ibv_dereg_mr(a.mr) && !ibv_destroy_cq(a.cq) && !ibv_dealloc_pd(a.pd) && !ibv_close_device(a.context));
    }
    printf("%d failures\n", failures);
    return failures != 0;
}
