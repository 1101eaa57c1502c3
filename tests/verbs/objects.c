/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Objects that fewer programs use: memory windows, extended reliable connections (XRC),
 * changed registrations, device memory, thread and parent domains. Two devices of one process.
 * Compiles as C and as C++.
 */
#include "sides.h"
#include <fcntl.h>

/* The peer refuses a request: a code here, an event there; then both are connected anew. */
static void is_denied(struct side *a, struct side *b)
{
    CHECK(next(a).status == IBV_WC_REM_ACCESS_ERR && event_of(b, b->qp) == IBV_EVENT_QP_ACCESS_ERR);
    connect_two(a, b);
}

static int bind_two(struct side *s, struct ibv_mw *mw, uint32_t rkey, struct ibv_mr *mr, uint64_t addr, uint64_t length, unsigned access, uint64_t id)
{
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.opcode = IBV_WR_BIND_MW;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.bind_mw.mw = mw;
    wr.bind_mw.rkey = rkey;
    wr.bind_mw.bind_info.mr = mr;
    wr.bind_mw.bind_info.addr = addr;
    wr.bind_mw.bind_info.length = length;
    wr.bind_mw.bind_info.mw_access_flags = access;
    return ibv_post_send(s->qp, &wr, &bad);
}

static int invalidate(struct side *s, enum ibv_wr_opcode opcode, uint32_t rkey, uint64_t id)
{
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.opcode = opcode;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.invalidate_rkey = rkey;
    return ibv_post_send(s->qp, &wr, &bad);
}

static void windows(struct side *a, struct side *b)
{
    connect_two(a, b);
    /* One kind of type 2: programs of 2018 take the bit of 2A for another capability. */
    struct ibv_device_attr limits;
    CHECK(!ibv_query_device(b->context, &limits) && (limits.device_cap_flags & IBV_DEVICE_MEM_WINDOW));
    CHECK((limits.device_cap_flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) == IBV_DEVICE_MEM_WINDOW_TYPE_2B);
    struct ibv_mr *mr = ibv_reg_mr(b->pd, b->memory, 8192, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
    MUST(mr);
    uint64_t at = (uintptr_t)b->memory;
    /* Type 1: the range alone, for what the binding allows; the key changes with each binding. */
    struct ibv_mw *one = ibv_alloc_mw(b->pd, IBV_MW_TYPE_1);
    MUST(one);
    struct ibv_mw_bind bind;
    memset(&bind, 0, sizeof bind);
    bind.wr_id = 1;
    bind.send_flags = IBV_SEND_SIGNALED;
    bind.bind_info.mr = mr;
    bind.bind_info.addr = at + 1024;
    bind.bind_info.length = 64;
    bind.bind_info.mw_access_flags = IBV_ACCESS_REMOTE_WRITE;
    uint32_t before = one->rkey;
    CHECK(!ibv_bind_mw(b->qp, one, &bind) && one->rkey != before);
    ends_well(b, 1, IBV_WC_BIND_MW);
    strcpy(a->memory, "through a window");
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 17, a->mr->lkey, at + 1024, one->rkey, 2));
    ends_well(a, 2, IBV_WC_RDMA_WRITE);
    CHECK(!strcmp(b->memory + 1024, "through a window"));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 17, a->mr->lkey, at + 1024, before, 3));
    is_denied(a, b);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 17, a->mr->lkey, at + 1024 + 48, one->rkey, 3));
    is_denied(a, b);
    CHECK(!post(a, IBV_WR_RDMA_READ, 17, a->mr->lkey, at + 1024, one->rkey, 4));
    is_denied(a, b);
    bind.bind_info.length = 0;
    CHECK(!ibv_bind_mw(b->qp, one, &bind));
    ends_well(b, 1, IBV_WC_BIND_MW);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 17, a->mr->lkey, at + 1024, one->rkey, 5));
    is_denied(a, b);
    /* Beyond the region, or for a right that the region lacks: the queue pair fails. */
    bind.bind_info.addr = at + 8192 - 32;
    bind.bind_info.length = 64;
    CHECK(!ibv_bind_mw(b->qp, one, &bind) && next(b).status == IBV_WC_MW_BIND_ERR);
    connect_two(a, b);
    bind.bind_info.mr = b->mr;
    bind.bind_info.addr = at;
    CHECK(!ibv_bind_mw(b->qp, one, &bind) && next(b).status == IBV_WC_MW_BIND_ERR);
    connect_two(a, b);

    /* Type 2: the program chooses the lowest byte; reads and atomics; invalidation. */
    struct ibv_mw *two = ibv_alloc_mw(b->pd, IBV_MW_TYPE_2);
    MUST(two);
    uint32_t key = ibv_inc_rkey(two->rkey);
    CHECK(!bind_two(b, two, key, mr, at, 4096, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC, 6));
    ends_well(b, 6, IBV_WC_BIND_MW);
    strcpy(b->memory + 8, "read through a window");
    CHECK(!post(a, IBV_WR_RDMA_READ, 4000, a->mr->lkey, at + 8, key, 7));
    ends_well(a, 7, IBV_WC_RDMA_READ);
    CHECK(!strcmp(a->memory, "read through a window"));
    memset(b->memory, 0, 8);
    CHECK(!post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, a->mr->lkey, at, key, 8));
    ends_well(a, 8, IBV_WC_FETCH_ADD);
    CHECK(b->memory[0] == 5);
    CHECK(!invalidate(b, IBV_WR_LOCAL_INV, key, 9));
    ends_well(b, 9, IBV_WC_LOCAL_INV);
    CHECK(!post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, at, key, 10));
    is_denied(a, b);
    key = ibv_inc_rkey(key);
    CHECK(!bind_two(b, two, key, mr, at, 4096, IBV_ACCESS_REMOTE_READ, 11));
    ends_well(b, 11, IBV_WC_BIND_MW);
    CHECK(!bind_two(b, two, ibv_inc_rkey(key), mr, at, 4096, IBV_ACCESS_REMOTE_READ, 12) && next(b).status == IBV_WC_MW_BIND_ERR);
    connect_two(a, b);
    MUST(!receive(b, 64, 13));
    CHECK(!invalidate(a, IBV_WR_SEND_WITH_INV, key, 14));
    ends_well(a, 14, IBV_WC_SEND);
    struct ibv_wc wc = next(b);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 13 && (wc.wc_flags & IBV_WC_WITH_INV) && wc.invalidated_rkey == key);
    CHECK(!post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, at, key, 15));
    is_denied(a, b);
    /* An unknown key cannot be invalidated: a message that asks for it fails on both sides. */
    MUST(!receive(b, 64, 16));
    CHECK(!invalidate(a, IBV_WR_SEND_WITH_INV, key, 17) && next(a).status == IBV_WC_REM_ACCESS_ERR && next(b).status == IBV_WC_LOC_PROT_ERR);
    connect_two(a, b);
    CHECK(!invalidate(b, IBV_WR_LOCAL_INV, key, 18) && next(b).status == IBV_WC_LOC_QP_OP_ERR);
    connect_two(a, b);
    /* Nothing is reached through a window whose region has ended, or that has ended itself. */
    bind.bind_info.mr = mr;
    bind.bind_info.addr = at;
    CHECK(!ibv_bind_mw(b->qp, one, &bind));
    ends_well(b, 1, IBV_WC_BIND_MW);
    CHECK(!ibv_dereg_mr(mr));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, at, one->rkey, 19));
    is_denied(a, b);
    CHECK(!ibv_dealloc_mw(one) && !ibv_dealloc_mw(two));
    CHECK(!ibv_alloc_mw(b->pd, (enum ibv_mw_type)3) && errno == EINVAL);
}

static void changed_registrations(struct side *a, struct side *b)
{
    connect_two(a, b);
    struct ibv_mr *mr = ibv_reg_mr(b->pd, b->memory, 4096, IBV_ACCESS_LOCAL_WRITE);
    MUST(mr);
    uint32_t key = mr->rkey;
    uint64_t at = (uintptr_t)b->memory;
    CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ALL) && mr->rkey == key);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, at, key, 1));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);
    /* Peers that have mapped the memory lose the right to it, too. */
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, at, key, 2));
    ends_well(a, 2, IBV_WC_RDMA_WRITE);
    CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, at, key, 3));
    is_denied(a, b);
    CHECK(!post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, at, key, 4));
    ends_well(a, 4, IBV_WC_RDMA_READ);
    /* Another domain; other memory, by another key; and nothing changes if it may not be. */
    struct ibv_pd *pd = ibv_alloc_pd(b->context);
    MUST(pd);
    CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0) && ibv_dealloc_pd(pd) == EBUSY);
    CHECK(!post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, at, key, 5));
    is_denied(a, b);
    CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD | IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS, b->pd, b->memory + 4096, 4096, ALL));
    CHECK(mr->addr == b->memory + 4096 && !ibv_dealloc_pd(pd));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, at + 4096, mr->rkey, 6));
    ends_well(a, 6, IBV_WC_RDMA_WRITE);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)4096, 4096, 0) && mr->addr == b->memory + 4096);
    CHECK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE) && ibv_rereg_mr(mr, 8, NULL, NULL, 0, 0));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, at + 4096, mr->rkey, 7));
    ends_well(a, 7, IBV_WC_RDMA_WRITE);
    CHECK(!ibv_dereg_mr(mr));
}

static void device_memory(struct side *a, struct side *b)
{
    connect_two(a, b);
    struct ibv_device_attr_ex limits;
    MUST(!ibv_query_device_ex(b->context, NULL, &limits) && limits.max_dm_size);
    struct ibv_alloc_dm_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.length = limits.max_dm_size + 4;
    CHECK(!ibv_alloc_dm(b->context, &attr) && errno == ENOMEM);
    attr.length = 100;
    struct ibv_dm *dm = ibv_alloc_dm(b->context, &attr);
    MUST(dm);
    char text[32] = "in the device", back[32] = "";
    CHECK(!ibv_memcpy_to_dm(dm, 8, text, 16) && !ibv_memcpy_from_dm(back, dm, 8, 16) && !strcmp(back, text));
    CHECK(ibv_memcpy_to_dm(dm, 3, text, 4) && ibv_memcpy_to_dm(dm, 4, text, 3) && ibv_memcpy_to_dm(dm, 100, text, 4) && ibv_memcpy_from_dm(back, dm, UINT64_MAX - 3, 8));
    CHECK(!ibv_reg_dm_mr(b->pd, dm, 0, 100, ALL) && !ibv_reg_dm_mr(b->pd, dm, 0, 104, ALL | IBV_ACCESS_ZERO_BASED));
    struct ibv_mr *mr = ibv_reg_dm_mr(b->pd, dm, 8, 92, ALL | IBV_ACCESS_ZERO_BASED);
    MUST(mr);
    CHECK(ibv_free_dm(dm) == EBUSY);
    CHECK(!post(a, IBV_WR_RDMA_READ, 16, a->mr->lkey, 0, mr->rkey, 1));
    ends_well(a, 1, IBV_WC_RDMA_READ);
    CHECK(!strcmp(a->memory, text));
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 16, a->mr->lkey, 80, mr->rkey, 2));
    is_denied(a, b);
    CHECK(!ibv_dereg_mr(mr) && !ibv_free_dm(dm));
}

/* Regions on demand: memory that is not there is an error of the request, never a fault. */
static void on_demand(struct side *a, struct side *b)
{
    struct ibv_device_attr_ex limits;
    MUST(!ibv_query_device_ex(b->context, NULL, &limits));
    if (!(limits.odp_caps.general_caps & IBV_ODP_SUPPORT)) {
        printf("SKIPPED regions on demand: this kernel does not copy within a process\n");
        return;
    }
    connect_two(a, b);
    char *pages = (char *)mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    MUST(pages != MAP_FAILED && !munmap(pages + 4096, 4096));
    uint64_t at = (uintptr_t)pages;
    struct ibv_mr *part = ibv_reg_mr(b->pd, pages, 8192, ALL | IBV_ACCESS_ON_DEMAND);
    struct ibv_mr *all = ibv_reg_mr(b->pd, NULL, SIZE_MAX, ALL | IBV_ACCESS_ON_DEMAND);
    MUST(part && all);
    CHECK(!ibv_reg_mr(b->pd, NULL, SIZE_MAX, ALL));
    strcpy(a->memory, "on demand");
    struct ibv_mr *both[2] = {part, all};
    for (int i = 0; i < 2; i++) {
        uint32_t key = both[i]->rkey;
        memset(pages, 0, 64);
        CHECK(!post(a, IBV_WR_RDMA_WRITE, 10, a->mr->lkey, at + 8, key, 1));
        ends_well(a, 1, IBV_WC_RDMA_WRITE);
        CHECK(!strcmp(pages + 8, "on demand"));
        CHECK(!post(a, IBV_WR_ATOMIC_FETCH_AND_ADD, 8, a->mr->lkey, at, key, 2));
        ends_well(a, 2, IBV_WC_FETCH_ADD);
        CHECK(pages[0] == 5);
        CHECK(!post(a, IBV_WR_RDMA_READ, 4000, a->mr->lkey, at + 8, key, 3));
        ends_well(a, 3, IBV_WC_RDMA_READ);
        CHECK(!strcmp(a->memory, "on demand"));
        const enum ibv_wr_opcode denied[] = {IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
        for (int k = 0; k < 3; k++) {
            CHECK(!post(a, denied[k], 8, a->mr->lkey, at + 4096, key, 4));
            struct ibv_wc wc = next(a);
            CHECK(wc.status == IBV_WC_REM_ACCESS_ERR);
            connect_two(a, b);
        }
        while (readable(b->context->async_fd, 0))
            event_of(b, b->qp);
    }
    /* As the owner's own memory: sends and receives, there and missing. */
    struct ibv_sge sge = {at + 8, 10, all->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = 5;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    MUST(!receive(a, 64, 6));
    CHECK(!ibv_post_send(b->qp, &wr, &bad));
    ends_well(b, 5, IBV_WC_SEND);
    ends_well(a, 6, IBV_WC_RECV);
    CHECK(!strcmp(a->memory + BYTES / 2, "on demand"));
    sge.addr = at + 4096;
    CHECK(!ibv_post_send(b->qp, &wr, &bad) && next(b).status == IBV_WC_LOC_PROT_ERR);
    connect_two(a, b);
    struct ibv_recv_wr into, *bad_receive;
    memset(&into, 0, sizeof into);
    into.sg_list = &sge;
    into.num_sge = 1;
    MUST(!ibv_post_recv(b->qp, &into, &bad_receive) && !post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 7));
    CHECK(next(a).status == IBV_WC_REM_OP_ERR && next(b).status == IBV_WC_LOC_PROT_ERR);
    connect_two(a, b);
    /* Advice: memory that is there, that is not, and that no region covers. */
    struct ibv_sge range = {at, 4096, part->lkey};
    CHECK(!ibv_advise_mr(b->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1));
    range.length = 8192;
    CHECK(ibv_advise_mr(b->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1) == EFAULT);
    CHECK(!ibv_advise_mr(b->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, IBV_ADVISE_MR_FLAG_FLUSH, &range, 1));
    range.length = 8193;
    CHECK(ibv_advise_mr(b->pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &range, 1) == EINVAL);
    CHECK(!ibv_rereg_mr(part, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_LOCAL_WRITE));
    CHECK(!post(a, IBV_WR_RDMA_READ, 8, a->mr->lkey, at, part->rkey, 8));
    is_denied(a, b);
    CHECK(!ibv_dereg_mr(part) && !ibv_dereg_mr(all) && !munmap(pages, 4096));
}

static void domains(struct side *a, struct side *b)
{
    struct ibv_td_init_attr none;
    memset(&none, 0, sizeof none);
    struct ibv_td *td = ibv_alloc_td(b->context, &none);
    MUST(td);
    struct ibv_pd *pd = ibv_alloc_pd(b->context);
    struct ibv_parent_domain_init_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.pd = pd;
    attr.td = td;
    struct ibv_pd *parent = ibv_alloc_parent_domain(b->context, &attr);
    MUST(pd && parent);
    CHECK(ibv_dealloc_td(td) == EBUSY && ibv_dealloc_pd(pd) == EBUSY);
    /* Objects made in it are of its protection domain. */
    struct side c = *b;
    c.pd = parent;
    MUST(c.qp = create(&c, IBV_QPT_RC));
    MUST(c.mr = ibv_reg_mr(pd, c.memory, 4096, ALL));
    connect_two(a, &c);
    CHECK(!post(a, IBV_WR_RDMA_WRITE, 8, a->mr->lkey, (uintptr_t)c.memory, c.mr->rkey, 1));
    ends_well(a, 1, IBV_WC_RDMA_WRITE);
    CHECK(!ibv_destroy_qp(c.qp) && !ibv_dereg_mr(c.mr) && !ibv_dealloc_pd(parent) && !ibv_dealloc_td(td) && !ibv_dealloc_pd(pd));
    attr.pd = NULL;
    CHECK(!ibv_alloc_parent_domain(b->context, &attr) && errno == EINVAL);
}

/* One XRC side: a domain, a receive queue of it, and both kinds of queue pair. */
struct xrc {
    struct ibv_xrcd *domain;
    struct ibv_srq *srq;
    uint32_t srq_number;
    struct ibv_qp *sends, *receives;
};

static struct ibv_qp *xrc_pair(struct side *s, enum ibv_qp_type type, struct ibv_xrcd *domain)
{
    struct ibv_qp_init_attr_ex x;
    memset(&x, 0, sizeof x);
    x.qp_type = type;
    if (type == IBV_QPT_XRC_SEND) {
        x.comp_mask = IBV_QP_INIT_ATTR_PD;
        x.pd = s->pd;
        x.send_cq = s->cq;
        x.cap.max_send_wr = 16;
        x.cap.max_send_sge = 1;
    } else {
        x.comp_mask = IBV_QP_INIT_ATTR_XRCD;
        x.xrcd = domain;
    }
    return ibv_create_qp_ex(s->context, &x);
}

static void open_xrc(struct side *s, struct xrc *x, int fd)
{
    struct ibv_xrcd_init_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = fd;
    attr.oflags = O_CREAT;
    MUST(x->domain = ibv_open_xrcd(s->context, &attr));
    struct ibv_srq_init_attr_ex init;
    memset(&init, 0, sizeof init);
    init.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    init.srq_type = IBV_SRQT_XRC;
    init.pd = s->pd;
    init.xrcd = x->domain;
    init.cq = s->cq;
    init.attr.max_wr = 16;
    init.attr.max_sge = 1;
    MUST(x->srq = ibv_create_srq_ex(s->context, &init));
    MUST(!ibv_get_srq_num(x->srq, &x->srq_number));
    MUST(x->sends = xrc_pair(s, IBV_QPT_XRC_SEND, x->domain));
    MUST(x->receives = xrc_pair(s, IBV_QPT_XRC_RECV, x->domain));
}

static int xrc_send(struct ibv_qp *qp, struct side *s, uint32_t length, uint32_t srq, uint64_t id)
{
    struct ibv_sge sge = {(uintptr_t)s->memory, length, s->mr->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = id;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND;
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.qp_type.xrc.remote_srqn = srq;
    return ibv_post_send(qp, &wr, &bad);
}

static void connect_xrc(struct ibv_qp *from, struct ibv_qp *to)
{
    MUST(!reset(from) && !reset(to) && !to_init(from) && !to_init(to));
    struct ibv_qp_attr a;
    memset(&a, 0, sizeof a);
    a.qp_state = IBV_QPS_RTR;
    a.path_mtu = IBV_MTU_1024;
    a.dest_qp_num = to->qp_num;
    a.ah_attr.is_global = 1;
    a.ah_attr.port_num = 1;
    MUST(!ibv_query_gid(from->context, 1, 0, &a.ah_attr.grh.dgid));
    MUST(!ibv_modify_qp(from, &a, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
    MUST(!to_rtr(to, from->qp_num) && !to_rts(from, 14, 7, 7));
}

/* The next event other than that of a connection's first message. */
static enum ibv_event_type failure_of(struct side *s, struct ibv_qp *qp)
{
    enum ibv_event_type event = event_of(s, qp);
    return event == IBV_EVENT_COMM_EST ? event_of(s, qp) : event;
}

static void extended_connections(struct side *a, struct side *b)
{
    struct xrc x, y;
    int fd = open("/dev/null", O_RDONLY);
    open_xrc(a, &x, -1);
    open_xrc(b, &y, fd);
    connect_xrc(x.sends, y.receives);
    struct ibv_sge sge = {(uintptr_t)b->memory, 40000, b->mr->lkey};
    struct ibv_recv_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.wr_id = 1;
    /* Short and long; waiting for a receive. */
    MUST(!ibv_post_srq_recv(y.srq, &wr, &bad));
    strcpy(a->memory, "to a queue by its number");
    a->memory[39999] = 77;
    CHECK(!xrc_send(x.sends, a, 32, y.srq_number, 2) && !xrc_send(x.sends, a, 40000, y.srq_number, 3));
    ends_well(a, 2, IBV_WC_SEND);
    struct ibv_wc wc = next(b);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 1 && wc.byte_len == 32 && wc.qp_num == y.receives->qp_num && !strcmp(b->memory, a->memory));
    b->memory[39999] = 0;
    wr.wr_id = 4;
    MUST(!ibv_post_srq_recv(y.srq, &wr, &bad));
    ends_well(a, 3, IBV_WC_SEND);
    wc = next(b);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 4 && wc.byte_len == 40000 && b->memory[39999] == 77);
    /* The receiving side takes no posts, unknown queues are refused, the domain is in use. */
    CHECK(ibv_post_recv(y.receives, &wr, &bad) && xrc_send(y.receives, b, 8, x.srq_number, 5));
    CHECK(ibv_close_xrcd(y.domain) == EBUSY);
    CHECK(!xrc_send(x.sends, a, 32, y.srq_number + 1, 6) && next(a).status == IBV_WC_REM_INV_REQ_ERR);
    CHECK(failure_of(b, y.receives) == IBV_EVENT_QP_REQ_ERR);
    connect_xrc(x.sends, y.receives);
    /* A queue of another domain of the same device is refused. */
    struct xrc other;
    open_xrc(b, &other, -1);
    wr.wr_id = 7;
    MUST(!ibv_post_srq_recv(other.srq, &wr, &bad));
    CHECK(!xrc_send(x.sends, a, 32, other.srq_number, 8) && next(a).status == IBV_WC_REM_INV_REQ_ERR && failure_of(b, y.receives) == IBV_EVENT_QP_REQ_ERR);
    connect_xrc(x.sends, y.receives);
    /* Opened once more, and by the same file: queue pair and domain last until the last close. */
    struct ibv_qp_open_attr again;
    memset(&again, 0, sizeof again);
    again.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE;
    again.qp_num = y.receives->qp_num;
    again.xrcd = y.domain;
    again.qp_type = IBV_QPT_XRC_RECV;
    struct ibv_qp *opened = ibv_open_qp(b->context, &again);
    MUST(opened);
    CHECK(!ibv_destroy_qp(y.receives));
    wr.wr_id = 9;
    MUST(!ibv_post_srq_recv(y.srq, &wr, &bad));
    CHECK(!xrc_send(x.sends, a, 32, y.srq_number, 10));
    ends_well(a, 10, IBV_WC_SEND);
    CHECK(next(b).wr_id == 9);
    again.xrcd = other.domain;
    CHECK(!ibv_open_qp(b->context, &again));
    CHECK(!ibv_destroy_qp(opened) && !ibv_destroy_qp(other.receives) && !ibv_destroy_qp(other.sends) && !ibv_destroy_srq(other.srq) && !ibv_close_xrcd(other.domain));
    struct ibv_xrcd_init_attr attr;
    memset(&attr, 0, sizeof attr);
    attr.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    attr.fd = fd;
    struct ibv_xrcd *same = ibv_open_xrcd(b->context, &attr);
    MUST(same);
    CHECK(!ibv_close_xrcd(same) && !ibv_destroy_qp(y.sends) && !ibv_destroy_srq(y.srq) && !ibv_close_xrcd(y.domain));
    CHECK(!ibv_open_xrcd(b->context, &attr));
    CHECK(!ibv_destroy_qp(x.sends) && !ibv_destroy_qp(x.receives) && !ibv_destroy_srq(x.srq) && !ibv_close_xrcd(x.domain));
    close(fd);
}

/* Two inline pieces come as one message, and may be changed as soon as they are posted; a queue pair
   that was made for one piece refuses two. */
static void pieces_inline(struct side *a, struct side *b)
{
    static const uint32_t lengths[] = {0, 1, 8, 9, 23, 24, 31, 32};
    enum { N = sizeof lengths / sizeof *lengths };
    struct ibv_send_wr wr, *bad;
    connect_two(a, b);
    for (int i = 0; i < N * N; i++) {
        uint32_t first = lengths[i / N], second = lengths[i % N];
        char head[32], rest[32], *came = b->memory + BYTES / 2;
        struct ibv_sge pieces[2] = {{(uintptr_t)head, first, 0}, {(uintptr_t)rest, second, 0}};
        memset(head, i + 1, sizeof head), memset(rest, ~i, sizeof rest), memset(came, 0x55, 80);
        memset(&wr, 0, sizeof wr);
        wr.wr_id = 1, wr.sg_list = pieces, wr.num_sge = 2, wr.opcode = IBV_WR_SEND, wr.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE;
        MUST(!receive(b, 80, 2) && !ibv_post_send(a->qp, &wr, &bad));
        memset(head, 0, sizeof head), memset(rest, 0, sizeof rest);
        struct ibv_wc wc = next(b);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.byte_len == first + second);
        for (uint32_t at = 0; at < 80; at++)
            CHECK(came[at] == (char)(at < first ? i + 1 : at < first + second ? ~i : 0x55));
        ends_well(a, 1, IBV_WC_SEND);
    }
    struct ibv_qp_init_attr one;
    memset(&one, 0, sizeof one);
    one.send_cq = one.recv_cq = a->cq, one.qp_type = IBV_QPT_RC;
    one.cap.max_send_wr = one.cap.max_recv_wr = one.cap.max_send_sge = one.cap.max_recv_sge = 1;
    struct ibv_qp *before = a->qp;
    MUST(a->qp = ibv_create_qp(a->pd, &one));
    connect_two(a, b);
    CHECK(ibv_post_send(a->qp, &wr, &bad) == EINVAL && bad == &wr);
    CHECK(!ibv_destroy_qp(a->qp));
    a->qp = before;
}

int main(void)
{
    struct side a, b;
    open_side(&a, device());
    open_side(&b, device());
    pieces_inline(&a, &b);
    windows(&a, &b);
    changed_registrations(&a, &b);
    device_memory(&a, &b);
    on_demand(&a, &b);
    domains(&a, &b);
    extended_connections(&a, &b);
    printf("%d failures\n", failures);
    return failures != 0;
}
