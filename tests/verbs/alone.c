/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connections one after the other between two processes, each alone: how long one takes, and how
   often the threads of both sides sleep for it (each sleep is a wake-up later).
       alone ADDRESS [COUNT] */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* Times that the threads of this process have slept, helpers too. */
static long sleeps(void)
{
    struct rusage u;
    CHECK(getrusage(RUSAGE_SELF, &u) == 0);
    return u.ru_nvcsw;
}

static struct rdma_cm_id *had(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    for (;;) {
        struct rdma_cm_event *e;
        CHECK(rdma_get_cm_event(channel, &e) == 0);
        struct rdma_cm_id *id = e->id;
        enum rdma_cm_event_type is = e->event;
        rdma_ack_cm_event(e);
        if (is == type)
            return id;
        if (is != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
            printf("%s, not %s\n", rdma_event_str(is), rdma_event_str(type));
            exit(1);
        }
    }
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr init = {.cap = {4, 4, 1, 1, 0}, .qp_type = IBV_QPT_RC};
    CHECK(rdma_create_qp(id, NULL, &init) == 0);
}

static void ends(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    CHECK(rdma_destroy_id(id) == 0);
}

static int compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

struct shared {
    volatile int port;
    volatile long sleeps;
};

static int serve(struct sockaddr_in at, int count, int warm, struct shared *shared)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *listener;
    CHECK(channel && rdma_create_id(channel, &listener, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_bind_addr(listener, (struct sockaddr *)&at) == 0 && rdma_listen(listener, 8) == 0);
    shared->port = ntohs(rdma_get_src_port(listener));
    long before = 0;
    for (int i = 0; i < count + warm; i++) {
        if (i == warm)
            before = sleeps();
        struct rdma_cm_id *id = had(channel, RDMA_CM_EVENT_CONNECT_REQUEST);
        make_qp(id);
        struct rdma_conn_param p = {.rnr_retry_count = 7};
        CHECK(rdma_accept(id, &p) == 0 && had(channel, RDMA_CM_EVENT_ESTABLISHED) == id);
        CHECK(had(channel, RDMA_CM_EVENT_DISCONNECTED) == id);
        rdma_disconnect(id);
        ends(id);
    }
    shared->sleeps = sleeps() - before;
    CHECK(rdma_destroy_id(listener) == 0);
    rdma_destroy_event_channel(channel);
    return 0;
}

int main(int argc, char **argv)
{
    int count = argc > 2 ? atoi(argv[2]) : 300, warm = 20;
    struct sockaddr_in at = {.sin_family = AF_INET};
    CHECK(argc > 1 && count > 0 && inet_pton(AF_INET, argv[1], &at.sin_addr) == 1);
    struct shared *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        return serve(at, count, warm, shared);
    while (shared->port == 0)
        usleep(1000);
    at.sin_port = htons(shared->port);
    struct rdma_event_channel *channel = rdma_create_event_channel();
    CHECK(channel);
    double *connects = calloc(count, sizeof(double)), *all = calloc(count, sizeof(double)), first = 0;
    long before = 0;
    for (int i = -warm; i < count; i++) {
        if (i == 0)
            before = sleeps();
        struct rdma_cm_id *id;
        double began = now();
        CHECK(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) == 0);
        CHECK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&at, 2000) == 0 && had(channel, RDMA_CM_EVENT_ADDR_RESOLVED) == id);
        CHECK(rdma_resolve_route(id, 2000) == 0 && had(channel, RDMA_CM_EVENT_ROUTE_RESOLVED) == id);
        make_qp(id);
        struct rdma_conn_param p = {.retry_count = 7, .rnr_retry_count = 7};
        double asked = now();
        CHECK(rdma_connect(id, &p) == 0 && had(channel, RDMA_CM_EVENT_ESTABLISHED) == id);
        double is = now();
        if (i >= 0) {
            connects[i] = is - asked;
            all[i] = is - began;
        } else if (i == -warm)
            first = is - began;
        CHECK(rdma_disconnect(id) == 0 && had(channel, RDMA_CM_EVENT_DISCONNECTED) == id);
        ends(id);
        /* Each is alone: the other side has come to rest. */
        usleep(2000);
    }
    long own = sleeps() - before;
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    qsort(connects, count, sizeof(double), compare);
    qsort(all, count, sizeof(double), compare);
    /* One sleep of each connection is the pause. */
    printf("connect: median %.0f us, lowest tenth %.0f us; with address, route and queue pair %.0f us; the first %.0f us; %.1f sleeps of the client, %.1f of the server\n",
           connects[count / 2], connects[count / 10], all[count / 2], first, (double)own / count - 1, (double)shared->sleeps / count);
    rdma_destroy_event_channel(channel);
    return 0;
}
