/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Real devices in the list beside ours: every call for an object of the real device reaches the
   genuine library (genuine.c stands for it), and none for one of ours does. */
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const char *genuine_last;
extern int genuine_sees_bellwire;
extern int ibv_query_gid_type(struct ibv_context *, uint8_t, unsigned, void *);
extern int ibv_dontfork_range(void *, size_t), ibv_dofork_range(void *, size_t);
static int calls, failures;

#define CHECK(what) \
    do { \
        calls++; \
        if (!(what)) { \
            printf("line %d: %s (errno %d, last call \"%s\")\n", __LINE__, #what, errno, genuine_last); \
            failures++; \
        } \
    } while (0)
/* The call was the genuine library's. */
#define REAL(name, ...) \
    do { \
        genuine_last = ""; \
        (void)(name)(__VA_ARGS__); \
        CHECK(strcmp(genuine_last, #name) == 0); \
    } while (0)
/* The call was ours, and has this result. */
#define OURS(what) \
    do { \
        genuine_last = ""; \
        CHECK(what); \
        CHECK(!*genuine_last); \
    } while (0)

static struct ibv_device *find(struct ibv_device **list, const char *name)
{
    for (; *list; list++)
        if (strcmp(ibv_get_device_name(*list), name) == 0)
            return *list;
    return NULL;
}

int main(void)
{
    int count = 0;
    struct ibv_device **list = ibv_get_device_list(&count);
    CHECK(list && count == 2 && list[0] && list[1] && !list[2] && !genuine_sees_bellwire);
    CHECK(strcmp(ibv_get_device_name(list[0]), "bellwire0") == 0);
    struct ibv_device *real = find(list, "real0"), *ours = find(list, "bellwire0");
    CHECK(real && ours && ibv_get_device_guid(real) == 0x1234 && ibv_get_device_guid(ours) != 0x1234);
    REAL(ibv_get_device_index, real);

    struct ibv_context *c = ibv_open_device(real);
    CHECK(c && c->device == real);
    char memory[64] = "";
    void *any = memory;
    struct ibv_pd *p = ibv_alloc_pd(c);
    struct ibv_cq *q = ibv_create_cq(c, 4, NULL, NULL, 0);
    struct ibv_comp_channel *h = ibv_create_comp_channel(c);
    struct ibv_mr *m = (ibv_reg_mr)(p, memory, 1, 0);
    struct ibv_srq *s = ibv_create_srq(p, any);
    struct ibv_qp *w = ibv_create_qp(p, any);
    struct ibv_ah *a = ibv_create_ah(p, any);
    CHECK(p && q && h && m && s && w && a && p->context == c && strcmp(genuine_last, "ibv_create_ah") == 0);
    REAL(ibv_get_async_event, c, any);
    REAL(ibv_query_device, c, any);
    REAL(ibv_query_port, c, 1, any);
    REAL(ibv_query_gid, c, 1, 0, any);
    REAL(ibv_query_pkey, c, 1, 0, any);
    REAL(ibv_get_pkey_index, c, 1, 0);
    REAL(_ibv_query_gid_ex, c, 1, 0, any, 0, 8);
    REAL(_ibv_query_gid_table, c, any, 0, 0, 8);
    REAL(ibv_query_gid_type, c, 1, 0, any);
    REAL(ibv_alloc_pd, c);
    REAL(ibv_reg_mr, p, memory, 1, 0);
    REAL(ibv_reg_mr_iova, p, memory, 1, 0, 0);
    REAL(ibv_reg_mr_iova2, p, memory, 1, 0, 0);
    REAL(ibv_reg_dmabuf_mr, p, 0, 1, 0, 0, 0);
    REAL(ibv_rereg_mr, m, 0, p, memory, 1, 0);
    REAL(ibv_dereg_mr, m);
    REAL(ibv_create_comp_channel, c);
    REAL(ibv_create_cq, c, 4, NULL, h, 0);
    REAL(ibv_resize_cq, q, 8);
    REAL(ibv_get_cq_event, h, any, any);
    REAL(ibv_ack_cq_events, q, 1);
    REAL(ibv_create_srq, p, any);
    REAL(ibv_modify_srq, s, any, 1);
    REAL(ibv_query_srq, s, any);
    REAL(ibv_create_qp, p, any);
    REAL(ibv_modify_qp, w, any, 1);
    REAL(ibv_query_qp, w, any, 1, any);
    REAL(ibv_query_qp_data_in_order, w, IBV_WR_SEND, 0);
    REAL(ibv_qp_to_qp_ex, w);
    REAL(ibv_query_ece, w, any);
    REAL(ibv_set_ece, w, any);
    REAL(ibv_attach_mcast, w, any, 0);
    REAL(ibv_detach_mcast, w, any, 0);
    REAL(ibv_create_ah, p, any);
    REAL(ibv_create_ah_from_wc, p, any, any, 1);
    REAL(ibv_init_ah_from_wc, c, 1, any, any, any);
    REAL(ibv_resolve_eth_l2_from_gid, c, any, any, any);
    REAL(ibv_import_pd, c, 1);
    REAL(ibv_import_mr, p, 1);
    REAL(ibv_import_dm, c, 1);
    REAL(ibv_unimport_pd, p);
    REAL(ibv_unimport_mr, m);
    REAL(ibv_unimport_dm, (struct ibv_dm *)m);
    struct ibv_async_event e = {.event_type = IBV_EVENT_QP_FATAL, .element.qp = w};
    REAL(ibv_ack_async_event, &e);
    e = (struct ibv_async_event){.event_type = IBV_EVENT_SRQ_LIMIT_REACHED, .element.srq = s};
    REAL(ibv_ack_async_event, &e);
    /* A descriptor that is no context of ours. */
    REAL(ibv_import_device, STDIN_FILENO);
    REAL(ibv_fork_init);
    REAL(ibv_is_fork_initialized);
    REAL(ibv_dontfork_range, memory, 1);
    REAL(ibv_dofork_range, memory, 1);

    /* Ours beside it. */
    struct ibv_context *o;
    OURS((o = ibv_open_device(ours)) != NULL && o->device == ours);
    struct ibv_pd *op;
    struct ibv_mr *om;
    struct ibv_comp_channel *oh;
    struct ibv_cq *oc;
    struct ibv_qp *oq;
    struct ibv_srq *os;
    struct ibv_port_attr port;
    union ibv_gid gid;
    OURS((op = ibv_alloc_pd(o)) != NULL);
    OURS((om = (ibv_reg_mr)(op, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE)) != NULL);
    OURS((oh = ibv_create_comp_channel(o)) != NULL);
    OURS((oc = ibv_create_cq(o, 4, NULL, oh, 0)) != NULL && ibv_resize_cq(oc, 8) == 0);
    struct ibv_srq_init_attr si = {.attr = {4, 1, 0}};
    OURS((os = ibv_create_srq(op, &si)) != NULL);
    struct ibv_qp_init_attr qi = {.send_cq = oc, .recv_cq = oc, .srq = os, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    OURS((oq = ibv_create_qp(op, &qi)) != NULL);
    OURS((ibv_query_port)(o, 1, (void *)&port) == 0 && port.state == IBV_PORT_ACTIVE && ibv_query_gid(o, 1, 0, &gid) == 0);
    e = (struct ibv_async_event){.event_type = IBV_EVENT_QP_FATAL, .element.qp = oq};
    OURS((ibv_ack_async_event(&e), 1));
    e = (struct ibv_async_event){.event_type = IBV_EVENT_PORT_ERR, .element.port_num = 1};
    OURS((ibv_ack_async_event(&e), 1));
    int again = dup(o->cmd_fd);
    struct ibv_context *imported;
    OURS((imported = ibv_import_device(again)) != NULL && ibv_close_device(imported) == 0);
    OURS(ibv_destroy_qp(oq) == 0 && ibv_destroy_srq(os) == 0 && ibv_destroy_cq(oc) == 0);
    OURS(ibv_destroy_comp_channel(oh) == 0 && ibv_dereg_mr(om) == 0 && ibv_dealloc_pd(op) == 0 && ibv_close_device(o) == 0);

    REAL(ibv_destroy_qp, w);
    REAL(ibv_destroy_srq, s);
    REAL(ibv_destroy_cq, q);
    REAL(ibv_destroy_comp_channel, h);
    REAL(ibv_destroy_ah, a);
    REAL(ibv_dealloc_pd, p);
    REAL(ibv_close_device, c);
    REAL(ibv_free_device_list, list);
    printf("%d checks, %d failures\n", calls, failures);
    return failures != 0;
}
