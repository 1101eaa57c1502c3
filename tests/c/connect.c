/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Connections: matching by discriminator, early and late sides, refusals, time-outs, crossed requests, attributes that do not fit. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "ends.h"

static VIP_NIC_HANDLE nic_a, nic_b;

/* One side of a client/server connection on a thread of its own. */
typedef struct {
    End *end;
    Address local, remote;
    VIP_ULONG timeout_ms;
    int delay_ms;
    VIP_RETURN result;
    double took_ms;
    VIP_VI_ATTRIBUTES attributes;
} Requester;

static void *request(void *argument) {
    Requester *r = argument;
    double start;
    sleep_ms(r->delay_ms);
    start = now_ms();
    r->result = VipConnectRequest(r->end->vi, &r->local.net, &r->remote.net, r->timeout_ms, &r->attributes);
    r->took_ms = now_ms() - start;
    return NULL;
}

static void requester_start(Requester *r, pthread_t *thread, End *end, const Address *remote, VIP_ULONG timeout_ms) {
    memset(r, 0, sizeof *r);
    r->end = end;
    r->remote = *remote;
    r->timeout_ms = timeout_ms;
    address_unique(&r->local, end->nic);
    pthread_create(thread, NULL, request, r);
}

static VIP_RETURN wait_at(VIP_NIC_HANDLE nic, Address *at, VIP_ULONG timeout_ms, Address *from, VIP_CONN_HANDLE *connection) {
    VIP_VI_ATTRIBUTES attributes;
    address_room(from);
    return VipConnectWait(nic, &at->net, timeout_ms, &from->net, &attributes, connection);
}

static void nobody_waits(void) {
    End c;
    Address at;
    Requester r;
    pthread_t thread;
    check_group("a request without a waiter: VIP_NO_MATCH, at once or after the time; the VI is idle again");
    end_create(&c, nic_a, NULL);
    address_unique(&at, nic_b);
    requester_start(&r, &thread, &c, &at, 0);
    pthread_join(thread, NULL);
    CHECK_RETURN(r.result, VIP_NO_MATCH);
    CHECK(r.took_ms < 500);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    requester_start(&r, &thread, &c, &at, 150);
    pthread_join(thread, NULL);
    CHECK_RETURN(r.result, VIP_NO_MATCH);
    CHECK(r.took_ms >= 149 && r.took_ms < 1500);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    end_destroy(&c);
}

static void request_before_wait(void) {
    End c, s;
    Address at, from;
    Requester r;
    pthread_t thread;
    VIP_CONN_HANDLE connection = NULL;
    check_group("a request may come before the wait");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    address_unique(&at, nic_b);
    requester_start(&r, &thread, &c, &at, WAIT_MS);
    sleep_ms(100);
    CHECK_RETURN(wait_at(nic_b, &at, WAIT_MS, &from, &connection), VIP_SUCCESS);
    CHECK_RETURN(VipConnectAccept(connection, s.vi), VIP_SUCCESS);
    pthread_join(thread, NULL);
    CHECK_RETURN(r.result, VIP_SUCCESS);
    CHECK_SAME(r.attributes.ReliabilityLevel, VIP_SERVICE_RELIABLE_DELIVERY);
    CHECK_SAME(r.attributes.MaxTransferSize, END_DATA_BYTES);
    CHECK(r.attributes.Ptag == NULL);
    CHECK(memcmp(&from, &r.local, 4 + 4 + 16) == 0); /* the waiter sees the address that the requester gave */
    CHECK_SAME(state_of(&c), VIP_STATE_CONNECTED);
    CHECK_SAME(state_of(&s), VIP_STATE_CONNECTED);
    CHECK_RETURN(VipConnectAccept(connection, s.vi), VIP_INVALID_PARAMETER); /* used up */
    CHECK_RETURN(VipConnectReject(connection), VIP_INVALID_PARAMETER);
    end_destroy(&c);
    end_destroy(&s);
}

static void by_discriminator(void) {
    static const size_t lengths[] = {0, 4, 8, 12, 63, 64};
    unsigned char text[64];
    End c, s;
    Address right, wrong, from;
    Requester r;
    pthread_t thread;
    VIP_CONN_HANDLE connection = NULL;
    size_t i;
    check_group("discriminators of 0 to 64 bytes match whole and only whole");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    for (i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        Address unique;
        address_unique(&unique, nic_b);
        memset(text, 0, sizeof text);
        memcpy(text, unique.bytes + 8, 4); /* this process ... */
        text[3] ^= unique.bytes[16];       /* ... and this round, in the first four bytes */
        address_set(&right, nic_b, text, lengths[i]);
        text[lengths[i] == 0 ? 0 : lengths[i] - 1] ^= 0x80;
        address_set(&wrong, nic_b, text, lengths[i] == 0 ? 1 : lengths[i]);
        requester_start(&r, &thread, &c, &right, WAIT_MS);
        CHECK_RETURN(wait_at(nic_b, &wrong, 50, &from, &connection), VIP_TIMEOUT);
        CHECK_RETURN(wait_at(nic_b, &right, WAIT_MS, &from, &connection), VIP_SUCCESS);
        CHECK_RETURN(VipConnectAccept(connection, s.vi), VIP_SUCCESS);
        pthread_join(thread, NULL);
        CHECK_RETURN(r.result, VIP_SUCCESS);
        CHECK_RETURN(VipDisconnect(c.vi), VIP_SUCCESS);
        CHECK_RETURN(VipDisconnect(s.vi), VIP_SUCCESS);
    }
    end_destroy(&c);
    end_destroy(&s);
}

static void many_on_one(void) {
    enum { COUNT = 6 };
    End c[COUNT], s[COUNT];
    Requester r[COUNT];
    pthread_t thread[COUNT];
    Address at;
    struct {
        VIP_NET_ADDRESS bare;
        unsigned char guard[16];
    } from;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection;
    unsigned char untouched[16];
    int i;
    check_group("many requests for one discriminator of 64 bytes; a bare, uninitialised address as out argument is not overrun");
    address_unique(&at, nic_b);
    at.net.DiscriminatorLen = DISCRIMINATOR_MAX; /* the unique bytes, then zeros */
    for (i = 0; i < COUNT; i++) {
        end_create(&c[i], nic_a, NULL);
        end_create(&s[i], nic_b, NULL);
        requester_start(&r[i], &thread[i], &c[i], &at, WAIT_MS);
    }
    memset(untouched, 0xA5, sizeof untouched);
    for (i = 0; i < COUNT; i++) {
        memset(&from, 0xA5, sizeof from);
        connection = NULL;
        CHECK_RETURN(VipConnectWait(nic_b, &at.net, WAIT_MS, &from.bare, &attributes, &connection), VIP_SUCCESS);
        CHECK(memcmp(from.guard, untouched, sizeof untouched) == 0);
        CHECK_SAME(from.bare.HostAddressLen, 4);
        CHECK_SAME(from.bare.DiscriminatorLen, 0);
        CHECK_RETURN(VipConnectAccept(connection, s[i].vi), VIP_SUCCESS);
    }
    for (i = 0; i < COUNT; i++) {
        pthread_join(thread[i], NULL);
        CHECK_RETURN(r[i].result, VIP_SUCCESS);
    }
    for (i = 0; i < COUNT; i++) {
        end_destroy(&c[i]);
        end_destroy(&s[i]);
    }
}

static void refused(void) {
    End c;
    Address at, from;
    Requester r;
    pthread_t thread;
    VIP_CONN_HANDLE connection = NULL;
    check_group("refused: VIP_REJECT");
    end_create(&c, nic_a, NULL);
    address_unique(&at, nic_b);
    requester_start(&r, &thread, &c, &at, WAIT_MS);
    CHECK_RETURN(wait_at(nic_b, &at, WAIT_MS, &from, &connection), VIP_SUCCESS);
    CHECK_RETURN(VipConnectReject(connection), VIP_SUCCESS);
    pthread_join(thread, NULL);
    CHECK_RETURN(r.result, VIP_REJECT);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    CHECK_RETURN(VipConnectReject(connection), VIP_INVALID_PARAMETER);
    end_destroy(&c);
}

static void not_answered(void) {
    End c, s;
    Address at, from;
    Requester r;
    pthread_t thread;
    VIP_CONN_HANDLE connection = NULL;
    VIP_RETURN late;
    check_group("matched but not answered: VIP_TIMEOUT; a late accept fails and leaves the VI idle");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    address_unique(&at, nic_b);
    requester_start(&r, &thread, &c, &at, 200);
    CHECK_RETURN(wait_at(nic_b, &at, WAIT_MS, &from, &connection), VIP_SUCCESS);
    pthread_join(thread, NULL);
    CHECK_RETURN(r.result, VIP_TIMEOUT);
    CHECK(r.took_ms >= 199 && r.took_ms < 1500);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    sleep_ms(20);
    late = VipConnectAccept(connection, s.vi);
    CHECK_RETURN(late, VIP_TIMEOUT);
    CHECK_SAME(state_of(&s), VIP_STATE_IDLE);
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS);
    end_destroy(&c);
    end_destroy(&s);
}

static void wait_times_out(void) {
    Address at, from;
    VIP_CONN_HANDLE connection = NULL;
    double start;
    check_group("a wait without a request: VIP_TIMEOUT");
    address_unique(&at, nic_b);
    start = now_ms();
    CHECK_RETURN(wait_at(nic_b, &at, 0, &from, &connection), VIP_TIMEOUT);
    CHECK(now_ms() - start < 500);
    start = now_ms();
    CHECK_RETURN(wait_at(nic_b, &at, 120, &from, &connection), VIP_TIMEOUT);
    CHECK(now_ms() - start >= 119 && now_ms() - start < 1500);
    at.net.HostAddress[0] = 9;
    CHECK_RETURN(wait_at(nic_b, &at, 0, &from, &connection), VIP_INVALID_PARAMETER); /* not this NIC's address */
}

static void do_not_fit(const EndOptions *one, const EndOptions *other, VIP_RETURN why) {
    End c, s;
    VIP_RETURN accepted, requested;
    end_create(&c, nic_a, one);
    end_create(&s, nic_b, other);
    requested = ends_connect(&c, &s, &accepted);
    CHECK_RETURN(accepted, why);
    /* The acceptor may yet try another VI; the helper gives up and refuses. */
    CHECK_RETURN(requested, VIP_REJECT);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    CHECK_SAME(state_of(&s), VIP_STATE_IDLE);
    end_destroy(&c);
    end_destroy(&s);
}

static void attributes_differ(void) {
    EndOptions one = {0}, other = {0};
    check_group("attributes that differ: the acceptor gets the code, both VIs stay idle");
    other.level = VIP_SERVICE_RELIABLE_RECEPTION;
    do_not_fit(&one, &other, VIP_INVALID_RELIABILITY_LEVEL);
    other.level = VIP_SERVICE_UNRELIABLE;
    do_not_fit(&one, &other, VIP_INVALID_RELIABILITY_LEVEL);
    other.level = 0;
    other.transfer_bytes_max = 4096;
    do_not_fit(&one, &other, VIP_INVALID_MTU);
}

/* Peer-to-peer: both sides the same. */
static VIP_RETURN peer_start(End *end, Address *local, Address *remote, VIP_ULONG timeout_ms) {
    return VipConnectPeerRequest(end->vi, &local->net, &remote->net, timeout_ms);
}

static VIP_RETURN peer_poll(End *end, VIP_VI_ATTRIBUTES *attributes) {
    double deadline = now_ms() + WAIT_MS;
    VIP_RETURN result = VIP_NOT_DONE;
    while (result == VIP_NOT_DONE && now_ms() < deadline) result = VipConnectPeerDone(end->vi, attributes);
    return result;
}

static void *peer_wait_thread(void *argument) {
    Requester *r = argument;
    r->result = VipConnectPeerRequest(r->end->vi, &r->local.net, &r->remote.net, WAIT_MS);
    if (r->result == VIP_SUCCESS) r->result = VipConnectPeerWait(r->end->vi, &r->attributes);
    return NULL;
}

static void peers(void) {
    End c, s;
    Address one, two;
    VIP_VI_ATTRIBUTES attributes;
    check_group("peer-to-peer, one side before the other, then used");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    address_unique(&one, nic_a);
    address_unique(&two, nic_b);
    CHECK_RETURN(VipConnectPeerDone(c.vi, &attributes), VIP_INVALID_STATE);
    CHECK_RETURN(peer_start(&c, &one, &two, WAIT_MS), VIP_SUCCESS);
    CHECK_SAME(state_of(&c), VIP_STATE_CONNECT_PENDING);
    CHECK_RETURN(VipDestroyVi(c.vi), VIP_INVALID_STATE);
    CHECK_RETURN(peer_start(&c, &one, &two, WAIT_MS), VIP_INVALID_STATE);
    CHECK_RETURN(VipConnectPeerDone(c.vi, &attributes), VIP_NOT_DONE);
    sleep_ms(50);
    CHECK_RETURN(peer_start(&s, &two, &one, WAIT_MS), VIP_SUCCESS);
    CHECK_RETURN(peer_poll(&s, &attributes), VIP_SUCCESS);
    CHECK_SAME(attributes.MaxTransferSize, END_DATA_BYTES);
    CHECK_RETURN(peer_poll(&c, &attributes), VIP_SUCCESS);
    CHECK_SAME(state_of(&c), VIP_STATE_CONNECTED);
    CHECK_SAME(state_of(&s), VIP_STATE_CONNECTED);
    post_recv(&s, work_recv(&s, 0, 0, 64));
    post_send(&c, work_send(&c, 0, 0, 64));
    expect_send(&c, &c.descriptors[0], 0);
    expect_recv(&s, &s.descriptors[0], 0);
    end_destroy(&c);
    end_destroy(&s);
}

static void peers_crossed(void) {
    End c, s;
    Requester r[2];
    pthread_t thread[2];
    int round;
    check_group("peer-to-peer, both at the same moment, fifty times");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    for (round = 0; round < 50; round++) {
        Address one, two;
        address_unique(&one, nic_a);
        address_unique(&two, nic_b);
        memset(r, 0, sizeof r);
        r[0].end = &c;
        r[0].local = r[1].remote = one;
        r[1].end = &s;
        r[1].local = r[0].remote = two;
        pthread_create(&thread[0], NULL, peer_wait_thread, &r[0]);
        pthread_create(&thread[1], NULL, peer_wait_thread, &r[1]);
        pthread_join(thread[0], NULL);
        pthread_join(thread[1], NULL);
        CHECK_RETURN(r[0].result, VIP_SUCCESS);
        CHECK_RETURN(r[1].result, VIP_SUCCESS);
        CHECK_RETURN(VipDisconnect(c.vi), VIP_SUCCESS);
        CHECK_RETURN(VipDisconnect(s.vi), VIP_SUCCESS);
    }
    end_destroy(&c);
    end_destroy(&s);
}

static void peers_fail(void) {
    EndOptions other = {0};
    End c, s;
    Address one, two;
    VIP_VI_ATTRIBUTES attributes;
    VIP_RETURN first, second;
    double start;
    check_group("peer-to-peer: time-out, given up by VipDisconnect, attributes that differ");
    other.transfer_bytes_max = 4096;
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, &other);
    address_unique(&one, nic_a);
    address_unique(&two, nic_b);
    start = now_ms();
    CHECK_RETURN(peer_start(&c, &one, &two, 150), VIP_SUCCESS);
    CHECK_RETURN(VipConnectPeerWait(c.vi, &attributes), VIP_TIMEOUT);
    CHECK(now_ms() - start >= 149 && now_ms() - start < 1500);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    CHECK_RETURN(VipConnectPeerWait(c.vi, &attributes), VIP_INVALID_STATE);
    CHECK_RETURN(peer_start(&c, &one, &two, WAIT_MS), VIP_SUCCESS);
    CHECK_RETURN(VipDisconnect(c.vi), VIP_SUCCESS);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    CHECK_RETURN(peer_start(&c, &one, &two, WAIT_MS), VIP_SUCCESS);
    CHECK_RETURN(peer_start(&s, &two, &one, WAIT_MS), VIP_SUCCESS);
    first = VipConnectPeerWait(c.vi, &attributes);
    second = VipConnectPeerWait(s.vi, &attributes);
    CHECK_RETURN(first, VIP_INVALID_MTU);
    CHECK_RETURN(second, VIP_INVALID_MTU);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    CHECK_SAME(state_of(&s), VIP_STATE_IDLE);
    end_destroy(&c);
    end_destroy(&s);
}

static void crossed_requests(void) {
    End a, b;
    Requester r[2];
    pthread_t thread[2];
    Address at_a, at_b;
    check_group("client/server requests that cross, with no waiter: both VIP_NO_MATCH");
    end_create(&a, nic_a, NULL);
    end_create(&b, nic_b, NULL);
    address_unique(&at_a, nic_a);
    address_unique(&at_b, nic_b);
    requester_start(&r[0], &thread[0], &a, &at_b, 100);
    requester_start(&r[1], &thread[1], &b, &at_a, 100);
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    CHECK_RETURN(r[0].result, VIP_NO_MATCH);
    CHECK_RETURN(r[1].result, VIP_NO_MATCH);
    end_destroy(&a);
    end_destroy(&b);
}

static void unreachable(void) {
    End c;
    Address at;
    Requester r;
    pthread_t thread;
    check_group("a host that no wire reaches: VIP_NOT_REACHABLE");
    end_create(&c, nic_a, NULL);
    address_unique(&at, nic_a);
    memcpy(at.net.HostAddress, "\300\0\2\1", 4); /* 192.0.2.1, reserved for documentation */
    requester_start(&r, &thread, &c, &at, 100);
    pthread_join(thread, NULL);
    CHECK_RETURN(r.result, VIP_NOT_REACHABLE);
    CHECK_SAME(state_of(&c), VIP_STATE_IDLE);
    end_destroy(&c);
}

int main(void) {
    nic_a = nic_open();
    nic_b = nic_open();
    nobody_waits();
    request_before_wait();
    by_discriminator();
    many_on_one();
    refused();
    not_answered();
    wait_times_out();
    attributes_differ();
    peers();
    peers_crossed();
    peers_fail();
    crossed_requests();
    unreachable();
    CHECK_RETURN(VipCloseNic(nic_a), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic_b), VIP_SUCCESS);
    return check_end();
}
