/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Multicast: queue pairs of two devices of one process in groups, the rules of attaching, and
 * datagrams that others write. Compiles as C and as C++.
 */
#include "sides.h"
#include <arpa/inet.h>
#include <sys/socket.h>

enum { QKEY = 0x1234, GRH = 40 };

static union ibv_gid group(const char *text)
{
    union ibv_gid gid;
    MUST(inet_pton(AF_INET6, text, &gid) == 1);
    return gid;
}

/* A side whose queue pair takes datagrams and may send some. */
static void datagrams(struct side *s)
{
    struct ibv_qp_attr a;
    memset(&a, 0, sizeof a);
    MUST(s->qp = create(s, IBV_QPT_UD));
    a.port_num = 1;
    a.qkey = QKEY;
    a.qp_state = IBV_QPS_INIT;
    MUST(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY));
    MUST(!modify_state(s, IBV_QPS_RTR));
    a.qp_state = IBV_QPS_RTS;
    MUST(!ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

static void send_to(struct side *s, union ibv_gid to, uint32_t qkey, const char *text)
{
    struct ibv_ah_attr address;
    memset(&address, 0, sizeof address);
    address.is_global = 1;
    address.port_num = 1;
    address.grh.dgid = to;
    struct ibv_ah *ah = ibv_create_ah(s->pd, &address);
    MUST(ah);
    strcpy(s->memory, text);
    struct ibv_sge sge = {(uintptr_t)s->memory, (uint32_t)strlen(text) + 1, s->mr->lkey};
    struct ibv_send_wr wr, *bad;
    memset(&wr, 0, sizeof wr);
    wr.wr_id = 1;
    wr.sg_list = &sge;
    wr.num_sge = 1;
    wr.opcode = IBV_WR_SEND_WITH_IMM;
    wr.imm_data = htonl(77);
    wr.send_flags = IBV_SEND_SIGNALED;
    wr.wr.ud.ah = ah;
    wr.wr.ud.remote_qpn = 0xffffff;
    wr.wr.ud.remote_qkey = qkey;
    CHECK(!ibv_post_send(s->qp, &wr, &bad));
    ends_well(s, 1, IBV_WC_SEND);
    ibv_destroy_ah(ah);
}

/* The next thing that a queue pair receives is this text. */
static void hears(struct side *s, union ibv_gid to, const struct side *sender, const char *text)
{
    struct ibv_wc wc = next(s);
    const char *at = s->memory + BYTES / 2;
    CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV && wc.byte_len == GRH + strlen(text) + 1);
    CHECK(wc.src_qp == sender->qp->qp_num && wc.wc_flags == (IBV_WC_GRH | IBV_WC_WITH_IMM) && ntohl(wc.imm_data) == 77);
    CHECK(!strcmp(at + GRH, text));
    union ibv_gid own;
    MUST(!ibv_query_gid(sender->context, 1, 0, &own));
    CHECK(!memcmp(at + 8, &own, 16) && !memcmp(at + 24, &to, 16));
}

static void alone(struct side *s)
{
    struct ibv_wc wc;
    CHECK(ibv_poll_cq(s->cq, 1, &wc) == 0);
}

/* Any bytes at the port of groups: nothing happens to a queue pair. */
static void hostile(union ibv_gid to, struct side *listener, struct side *sender)
{
    struct sockaddr_in at;
    memset(&at, 0, sizeof at);
    at.sin_family = AF_INET;
    at.sin_port = htons(7119);
    memcpy(&at.sin_addr, to.raw + 12, 4);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    struct in_addr lo = {htonl(INADDR_LOOPBACK)};
    MUST(fd >= 0 && !setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &lo, sizeof lo));
    unsigned char bytes[5000];
    srand(7);
    for (int i = 0; i < 2000; i++) {
        for (size_t n = 0; n < 60; n++)
            bytes[n] = (unsigned char)rand();
        if (i % 2)
            memcpy(bytes, "BwGroup\1", 8);
        if (i % 4 == 3) {
            /* All but the key is right: kind, flags; queue pair; group. */
            memset(bytes + 8, 0, 24);
            bytes[8] = 6;
            memcpy(bytes + 32, &to, 16);
        }
        size_t length = i % 7 ? (size_t)rand() % 60 : (size_t)rand() % sizeof bytes;
        (void)!sendto(fd, bytes, length, 0, (struct sockaddr *)&at, sizeof at);
        if (i % 100 == 99)
            usleep(1000);
    }
    close(fd);
    /* They are before this one. */
    MUST(!receive(listener, 100, 9));
    send_to(sender, to, QKEY, "after them");
    hears(listener, to, sender, "after them");
}

int main(void)
{
    struct side a, b, c;
    union ibv_gid one = group("::ffff:239.255.3.1"), two = group("ff15::3:2"), nothing = group("::ffff:10.0.0.1");
    open_side(&a, device());
    open_side(&b, device());
    open_side(&c, b.context);
    struct ibv_qp *connected = a.qp;
    datagrams(&a);
    datagrams(&b);
    datagrams(&c);
    struct ibv_device_attr limits;
    CHECK(!ibv_query_device(a.context, &limits) && limits.max_mcast_grp > 0 && limits.max_mcast_qp_attach > 0);

    CHECK(ibv_attach_mcast(connected, &one, 0) == EINVAL && ibv_attach_mcast(a.qp, &nothing, 0) == EINVAL);
    CHECK(ibv_detach_mcast(a.qp, &one, 0) == EINVAL);
    /* The sender need not be attached. Each that is gets a copy; once, though it attached twice. */
    CHECK(!ibv_attach_mcast(b.qp, &one, 0) && !ibv_attach_mcast(b.qp, &one, 0));
    CHECK(!ibv_attach_mcast(c.qp, &one, 0) && !ibv_attach_mcast(b.qp, &two, 0));
    for (int i = 0; i < 4; i++)
        MUST(!receive(&b, 100, 2) && !receive(&c, 100, 3));
    send_to(&a, one, QKEY, "to both");
    hears(&b, one, &a, "to both");
    hears(&c, one, &a, "to both");
    send_to(&a, two, QKEY, "to one");
    hears(&b, two, &a, "to one");
    /* Another key, then the right one. */
    send_to(&a, one, QKEY + 1, "nobody's");
    send_to(&a, one, QKEY, "again");
    hears(&b, one, &a, "again");
    hears(&c, one, &a, "again");
    /* A sender that is attached hears itself, as on devices. */
    send_to(&b, one, QKEY, "self");
    hears(&b, one, &b, "self");
    hears(&c, one, &b, "self");
    alone(&b);
    alone(&c);
    /* A queue pair that is attached stays; one that is detached hears nothing more. */
    CHECK(ibv_destroy_qp(c.qp) == EBUSY);
    CHECK(!ibv_detach_mcast(c.qp, &one, 0) && ibv_detach_mcast(c.qp, &one, 0) == EINVAL);
    MUST(!receive(&b, 100, 2));
    send_to(&a, one, QKEY, "to b alone");
    hears(&b, one, &a, "to b alone");
    alone(&c);
    CHECK(!ibv_destroy_qp(c.qp));
    /* An event wakes a program that sleeps. */
    struct ibv_comp_channel *channel = ibv_create_comp_channel(c.context);
    MUST(channel && (c.cq = ibv_create_cq(c.context, 16, NULL, channel, 0)));
    datagrams(&c);
    CHECK(!ibv_attach_mcast(c.qp, &one, 0));
    MUST(!receive(&c, 100, 3) && !receive(&b, 100, 3) && !ibv_req_notify_cq(c.cq, 0));
    send_to(&a, one, QKEY, "wake");
    CHECK(readable(channel->fd, 20000));
    hears(&c, one, &a, "wake");
    hears(&b, one, &a, "wake");
    CHECK(!ibv_detach_mcast(c.qp, &one, 0));

    hostile(one, &b, &a);

    /* As many groups as the device says, and no more. */
    union ibv_gid many = one;
    int joined = 0;
    for (int i = 0; i < limits.max_mcast_grp + 1; i++) {
        many.raw[14] = (uint8_t)(10 + (i >> 8));
        many.raw[15] = (uint8_t)i;
        joined += !ibv_attach_mcast(b.qp, &many, 0);
    }
    CHECK(joined == limits.max_mcast_grp - 2);
    if (failures == 0)
        puts("groups: all is well");
    return failures != 0;
}
