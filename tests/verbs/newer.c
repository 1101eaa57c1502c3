/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The interfaces that came later: ibv_wr_*, ibv_cq_ex, ibv_query_device_ex, regions with an address of their own. Two devices of one process. Compiles as C and as C++. */
#include "sides.h"

static struct ibv_qp_init_attr_ex newer_qp(struct side *s, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr_ex x;
    memset(&x, 0, sizeof x);
    x.send_cq = x.recv_cq = s->cq;
    x.cap.max_send_wr = x.cap.max_recv_wr = 16;
    x.cap.max_send_sge = x.cap.max_recv_sge = 4;
    x.cap.max_inline_data = 64;
    x.qp_type = type;
    x.pd = s->pd;
    x.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
    x.send_ops_flags = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
    if (type == IBV_QPT_RC)
        x.send_ops_flags |= IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD;
    return x;
}

static void begin(struct ibv_qp_ex *qp, uint64_t id, unsigned flags)
{
    ibv_wr_start(qp);
    qp->wr_id = id;
    qp->wr_flags = flags;
}

/* Requests made by calls. */
static void requests(struct side *a, struct side *b)
{
    struct ibv_qp *own = a->qp;
    struct ibv_qp_init_attr_ex x = newer_qp(a, IBV_QPT_RC);
    MUST(a->qp = ibv_create_qp_ex(a->context, &x));
    struct ibv_qp_ex *q = ibv_qp_to_qp_ex(a->qp);
    MUST(q);
    connect_two(a, b);
    uint64_t here = (uintptr_t)a->memory, there = (uintptr_t)b->memory, word;
    uint32_t lkey = a->mr->lkey, rkey = b->mr->rkey;
    strcpy(a->memory, "written by a call");
    begin(q, 1, IBV_SEND_SIGNALED);
    ibv_wr_rdma_write(q, rkey, there);
    ibv_wr_set_sge(q, lkey, here, 18);
    CHECK(!ibv_wr_complete(q));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);
    CHECK(!strcmp(b->memory, a->memory));
    begin(q, 2, IBV_SEND_SIGNALED);
    ibv_wr_rdma_read(q, rkey, there);
    ibv_wr_set_sge(q, lkey, here + 100, 18);
    CHECK(!ibv_wr_complete(q));
    ends_well(a, 2, IBV_WC_RDMA_READ);
    CHECK(!strcmp(a->memory + 100, a->memory));
    /* Two at once; the first gives no completion. */
    word = 40;
    memcpy(b->memory + 64, &word, 8);
    begin(q, 3, 0);
    ibv_wr_atomic_fetch_add(q, rkey, there + 64, 2);
    ibv_wr_set_sge(q, lkey, here + 200, 8);
    q->wr_id = 4;
    q->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_atomic_cmp_swp(q, rkey, there + 64, 42, 7);
    ibv_wr_set_sge(q, lkey, here + 208, 8);
    CHECK(!ibv_wr_complete(q));
    ends_well(a, 4, IBV_WC_COMP_SWAP);
    memcpy(&word, a->memory + 200, 8);
    CHECK(word == 40);
    memcpy(&word, a->memory + 208, 8);
    CHECK(word == 42);
    memcpy(&word, b->memory + 64, 8);
    CHECK(word == 7);
    /* What is taken back is not done. */
    begin(q, 5, IBV_SEND_SIGNALED);
    ibv_wr_rdma_write(q, rkey, there);
    ibv_wr_set_sge(q, lkey, here + 100, 1);
    ibv_wr_abort(q);
    /* Immediate data, inline, several pieces. */
    CHECK(!receive(b, 64, 6) && !receive(b, 64, 7) && !receive(b, 64, 8));
    char bytes[] = "inline bytes";
    begin(q, 6, IBV_SEND_SIGNALED);
    ibv_wr_send_imm(q, htobe32(77));
    ibv_wr_set_inline_data(q, bytes, sizeof bytes);
    CHECK(!ibv_wr_complete(q));
    memset(bytes, 0, sizeof bytes);
    ends_well(a, 6, IBV_WC_SEND);
    struct ibv_wc wc = next(b);
    CHECK(wc.wr_id == 6 && wc.opcode == IBV_WC_RECV && wc.byte_len == 13 && (wc.wc_flags & IBV_WC_WITH_IMM) && be32toh(wc.imm_data) == 77);
    CHECK(!strcmp(b->memory + BYTES / 2, "inline bytes"));
    struct ibv_sge list[2] = {{here, 7, lkey}, {here + 11, 7, lkey}};
    begin(q, 7, IBV_SEND_SIGNALED);
    ibv_wr_send(q);
    ibv_wr_set_sge_list(q, 2, list);
    CHECK(!ibv_wr_complete(q));
    ends_well(a, 7, IBV_WC_SEND);
    CHECK(next(b).byte_len == 14 && !strcmp(b->memory + BYTES / 2, "writtena call"));
    begin(q, 8, IBV_SEND_SIGNALED);
    ibv_wr_rdma_write_imm(q, rkey, there, htobe32(5));
    ibv_wr_set_sge(q, lkey, here, 4);
    CHECK(!ibv_wr_complete(q));
    ends_well(a, 8, IBV_WC_RDMA_WRITE);
    wc = next(b);
    CHECK(wc.opcode == IBV_WC_RECV_RDMA_WITH_IMM && wc.byte_len == 4 && be32toh(wc.imm_data) == 5);
    /* More than fits inline. */
    static char much[100000];
    begin(q, 9, IBV_SEND_SIGNALED);
    ibv_wr_send(q);
    ibv_wr_set_inline_data(q, much, sizeof much);
    CHECK(ibv_wr_complete(q) != 0);
    CHECK(!ibv_destroy_qp(a->qp));
    a->qp = own;
}

/* Completions read by calls; limits of the device. */
static void completions(struct side *a, struct side *b)
{
    struct ibv_cq_init_attr_ex c;
    memset(&c, 0, sizeof c);
    c.cqe = 64;
    c.wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM | IBV_WC_EX_WITH_SRC_QP;
    struct ibv_cq_ex *cq = ibv_create_cq_ex(b->context, &c);
    MUST(cq);
    struct ibv_poll_cq_attr none;
    memset(&none, 0, sizeof none);
    CHECK(ibv_start_poll(cq, &none) == ENOENT);
    struct ibv_cq *own_cq = b->cq;
    struct ibv_qp *own = b->qp;
    b->cq = ibv_cq_ex_to_cq(cq);
    MUST(b->qp = create(b, IBV_QPT_RC));
    connect_two(a, b);
    CHECK(!receive(b, 64, 11) && !receive(b, 64, 12));
    CHECK(!post(a, IBV_WR_SEND_WITH_IMM, 20, a->mr->lkey, 0, 0, 1) && !post(a, IBV_WR_SEND, 21, a->mr->lkey, 0, 0, 2));
    CHECK(next(a).status == IBV_WC_SUCCESS && next(a).status == IBV_WC_SUCCESS);
    double end = now() + 30;
    int outcome = ENOENT;
    while (outcome == ENOENT && now() < end)
        outcome = ibv_start_poll(cq, &none);
    CHECK(outcome == 0 && cq->wr_id == 11 && cq->status == IBV_WC_SUCCESS && ibv_wc_read_opcode(cq) == IBV_WC_RECV && ibv_wc_read_byte_len(cq) == 20);
    CHECK((ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM) && ibv_wc_read_qp_num(cq) == b->qp->qp_num && ibv_wc_read_vendor_err(cq) == 0);
    for (outcome = ENOENT; outcome == ENOENT && now() < end;)
        outcome = ibv_next_poll(cq);
    CHECK(outcome == 0 && cq->wr_id == 12 && ibv_wc_read_byte_len(cq) == 21 && !(ibv_wc_read_wc_flags(cq) & IBV_WC_WITH_IMM));
    CHECK(ibv_next_poll(cq) == ENOENT);
    ibv_end_poll(cq);
    CHECK(!ibv_destroy_qp(b->qp) && !ibv_destroy_cq(b->cq));
    b->cq = own_cq;
    b->qp = own;

    struct ibv_device_attr old;
    struct ibv_device_attr_ex ex;
    memset(&ex, 0xff, sizeof ex);
    CHECK(!ibv_query_device(a->context, &old) && !ibv_query_device_ex(a->context, NULL, &ex));
    CHECK(ex.orig_attr.max_qp == old.max_qp && ex.orig_attr.max_mr_size == old.max_mr_size && ex.comp_mask == 0 && (ex.odp_caps.general_caps & IBV_ODP_SUPPORT) && ex.tso_caps.max_tso == 0);
    CHECK(old.max_qp >= 1000 && old.max_srq > 0 && old.atomic_cap == IBV_ATOMIC_HCA);
}

static uint64_t clock_of(struct side *s)
{
    struct ibv_values_ex v;
    memset(&v, 0, sizeof v);
    v.comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
    CHECK(!ibv_query_rt_values_ex(s->context, &v) && v.raw_clock.tv_sec == 0);
    return (uint64_t)v.raw_clock.tv_nsec;
}

static uint64_t calendar(void)
{
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* The next completion of a queue with stamps; its stamps. */
static uint64_t stamped(struct ibv_cq_ex *cq, uint64_t id, enum ibv_wc_status how, uint64_t *calendar_stamp)
{
    struct ibv_poll_cq_attr none;
    memset(&none, 0, sizeof none);
    int outcome = ENOENT;
    for (double end = now() + 30; outcome == ENOENT && now() < end;)
        outcome = ibv_start_poll(cq, &none);
    CHECK(outcome == 0 && cq->wr_id == id && cq->status == how);
    uint64_t stamp = ibv_wc_read_completion_ts(cq);
    *calendar_stamp = ibv_wc_read_completion_wallclock_ns(cq);
    ibv_end_poll(cq);
    return stamp;
}

/* Completions say when they came, not when they were polled; also when some are polled without a
   stamp, and when some are dropped with their queue pair. */
static void stamps(struct side *a, struct side *b)
{
    struct ibv_device_attr_ex ex;
    CHECK(!ibv_query_device_ex(a->context, NULL, &ex) && ex.hca_core_clock == 1000000 && ex.completion_timestamp_mask == UINT64_MAX);
    struct ibv_values_ex unknown;
    memset(&unknown, 0, sizeof unknown);
    unknown.comp_mask = 1u << 20;
    CHECK(ibv_query_rt_values_ex(a->context, &unknown) == EOPNOTSUPP);
    struct ibv_cq_init_attr_ex c;
    memset(&c, 0, sizeof c);
    c.cqe = 64;
    c.wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK;
    struct ibv_cq_ex *cq = ibv_create_cq_ex(a->context, &c);
    MUST(cq);
    struct ibv_cq *own_cq = a->cq;
    struct ibv_qp *own = a->qp, *dropped;
    a->cq = ibv_cq_ex_to_cq(cq);
    MUST((dropped = create(a, IBV_QPT_RC)) && (a->qp = create(a, IBV_QPT_RC)));
    uint64_t before = clock_of(a), day = calendar(), at[6], on[6];
    struct ibv_qp *kept = a->qp;
    connect_two(a, b);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, (uintptr_t)b->memory, b->mr->rkey, 1));
    at[1] = stamped(cq, 1, IBV_WC_SUCCESS, &on[1]);
    uint64_t between = clock_of(a);
    CHECK(before <= at[1] && at[1] <= between && day <= on[1] && on[1] <= calendar());
    /* Receives of failed queue pairs are complete at once. */
    struct ibv_qp_attr failed;
    memset(&failed, 0, sizeof failed);
    failed.qp_state = IBV_QPS_ERR;
    MUST(!ibv_modify_qp(kept, &failed, IBV_QP_STATE) && !ibv_modify_qp(dropped, &failed, IBV_QP_STATE));
    for (int i = 2; i < 6; i++) {
        a->qp = i == 3 ? dropped : kept;
        at[i] = clock_of(a);
        CHECK(!receive(a, 8, (uint64_t)i));
    }
    a->qp = kept;
    CHECK(next(a).wr_id == 2 && !ibv_destroy_qp(dropped));
    uint64_t four = stamped(cq, 4, IBV_WC_WR_FLUSH_ERR, &on[4]), five = stamped(cq, 5, IBV_WC_WR_FLUSH_ERR, &on[5]);
    CHECK(at[4] <= four && four <= at[5] && at[5] <= five && five <= clock_of(a) && on[1] <= on[4] && on[4] <= on[5] && on[5] <= calendar());
    CHECK(!ibv_destroy_qp(a->qp) && !ibv_destroy_cq(a->cq));
    a->cq = own_cq;
    a->qp = own;
}

/* Memory that requests call by another address, optional flags, and more than one registration of the same. */
static void addresses(struct side *a, struct side *b)
{
    connect_two(a, b);
    struct ibv_mr *mr = ibv_reg_mr_iova(b->pd, b->memory, 8192, 0x10000, ALL | IBV_ACCESS_RELAXED_ORDERING);
    MUST(mr);
    strcpy(a->memory, "by iova");
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, 0x10000 + 4096, mr->rkey, 1));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);
    CHECK(!strcmp(b->memory + 4096, "by iova"));
    struct ibv_sge sge = {0x10000 + 16, 8, mr->lkey};
    struct ibv_recv_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    CHECK(!ibv_post_recv(b->qp, &wr, &bad) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 2));
    ends_well(a, 2, IBV_WC_SEND);
    CHECK(next(b).status == IBV_WC_SUCCESS && !strcmp(b->memory + 16, "by iova"));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, (uintptr_t)b->memory, mr->rkey, 3));
    CHECK(next(a).status == IBV_WC_REM_ACCESS_ERR && event_of(b, b->qp) == IBV_EVENT_QP_ACCESS_ERR);
    /* A key is none after the end of its registration, also for who has used it. */
    connect_two(a, b);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, 0x10000, mr->rkey, 1));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);
    uint32_t key = mr->rkey;
    CHECK(!ibv_dereg_mr(mr));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, 0x10000, key, 2));
    CHECK(next(a).status == IBV_WC_REM_ACCESS_ERR && event_of(b, b->qp) == IBV_EVENT_QP_ACCESS_ERR);
    MUST(mr = ibv_reg_mr(b->pd, b->memory, 4096, IBV_ACCESS_LOCAL_WRITE));
    CHECK(mr->rkey != key);
    connect_two(a, b);
    CHECK(!post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, (uintptr_t)b->memory, mr->rkey, 3));
    CHECK(next(a).status == IBV_WC_REM_ACCESS_ERR && event_of(b, b->qp) == IBV_EVENT_QP_ACCESS_ERR);
    CHECK(!ibv_dereg_mr(mr));
}

int main(void)
{
    struct side a, b;
    open_side(&a, device());
    open_side(&b, device());
    requests(&a, &b);
    completions(&a, &b);
    stamps(&a, &b);
    addresses(&a, &b);
    printf("%d failures\n", failures);
    return failures != 0;
}
