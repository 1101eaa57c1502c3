/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Faults on purpose (BELLWIRE_FAULTS) as a program sees them. Two devices of one process:
     trace    requests of all kinds, what becomes of each, and the events of both: the same for the same seed
     slowly   the same, but each is posted when the one before has ended
     port     the port goes down and up, as port=300ms..700ms says
     death    a process ends itself; prints how many of its messages came */
#include "sides.h"
#include <fcntl.h>
#include <poll.h>

static void quiet(struct ibv_context *c)
{
    MUST(!fcntl(c->async_fd, F_SETFL, fcntl(c->async_fd, F_GETFL) | O_NONBLOCK));
}

static void events(struct side *s, const char *whose)
{
    struct ibv_async_event e;
    while (!ibv_get_async_event(s->context, &e)) {
        printf("  event at %s: %s\n", whose, ibv_event_type_str(e.event_type));
        ibv_ack_async_event(&e);
    }
}

static const char *state(struct side *s)
{
    struct ibv_qp_attr a;
    struct ibv_qp_init_attr init;
    MUST(!ibv_query_qp(s->qp, &a, IBV_QP_STATE, &init));
    return a.qp_state == IBV_QPS_RTS ? "works" : a.qp_state == IBV_QPS_ERR ? "failed" : "?";
}

static void trace(struct side *a, struct side *b, int slowly)
{
    static const enum ibv_wr_opcode kinds[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD};
    quiet(a->context);
    quiet(b->context);
    /* 67 ms, once more; three tries to find a receive. Answers come from a thread: if it did not
       run for as long, that would be a fault beside those of the plan. */
    connect_so(a, b, 14, 1, 3);
    for (int i = 0; i < 120; i++) {
        int failed = 0, several = 1 + i % 3;
        for (int at = 0; at < 2 * several; at++) {
            /* All are posted, then all end; or each ends at once. */
            int k = slowly ? at / 2 : at % several;
            if (slowly ? at % 2 : at >= several) {
                struct ibv_wc wc = next(a);
                MUST(wc.wr_id == (uint64_t)k);
                printf("%d.%d: %s\n", i, k, ibv_wc_status_str(wc.status));
                failed |= wc.status != IBV_WC_SUCCESS;
                continue;
            }
            enum ibv_wr_opcode kind = kinds[(i + k) % 4];
            if (kind == IBV_WR_SEND)
                MUST(!receive(b, 8, 9));
            MUST(!post(a, kind, 8, a->mr->lkey, (uintptr_t)b->memory + 64, b->mr->rkey, (uint64_t)k));
        }
        struct ibv_wc wc;
        if (failed) {
            MUST(!strcmp(state(a), "failed"));
            events(a, "the sender");
            /* What the other side was told of, it has heard of. */
            for (int k = 0; k < 100; k++)
                ibv_poll_cq(b->cq, 1, &wc);
            events(b, "the receiver");
            connect_so(a, b, 14, 1, 3);
        }
        while (ibv_poll_cq(b->cq, 1, &wc))
            ;
    }
}

static struct ibv_async_event event(struct side *s)
{
    struct ibv_async_event e;
    memset(&e, 0, sizeof e);
    struct pollfd p = {s->context->async_fd, POLLIN, 0};
    MUST(poll(&p, 1, 20000) == 1);
    MUST(!ibv_get_async_event(s->context, &e));
    ibv_ack_async_event(&e);
    return e;
}

static enum ibv_port_state port(struct side *s)
{
    struct ibv_port_attr a;
    MUST(!ibv_query_port(s->context, 1, &a));
    return a.state;
}

static void ports(struct side *a, struct side *b)
{
    struct ibv_wc wc;
    connect_so(a, b, 21, 7, 7);
    for (int i = 0; i < 2; i++) {
        CHECK(!receive(b, 8, 9));
        CHECK(!receive(b, 8, 9));
    }
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 1));
    CHECK(next(a).status == IBV_WC_SUCCESS && port(a) == IBV_PORT_ACTIVE);
    struct ibv_async_event e = event(a);
    CHECK(e.event_type == IBV_EVENT_PORT_ERR && e.element.port_num == 1);
    CHECK(port(a) == IBV_PORT_DOWN);
    /* Patient: it goes when the port is there again. */
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 2));
    CHECK(ibv_poll_cq(a->cq, 1, &wc) == 0);
    e = event(a);
    CHECK(e.event_type == IBV_EVENT_PORT_ACTIVE && e.element.port_num == 1);
    CHECK(port(a) == IBV_PORT_ACTIVE);
    wc = next(a);
    CHECK(wc.status == IBV_WC_SUCCESS && wc.wr_id == 2);
}

/* Not patient: it fails while the port is down. */
static void impatient(struct side *a, struct side *b)
{
    connect_so(a, b, 9, 1, 7);
    CHECK(!receive(b, 8, 9));
    CHECK(event(a).event_type == IBV_EVENT_PORT_ERR);
    CHECK(!post(a, IBV_WR_SEND, 8, a->mr->lkey, 0, 0, 3));
    CHECK(next(a).status == IBV_WC_RETRY_EXC_ERR);
    CHECK(!strcmp(state(a), "failed") && port(a) == IBV_PORT_DOWN);
}

/* The plan is the child's: it sends until it dies. The parent counts what came, and then finds that nobody answers. */
static void death(const char *plan)
{
    int to_parent[2];
    struct side s;
    pid_t child = two_processes(&s, plan, 12, to_parent);
    if (!child) {
        for (;;) {
            MUST(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 1));
            MUST(next(&s).status == IBV_WC_SUCCESS);
        }
    }
    int status = 0, came = 0;
    struct ibv_wc wc;
    for (;;) {
        if (ibv_poll_cq(s.cq, 1, &wc)) {
            MUST(wc.status == IBV_WC_SUCCESS && !receive(&s, 8, 7));
            came++;
        } else if (waitpid(child, &status, WNOHANG) == child) {
            break;
        }
    }
    while (ibv_poll_cq(s.cq, 1, &wc))
        came++;
    printf("%d messages, signal %d\n", came, WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    CHECK(!post(&s, IBV_WR_SEND, 8, s.mr->lkey, 0, 0, 5));
    wc = next(&s);
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR && wc.wr_id == 5);
}

int main(int argc, char **argv)
{
    MUST(argc > 1);
    if (!strcmp(argv[1], "death")) {
        MUST(argc > 2);
        death(argv[2]);
        return failures != 0;
    }
    struct side a, b;
    open_side(&a, device());
    open_side(&b, device());
    if (!strcmp(argv[1], "trace") || !strcmp(argv[1], "slowly"))
        trace(&a, &b, !strcmp(argv[1], "slowly"));
    else if (!strcmp(argv[1], "port"))
        ports(&a, &b);
    else
        impatient(&a, &b);
    return failures != 0;
}
