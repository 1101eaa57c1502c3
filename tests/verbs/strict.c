/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the strict mode reports: each rule broken ("RULE bad"), and kept ("RULE good"). Two devices of one process. */
#include "sides.h"

static struct side a, b;

static void settle(void)
{
    struct ibv_wc wc;
    for (int i = 0; i < 100; i++) {
        ibv_poll_cq(a.cq, 1, &wc);
        ibv_poll_cq(b.cq, 1, &wc);
    }
}

static int unsignalled(int flags, uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)a.memory, 8, a.mr->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_RDMA_WRITE;
    wr.send_flags = (unsigned)flags;
    wr.wr.rdma.remote_addr = (uintptr_t)b.memory;
    wr.wr.rdma.rkey = b.mr->rkey;
    return ibv_post_send(a.qp, &wr, &bad);
}

static void memory(int bad)
{
    MUST(!post(&a, IBV_WR_SEND, 4096, a.mr->lkey, 0, 0, 11));
    settle();
    if (bad)
        a.memory[100] = 1;
    MUST(!receive(&b, 4096, 1));
    MUST(next(&a).status == IBV_WC_SUCCESS);
    a.memory[100] = 2;
}

static void registration(int bad)
{
    struct ibv_mr *mr = ibv_reg_mr(a.pd, a.memory, BYTES, ALL);
    MUST(mr && !post(&a, IBV_WR_SEND, 8, mr->lkey, 0, 0, 12));
    settle();
    if (bad)
        MUST(!ibv_dereg_mr(mr));
    MUST(!receive(&b, 8, 1));
    struct ibv_wc wc = next(&a);
    MUST(wc.status == (bad ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS) || bad);
    if (!bad)
        MUST(!ibv_dereg_mr(mr));
}

static void receives(int bad)
{
    if (!bad)
        MUST(!receive(&b, 8, 1));
    MUST(!post(&a, IBV_WR_SEND, 8, a.mr->lkey, 0, 0, 13));
    for (double end = now() + 0.3; bad && now() < end;)
        settle();
    if (bad)
        MUST(!receive(&b, 8, 1));
    MUST(next(&a).status == IBV_WC_SUCCESS);
}

static void given_up(int bad)
{
    connect_so(&a, &b, 14, 7, bad ? 2 : 7);
    if (!bad)
        MUST(!receive(&b, 8, 1));
    MUST(!post(&a, IBV_WR_SEND, 8, a.mr->lkey, 0, 0, 14));
    MUST(next(&a).status == (bad ? IBV_WC_RNR_RETRY_EXC_ERR : IBV_WC_SUCCESS));
}

static void keys(int bad)
{
    MUST(!post(&a, IBV_WR_RDMA_WRITE, 8, a.mr->lkey + (uint32_t)bad, (uintptr_t)b.memory, b.mr->rkey, 15));
    MUST(next(&a).status == (bad ? IBV_WC_LOC_PROT_ERR : IBV_WC_SUCCESS));
}

static void domains(int bad)
{
    struct ibv_pd *pd = ibv_alloc_pd(b.context);
    MUST(pd);
    struct ibv_mr *mr = ibv_reg_mr(bad ? pd : b.pd, b.memory, BYTES, ALL);
    MUST(mr && !post(&a, IBV_WR_RDMA_WRITE, 8, a.mr->lkey, (uintptr_t)b.memory, mr->rkey, 16));
    MUST(next(&a).status == (bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
}

static void rights(int bad)
{
    struct ibv_mr *mr = ibv_reg_mr(b.pd, b.memory, BYTES, IBV_ACCESS_LOCAL_WRITE | (bad ? 0 : IBV_ACCESS_REMOTE_READ));
    MUST(mr && !post(&a, IBV_WR_RDMA_READ, 8, a.mr->lkey, (uintptr_t)b.memory, mr->rkey, 17));
    MUST(next(&a).status == (bad ? IBV_WC_REM_ACCESS_ERR : IBV_WC_SUCCESS));
}

static void queue(int bad)
{
    struct ibv_wc wc;
    for (int i = 0; i < 40; i++) {
        int signals = !bad && i % 8 == 7;
        double end = now() + 10;
        while (unsignalled(signals ? IBV_SEND_SIGNALED : 0, 100 + (uint64_t)i)) {
            MUST(now() < end);
            settle();
        }
        if (signals)
            MUST(next(&a).status == IBV_WC_SUCCESS);
        /* So that it is nothing but the rule: here there would be room. */
        for (int k = 0; k < 20; k++)
            ibv_poll_cq(b.cq, 1, &wc);
    }
}

static struct ibv_qp *datagrams(struct side *s)
{
    struct ibv_qp *qp = create(s, IBV_QPT_UD);
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_INIT;
    attr.port_num = 1;
    attr.qkey = 7;
    MUST(qp && !ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    attr.qp_state = IBV_QPS_RTR;
    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE));
    attr.qp_state = IBV_QPS_RTS;
    MUST(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    return qp;
}

static void send_datagram(uint32_t length)
{
    struct ibv_ah_attr to;
    memset(&to, 0, sizeof to);
    to.is_global = to.port_num = 1;
    MUST(!ibv_query_gid(b.context, 1, 0, &to.grh.dgid));
    struct ibv_sge sge = {(uintptr_t)a.memory, length, a.mr->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    MUST(wr.wr.ud.ah = ibv_create_ah(a.pd, &to));
    wr.wr.ud.remote_qpn = b.qp->qp_num;
    wr.wr.ud.remote_qkey = 7;
    MUST(!ibv_post_send(a.qp, &wr, &bad) && next(&a).status == IBV_WC_SUCCESS);
}

static void route_room(int bad)
{
    MUST((a.qp = datagrams(&a)) && (b.qp = datagrams(&b)));
    MUST(!receive(&b, bad ? 100 : 140, 18));
    send_datagram(100);
    MUST(next(&b).status == (bad ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS));
}

static void lost_datagram(int bad)
{
    MUST((a.qp = datagrams(&a)) && (b.qp = datagrams(&b)));
    if (!bad)
        MUST(!receive(&b, 140, 19));
    send_datagram(100);
    for (double end = now() + 0.2; now() < end;)
        settle();
}

static void left(int bad)
{
    struct ibv_comp_channel *channel = listen_anew(&b, NULL);
    struct ibv_cq *got;
    void *mine;
    MUST(!ibv_req_notify_cq(b.cq, 0));
    connect_two(&a, &b);
    for (uint64_t n = 0; n < 2; n++) {
        MUST(!receive(&b, 8, n) && !post(&a, IBV_WR_SEND, 8, a.mr->lkey, 0, 0, 1));
        MUST(next(&a).status == IBV_WC_SUCCESS);
    }
    for (int n = 0; n < 2; n++) {
        MUST(!ibv_get_cq_event(channel, &got, &mine) && !ibv_req_notify_cq(b.cq, 0));
        ibv_ack_cq_events(b.cq, 1);
        MUST(next(&b).status == IBV_WC_SUCCESS);
        if (!bad) {
            MUST(next(&b).status == IBV_WC_SUCCESS);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        void (*run)(int bad);
    } all[] = {{"memory", memory}, {"registration", registration}, {"receives", receives},     {"given-up", given_up},          {"keys", keys},          {"domains", domains},
               {"rights", rights}, {"queue", queue},               {"route-room", route_room}, {"lost-datagram", lost_datagram},
               {"left", left}};
    MUST(argc == 3);
    open_side(&a, device());
    open_side(&b, device());
    connect_so(&a, &b, 14, 7, 7);
    for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(argv[1], all[i].name)) {
            all[i].run(!strcmp(argv[2], "bad"));
            return failures != 0;
        }
    return 2;
}
