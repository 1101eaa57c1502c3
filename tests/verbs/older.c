/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program of 2006: its names have the version IBVERBS_1.0, and its structures are those of then.
   Two queue pairs of one process send and receive, with events, a shared receive queue and
   datagrams. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

struct old_context;
struct old_cq;
struct old_qp;
struct old_srq;
struct old_send;
struct old_receive;
typedef void (*hole)(void);

struct old_context {
    void *device;
    hole before[7];
    int (*poll_cq)(struct old_cq *, int, struct ibv_wc *);
    int (*req_notify_cq)(struct old_cq *, int);
    hole between[7];
    int (*post_srq_recv)(struct old_srq *, struct old_receive *, struct old_receive **);
    hole others[4];
    int (*post_send)(struct old_qp *, struct old_send *, struct old_send **);
    int (*post_recv)(struct old_qp *, struct old_receive *, struct old_receive **);
    hole after[4];
    int cmd_fd, async_fd, num_comp_vectors;
    void *compatibility;
};
struct old_pd {
    struct old_context *context;
    uint32_t handle;
};
struct old_mr {
    struct old_context *context;
    struct old_pd *pd;
    uint32_t handle, lkey, rkey;
};
struct old_cq {
    struct old_context *context;
    void *cq_context;
    uint32_t handle;
    int cqe;
};
struct old_srq {
    struct old_context *context;
    void *srq_context;
    struct old_pd *pd;
    uint32_t handle;
};
struct old_qp {
    struct old_context *context;
    void *qp_context;
    struct old_pd *pd;
    struct old_cq *send_cq, *recv_cq;
    struct old_srq *srq;
    uint32_t handle, qp_num;
    enum ibv_qp_state state;
    enum ibv_qp_type qp_type;
};
struct old_ah {
    struct old_context *context;
};
struct old_init {
    void *qp_context;
    struct old_cq *send_cq, *recv_cq;
    struct old_srq *srq;
    struct ibv_qp_cap cap;
    enum ibv_qp_type qp_type;
    int sq_sig_all;
};
struct old_send {
    struct old_send *next;
    uint64_t wr_id;
    struct ibv_sge *sg_list;
    int num_sge;
    enum ibv_wr_opcode opcode;
    int send_flags;
    uint32_t imm_data;
    union {
        struct {
            uint64_t remote_addr;
            uint32_t rkey;
        } rdma;
        struct {
            uint64_t remote_addr, compare_add, swap;
            uint32_t rkey;
        } atomic;
        struct {
            struct old_ah *ah;
            uint32_t remote_qpn, remote_qkey;
        } ud;
    } wr;
};
struct old_receive {
    struct old_receive *next;
    uint64_t wr_id;
    struct ibv_sge *sg_list;
    int num_sge;
};

/* The names of then. All 33 are bound, so the program does not start where one is not there. */
#define OLD(result, name, arguments) \
    extern result old_##name arguments; \
    __asm__(".symver old_" #name ", ibv_" #name "@IBVERBS_1.0")

OLD(void **, get_device_list, (int *));
OLD(void, free_device_list, (void **));
OLD(const char *, get_device_name, (void *));
OLD(uint64_t, get_device_guid, (void *));
OLD(struct old_context *, open_device, (void *));
OLD(int, close_device, (struct old_context *));
OLD(int, get_async_event, (struct old_context *, struct ibv_async_event *));
OLD(void, ack_async_event, (struct ibv_async_event *));
OLD(int, query_device, (struct old_context *, struct ibv_device_attr *));
OLD(int, query_port, (struct old_context *, uint8_t, struct ibv_port_attr *));
OLD(int, query_gid, (struct old_context *, uint8_t, int, union ibv_gid *));
OLD(int, query_pkey, (struct old_context *, uint8_t, int, uint16_t *));
OLD(struct old_pd *, alloc_pd, (struct old_context *));
OLD(int, dealloc_pd, (struct old_pd *));
OLD(struct old_mr *, reg_mr, (struct old_pd *, void *, size_t, int));
OLD(int, dereg_mr, (struct old_mr *));
OLD(struct old_cq *, create_cq, (struct old_context *, int, void *, struct ibv_comp_channel *, int));
OLD(int, resize_cq, (struct old_cq *, int));
OLD(int, destroy_cq, (struct old_cq *));
OLD(int, get_cq_event, (struct ibv_comp_channel *, struct old_cq **, void **));
OLD(void, ack_cq_events, (struct old_cq *, unsigned));
OLD(struct old_srq *, create_srq, (struct old_pd *, struct ibv_srq_init_attr *));
OLD(int, modify_srq, (struct old_srq *, struct ibv_srq_attr *, int));
OLD(int, query_srq, (struct old_srq *, struct ibv_srq_attr *));
OLD(int, destroy_srq, (struct old_srq *));
OLD(struct old_qp *, create_qp, (struct old_pd *, struct old_init *));
OLD(int, query_qp, (struct old_qp *, struct ibv_qp_attr *, int, struct old_init *));
OLD(int, modify_qp, (struct old_qp *, struct ibv_qp_attr *, int));
OLD(int, destroy_qp, (struct old_qp *));
OLD(struct old_ah *, create_ah, (struct old_pd *, struct ibv_ah_attr *));
OLD(int, destroy_ah, (struct old_ah *));
OLD(int, attach_mcast, (struct old_qp *, union ibv_gid *, uint16_t));
OLD(int, detach_mcast, (struct old_qp *, union ibv_gid *, uint16_t));

static union ibv_gid own;

static void moves(struct old_qp *qp, uint32_t peer)
{
    int is_ud = qp->qp_type == IBV_QPT_UD;
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = 7, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
    CHECK(old_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (is_ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)) == 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_1024, .dest_qp_num = peer, .max_dest_rd_atomic = 1, .min_rnr_timer = 1};
    a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = own, .hop_limit = 1}};
    CHECK(old_modify_qp(qp, &a, is_ud ? IBV_QP_STATE : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) == 0);
    a = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
    CHECK(old_modify_qp(qp, &a, is_ud ? IBV_QP_STATE | IBV_QP_SQ_PSN : IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC) == 0);
    CHECK(qp->state == IBV_QPS_RTS);
}

/* Takes completions until there are so many, by events. */
static void completes(struct ibv_comp_channel *channel, struct old_cq *cq, int count, struct ibv_wc *to)
{
    CHECK(cq->context->req_notify_cq(cq, 0) == 0);
    for (int had = 0; had < count;) {
        int n = cq->context->poll_cq(cq, count - had, to + had);
        CHECK(n >= 0);
        had += n;
        if (had < count) {
            struct old_cq *which;
            void *mine;
            CHECK(old_get_cq_event(channel, &which, &mine) == 0 && which == cq && mine == &own);
            old_ack_cq_events(cq, 1);
            CHECK(cq->context->req_notify_cq(cq, 0) == 0);
        }
    }
    for (int i = 0; i < count; i++)
        if (to[i].status != IBV_WC_SUCCESS) {
            printf("completion %lu: %s\n", (unsigned long)to[i].wr_id, ibv_wc_status_str(to[i].status));
            exit(1);
        }
}

int main(void)
{
    int count = 0;
    void **list = old_get_device_list(&count);
    CHECK(list && count >= 1 && list[0]);
    printf("%s %lx\n", old_get_device_name(list[0]), (unsigned long)old_get_device_guid(list[0]));
    struct old_context *context = old_open_device(list[0]);
    CHECK(context && context->device == list[0] && context->async_fd >= 0 && context->num_comp_vectors >= 1);
    struct ibv_device_attr device;
    struct ibv_port_attr port;
    uint16_t key;
    CHECK(old_query_device(context, &device) == 0 && device.max_qp > 0);
    CHECK(old_query_port(context, 1, &port) == 0 && port.state == IBV_PORT_ACTIVE);
    CHECK(old_query_gid(context, 1, 0, &own) == 0 && old_query_pkey(context, 1, 0, &key) == 0 && key == 0xffff);

    /* This name has had one version: it takes either context. */
    struct ibv_comp_channel *channel = ibv_create_comp_channel((void *)context);
    struct old_pd *pd = old_alloc_pd(context);
    struct old_cq *cq = old_create_cq(context, 16, &own, channel, 0);
    CHECK(channel && pd && pd->context == context && cq && cq->cq_context == &own && cq->cqe >= 16);
    CHECK(old_resize_cq(cq, 64) == 0 && cq->cqe >= 64);
    char memory[4096] = "forty-two bytes that were posted in 2006..";
    struct old_mr *mr = old_reg_mr(pd, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
    CHECK(mr && mr->pd == pd);
    struct ibv_srq_init_attr s = {.srq_context = memory, .attr = {8, 1, 0}};
    struct old_srq *srq = old_create_srq(pd, &s);
    CHECK(srq && srq->srq_context == memory && old_query_srq(srq, &s.attr) == 0 && s.attr.max_wr >= 8);

    struct old_init init = {.qp_context = &port, .send_cq = cq, .recv_cq = cq, .cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_RC, .sq_sig_all = 1};
    struct old_qp *a = old_create_qp(pd, &init);
    init.srq = srq;
    struct old_qp *b = old_create_qp(pd, &init);
    CHECK(a && b && a->qp_context == &port && a->qp_num != b->qp_num && b->srq == srq);
    moves(a, b->qp_num);
    moves(b, a->qp_num);
    struct ibv_qp_attr now;
    struct old_init made;
    CHECK(old_query_qp(b, &now, IBV_QP_STATE, &made) == 0 && now.qp_state == IBV_QPS_RTS && made.srq == srq && made.send_cq == cq && made.qp_context == &port);
    CHECK(old_query_qp(a, &now, IBV_QP_STATE, &made) == 0 && !made.srq);

    /* A list of two sends into a list of two receives. */
    struct ibv_sge from = {(uintptr_t)memory, 42, mr->lkey}, first = {(uintptr_t)memory + 1024, 42, mr->lkey}, second = {(uintptr_t)memory + 2048, 42, mr->lkey};
    struct old_receive r2 = {NULL, 12, &second, 1}, r1 = {&r2, 11, &first, 1}, *bad_receive;
    struct old_send s2 = {.wr_id = 2, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND_WITH_IMM, .imm_data = 99}, s1 = s2, *bad_send;
    s1.next = &s2;
    s1.wr_id = 1;
    s1.opcode = IBV_WR_SEND;
    struct ibv_wc c[4];
    CHECK(context->post_srq_recv(srq, &r1, &bad_receive) == 0 && context->post_send(a, &s1, &bad_send) == 0);
    completes(channel, cq, 4, c);
    CHECK(memcmp(memory, memory + 1024, 42) == 0 && memcmp(memory, memory + 2048, 42) == 0);
    int immediate = 0;
    for (int i = 0; i < 4; i++)
        immediate += c[i].wr_id == 12 && (c[i].wc_flags & IBV_WC_WITH_IMM) && c[i].imm_data == 99 && c[i].qp_num == b->qp_num;
    CHECK(immediate == 1);

    /* A write, and a request that is refused: it is named. */
    memset(memory + 1024, 0, 42);
    struct old_send w = {.wr_id = 3, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {(uintptr_t)memory + 1024, mr->rkey}};
    CHECK(context->post_send(a, &w, &bad_send) == 0);
    completes(channel, cq, 1, c);
    CHECK(memcmp(memory, memory + 1024, 42) == 0);
    struct old_send wrong = {.wr_id = 5, .sg_list = &from, .num_sge = 99, .opcode = IBV_WR_SEND};
    w.next = &wrong;
    CHECK(context->post_send(a, &w, &bad_send) != 0 && bad_send == &wrong);
    completes(channel, cq, 1, c);

    /* Datagrams, to itself. */
    init = (struct old_init){.send_cq = cq, .recv_cq = cq, .cap = {8, 8, 1, 1, 0}, .qp_type = IBV_QPT_UD, .sq_sig_all = 1};
    struct old_qp *u = old_create_qp(pd, &init);
    CHECK(u);
    moves(u, 0);
    struct ibv_ah_attr to = {.is_global = 1, .port_num = 1, .grh = {.dgid = own, .hop_limit = 1}};
    struct old_ah *ah = old_create_ah(pd, &to);
    struct ibv_sge whole = {(uintptr_t)memory + 1024, 1024, mr->lkey};
    struct old_receive ur = {NULL, 21, &whole, 1};
    struct old_send us = {.wr_id = 22, .sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .wr.ud = {ah, u->qp_num, 7}};
    CHECK(ah && context->post_recv(u, &ur, &bad_receive) == 0 && context->post_send(u, &us, &bad_send) == 0);
    completes(channel, cq, 2, c);
    CHECK(memcmp(memory, memory + 1024 + 40, 42) == 0);
    union ibv_gid group = {.raw = {[10] = 0xff, 0xff, 239, 1, 2, 3}};
    CHECK(old_attach_mcast(u, &group, 0) == 0 && old_detach_mcast(u, &group, 0) == 0);

    /* An event names the old object: the shared receive queue is below its limit. */
    s.attr.srq_limit = 2;
    CHECK(context->post_srq_recv(srq, &r1, &bad_receive) == 0 && old_modify_srq(srq, &s.attr, IBV_SRQ_LIMIT) == 0);
    s1.next = NULL;
    CHECK(context->post_send(a, &s1, &bad_send) == 0);
    completes(channel, cq, 2, c);
    struct ibv_async_event e;
    struct pollfd waits = {context->async_fd, POLLIN, 0};
    CHECK(poll(&waits, 1, 60000) == 1 && old_get_async_event(context, &e) == 0 && e.event_type == IBV_EVENT_SRQ_LIMIT_REACHED && (void *)e.element.srq == srq);
    old_ack_async_event(&e);

    CHECK(old_destroy_ah(ah) == 0 && old_destroy_qp(u) == 0 && old_destroy_qp(a) == 0 && old_destroy_qp(b) == 0);
    CHECK(old_destroy_srq(srq) == 0 && old_dereg_mr(mr) == 0 && old_destroy_cq(cq) == 0 && old_dealloc_pd(pd) == 0);
    CHECK(ibv_destroy_comp_channel(channel) == 0 && old_close_device(context) == 0);
    old_free_device_list(list);
    puts("well");
    return 0;
}
