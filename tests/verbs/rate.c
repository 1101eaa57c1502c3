/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Preloaded into a program of librdmacm: how long its connections took, from its first
   rdma_resolve_addr (a server: its first request) to the last one that was established. When the
   program ends, one line tells: their number, and microseconds. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <time.h>

static double first, last;
static int count;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static void began(void)
{
    if (first == 0)
        first = now();
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *from, struct sockaddr *to, int timeout)
{
    static int (*next)(struct rdma_cm_id *, struct sockaddr *, struct sockaddr *, int);
    if (!next)
        next = dlsym(RTLD_NEXT, "rdma_resolve_addr");
    began();
    return next(id, from, to, timeout);
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
    static int (*next)(struct rdma_event_channel *, struct rdma_cm_event **);
    if (!next)
        next = dlsym(RTLD_NEXT, "rdma_get_cm_event");
    int failed = next(channel, event);
    if (!failed && (*event)->event == RDMA_CM_EVENT_CONNECT_REQUEST)
        began();
    if (!failed && (*event)->event == RDMA_CM_EVENT_ESTABLISHED) {
        last = now();
        count++;
    }
    return failed;
}

__attribute__((destructor)) static void tell(void)
{
    if (count)
        fprintf(stderr, "connected %d in %.0f us\n", count, last - first);
}
