/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Events of all kinds, shared receives, sends that are held back, fences, and the rules of unreliable services. Two devices of one process. Compiles as C and as C++. */
#include "sides.h"

/* Asynchronous events and shared receives. */
static void events(struct side *a, struct side *b)
{
    CHECK(!readable(b->context->async_fd, 0));
    connect_two(a, b);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, 0, b->mr->rkey, 1));
    CHECK(next(a).status == IBV_WC_REM_ACCESS_ERR && event_of(b, b->qp) == IBV_EVENT_QP_ACCESS_ERR);
    connect_two(a, b);
    CHECK(!post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, a->mr->lkey, (uintptr_t)b->memory + 1, b->mr->rkey, 1));
    CHECK(next(a).status == IBV_WC_REM_INV_REQ_ERR && event_of(b, b->qp) == IBV_EVENT_QP_REQ_ERR);
    /* A message before the program says that it is connected. */
    MUST(!reset(a->qp) && !reset(b->qp) && !to_init(a->qp) && !to_init(b->qp) && !receive(b, 8, 3));
    MUST(!to_rtr(b->qp, a->qp->qp_num) && !to_rtr(a->qp, b->qp->qp_num) && !to_rts(a->qp, 14, 7, 7));
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
    ends_well(a, 1, IBV_WC_SEND);
    CHECK(event_of(b, b->qp) == IBV_EVENT_COMM_EST);
    CHECK(next(b).wr_id == 3);

    struct ibv_srq_init_attr i;
    memset(&i, 0, sizeof i);
    i.attr.max_wr = 8;
    i.attr.max_sge = 1;
    struct ibv_srq *srq = ibv_create_srq(b->pd, &i);
    MUST(srq);
    struct ibv_qp_init_attr q;
    memset(&q, 0, sizeof q);
    q.send_cq = q.recv_cq = b->cq;
    q.srq = srq;
    q.cap.max_send_wr = q.cap.max_send_sge = 1;
    q.qp_type = IBV_QPT_RC;
    struct ibv_qp *own = b->qp;
    MUST(b->qp = ibv_create_qp(b->pd, &q));
    connect_two(a, b);
    CHECK(receive(b, 8, 1) == EINVAL && ibv_destroy_srq(srq) == EBUSY);
    struct ibv_sge sge = {(uintptr_t)b->memory, 8, b->mr->lkey};
    struct ibv_recv_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    for (wr.wr_id = 0; wr.wr_id < 7; wr.wr_id++)
        CHECK(!ibv_post_srq_recv(srq, &wr, &bad));
    /* Of a list, those before the first that cannot be posted. */
    struct ibv_recv_wr last = wr;
    wr.next = &last;
    last.wr_id = 8;
    CHECK(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM && bad == &last);
    wr.next = NULL;
    CHECK(ibv_post_srq_recv(srq, &wr, &bad) == ENOMEM && bad == &wr);
    struct ibv_srq_attr limit;
    memset(&limit, 0, sizeof limit);
    limit.srq_limit = 100;
    CHECK(ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) == EINVAL);
    limit.srq_limit = 7;
    CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_LIMIT) && !ibv_query_srq(srq, &limit) && limit.srq_limit == 7 && limit.max_wr == 8);
    limit.max_wr = 6;
    CHECK(ibv_modify_srq(srq, &limit, IBV_SRQ_MAX_WR) == EINVAL);
    limit.max_wr = 16;
    CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_MAX_WR) && !ibv_query_srq(srq, &limit) && limit.max_wr == 16 && limit.srq_limit == 7);
    limit.max_wr = 8;
    CHECK(!ibv_modify_srq(srq, &limit, IBV_SRQ_MAX_WR) && !ibv_query_srq(srq, &limit) && limit.max_wr == 8);
    for (int n = 0; n < 2; n++) {
        CHECK(!readable(b->context->async_fd, 0));
        CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
        ends_well(a, 1, IBV_WC_SEND);
        CHECK(next(b).wr_id == (uint64_t)n);
    }
    CHECK(event_of(b, srq) == IBV_EVENT_SRQ_LIMIT_REACHED);
    CHECK(!ibv_query_srq(srq, &limit) && limit.srq_limit == 0);
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_ERR;
    CHECK(!ibv_modify_qp(b->qp, &attr, IBV_QP_STATE));
    CHECK(event_of(b, b->qp) == IBV_EVENT_QP_LAST_WQE_REACHED);
    CHECK(!ibv_destroy_qp(b->qp) && !ibv_destroy_srq(srq));
    b->qp = own;

    /* A completion queue that is too short. */
    struct ibv_cq *own_cq = b->cq, *cq = ibv_create_cq(b->context, 2, NULL, NULL, 0);
    b->cq = cq;
    MUST(cq && (b->qp = create(b, IBV_QPT_RC)));
    connect_two(a, b);
    for (int n = 0; n < 3; n++)
        CHECK(!receive(b, 8, 1) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
    for (int n = 0; n < 3; n++)
        ends_well(a, 1, IBV_WC_SEND);
    CHECK(event_of(b, cq) == IBV_EVENT_CQ_ERR);
    CHECK(!ibv_destroy_qp(b->qp) && !ibv_destroy_cq(cq));
    b->cq = own_cq;
    b->qp = own;
}

/* Completion channels: solicited completions, a descriptor for poll, calls that do not wait. */
static void channels(struct side *a, struct side *b)
{
    int mark;
    struct ibv_cq *own_cq = b->cq, *got;
    struct ibv_qp *own = b->qp;
    struct ibv_comp_channel *channel = listen_anew(b, &mark);
    struct ibv_cq *cq = b->cq;
    void *mine = NULL;
    CHECK(ibv_destroy_comp_channel(channel) == EBUSY);
    connect_two(a, b);
    for (int n = 0; n < 3; n++)
        CHECK(!receive(b, 8, 1));
    CHECK(!ibv_req_notify_cq(cq, 1));
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
    ends_well(a, 1, IBV_WC_SEND);
    CHECK(!readable(channel->fd, 20));
    struct ibv_sge sge = {(uintptr_t)a->memory, 8, a->mr->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    CHECK(!ibv_post_send(a->qp, &wr, &bad));
    CHECK(readable(channel->fd, 10000));
    MUST(!ibv_get_cq_event(channel, &got, &mine));
    CHECK(got == cq && mine == &mark && !readable(channel->fd, 0));
    ends_well(a, 0, IBV_WC_SEND);
    /* It is told of once; an error counts as solicited. */
    CHECK(next(b).status == IBV_WC_SUCCESS && next(b).status == IBV_WC_SUCCESS && !ibv_req_notify_cq(cq, 1));
    struct ibv_qp_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_ERR;
    CHECK(!ibv_modify_qp(b->qp, &attr, IBV_QP_STATE) && readable(channel->fd, 10000));
    MUST(!ibv_get_cq_event(channel, &got, &mine));
    CHECK(next(b).status == IBV_WC_WR_FLUSH_ERR);
    ibv_ack_cq_events(cq, 2);
    CHECK(!ibv_destroy_qp(b->qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
    b->cq = own_cq;
    b->qp = own;
}

static void nothing(int signal) { (void)signal; }

/* A program that sleeps though an armed queue is not empty hears of that; one that does not sleep, or has asked for solicited completions, does not. */
static void left(struct side *a, struct side *b)
{
    struct ibv_cq *own_cq = b->cq, *got = NULL;
    struct ibv_qp *own = b->qp;
    struct ibv_comp_channel *channel = listen_anew(b, NULL);
    struct ibv_cq *cq = b->cq;
    void *mine = NULL;
    connect_two(a, b);
    for (int n = 0; n < 3; n++) {
        CHECK(!receive(b, 8, 1) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
        ends_well(a, 1, IBV_WC_SEND);
    }
    CHECK(next(b).status == IBV_WC_SUCCESS);
    struct sigaction act, before;
    memset(&act, 0, sizeof act);
    act.sa_handler = nothing;
    MUST(!sigaction(SIGALRM, &act, &before));
    CHECK(!ibv_req_notify_cq(cq, 1));
    ualarm(50000, 0);
    CHECK(ibv_get_cq_event(channel, &got, &mine) == -1 && errno == EINTR);
    MUST(!sigaction(SIGALRM, &before, NULL));
    CHECK(!ibv_req_notify_cq(cq, 0) && !readable(channel->fd, 20));
    alarm(20);
    for (int n = 0; n < 2; n++) {
        got = NULL;
        MUST(!ibv_get_cq_event(channel, &got, &mine));
        CHECK(got == cq && !ibv_req_notify_cq(cq, 0) && !readable(channel->fd, 0));
        ibv_ack_cq_events(cq, 1);
        CHECK(next(b).status == IBV_WC_SUCCESS);
    }
    alarm(0);
    CHECK(!ibv_destroy_qp(b->qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
    b->cq = own_cq;
    b->qp = own;
}

/* Calls of write by this process, of whatever thread; 0 where the kernel does not count them. */
static long writes(void)
{
    char line[128];
    long count = 0;
    FILE *io = fopen("/proc/self/io", "r");
    while (io && fgets(line, sizeof line, io))
        if (sscanf(line, "syscw: %ld", &count) == 1)
            break;
    if (io)
        fclose(io);
    return count;
}

/*
 * A program that waits by ibv_get_cq_event finds its messages itself: its peers need not ring, so
 * each round has one write, which makes the channel readable. A program that changes over to the
 * descriptor is woken, each time, and may go back.
 */
static void waiting(struct side *a, struct side *b)
{
    enum { ROUNDS = 2000 };
    struct ibv_cq *own_cq = b->cq, *got = NULL;
    struct ibv_qp *own = b->qp;
    struct ibv_comp_channel *channel = listen_anew(b, NULL);
    struct ibv_cq *cq = b->cq;
    void *mine = NULL;
    struct ibv_wc wc;
    unsigned told = 0;
    connect_two(a, b);
    CHECK(!receive(b, 8, 1) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
    ends_well(a, 1, IBV_WC_SEND);
    CHECK(next(b).status == IBV_WC_SUCCESS);
    alarm(60);
    long before = writes();
    for (int n = 0; n < ROUNDS; n++) {
        CHECK(!ibv_req_notify_cq(cq, 0) && !receive(b, 8, 1) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
        MUST(!ibv_get_cq_event(channel, &got, &mine));
        told++;
        CHECK(next(b).status == IBV_WC_SUCCESS);
        /* A receiver that looks once more answers itself. */
        CHECK(ibv_poll_cq(cq, 1, &wc) == 0);
        ends_well(a, 1, IBV_WC_SEND);
    }
    long written = writes() - before;
    if (written > ROUNDS + ROUNDS / 2) {
        failures++;
        fprintf(stderr, "FAILED: %ld writes in %d rounds of a program that looks itself\n", written, ROUNDS);
    }
    for (int n = 0; n < 60; n++) {
        CHECK(!ibv_req_notify_cq(cq, 0) && !receive(b, 8, 1) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
        /* Four by the descriptor, the fifth by the call. */
        MUST(n % 5 == 4 || readable(channel->fd, 20000));
        MUST(!ibv_get_cq_event(channel, &got, &mine));
        told++;
        CHECK(next(b).status == IBV_WC_SUCCESS);
        ends_well(a, 1, IBV_WC_SEND);
    }
    alarm(0);
    ibv_ack_cq_events(cq, told);
    CHECK(!ibv_destroy_qp(b->qp) && !ibv_destroy_cq(cq) && !ibv_destroy_comp_channel(channel));
    b->cq = own_cq;
    b->qp = own;
}

/* Sends that are held back; fences; lists of requests; attributes as they were set. */
static void order(struct side *a, struct side *b)
{
    struct ibv_wc wc;
    connect_two(a, b);
    CHECK(!modify_state(a, IBV_QPS_SQD));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, (uintptr_t)b->memory, b->mr->rkey, 1));
    for (double end = now() + 0.02; now() < end;)
        CHECK(ibv_poll_cq(a->cq, 1, &wc) == 0);
    /* What comes is taken. */
    CHECK(!receive(a, 8, 5) && !post(b, IBV_WR_SEND, 8, b->mr->lkey, 0, 0, 6));
    ends_well(a, 5, IBV_WC_RECV);
    ends_well(b, 6, IBV_WC_SEND);
    CHECK(!modify_state(a, IBV_QPS_RTS));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);

    /* What has begun goes on, and an event says when it is done. */
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    CHECK(!ibv_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) && event_of(a, a->qp) == IBV_EVENT_SQ_DRAINED);
    CHECK(!ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_SQD && !attr.sq_draining);
    CHECK(!modify_state(a, IBV_QPS_RTS) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 7));
    attr.qp_state = IBV_QPS_SQD;
    attr.en_sqd_async_notify = 1;
    CHECK(!ibv_modify_qp(a->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 8));
    for (double end = now() + 0.02; now() < end;)
        CHECK(ibv_poll_cq(b->cq, 1, &wc) == 0 && ibv_poll_cq(a->cq, 1, &wc) == 0);
    CHECK(!readable(a->context->async_fd, 0) && !ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) && attr.sq_draining);
    CHECK(!receive(b, 8, 9) && !receive(b, 8, 10));
    ends_well(b, 9, IBV_WC_RECV);
    ends_well(a, 7, IBV_WC_SEND);
    CHECK(event_of(a, a->qp) == IBV_EVENT_SQ_DRAINED && !ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) && !attr.sq_draining);
    for (double end = now() + 0.02; now() < end;)
        CHECK(ibv_poll_cq(b->cq, 1, &wc) == 0 && ibv_poll_cq(a->cq, 1, &wc) == 0);
    CHECK(!modify_state(a, IBV_QPS_RTS));
    ends_well(b, 10, IBV_WC_RECV);
    ends_well(a, 8, IBV_WC_SEND);

    /* What was read is what is sent behind a fence. */
    struct ibv_sge sge = {(uintptr_t)a->memory + 8, 8, a->mr->lkey};
    struct ibv_send_wr list[2], *bad;
    for (int n = 0; n < 200; n++) {
        memcpy(b->memory + 512, &n, sizeof n);
        memset(a->memory + 8, 0xff, 8);
        memset(list, 0, sizeof list);
        list[0].next = &list[1];
        list[0].sg_list = list[1].sg_list = &sge;
        list[0].num_sge = list[1].num_sge = 1;
        list[0].opcode = IBV_WR_RDMA_READ;
        list[0].wr.rdma.remote_addr = (uintptr_t)b->memory + 512;
        list[0].wr.rdma.rkey = b->mr->rkey;
        list[1].opcode = IBV_WR_SEND;
        list[1].send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE;
        CHECK(!receive(b, 8, 1) && !ibv_post_send(a->qp, list, &bad));
        ends_well(a, 0, IBV_WC_SEND);
        ends_well(b, 1, IBV_WC_RECV);
        CHECK(!memcmp(b->memory + BYTES / 2, &n, sizeof n));
    }
    /* Of a list those before the bad one are done, and it is named. */
    list[0].opcode = IBV_WR_RDMA_WRITE;
    list[0].send_flags = IBV_SEND_SIGNALED;
    list[0].wr_id = 21;
    list[1].num_sge = 5;
    CHECK(ibv_post_send(a->qp, list, &bad) == EINVAL && bad == &list[1]);
    ends_well(a, 21, IBV_WC_RDMA_WRITE);
    /* Nothing at all is a message, too. */
    CHECK(!receive(b, 8, 22) && !post(a, IBV_WR_SEND, 0, a->mr->lkey, 0, 0, 23));
    ends_well(a, 23, IBV_WC_SEND);
    wc = next(b);
    CHECK(wc.wr_id == 22 && wc.byte_len == 0 && wc.status == IBV_WC_SUCCESS);

    CHECK(!ibv_query_qp(a->qp, &attr, IBV_QP_TIMEOUT, &init));
    CHECK(attr.timeout == 14 && attr.retry_cnt == 7 && attr.rnr_retry == 7 && attr.min_rnr_timer == 1 && attr.path_mtu == IBV_MTU_1024 && attr.dest_qp_num == b->qp->qp_num);
    CHECK(attr.qp_access_flags == ALL && attr.port_num == 1 && attr.cap.max_send_wr == 16 && init.qp_type == IBV_QPT_RC && init.send_cq == a->cq);
}

/* Unreliable connections and datagrams: what they do not know, what is lost without a word, and addresses. */
static void unreliable(struct side *a, struct side *b)
{
    struct ibv_qp *mine = a->qp, *theirs = b->qp;
    struct ibv_qp_attr attr;
    struct ibv_wc wc;
    MUST((a->qp = create(a, IBV_QPT_UC)) && (b->qp = create(b, IBV_QPT_UC)));
    struct side *both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        MUST(!to_init(both[i]->qp));
        memset(&attr, 0, sizeof attr);
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = IBV_MTU_1024;
        attr.dest_qp_num = both[1 - i]->qp->qp_num;
        attr.ah_attr.port_num = 1;
        CHECK(ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MIN_RNR_TIMER) == EINVAL);
        MUST(!ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
        attr.qp_state = IBV_QPS_RTS;
        MUST(!ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    }
    CHECK(post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, (uintptr_t)b->memory, b->mr->rkey, 1) == EINVAL);
    CHECK(post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, a->mr->lkey, (uintptr_t)b->memory, b->mr->rkey, 1) == EINVAL);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, (uintptr_t)b->memory, b->mr->rkey + 1, 1));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);
    /* Lost: no receive. */
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 2));
    ends_well(a, 2, IBV_WC_SEND);
    for (double end = now() + 0.05; now() < end;)
        CHECK(ibv_poll_cq(b->cq, 1, &wc) == 0);
    CHECK(!receive(b, 8, 3) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 4));
    ends_well(a, 4, IBV_WC_SEND);
    ends_well(b, 3, IBV_WC_RECV);
    /* A failure stops sending only, and can be mended. */
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey + 1, 0, 0, 5));
    CHECK(next(a).status == IBV_WC_LOC_PROT_ERR);
    struct ibv_qp_init_attr init;
    CHECK(!ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init) && attr.qp_state == IBV_QPS_SQE);
    CHECK(!modify_state(a, IBV_QPS_RTS) && !receive(b, 8, 6) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 7));
    ends_well(a, 7, IBV_WC_SEND);
    ends_well(b, 6, IBV_WC_RECV);
    CHECK(!ibv_destroy_qp(a->qp) && !ibv_destroy_qp(b->qp));

    MUST((a->qp = create(a, IBV_QPT_UD)) && (b->qp = create(b, IBV_QPT_UD)));
    for (int i = 0; i < 2; i++) {
        memset(&attr, 0, sizeof attr);
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = 1;
        attr.qkey = 0x111;
        CHECK(ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT) == EINVAL);
        MUST(!ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
        MUST(!modify_state(both[i], IBV_QPS_RTR));
        attr.qp_state = IBV_QPS_RTS;
        MUST(!ibv_modify_qp(both[i]->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
    }
    struct ibv_ah_attr route;
    memset(&route, 0, sizeof route);
    route.port_num = 9;
    CHECK(ibv_create_ah(a->pd, &route) == NULL && errno == EINVAL);
    route.port_num = 1;
    route.is_global = 1;
    MUST(!ibv_query_gid(b->context, 1, 0, &route.grh.dgid));
    struct ibv_ah *global = ibv_create_ah(a->pd, &route);
    route.is_global = 0;
    /* Ethernet has no addresses but GIDs. */
    CHECK(ibv_create_ah(a->pd, &route) == NULL && errno == EINVAL);
    /* The port's LID is this host. */
    struct ibv_port_attr port;
    MUST(!ibv_query_port(a->context, 1, &port));
    route.dlid = port.lid;
    struct ibv_ah *local = ibv_create_ah(a->pd, &route);
    MUST(global && local);
    struct ibv_sge sge = {(uintptr_t)a->memory, 8, a->mr->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.remote_qpn = b->qp->qp_num;
    wr.wr.ud.remote_qkey = 0x111;
    strcpy(a->memory, "routed");
    struct ibv_ah *handles[2] = {global, local};
    for (int i = 0; i < 2; i++) {
        wr.wr.ud.ah = handles[i];
        CHECK(!receive(b, 48, 9) && !ibv_post_send(a->qp, &wr, &bad));
        ends_well(a, 0, IBV_WC_SEND);
        wc = next(b);
        struct ibv_grh *grh = (struct ibv_grh *)(b->memory + BYTES / 2);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == 48 && (wc.wc_flags & IBV_WC_GRH) && wc.src_qp == a->qp->qp_num && !strcmp(b->memory + BYTES / 2 + 40, "routed"));
        union ibv_gid from;
        MUST(!ibv_query_gid(a->context, 1, 0, &from));
        CHECK(!memcmp(&grh->sgid, &from, 16) && grh->next_hdr != 0);
        /* Back to where it came from. */
        struct ibv_ah *back = ibv_create_ah_from_wc(b->pd, &wc, grh, 1);
        MUST(back);
        struct ibv_send_wr answer = wr;
        struct ibv_sge there = {(uintptr_t)b->memory, 8, b->mr->lkey};
        answer.sg_list = &there;
        answer.wr.ud.ah = back;
        answer.wr.ud.remote_qpn = wc.src_qp;
        CHECK(!receive(a, 48, 10) && !ibv_post_send(b->qp, &answer, &bad));
        ends_well(b, 0, IBV_WC_SEND);
        ends_well(a, 10, IBV_WC_RECV);
        CHECK(!ibv_destroy_ah(back));
    }
    /* The wrong key, and nobody: lost without a word. */
    CHECK(!receive(b, 48, 11));
    wr.wr.ud.remote_qkey = 0x112;
    CHECK(!ibv_post_send(a->qp, &wr, &bad));
    ends_well(a, 0, IBV_WC_SEND);
    wr.wr.ud.remote_qkey = 0x111;
    wr.wr.ud.remote_qpn = b->qp->qp_num + 5;
    CHECK(!ibv_post_send(a->qp, &wr, &bad));
    ends_well(a, 0, IBV_WC_SEND);
    for (double end = now() + 0.05; now() < end;)
        CHECK(ibv_poll_cq(b->cq, 1, &wc) == 0);
    /* What is no datagram. */
    wr.wr.ud.remote_qpn = b->qp->qp_num;
    sge.length = 4097;
    CHECK(ibv_post_send(a->qp, &wr, &bad) == EINVAL);
    wr.opcode = IBV_WR_RDMA_WRITE;
    CHECK(ibv_post_send(a->qp, &wr, &bad) == EINVAL);
    CHECK(!ibv_destroy_ah(global) && !ibv_destroy_ah(local) && !ibv_destroy_qp(a->qp) && !ibv_destroy_qp(b->qp));
    a->qp = mine;
    b->qp = theirs;
}

int main(void)
{
    struct side a, b;
    open_side(&a, device());
    open_side(&b, device());
    events(&a, &b);
    channels(&a, &b);
    left(&a, &b);
    waiting(&a, &b);
    order(&a, &b);
    unreliable(&a, &b);
    printf("%d failures\n", failures);
    return failures != 0;
}
