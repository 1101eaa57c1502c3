/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * viplx.h, notify handlers, the error callback and what the three levels do when no or too small a receive is posted.
 */
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ends.h"

static VIP_NIC_HANDLE nic_a, nic_b;

static void allocation(void) {
    VIP_PVOID p = NULL;
    VIP_MEM_HANDLE handle;
    VIPX_MEM_INFO info;
    size_t i, sum = 0;
    static VIP_UINT64 plain[8];
    check_group("VipxAllocMem, VipxFreeMem, VipxQueryMem");
    CHECK(VipxVersion() != 0);
    CHECK_RETURN(VipxAllocMem(NULL, 4096, &p), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxAllocMem(nic_a, 0, &p), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxAllocMem(nic_a, 4096, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxAllocMem(nic_a, ULONG_MAX, &p), VIP_ERROR_RESOURCE);
    CHECK_RETURN(VipxAllocMem(nic_a, 100000, &p), VIP_SUCCESS);
    CHECK(((uintptr_t)p & 4095) == 0);
    for (i = 0; p != NULL && i < 100000; i++) sum += ((unsigned char *)p)[i];
    CHECK_SAME(sum, 0);
    CHECK_RETURN(VipRegisterMem(nic_a, p, 100000, NULL, &handle), VIP_SUCCESS);
    memset(&info, 0, sizeof info);
    CHECK_RETURN(VipxQueryMem(nic_a, p, handle, &info), VIP_INVALID_PARAMETER); /* Size 0 */
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryMem(nic_a, p, handle, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxQueryMem(nic_a, p, handle, &info), VIP_SUCCESS);
    CHECK_SAME(info.Origin, VIPX_MEM_ENGINE);
    CHECK_SAME(info.Size, sizeof info);
    CHECK_RETURN(VipxFreeMem(nic_a, p), VIP_ERROR_RESOURCE); /* registered */
    CHECK_RETURN(VipxFreeMem(nic_a, (char *)p + 4096), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipDeregisterMem(nic_a, p, handle), VIP_SUCCESS);
    CHECK_RETURN(VipxFreeMem(nic_b, p), VIP_INVALID_PARAMETER); /* another NIC's */
    CHECK_RETURN(VipxFreeMem(nic_a, p), VIP_SUCCESS);
    CHECK_RETURN(VipxFreeMem(nic_a, p), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipRegisterMem(nic_a, plain, sizeof plain, NULL, &handle), VIP_SUCCESS);
    CHECK_RETURN(VipxQueryMem(nic_a, plain, handle, &info), VIP_SUCCESS);
    CHECK_SAME(info.Origin, VIPX_MEM_FOREIGN);
    CHECK_SAME(info.Shareable, 0);
    CHECK_RETURN(VipDeregisterMem(nic_a, plain, handle), VIP_SUCCESS);
}

static void queries(void) {
    End c, s;
    VIPX_VI_INFO info;
    VIPX_NIC_INFO nic;
    VIPX_LINK_INFO link;
    struct {
        VIPX_VI_INFO info;
        VIP_UINT64 after;
    } longer;
    check_group("VipxQueryVi and VipxQueryNic");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    memset(&info, 0, sizeof info);
    CHECK_RETURN(VipxQueryVi(c.vi, &info), VIP_INVALID_PARAMETER);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryVi(NULL, &info), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxQueryVi(c.vi, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxQueryVi(c.vi, &info), VIP_SUCCESS);
    CHECK(info.Wire == VIPX_WIRE_NONE && info.PeerPid == 0 && info.LinkId == 0);
    memset(&link, 0xEE, sizeof link);
    link.Size = sizeof link - 1;
    CHECK_RETURN(VipxQueryLink(c.vi, &link), VIP_INVALID_PARAMETER);
    link.Size = sizeof link;
    CHECK_RETURN(VipxQueryLink(c.vi, &link), VIP_SUCCESS);
    CHECK(link.Wire == VIPX_WIRE_NONE && link.Reason == VIPX_REASON_NONE && link.AddressLen == 0);
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS);
    post_recv(&s, work_recv(&s, 0, 0, 100));
    post_send(&c, work_send(&c, 0, 0, 100));
    expect_send(&c, &c.descriptors[0], 0);
    expect_recv(&s, &s.descriptors[0], 0);
    memset(&longer, 0xEE, sizeof longer);
    longer.info.Size = sizeof longer; /* a program built with a later header */
    CHECK_RETURN(VipxQueryVi(c.vi, &longer.info), VIP_SUCCESS);
    info = longer.info;
    CHECK(info.Wire != VIPX_WIRE_NONE && info.Mode != 0 && info.LinkId != 0);
    CHECK_RETURN(VipxQueryLink(c.vi, &link), VIP_SUCCESS);
    CHECK(link.Wire == info.Wire && link.LinkId == info.LinkId);
    CHECK(link.Reason == VIPX_REASON_SAME_HOST && link.AddressLen == 0 && link.DatagramBytes == 0 && link.PacketsSent == 0);
    CHECK_SAME(info.PeerPid, getpid());
    CHECK_SAME(info.MessagesSent, 1);
    CHECK_SAME(info.BytesSent, 100);
    CHECK(info.InlineBytesMax >= 32);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryVi(s.vi, &info), VIP_SUCCESS);
    CHECK_SAME(info.MessagesReceived, 1);
    CHECK_SAME(info.BytesReceived, 100);
    memset(&nic, 0, sizeof nic);
    CHECK_RETURN(VipxQueryNic(nic_a, &nic), VIP_INVALID_PARAMETER);
    nic.Size = sizeof nic;
    CHECK_RETURN(VipxQueryNic(nic_a, &nic), VIP_SUCCESS);
    CHECK(nic.ViCount >= 1 && nic.RegionCount >= 1 && nic.LinkCount >= 1 && nic.Mode != 0);
    CHECK(nic.RegisteredBytes >= END_DATA_BYTES && nic.AllocatedBytes >= END_DATA_BYTES);
    end_destroy(&c);
    end_destroy(&s);
}

static void weights(void) {
    End c, s;
    check_group("VipxSetWeight: 1 to VIPX_WEIGHT_MAX, before a connection and in it");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    CHECK_RETURN(VipxSetWeight(NULL, 1), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSetWeight(c.vi, 0), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSetWeight(c.vi, VIPX_WEIGHT_MAX + 1), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSetWeight(c.vi, 257), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSetWeight(c.vi, VIPX_WEIGHT_MAX), VIP_SUCCESS);
    end_destroy(&c);
    end_destroy(&s);
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    CHECK_RETURN(VipxSetWeight(c.vi, 3), VIP_SUCCESS);
    CHECK_RETURN(VipxSetWeight(s.vi, 1), VIP_SUCCESS);
    end_destroy(&c);
    end_destroy(&s);
}

static void shared_receive_queue(void) {
    enum { VIS = 3 };
    VIPX_SRQ_HANDLE srq = NULL;
    VIPX_VI_ATTRIBUTES extension;
    EndOptions options = {0};
    End c[VIS], s[VIS], pool;
    int i, n;
    check_group("shared receive queue: receives go to whichever VI gets a message, in order");
    CHECK_RETURN(VipxCreateSrq(NULL, NULL, &srq), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxCreateSrq(nic_b, NULL, NULL), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxCreateSrq(nic_b, NULL, &srq), VIP_SUCCESS);
    memset(&extension, 0, sizeof extension);
    extension.Size = sizeof extension;
    extension.Srq = srq;
    options.extension = &extension;
    end_create(&pool, nic_b, NULL);
    for (i = 0; i < VIS; i++) {
        end_create(&c[i], nic_a, NULL);
        end_create(&s[i], nic_b, &options);
        CHECK_RETURN(ends_connect(&c[i], &s[i], NULL), VIP_SUCCESS);
        CHECK_RETURN(VipPostRecv(s[i].vi, work_recv(&s[i], 0, 0, 64), s[i].memory), VIP_INVALID_STATE);
    }
    CHECK_RETURN(VipxPostSrqRecv(srq, NULL, pool.memory), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxPostSrqRecv(NULL, pool.descriptors, pool.memory), VIP_INVALID_PARAMETER);
    for (n = 0; n < 12; n++) CHECK_RETURN(VipxPostSrqRecv(srq, work_recv(&pool, n, (size_t)n * 64, 64), pool.memory), VIP_SUCCESS);
    for (n = 0; n < 12; n++) {
        i = n * 7 % VIS;
        c[i].data[0] = (unsigned char)(n + 1);
        post_send(&c[i], work_send(&c[i], 0, 0, 4));
        expect_send(&c[i], &c[i].descriptors[0], 0);
        expect_recv(&s[i], &pool.descriptors[n], 0);
        CHECK_SAME(pool.data[n * 64], n + 1);
    }
    CHECK_RETURN(VipxDestroySrq(srq), VIP_ERROR_RESOURCE);
    CHECK_RETURN(VipxPostSrqRecv(srq, work_recv(&pool, 0, 0, 64), pool.memory), VIP_SUCCESS);
    for (i = 0; i < VIS; i++) {
        end_destroy(&c[i]);
        end_destroy(&s[i]);
    }
    CHECK_RETURN(VipxDestroySrq(srq), VIP_SUCCESS);
    CHECK_RETURN(VipxDestroySrq(srq), VIP_INVALID_PARAMETER);
    end_destroy(&pool);
}

static void receiver_not_ready(void) {
    EndOptions options = {0};
    End c, s;
    int i;
    check_group("VIPX_VI_RNR_WAIT: messages wait for a receive, none is lost, order is kept");
    options.rnr_wait = 1;
    ends_pair(&c, nic_a, &s, nic_b, &options);
    for (i = 0; i < 10; i++) post_send(&c, with_immediate(work_send(&c, i, 0, (VIP_UINT32)i * 500), (VIP_UINT32)i));
    sleep_ms(50);
    CHECK_SAME(state_of(&c), VIP_STATE_CONNECTED);
    for (i = 0; i < 10; i++) {
        post_recv(&s, work_recv(&s, 0, 0, 8192));
        expect_recv(&s, &s.descriptors[0], 0);
        CHECK_SAME(s.descriptors[0].CS.ImmediateData, i);
        CHECK_SAME(s.descriptors[0].CS.Length, i * 500);
    }
    for (i = 0; i < 10; i++) expect_send(&c, &c.descriptors[i], 0);
    end_destroy(&c);
    end_destroy(&s);
}

static void inline_sends(void) {
    End c, s;
    VIPX_VI_INFO info;
    unsigned char bytes[256];
    VIP_DESCRIPTOR *d;
    VIP_UINT32 n;
    check_group("VipxSendInline: from any memory, no completion, in order with posted sends");
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, NULL);
    memset(&info, 0, sizeof info);
    info.Size = sizeof info;
    CHECK_RETURN(VipxQueryVi(c.vi, &info), VIP_SUCCESS);
    CHECK_RETURN(VipxSendInline(c.vi, bytes, 4, VIPX_SEND_UNSIGNALLED, 0), VIP_INVALID_STATE);
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipxSendInline(NULL, bytes, 4, VIPX_SEND_UNSIGNALLED, 0), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSendInline(c.vi, NULL, 4, VIPX_SEND_UNSIGNALLED, 0), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSendInline(c.vi, bytes, 4, 0, 0), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSendInline(c.vi, bytes, 4, VIPX_SEND_UNSIGNALLED | 0x80, 0), VIP_INVALID_PARAMETER);
    CHECK_RETURN(VipxSendInline(c.vi, bytes, info.InlineBytesMax + 1, VIPX_SEND_UNSIGNALLED, 0), VIP_INVALID_PARAMETER);
    for (n = 0; n <= info.InlineBytesMax && n < END_DESCRIPTORS; n++) post_recv(&s, work_recv(&s, (int)n, n * 64, 64));
    for (n = 0; n <= info.InlineBytesMax && n < END_DESCRIPTORS; n++) {
        pattern_fill(bytes, n, n);
        CHECK_RETURN(VipxSendInline(c.vi, n == 0 ? NULL : bytes, n, VIPX_SEND_UNSIGNALLED | VIPX_SEND_IMMEDIATE, n * 3),
                     VIP_SUCCESS);
        memset(bytes, 0, sizeof bytes);
    }
    for (n = 0; n <= info.InlineBytesMax && n < END_DESCRIPTORS; n++) {
        expect_recv(&s, &s.descriptors[n], 0);
        CHECK_SAME(s.descriptors[n].CS.Length, n);
        CHECK_SAME(s.descriptors[n].CS.ImmediateData, n * 3);
        CHECK(pattern_ok(s.data + n * 64, n, n));
    }
    CHECK_RETURN(VipSendDone(c.vi, &d), VIP_NOT_DONE);
    post_recv(&s, work_recv(&s, 0, 0, 64));
    post_recv(&s, work_recv(&s, 1, 64, 64));
    post_send(&c, work_send(&c, 0, 0, 7));
    CHECK_RETURN(VipxSendInline(c.vi, "abc", 3, VIPX_SEND_UNSIGNALLED, 0), VIP_SUCCESS);
    expect_send(&c, &c.descriptors[0], 0);
    expect_recv(&s, &s.descriptors[0], 0);
    expect_recv(&s, &s.descriptors[1], 0);
    CHECK_SAME(s.descriptors[1].CS.Length, 3);
    end_destroy(&c);
    end_destroy(&s);
}

static void bad_vi_extensions(void) {
    VIPX_VI_ATTRIBUTES x;
    VIP_VI_ATTRIBUTES a = {0};
    VIP_VI_HANDLE vi;
    check_group("VipxCreateVi refuses what it does not know");
    a.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    a.MaxTransferSize = 64;
    memset(&x, 0, sizeof x);
    CHECK_RETURN(VipxCreateVi(nic_a, &a, &x, NULL, NULL, &vi), VIP_INVALID_PARAMETER);
    x.Size = sizeof x;
    x.Flags = 0x80;
    CHECK_RETURN(VipxCreateVi(nic_a, &a, &x, NULL, NULL, &vi), VIP_INVALID_PARAMETER);
    x.Flags = 0;
    x.Srq = nic_a;
    CHECK_RETURN(VipxCreateVi(nic_a, &a, &x, NULL, NULL, &vi), VIP_INVALID_PARAMETER);
}

/* ---- handlers */

static volatile int called;
static VIP_DESCRIPTOR *volatile handed;
static volatile VIP_VI_HANDLE handed_vi;
static volatile int handed_recv;

static void on_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d) {
    CHECK(context == &called);
    CHECK(nic == nic_b);
    handed = d;
    handed_vi = vi;
    __atomic_add_fetch(&called, 1, __ATOMIC_RELEASE);
}

static void on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN is_recv) {
    CHECK(context == &called);
    CHECK(nic == nic_b);
    handed_vi = vi;
    handed_recv = is_recv;
    __atomic_add_fetch(&called, 1, __ATOMIC_RELEASE);
}

static End *again_end;
static void on_vi_again(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR *d) {
    (void)nic;
    if ((d->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0) return; /* the end of the connection */
    CHECK(d->CS.Length == 4);
    CHECK_RETURN(VipPostRecv(vi, work_recv(again_end, (int)(d - again_end->descriptors), 0, 64), again_end->memory), VIP_SUCCESS);
    CHECK_RETURN(VipRecvNotify(vi, context, on_vi_again), VIP_SUCCESS);
    __atomic_add_fetch(&called, 1, __ATOMIC_RELEASE);
}

static int wait_called(int count) {
    double deadline = now_ms() + WAIT_MS;
    while (__atomic_load_n(&called, __ATOMIC_ACQUIRE) < count) {
        if (now_ms() > deadline) return 0;
        sleep_ms(1);
    }
    return 1;
}

static void notify(void) {
    End c, s;
    int i;
    check_group("VipSendNotify and VipRecvNotify: one descriptor for each call, also from within a handler");
    ends_pair(&c, nic_a, &s, nic_b, NULL);
    called = 0;
    post_recv(&s, work_recv(&s, 0, 0, 64));
    post_recv(&s, work_recv(&s, 1, 0, 64));
    CHECK_RETURN(VipRecvNotify(s.vi, (VIP_PVOID)&called, on_vi), VIP_SUCCESS);
    sleep_ms(20);
    CHECK_SAME(called, 0);
    post_send(&c, work_send(&c, 0, 0, 8));
    CHECK(wait_called(1));
    CHECK(handed == &s.descriptors[0] && handed_vi == s.vi);
    post_send(&c, work_send(&c, 1, 0, 8));
    sleep_ms(50);
    CHECK_SAME(called, 1); /* one shot */
    CHECK_RETURN(VipRecvNotify(s.vi, (VIP_PVOID)&called, on_vi), VIP_SUCCESS); /* what is there already counts */
    CHECK(wait_called(2));
    CHECK(handed == &s.descriptors[1]);
    expect_send(&c, &c.descriptors[0], 0);
    expect_send(&c, &c.descriptors[1], 0);
    post_recv(&c, work_recv(&c, 2, 0, 64));
    CHECK_RETURN(VipSendNotify(s.vi, (VIP_PVOID)&called, on_vi), VIP_SUCCESS);
    post_send(&s, work_send(&s, 5, 0, 8));
    CHECK(wait_called(3));
    CHECK(handed == &s.descriptors[5]);
    expect_recv(&c, &c.descriptors[2], 0);
    called = 0;
    again_end = &s;
    post_recv(&s, work_recv(&s, 0, 0, 64));
    CHECK_RETURN(VipRecvNotify(s.vi, NULL, on_vi_again), VIP_SUCCESS);
    for (i = 0; i < 100; i++) {
        post_send(&c, work_send(&c, 0, 0, 4));
        expect_send(&c, &c.descriptors[0], 0);
        if (!CHECK(wait_called(i + 1))) break;
    }
    end_destroy(&c);
    end_destroy(&s);
}

static void cq_notify(void) {
    EndOptions options = {0};
    VIP_CQ_HANDLE cq;
    End c, s;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN r;
    VIP_DESCRIPTOR *d;
    check_group("VipCQNotify: one entry for each call");
    CHECK_RETURN(VipCreateCQ(nic_b, 8, &cq), VIP_SUCCESS);
    options.recv_cq = cq;
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, &options);
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS);
    called = 0;
    post_recv(&s, work_recv(&s, 0, 0, 64));
    post_recv(&s, work_recv(&s, 1, 0, 64));
    CHECK_RETURN(VipCQNotify(cq, (VIP_PVOID)&called, on_cq), VIP_SUCCESS);
    post_send(&c, work_send(&c, 0, 0, 8));
    post_send(&c, work_send(&c, 1, 0, 8));
    CHECK(wait_called(1));
    CHECK(handed_vi == s.vi && handed_recv == VIP_TRUE);
    CHECK_RETURN(VipCQWait(cq, WAIT_MS, &vi, &r), VIP_SUCCESS); /* the second entry is not the handler's */
    CHECK_RETURN(VipCQDone(cq, &vi, &r), VIP_NOT_DONE);
    CHECK_RETURN(VipRecvDone(s.vi, &d), VIP_SUCCESS);
    CHECK_RETURN(VipRecvDone(s.vi, &d), VIP_SUCCESS);
    CHECK_SAME(called, 1);
    end_destroy(&c);
    end_destroy(&s);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
}

/* ---- what goes wrong at the receiver */

static void no_receive(void) {
    EndOptions options = {0};
    Errors errors;
    End c, s;
    check_group("no receive posted: dropped when unreliable, else RECVQ_EMPTY and a broken connection");
    options.level = VIP_SERVICE_UNRELIABLE;
    ends_pair(&c, nic_a, &s, nic_b, &options);
    errors_watch(nic_b, &errors);
    post_send(&c, work_send(&c, 0, 0, 8));
    expect_send(&c, &c.descriptors[0], 0);
    sleep_ms(50);
    CHECK_SAME(state_of(&s), VIP_STATE_CONNECTED);
    post_recv(&s, work_recv(&s, 0, 0, 64));
    post_send(&c, work_send(&c, 1, 0, 16));
    expect_send(&c, &c.descriptors[1], 0);
    expect_recv(&s, &s.descriptors[0], 0);
    CHECK_SAME(s.descriptors[0].CS.Length, 16);
    end_destroy(&c);
    end_destroy(&s);
    for (options.level = VIP_SERVICE_RELIABLE_DELIVERY; options.level <= VIP_SERVICE_RELIABLE_RECEPTION; options.level *= 2) {
        VIP_DESCRIPTOR *d = NULL;
        ends_pair(&c, nic_a, &s, nic_b, &options);
        errors_watch(nic_b, &errors);
        post_send(&c, work_send(&c, 0, 0, 8));
        CHECK(errors_wait(&errors, VIP_ERROR_RECVQ_EMPTY, WAIT_MS));
        CHECK(errors.last.ViHandle == s.vi);
        expect_state(&s, VIP_STATE_ERROR);
        expect_state(&c, VIP_STATE_ERROR);
        if (options.level == VIP_SERVICE_RELIABLE_RECEPTION) {
            CHECK_RETURN(VipSendWait(c.vi, WAIT_MS, &d), VIP_DESCRIPTOR_ERROR);
            CHECK(d != NULL && (d->CS.Status & (VIP_STATUS_REMOTE_DESC_ERROR | VIP_STATUS_TRANSPORT_ERROR)) != 0);
        }
        end_destroy(&c);
        end_destroy(&s);
    }
    CHECK_RETURN(VipErrorCallback(nic_b, NULL, NULL), VIP_SUCCESS);
}

static void too_long(void) {
    static const VIP_RELIABILITY_LEVEL level[] = {VIP_SERVICE_UNRELIABLE, VIP_SERVICE_RELIABLE_DELIVERY,
                                                  VIP_SERVICE_RELIABLE_RECEPTION};
    static const VIP_UINT32 sizes[] = {9, 100, 5000, 200000};
    EndOptions options = {0};
    size_t l, i;
    check_group("too long for the receive: LENGTH_ERROR there, nothing beyond the buffer; too long for MaxTransferSize: refused");
    for (l = 0; l < 3; l++) {
        for (i = 0; i < 4; i++) {
            End c, s;
            options.level = level[l];
            ends_pair(&c, nic_a, &s, nic_b, &options);
            pattern_fill(s.data, END_DATA_BYTES, 8);
            post_recv(&s, work_recv(&s, 0, 1000, 8));
            post_send(&c, work_send(&c, 0, 0, sizes[i]));
            expect_recv(&s, &s.descriptors[0], VIP_STATUS_LENGTH_ERROR);
            CHECK(pattern_ok(s.data, 1000, 8));
            CHECK_SAME(s.data[1008], (unsigned char)(1008 * 31 + (1008 >> 8) * 7 + 8 * 101 + 1));
            if (l == 0) CHECK_SAME(state_of(&s), VIP_STATE_CONNECTED);
            else expect_state(&s, VIP_STATE_ERROR);
            if (l != 0) expect_state(&c, VIP_STATE_ERROR);
            end_destroy(&c);
            end_destroy(&s);
        }
    }
    options.level = 0;
    options.transfer_bytes_max = 4096;
    {
        End c, s;
        ends_pair(&c, nic_a, &s, nic_b, &options);
        post_recv(&s, work_recv(&s, 0, 0, 8192));
        post_send(&c, work_send(&c, 0, 0, 4097));
        expect_send(&c, &c.descriptors[0], VIP_STATUS_LENGTH_ERROR);
        end_destroy(&c);
        end_destroy(&s);
    }
}

static void format_errors(void) {
    int which;
    check_group("malformed descriptors: FORMAT_ERROR when their turn comes");
    for (which = 0; which < 4; which++) {
        End c, s;
        VIP_DESCRIPTOR *d;
        ends_pair(&c, nic_a, &s, nic_b, NULL);
        post_recv(&s, work_recv(&s, 0, 0, 64));
        d = work_send(&c, 0, 0, 8);
        if (which == 0) d->CS.Control = VIP_CONTROL_OP_RESERVED;
        if (which == 1) d->CS.Control = 0x1000;
        if (which == 2) d->CS.SegCount = 0xFFFF;
        if (which == 3) {
            d->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
            d->CS.SegCount = 0; /* no address segment */
        }
        post_send(&c, d);
        expect_send(&c, d, VIP_STATUS_FORMAT_ERROR);
        end_destroy(&c);
        end_destroy(&s);
    }
}

static void cq_overflow(void) {
    EndOptions options = {0};
    VIP_CQ_HANDLE cq;
    Errors errors;
    End c, s;
    int i;
    check_group("a CQ that overflows is told to the error handler");
    CHECK_RETURN(VipCreateCQ(nic_b, 4, &cq), VIP_SUCCESS);
    options.recv_cq = cq;
    end_create(&c, nic_a, NULL);
    end_create(&s, nic_b, &options);
    CHECK_RETURN(ends_connect(&c, &s, NULL), VIP_SUCCESS);
    errors_watch(nic_b, &errors);
    for (i = 0; i < 8; i++) post_recv(&s, work_recv(&s, i, 0, 64));
    for (i = 0; i < 8; i++) post_send(&c, work_send(&c, i, 0, 8));
    CHECK(errors_wait(&errors, VIP_ERROR_CATASTROPHIC, WAIT_MS));
    CHECK(errors.last.CQHandle == cq);
    CHECK_SAME(errors.last.ResourceCode, VIP_RESOURCE_CQ);
    end_destroy(&c);
    end_destroy(&s);
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
    CHECK_RETURN(VipErrorCallback(nic_b, NULL, NULL), VIP_SUCCESS);
}

int main(void) {
    nic_a = nic_open();
    nic_b = nic_open();
    allocation();
    queries();
    weights();
    shared_receive_queue();
    receiver_not_ready();
    inline_sends();
    bad_vi_extensions();
    cq_notify();
    no_receive();
    too_long();
    format_errors();
    cq_overflow();
    notify();
    CHECK_RETURN(VipCloseNic(nic_a), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(nic_b), VIP_SUCCESS);
    return check_end();
}
