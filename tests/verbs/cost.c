/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The calls of a message of 8 bytes as a ping-pong makes them (receive posted, sent, its answer received and with that its completion), each in a function of its own: callgrind counts their instructions (cost.sh).
   Two devices of one process, one thread. With a number, messages of so
   many bytes, at most 1024. With `shared` as libraries do it (UCX): receives of a
   shared queue, and a head and the data as two pieces inline. */
#include "sides.h"

enum { MESSAGES = 4000, BATCH = 16 };

__attribute__((noinline)) void counted_receive(struct side *s)
{
    if (!s->qp->srq) {
        MUST(!receive(s, 1024, 1));
        return;
    }
    /* As libraries do it: many at once, when so many are needed. */
    uintptr_t calls = (uintptr_t)s->qp->srq->srq_context;
    s->qp->srq->srq_context = (void *)(calls + 1);
    if (calls % BATCH)
        return;
    struct ibv_sge piece = {(uintptr_t)s->memory, 64, s->mr->lkey};
    struct ibv_recv_wr *bad, wr[BATCH];
    for (int i = 0; i < BATCH; i++)
        wr[i] = (struct ibv_recv_wr){.wr_id = 1, .next = i + 1 < BATCH ? &wr[i + 1] : NULL, .sg_list = &piece, .num_sge = 1};
    MUST(!ibv_post_srq_recv(s->qp->srq, wr, &bad));
}

/* Another queue pair, whose receives are in a shared queue. */
static void share(struct side *s)
{
    struct ibv_srq_init_attr shared = {.attr = {.max_wr = 4 * BATCH, .max_sge = 1}};
    struct ibv_qp_init_attr a = {.send_cq = s->cq, .recv_cq = s->cq, .cap = {.max_send_wr = 16, .max_send_sge = 2, .max_inline_data = 64}, .qp_type = IBV_QPT_RC};
    MUST(a.srq = ibv_create_srq(s->pd, &shared));
    MUST(!ibv_destroy_qp(s->qp));
    MUST(s->qp = ibv_create_qp(s->pd, &a));
}

__attribute__((noinline)) void counted_send(struct side *s, struct ibv_send_wr *wr)
{
    struct ibv_send_wr *bad;
    MUST(!ibv_post_send(s->qp, wr, &bad));
}

/* Takes two completions: of the receive, and of the own message that is answered with it. */
__attribute__((noinline)) void counted_poll(struct side *s, int wanted)
{
    struct ibv_wc wc;
    while (wanted) {
        int n = ibv_poll_cq(s->cq, 1, &wc);
        MUST(n >= 0 && (!n || wc.status == IBV_WC_SUCCESS));
        wanted -= n;
    }
}

__attribute__((noinline)) void counted_vain(struct side *s)
{
    struct ibv_wc wc;
    MUST(ibv_poll_cq(s->cq, 1, &wc) == 0);
}

int main(int argc, char **argv)
{
    int is_shared = argc == 2 && !strcmp(argv[1], "shared");
    unsigned bytes = argc == 2 && !is_shared ? (unsigned)atoi(argv[1]) : 8;
    struct side a, b;
    open_side(&a, device());
    open_side(&b, device());
    if (is_shared)
        share(&a), share(&b);
    connect_so(&a, &b, 20, 7, 7);
    struct ibv_sge piece[2][2];
    struct ibv_send_wr wr[2];
    memset(wr, 0, sizeof wr);
    struct side *sides[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
        piece[i][0] = piece[i][1] = (struct ibv_sge){(uintptr_t)sides[i]->memory, bytes, sides[i]->mr->lkey};
        wr[i].sg_list = piece[i], wr[i].num_sge = 1, wr[i].opcode = IBV_WR_SEND, wr[i].send_flags = IBV_SEND_SIGNALED;
        if (is_shared)
            piece[i][0].length = 9, wr[i].num_sge = 2, wr[i].send_flags |= IBV_SEND_INLINE;
        counted_receive(sides[i]), counted_receive(sides[i]);
    }
    /* The first ones connect. */
    for (int i = 0; i < 100; i++) {
        for (int s = 0; s < 2; s++) {
            struct ibv_wc wc;
            struct ibv_send_wr *bad;
            MUST(!ibv_post_send(sides[s]->qp, &wr[s], &bad));
            for (int n = 0; n < 2;) {
                n += ibv_poll_cq(sides[0]->cq, 1, &wc);
                n += ibv_poll_cq(sides[1]->cq, 1, &wc);
            }
            counted_receive(sides[1 - s]);
        }
    }
    counted_send(&a, &wr[0]);
    counted_poll(&b, 1), counted_receive(&b);
    for (int i = 0; i < MESSAGES / 2; i++) {
        counted_send(&b, &wr[1]);
        counted_poll(&a, 2), counted_receive(&a);
        counted_send(&a, &wr[0]);
        counted_poll(&b, 2), counted_receive(&b);
    }
    /* The last one is answered when its receiver looks and finds nothing. */
    struct ibv_wc wc;
    MUST(ibv_poll_cq(b.cq, 1, &wc) == 0);
    counted_poll(&a, 1);
    for (int i = 0; i < MESSAGES; i++)
        counted_vain(&b);
    return failures;
}
