/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The flags of completions of a connection, by both interfaces of completion queues: "plain", or
   "GRH" where the device imitates one that says it of every message it has received (rxe). */
#include "../verbs/sides.h"

static unsigned flags_by_calls(struct ibv_cq_ex *cq)
{
    struct ibv_poll_cq_attr none = {0};
    double end = now() + 30;
    int found;
    while ((found = ibv_start_poll(cq, &none)) == ENOENT)
        MUST(now() < end);
    MUST(found == 0 && cq->status == IBV_WC_SUCCESS);
    unsigned flags = ibv_wc_read_wc_flags(cq);
    ibv_end_poll(cq);
    return flags;
}

int main(void)
{
    struct side a = {0}, b = {0};
    struct ibv_cq_init_attr_ex attr = {.cqe = 16};
    unsigned received[4], sent = 0;
    open_side(&a, device());
    open_side(&b, device());
    connect_two(&a, &b);
    for (int i = 0; i < 2; i++) {
        /* Short messages have a path of their own. */
        uint32_t length = i ? 5000 : 8;
        MUST(!receive(&b, 8192, 1));
        MUST(!post(&a, i ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND, length, a.mr->lkey, 0, 0, 2));
        struct ibv_wc wc = next(&b);
        MUST(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == length);
        received[i] = wc.wc_flags;
        sent |= next(&a).wc_flags;
    }
    MUST(!receive(&b, 0, 1));
    MUST(!post(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 8, a.mr->lkey, (uintptr_t)b.memory, b.mr->rkey, 2));
    received[2] = next(&b).wc_flags;
    sent |= next(&a).wc_flags;
    /* A flushed receive has no flags. */
    MUST(!receive(&b, 8192, 1));
    struct ibv_qp_attr to = {.qp_state = IBV_QPS_ERR};
    MUST(!ibv_modify_qp(b.qp, &to, IBV_QP_STATE));
    struct ibv_wc flushed = next(&b);
    CHECK(flushed.status == IBV_WC_WR_FLUSH_ERR && flushed.wc_flags == 0);

    struct ibv_cq_ex *cq = ibv_create_cq_ex(b.context, &attr);
    MUST(cq);
    b.cq = ibv_cq_ex_to_cq(cq);
    MUST(b.qp = create(&b, IBV_QPT_RC));
    connect_two(&a, &b);
    MUST(!receive(&b, 8192, 1));
    MUST(!post(&a, IBV_WR_SEND, 8, a.mr->lkey, 0, 0, 2));
    received[3] = flags_by_calls(cq);
    sent |= next(&a).wc_flags;

    unsigned route = received[0] & IBV_WC_GRH;
    CHECK(sent == 0 && received[0] == route && received[1] == (route | IBV_WC_WITH_IMM) && received[2] == received[1] && received[3] == route);
    puts(failures ? "wrong" : route ? "GRH" : "plain");
    return failures != 0;
}
