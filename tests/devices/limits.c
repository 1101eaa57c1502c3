/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The limits of tests/devices/limits.toml are told, and kept, as devices keep theirs. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures;
#define CHECK(what) \
    do { \
        if (!(what)) { \
            failures++; \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
        } \
    } while (0)

static char memory[1 << 20];

static struct ibv_qp *pair(struct ibv_pd *pd, struct ibv_cq *cq, unsigned sends, unsigned pieces, unsigned bytes)
{
    struct ibv_qp_init_attr a = {.send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC};
    a.cap = (struct ibv_qp_cap){.max_send_wr = sends, .max_recv_wr = 1, .max_send_sge = pieces, .max_recv_sge = 1, .max_inline_data = bytes};
    errno = 0;
    return ibv_create_qp(pd, &a);
}

int main(void)
{
    int n;
    struct ibv_device **list = ibv_get_device_list(&n);
    CHECK(list && n == 3 && !list[3]);
    if (failures)
        return 1;
    CHECK(!strcmp(ibv_get_device_name(list[0]), "bellwire0") && !strcmp(ibv_get_device_name(list[1]), "small") && !strcmp(ibv_get_device_name(list[2]), "mlx5_0"));
    CHECK(ibv_get_device_guid(list[0]) != ibv_get_device_guid(list[1]) && ibv_get_device_guid(list[1]) != ibv_get_device_guid(list[2]));
    CHECK(ibv_get_device_index(list[2]) == 2);
    struct ibv_context *large = ibv_open_device(list[0]), *c = ibv_open_device(list[1]), *mlx5 = ibv_open_device(list[2]);
    if (!large || !c || !mlx5)
        return 1;

    struct ibv_device_attr a, m;
    struct ibv_port_attr p;
    CHECK(ibv_query_device(c, &a) == 0 && ibv_query_device(mlx5, &m) == 0);
    CHECK(a.max_qp == 2 && a.max_qp_wr == 8 && a.max_sge == 2 && a.max_cq == 1 && a.max_cqe == 10 && a.max_mr == 2 && a.max_mr_size == 4096 && a.max_pd == 2);
    CHECK(a.max_srq == 1 && a.max_srq_wr == 5 && a.max_srq_sge == 1 && a.max_ah == 1 && a.max_qp_rd_atom == 3 && a.max_qp_init_rd_atom == 4);
    CHECK(a.atomic_cap == IBV_ATOMIC_NONE && m.atomic_cap == IBV_ATOMIC_HCA);
    CHECK(m.vendor_id == 0x2c9 && m.vendor_part_id == 4119 && m.max_qp_rd_atom == 16 && m.max_cqe == 4194303);
    CHECK(ibv_query_port(c, 1, &p) == 0 && p.active_mtu == IBV_MTU_1024 && p.active_width == 1 && p.active_speed == 32);
    CHECK(ibv_query_port(mlx5, 1, &p) == 0 && p.active_width == 2 && p.active_speed == 64 && p.active_mtu == IBV_MTU_4096);

    struct ibv_pd *pd = ibv_alloc_pd(c), *pd2 = ibv_alloc_pd(c);
    CHECK(pd && pd2 && !ibv_alloc_pd(c) && errno == ENOMEM);
    CHECK(ibv_dealloc_pd(pd2) == 0 && (pd2 = ibv_alloc_pd(c)) && ibv_dealloc_pd(pd2) == 0);
    CHECK(!ibv_create_cq(c, 11, NULL, NULL, 0) && errno == EINVAL);
    struct ibv_cq *cq = ibv_create_cq(c, 10, NULL, NULL, 0);
    CHECK(cq && !ibv_create_cq(c, 1, NULL, NULL, 0) && errno == ENOMEM);
    CHECK(cq && ibv_resize_cq(cq, 11) == EINVAL && ibv_resize_cq(cq, 5) == 0);
    CHECK(!ibv_reg_mr(pd, memory, 4097, IBV_ACCESS_LOCAL_WRITE) && errno == EINVAL);
    CHECK(!ibv_reg_mr(pd, memory, 64, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC) && errno == EINVAL);
    struct ibv_mr *mr = ibv_reg_mr(pd, memory, 4096, IBV_ACCESS_LOCAL_WRITE), *mr2 = ibv_reg_mr(pd, memory, 64, 0);
    CHECK(mr && mr2 && !ibv_reg_mr(pd, memory, 64, 0) && errno == ENOMEM);
    CHECK(mr2 && ibv_dereg_mr(mr2) == 0 && (mr2 = ibv_reg_mr(pd, memory, 64, 0)));

    CHECK(!pair(pd, cq, 9, 1, 0) && errno == EINVAL);
    CHECK(!pair(pd, cq, 1, 3, 0) && errno == EINVAL);
    CHECK(!pair(pd, cq, 1, 1, 101) && errno == EINVAL);
    struct ibv_qp *qp = pair(pd, cq, 8, 2, 100), *qp2 = pair(pd, cq, 1, 1, 0);
    CHECK(qp && qp2 && !pair(pd, cq, 1, 1, 0) && errno == ENOMEM);
    CHECK(qp2 && ibv_destroy_qp(qp2) == 0 && (qp2 = pair(pd, cq, 1, 1, 0)));
    if (qp) {
        struct ibv_qp_attr to = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC};
        int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        CHECK(ibv_modify_qp(qp, &to, init) == EINVAL);
        to.qp_access_flags = 0;
        CHECK(ibv_modify_qp(qp, &to, init) == 0);
        to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTR, .path_mtu = IBV_MTU_2048, .dest_qp_num = qp->qp_num, .max_dest_rd_atomic = 3, .min_rnr_timer = 1};
        to.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1};
        CHECK(ibv_query_gid(c, 1, 0, &to.ah_attr.grh.dgid) == 0);
        int ready = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        CHECK(ibv_modify_qp(qp, &to, ready) == EINVAL);
        to.path_mtu = IBV_MTU_1024;
        to.max_dest_rd_atomic = 4;
        CHECK(ibv_modify_qp(qp, &to, ready) == EINVAL);
        to.max_dest_rd_atomic = 3;
        CHECK(ibv_modify_qp(qp, &to, ready) == 0);
        to = (struct ibv_qp_attr){.qp_state = IBV_QPS_RTS, .max_rd_atomic = 5};
        int send = IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        CHECK(ibv_modify_qp(qp, &to, send) == EINVAL);
        to.max_rd_atomic = 4;
        CHECK(ibv_modify_qp(qp, &to, send) == 0);
    }
    struct ibv_srq_init_attr s = {.attr = {.max_wr = 6, .max_sge = 1}};
    CHECK(!ibv_create_srq(pd, &s) && errno == EINVAL);
    s.attr.max_wr = 5;
    struct ibv_srq *srq = ibv_create_srq(pd, &s);
    CHECK(srq && !ibv_create_srq(pd, &s) && errno == ENOMEM);
    struct ibv_ah_attr at = {.is_global = 1, .port_num = 1};
    CHECK(ibv_query_gid(c, 1, 0, &at.grh.dgid) == 0);
    struct ibv_ah *ah = ibv_create_ah(pd, &at);
    CHECK(ah && !ibv_create_ah(pd, &at) && errno == ENOMEM);

    /* Other devices have counts of their own. */
    struct ibv_pd *other = ibv_alloc_pd(large);
    CHECK(other && ibv_reg_mr(other, memory, sizeof memory, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
    printf("%d failures\n", failures);
    return failures != 0;
}
