/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A device is removed by a plan (BELLWIRE_FAULTS=remove=..): the program gets the events, what it
   has posted ends, and the device is neither listed nor opened again. Prints after how many
   milliseconds. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

int main(void)
{
    struct ibv_device **list = ibv_get_device_list(NULL);
    CHECK(list && list[0]);
    struct timespec from, to;
    clock_gettime(CLOCK_MONOTONIC, &from);
    struct ibv_context *c = ibv_open_device(list[0]);
    CHECK(c);
    struct ibv_pd *pd = ibv_alloc_pd(c);
    struct ibv_cq *cq = ibv_create_cq(c, 4, NULL, NULL, 0);
    struct ibv_qp_init_attr init = {.send_cq = cq, .recv_cq = cq, .cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    struct ibv_qp *qp = ibv_create_qp(pd, &init);
    CHECK(pd && cq && qp);
    struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT, .port_num = 1};
    CHECK(ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) == 0);
    struct ibv_recv_wr receive = {.wr_id = 9}, *bad;
    CHECK(ibv_post_recv(qp, &receive, &bad) == 0);
    struct ibv_async_event e;
    int port_failed = 0;
    do {
        CHECK(ibv_get_async_event(c, &e) == 0);
        port_failed |= e.event_type == IBV_EVENT_PORT_ERR;
        ibv_ack_async_event(&e);
    } while (e.event_type != IBV_EVENT_DEVICE_FATAL);
    clock_gettime(CLOCK_MONOTONIC, &to);
    struct ibv_wc w;
    CHECK(port_failed && ibv_poll_cq(cq, 1, &w) == 1 && w.wr_id == 9 && w.status == IBV_WC_WR_FLUSH_ERR);
    errno = 0;
    CHECK(!ibv_open_device(list[0]) && errno == ENODEV);
    int count = -1;
    struct ibv_device **now = ibv_get_device_list(&count);
    CHECK(now && count == 0 && !now[0]);
    CHECK(ibv_destroy_qp(qp) == 0 && ibv_destroy_cq(cq) == 0 && ibv_dealloc_pd(pd) == 0 && ibv_close_device(c) == 0);
    printf("removed after %ld ms\n", (to.tv_sec - from.tv_sec) * 1000 + (to.tv_nsec - from.tv_nsec) / 1000000);
    return 0;
}
