/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connection management on two devices (port.toml): identifiers are of the device that has their
   address, a listener of all addresses is on both, and programs hear of addresses that change and
   of devices that are removed, by `bellwire port` (the first argument). */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHECK(what) \
    do { \
        if (!(what)) { \
            printf("line %d: %s (errno %d)\n", __LINE__, #what, errno); \
            exit(1); \
        } \
    } while (0)

static struct sockaddr_in at(const char *ip, int port)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
    CHECK(inet_pton(AF_INET, ip, &a.sin_addr) == 1);
    return a;
}

static struct rdma_cm_event *event_is(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *e;
    CHECK(rdma_get_cm_event(channel, &e) == 0);
    /* Connections that are over say so once more. */
    while (e->event == RDMA_CM_EVENT_TIMEWAIT_EXIT)
        CHECK(rdma_ack_cm_event(e) == 0 && rdma_get_cm_event(channel, &e) == 0);
    if (e->event != type)
        printf("event %s (%d), not %s\n", rdma_event_str(e->event), e->status, rdma_event_str(type));
    CHECK(e->event == type);
    return e;
}

static struct rdma_cm_id *had(struct rdma_event_channel *channel, enum rdma_cm_event_type type)
{
    struct rdma_cm_event *e = event_is(channel, type);
    struct rdma_cm_id *id = e->id;
    CHECK(e->status == 0 && rdma_ack_cm_event(e) == 0);
    return id;
}

/* The program sleeps in poll, and wakes once there is an event. */
static void is_told(struct rdma_event_channel *channel)
{
    struct pollfd p = {channel->fd, POLLIN, 0};
    CHECK(poll(&p, 1, 60000) == 1);
}

static int is_silent(struct rdma_event_channel *channel)
{
    struct pollfd p = {channel->fd, POLLIN, 0};
    return poll(&p, 1, 0) == 0;
}

static int is_of(struct rdma_cm_id *id, const char *name)
{
    return id->verbs && strcmp(ibv_get_device_name(id->verbs->device), name) == 0;
}

static void make_qp(struct rdma_cm_id *id)
{
    struct ibv_qp_init_attr a = {.qp_type = IBV_QPT_RC, .cap = {4, 4, 1, 1, 0}};
    CHECK(rdma_create_qp(id, NULL, &a) == 0);
}

struct pair {
    struct rdma_cm_id *active, *passive;
};

/* Connects from one address to another; `source` and `target` are the devices that these are of. */
static struct pair connects(struct rdma_event_channel *ours, struct rdma_event_channel *theirs, const char *from, const char *to, int port, const char *source,
                            const char *target)
{
    struct pair p;
    struct sockaddr_in own, peer = at(to, port);
    CHECK(rdma_create_id(ours, &p.active, NULL, RDMA_PS_TCP) == 0);
    if (from)
        own = at(from, 0);
    CHECK(rdma_resolve_addr(p.active, from ? (void *)&own : NULL, (void *)&peer, 1000) == 0);
    CHECK(had(ours, RDMA_CM_EVENT_ADDR_RESOLVED) == p.active && is_of(p.active, source));
    CHECK(rdma_resolve_route(p.active, 1000) == 0 && had(ours, RDMA_CM_EVENT_ROUTE_RESOLVED) == p.active);
    make_qp(p.active);
    struct rdma_conn_param with = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7, .rnr_retry_count = 7};
    CHECK(rdma_connect(p.active, &with) == 0);
    is_told(theirs);
    p.passive = had(theirs, RDMA_CM_EVENT_CONNECT_REQUEST);
    CHECK(is_of(p.passive, target));
    make_qp(p.passive);
    CHECK(rdma_accept(p.passive, &with) == 0);
    CHECK(had(ours, RDMA_CM_EVENT_ESTABLISHED) == p.active);
    CHECK(had(theirs, RDMA_CM_EVENT_ESTABLISHED) == p.passive);
    return p;
}

static void ends(struct rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    CHECK(rdma_destroy_id(id) == 0);
}

static char *command;

static void order(const char *device, const char *what)
{
    char text[4096];
    snprintf(text, sizeof text, "env -u LD_PRELOAD %s port %s %s --pid %d >/dev/null", command, device, what, getpid());
    CHECK(system(text) == 0);
}

static int listed(const char *name)
{
    int found = 0;
    struct ibv_device **list = ibv_get_device_list(NULL);
    for (int i = 0; list[i]; i++)
        found |= strcmp(ibv_get_device_name(list[i]), name) == 0;
    ibv_free_device_list(list);
    return found;
}

int main(int count, char **values)
{
    CHECK(count == 2);
    command = values[1];
    alarm(100);
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct rdma_event_channel *ours = rdma_create_event_channel(), *theirs = rdma_create_event_channel();
    struct rdma_cm_id *first, *second, *everywhere, *other;
    CHECK(ours && theirs && rdma_create_id(theirs, &first, NULL, RDMA_PS_TCP) == 0 && rdma_create_id(theirs, &second, NULL, RDMA_PS_TCP) == 0);
    CHECK(rdma_create_id(theirs, &everywhere, NULL, RDMA_PS_TCP) == 0 && rdma_create_id(theirs, &other, NULL, RDMA_PS_TCP) == 0);

    /* One port of each of two devices, since their addresses differ. */
    struct sockaddr_in a = at("127.0.0.1", 0), b = at("127.0.0.2", 0), any = at("0.0.0.0", 0);
    CHECK(rdma_bind_addr(first, (void *)&a) == 0 && is_of(first, "bellwire0"));
    int port = ntohs(rdma_get_src_port(first));
    b.sin_port = htons(port);
    CHECK(rdma_bind_addr(second, (void *)&b) == 0 && is_of(second, "small"));
    any.sin_port = htons(port);
    CHECK(rdma_bind_addr(other, (void *)&any) == -1 && errno == EADDRNOTAVAIL);
    CHECK(rdma_listen(first, 4) == 0 && rdma_listen(second, 4) == 0);
    struct pair p[4];
    p[0] = connects(ours, theirs, NULL, "127.0.0.1", port, "bellwire0", "bellwire0");
    p[1] = connects(ours, theirs, "127.0.0.1", "127.0.0.2", port, "bellwire0", "small");
    p[2] = connects(ours, theirs, "127.0.0.2", "127.0.0.2", port, "small", "small");

    /* A listener of all addresses. */
    any.sin_port = 0;
    CHECK(rdma_bind_addr(everywhere, (void *)&any) == 0 && !everywhere->verbs && rdma_listen(everywhere, 4) == 0);
    int all = ntohs(rdma_get_src_port(everywhere));
    CHECK(all != 0 && all != port);
    struct pair q = connects(ours, theirs, "127.0.0.2", "127.0.0.1", all, "small", "bellwire0");
    p[3] = connects(ours, theirs, "127.0.0.1", "127.0.0.2", all, "bellwire0", "small");

    /* An identifier moves to another channel, with its device. */
    struct rdma_event_channel *third = rdma_create_event_channel();
    CHECK(third && rdma_migrate_id(q.active, third) == 0);
    CHECK(rdma_disconnect(q.active) == 0 && had(theirs, RDMA_CM_EVENT_DISCONNECTED) == q.passive);
    CHECK(rdma_disconnect(q.passive) == 0 && had(third, RDMA_CM_EVENT_DISCONNECTED) == q.active);
    ends(q.active);
    ends(q.passive);
    rdma_destroy_event_channel(third);

    /* An address changes: the identifiers of that device are told, once each. */
    order("small", "gid-change");
    CHECK(had(ours, RDMA_CM_EVENT_ADDR_CHANGE) == p[2].active && is_silent(ours));
    for (int i = 0; i < 4; i++)
        had(theirs, RDMA_CM_EVENT_ADDR_CHANGE);
    CHECK(is_silent(theirs));

    /* A device is removed: its identifiers are told, and peers see connections end. */
    struct ibv_recv_wr *bad, receive = {.wr_id = 9};
    CHECK(ibv_post_recv(p[2].active->qp, &receive, &bad) == 0 && ibv_post_recv(p[0].active->qp, &receive, &bad) == 0);
    order("small", "remove");
    int removals = 0, ended = 0;
    while (removals < 5 || ended < 2) {
        struct rdma_cm_event *e;
        struct pollfd f[2] = {{ours->fd, POLLIN, 0}, {theirs->fd, POLLIN, 0}};
        CHECK(poll(f, 2, 60000) >= 1);
        int from_ours = f[0].revents != 0;
        CHECK(rdma_get_cm_event(from_ours ? ours : theirs, &e) == 0);
        if (e->event == RDMA_CM_EVENT_DEVICE_REMOVAL) {
            CHECK(from_ours ? e->id == p[2].active : (e->id == second || e->id == p[1].passive || e->id == p[2].passive || e->id == p[3].passive));
            removals++;
        } else if (e->event != RDMA_CM_EVENT_TIMEWAIT_EXIT) {
            CHECK(e->event == RDMA_CM_EVENT_DISCONNECTED && (e->id == p[1].active || e->id == p[3].active));
            ended++;
        }
        rdma_ack_cm_event(e);
    }
    struct ibv_wc c;
    CHECK(ibv_poll_cq(p[2].active->recv_cq, 1, &c) == 1 && c.status == IBV_WC_WR_FLUSH_ERR && c.wr_id == 9);
    CHECK(ibv_poll_cq(p[0].active->recv_cq, 1, &c) == 0);
    struct ibv_async_event e;
    do {
        CHECK(ibv_get_async_event(p[2].active->verbs, &e) == 0);
        ibv_ack_async_event(&e);
    } while (e.event_type != IBV_EVENT_DEVICE_FATAL);
    CHECK(!listed("small") && listed("bellwire0"));

    /* The other device goes on, also for the listener of all addresses. */
    q = connects(ours, theirs, NULL, "127.0.0.1", all, "bellwire0", "bellwire0");
    ends(q.active);
    CHECK(had(theirs, RDMA_CM_EVENT_DISCONNECTED) == q.passive);
    ends(q.passive);
    for (int i = 3; i >= 0; i--) {
        ends(p[i].active);
        ends(p[i].passive);
    }
    CHECK(rdma_destroy_id(first) == 0 && rdma_destroy_id(second) == 0 && rdma_destroy_id(everywhere) == 0 && rdma_destroy_id(other) == 0);
    printf("well\n");
    return 0;
}
