/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every one of the 41 calls with NULL, garbage and stale handles, NULL pointers, zero and huge sizes, wrong states and wrong order: the
 * documented return code, and nothing else happens.
 */
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ends.h"

static VIP_NIC_HANDLE nic;
static VIP_UINT64 junk[32]; /* looks like an object to a library that dereferences handles */

/* Handles that are none; the last two are filled in with stale ones. */
static VIP_PVOID bad[8];
enum { BAD = sizeof bad / sizeof bad[0] };

#define IP VIP_INVALID_PARAMETER
#define BAD_EACH(call)                                  \
    do {                                                \
        int b_;                                         \
        for (b_ = 0; b_ < BAD; b_++) {                  \
            VIP_PVOID h = bad[b_];                      \
            CHECK_RETURN((call), VIP_INVALID_PARAMETER); \
        }                                               \
    } while (0)

static void nothing_error(VIP_PVOID c, VIP_ERROR_DESCRIPTOR *e) {
    (void)c;
    (void)e;
}
static void nothing_vi(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_DESCRIPTOR *d) {
    (void)c;
    (void)n;
    (void)v;
    (void)d;
}
static void nothing_cq(VIP_PVOID c, VIP_NIC_HANDLE n, VIP_VI_HANDLE v, VIP_BOOLEAN r) {
    (void)c;
    (void)n;
    (void)v;
    (void)r;
}

/* Makes bad[]: NULL, small numbers, a pointer to memory, an unmapped address, all ones, a closed NIC, a destroyed VI. */
static void make_bad(void) {
    VIP_NIC_HANDLE closed = NULL;
    VIP_VI_HANDLE destroyed = NULL;
    VIP_VI_ATTRIBUTES attributes = {0};
    memset(junk, 0x11, sizeof junk);
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = 4096;
    CHECK_RETURN(VipOpenNic("nic0", &closed), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(closed), VIP_SUCCESS);
    CHECK_RETURN(VipCreateVi(nic, &attributes, NULL, NULL, &destroyed), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyVi(destroyed), VIP_SUCCESS);
    bad[0] = NULL;
    bad[1] = (VIP_PVOID)1;
    bad[2] = junk;
    bad[3] = (VIP_PVOID)(uintptr_t)0xdeadbeef0000u;
    bad[4] = (VIP_PVOID)UINTPTR_MAX;
    bad[5] = (VIP_PVOID)((uintptr_t)nic ^ ((uintptr_t)1 << 40));
    bad[6] = closed;
    bad[7] = destroyed;
}

static void nic_calls(void) {
    VIP_NIC_HANDLE out;
    VIP_NIC_ATTRIBUTES a;
    VIP_AUTODISCOVERY_LIST list;
    Address address;
    VIP_NET_ADDRESS *pointers[1];
    char long_name[5000];
    check_group("NIC calls");
    memset(long_name, 'x', sizeof long_name);
    memcpy(long_name, "/dev/", 5);
    long_name[sizeof long_name - 1] = '\0';
    CHECK_RETURN(VipOpenNic(NULL, &out), IP);
    CHECK_RETURN(VipOpenNic("nic0", NULL), IP);
    CHECK_RETURN(VipOpenNic("no such device", &out), IP);
    CHECK_RETURN(VipOpenNic(long_name, &out), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(out), VIP_SUCCESS);
    CHECK_RETURN(VipCloseNic(out), IP);
    BAD_EACH(VipCloseNic(h));
    BAD_EACH(VipQueryNic(h, &a));
    CHECK_RETURN(VipQueryNic(nic, NULL), IP);
    BAD_EACH(VipErrorCallback(h, NULL, nothing_error));
    CHECK_RETURN(VipErrorCallback(nic, NULL, nothing_error), VIP_SUCCESS);
    CHECK_RETURN(VipErrorCallback(nic, NULL, NULL), VIP_SUCCESS);
    memset(&list, 0, sizeof list);
    address_room(&address);
    pointers[0] = &address.net;
    BAD_EACH(VipQuerySystemManagementInfo(h, VIP_SMI_AUTODISCOVERY, &list));
    CHECK_RETURN(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, NULL), IP);
    CHECK_RETURN(VipQuerySystemManagementInfo(nic, 0, &list), IP);
    CHECK_RETURN(VipQuerySystemManagementInfo(nic, 77, &list), IP);
    CHECK_RETURN(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list), VIP_SUCCESS);
    list.NumAdAddrs = 1;
    CHECK_RETURN(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list), IP); /* room without an array */
    list.ADAddrArray = pointers;
    CHECK_RETURN(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list), VIP_SUCCESS);
    CHECK_SAME(list.NumAdAddrs, 1);
    CHECK_SAME(address.net.HostAddressLen, 4);
}

static void tag_calls(void) {
    VIP_PROTECTION_HANDLE tag = NULL;
    VIP_MEM_ATTRIBUTES rights = {0};
    VIP_MEM_HANDLE handle;
    check_group("protection tags");
    BAD_EACH(VipCreatePtag(h, &tag));
    CHECK_RETURN(VipCreatePtag(nic, NULL), IP);
    CHECK_RETURN(VipCreatePtag(nic, &tag), VIP_SUCCESS);
    CHECK(tag != NULL);
    BAD_EACH(VipDestroyPtag(h, tag));
    BAD_EACH(VipDestroyPtag(nic, h));
    rights.Ptag = tag;
    CHECK_RETURN(VipRegisterMem(nic, junk, sizeof junk, &rights, &handle), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyPtag(nic, tag), VIP_ERROR_RESOURCE);
    CHECK_RETURN(VipDeregisterMem(nic, junk, handle), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyPtag(nic, tag), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyPtag(nic, tag), IP);
    CHECK_RETURN(VipRegisterMem(nic, junk, sizeof junk, &rights, &handle), VIP_INVALID_PTAG); /* stale tag */
}

static void memory_calls(void) {
    VIP_MEM_ATTRIBUTES rights = {0}, seen;
    VIP_MEM_HANDLE handle = 0, second = 0;
    VIP_PROTECTION_HANDLE tag;
    void *read_only = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    check_group("memory calls");
    CHECK_RETURN(VipCreatePtag(nic, &tag), VIP_SUCCESS);
    rights.Ptag = tag;
    rights.EnableRdmaWrite = VIP_TRUE;
    BAD_EACH(VipRegisterMem(h, junk, sizeof junk, &rights, &handle));
    CHECK_RETURN(VipRegisterMem(nic, NULL, 64, &rights, &handle), IP);
    CHECK_RETURN(VipRegisterMem(nic, junk, 0, &rights, &handle), IP);
    CHECK_RETURN(VipRegisterMem(nic, junk, sizeof junk, &rights, NULL), IP);
    CHECK(VipRegisterMem(nic, junk, ULONG_MAX, &rights, &handle) != VIP_SUCCESS);
    CHECK(VipRegisterMem(nic, (VIP_PVOID)(UINTPTR_MAX - 10), 64, &rights, &handle) != VIP_SUCCESS);
    CHECK_RETURN(VipRegisterMem(nic, (VIP_PVOID)(uintptr_t)4096, 64, &rights, &handle), IP); /* not mapped */
    CHECK_RETURN(VipRegisterMem(nic, read_only, 4096, &rights, &handle), IP);
    rights.EnableRdmaWrite = VIP_FALSE;
    CHECK_RETURN(VipRegisterMem(nic, read_only, 4096, &rights, &handle), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, read_only, handle), VIP_SUCCESS);
    rights.Ptag = NULL;
    rights.EnableRdmaWrite = VIP_TRUE;
    CHECK_RETURN(VipRegisterMem(nic, junk, sizeof junk, &rights, &handle), VIP_INVALID_PTAG); /* a right without a tag */
    rights.Ptag = junk;
    CHECK_RETURN(VipRegisterMem(nic, junk, sizeof junk, &rights, &handle), VIP_INVALID_PTAG);
    rights.Ptag = tag;
    CHECK_RETURN(VipRegisterMem(nic, junk, sizeof junk, &rights, &handle), VIP_SUCCESS);
    CHECK_RETURN(VipRegisterMem(nic, (char *)junk + 8, 64, NULL, &second), VIP_SUCCESS); /* overlaps */
    CHECK(handle != 0 && second != 0 && handle != second);
    BAD_EACH(VipQueryMem(h, junk, handle, &seen));
    CHECK_RETURN(VipQueryMem(nic, junk, handle, NULL), IP);
    CHECK_RETURN(VipQueryMem(nic, junk, 0, &seen), IP);
    CHECK_RETURN(VipQueryMem(nic, junk, 0xFFFFFFFFu, &seen), IP);
    CHECK_RETURN(VipQueryMem(nic, (char *)junk + sizeof junk, handle, &seen), IP);
    CHECK_RETURN(VipQueryMem(nic, (char *)junk - 1, handle, &seen), IP);
    CHECK_RETURN(VipQueryMem(nic, (char *)junk + 17, handle, &seen), VIP_SUCCESS);
    CHECK(seen.Ptag == tag && seen.EnableRdmaWrite == VIP_TRUE && seen.EnableRdmaRead == VIP_FALSE);
    CHECK_RETURN(VipQueryMem(nic, (char *)junk + 8, second, &seen), VIP_SUCCESS);
    CHECK(seen.Ptag == NULL && seen.EnableRdmaWrite == VIP_FALSE);
    rights.EnableRdmaRead = VIP_TRUE;
    BAD_EACH(VipSetMemAttributes(h, junk, handle, &rights));
    CHECK_RETURN(VipSetMemAttributes(nic, junk, handle, NULL), IP);
    CHECK_RETURN(VipSetMemAttributes(nic, junk, 0, &rights), IP);
    rights.Ptag = junk;
    CHECK_RETURN(VipSetMemAttributes(nic, junk, handle, &rights), VIP_INVALID_PTAG);
    rights.Ptag = tag;
    CHECK_RETURN(VipSetMemAttributes(nic, junk, handle, &rights), VIP_SUCCESS);
    CHECK_RETURN(VipQueryMem(nic, junk, handle, &seen), VIP_SUCCESS);
    CHECK(seen.EnableRdmaRead == VIP_TRUE);
    BAD_EACH(VipDeregisterMem(h, junk, handle));
    CHECK_RETURN(VipDeregisterMem(nic, junk, 0), IP);
    CHECK_RETURN(VipDeregisterMem(nic, junk, handle ^ 0x80000000u), IP);
    CHECK_RETURN(VipDeregisterMem(nic, (char *)junk + 8, handle), IP);
    CHECK_RETURN(VipDeregisterMem(nic, NULL, handle), IP);
    CHECK_RETURN(VipDeregisterMem(nic, junk, handle), VIP_SUCCESS);
    CHECK_RETURN(VipDeregisterMem(nic, junk, handle), IP);
    CHECK_RETURN(VipQueryMem(nic, junk, handle, &seen), IP);
    CHECK_RETURN(VipSetMemAttributes(nic, junk, handle, &rights), IP);
    CHECK_RETURN(VipDeregisterMem(nic, (char *)junk + 8, second), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyPtag(nic, tag), VIP_SUCCESS);
    munmap(read_only, 4096);
}

static void vi_calls(void) {
    VIP_VI_ATTRIBUTES good = {0}, a;
    VIP_VI_HANDLE vi = NULL;
    VIP_VI_STATE state;
    VIP_BOOLEAN s, r;
    VIP_NIC_ATTRIBUTES limits;
    int i;
    static const VIP_RELIABILITY_LEVEL bad_levels[] = {0, 3, 5, 6, 7, 8, VIP_SERVICE_ACK, 0xFFFF};
    check_group("VI calls");
    CHECK_RETURN(VipQueryNic(nic, &limits), VIP_SUCCESS);
    good.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    good.MaxTransferSize = 4096;
    BAD_EACH(VipCreateVi(h, &good, NULL, NULL, &vi));
    CHECK_RETURN(VipCreateVi(nic, NULL, NULL, NULL, &vi), IP);
    CHECK_RETURN(VipCreateVi(nic, &good, NULL, NULL, NULL), IP);
    for (i = 1; i < BAD; i++) CHECK_RETURN(VipCreateVi(nic, &good, bad[i], NULL, &vi), IP);
    for (i = 1; i < BAD; i++) CHECK_RETURN(VipCreateVi(nic, &good, NULL, bad[i], &vi), IP);
    for (i = 0; i < (int)(sizeof bad_levels / sizeof bad_levels[0]); i++) {
        a = good;
        a.ReliabilityLevel = bad_levels[i];
        CHECK_RETURN(VipCreateVi(nic, &a, NULL, NULL, &vi), VIP_INVALID_RELIABILITY_LEVEL);
    }
    a = good;
    a.MaxTransferSize = 0;
    CHECK_RETURN(VipCreateVi(nic, &a, NULL, NULL, &vi), VIP_INVALID_MTU);
    a.MaxTransferSize = limits.MaxTransferSize + 1;
    CHECK_RETURN(VipCreateVi(nic, &a, NULL, NULL, &vi), VIP_INVALID_MTU);
    a.MaxTransferSize = ULONG_MAX;
    CHECK_RETURN(VipCreateVi(nic, &a, NULL, NULL, &vi), VIP_INVALID_MTU);
    a = good;
    for (i = 1; i < BAD; i++) {
        a.Ptag = bad[i];
        CHECK_RETURN(VipCreateVi(nic, &a, NULL, NULL, &vi), VIP_INVALID_PTAG);
    }
    a = good;
    a.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
    a.EnableRdmaRead = VIP_TRUE;
    CHECK_RETURN(VipCreateVi(nic, &a, NULL, NULL, &vi), VIP_INVALID_RDMAREAD);
    a = good;
    a.MaxTransferSize = limits.MaxTransferSize;
    CHECK_RETURN(VipCreateVi(nic, &a, NULL, NULL, &vi), VIP_SUCCESS);
    BAD_EACH(VipQueryVi(h, &state, &a, &s, &r));
    CHECK_RETURN(VipQueryVi(vi, NULL, &a, &s, &r), IP);
    CHECK_RETURN(VipQueryVi(vi, &state, NULL, &s, &r), IP);
    CHECK_RETURN(VipQueryVi(vi, &state, &a, NULL, &r), IP);
    CHECK_RETURN(VipQueryVi(vi, &state, &a, &s, NULL), IP);
    CHECK_RETURN(VipQueryVi(vi, &state, &a, &s, &r), VIP_SUCCESS);
    CHECK(state == VIP_STATE_IDLE && s == VIP_TRUE && r == VIP_TRUE && a.MaxTransferSize == limits.MaxTransferSize);
    BAD_EACH(VipSetViAttributes(h, &good));
    CHECK_RETURN(VipSetViAttributes(vi, NULL), IP);
    a = good;
    a.ReliabilityLevel = 0;
    CHECK_RETURN(VipSetViAttributes(vi, &a), VIP_INVALID_RELIABILITY_LEVEL);
    a = good;
    a.Ptag = junk;
    CHECK_RETURN(VipSetViAttributes(vi, &a), VIP_INVALID_PTAG);
    CHECK_RETURN(VipSetViAttributes(vi, &good), VIP_SUCCESS);
    CHECK_RETURN(VipQueryVi(vi, &state, &a, &s, &r), VIP_SUCCESS);
    CHECK_SAME(a.MaxTransferSize, 4096);
    BAD_EACH(VipDestroyVi(h));
    CHECK_RETURN(VipDestroyVi(vi), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyVi(vi), IP);
}

static void post_calls(void) {
    End e;
    VIP_DESCRIPTOR *d;
    VIP_MEM_HANDLE small = 0;
    int i;
    check_group("VipPostSend and VipPostRecv");
    end_create(&e, nic, NULL);
    d = work_send(&e, 0, 0, 16);
    BAD_EACH(VipPostSend(h, d, e.memory));
    BAD_EACH(VipPostRecv(h, d, e.memory));
    CHECK_RETURN(VipPostSend(e.vi, NULL, e.memory), IP);
    CHECK_RETURN(VipPostRecv(e.vi, NULL, e.memory), IP);
    for (i = 1; i < 64; i += 9) {
        CHECK_RETURN(VipPostSend(e.vi, (VIP_DESCRIPTOR *)((uintptr_t)d + (unsigned)i), e.memory), IP);
        CHECK_RETURN(VipPostRecv(e.vi, (VIP_DESCRIPTOR *)((uintptr_t)d + (unsigned)i), e.memory), IP);
    }
    CHECK_RETURN(VipPostSend(e.vi, d, 0), IP);
    CHECK_RETURN(VipPostRecv(e.vi, d, 0), IP);
    CHECK_RETURN(VipPostSend(e.vi, d, 0xFFFFFFFFu), IP);
    CHECK_RETURN(VipPostRecv(e.vi, d, e.memory ^ 0x80000000u), IP);
    CHECK_RETURN(VipRegisterMem(nic, d, 31, NULL, &small), VIP_SUCCESS);
    CHECK_RETURN(VipPostSend(e.vi, d, small), IP); /* does not hold even the control segment */
    CHECK_RETURN(VipDeregisterMem(nic, d, small), VIP_SUCCESS);
    CHECK_RETURN(VipPostRecv(e.vi, d, small), IP); /* stale */
    post_send(&e, d); /* idle: flushed at once */
    expect_send(&e, d, VIP_STATUS_DESC_FLUSHED_ERROR);
    end_destroy(&e);
}

static void done_calls(void) {
    End e;
    VIP_DESCRIPTOR *out = (VIP_DESCRIPTOR *)(void *)junk;
    double start;
    check_group("Done, Wait and Notify of the work queues");
    end_create(&e, nic, NULL);
    BAD_EACH(VipSendDone(h, &out));
    BAD_EACH(VipRecvDone(h, &out));
    BAD_EACH(VipSendWait(h, 0, &out));
    BAD_EACH(VipRecvWait(h, 0, &out));
    BAD_EACH(VipSendWait(h, VIP_INFINITE, &out));
    BAD_EACH(VipRecvWait(h, ULONG_MAX, &out));
    BAD_EACH(VipSendNotify(h, NULL, nothing_vi));
    BAD_EACH(VipRecvNotify(h, NULL, nothing_vi));
    CHECK_RETURN(VipSendDone(e.vi, NULL), IP);
    CHECK_RETURN(VipRecvDone(e.vi, NULL), IP);
    CHECK_RETURN(VipSendWait(e.vi, 0, NULL), IP);
    CHECK_RETURN(VipRecvWait(e.vi, 0, NULL), IP);
    CHECK_RETURN(VipSendNotify(e.vi, NULL, NULL), IP);
    CHECK_RETURN(VipRecvNotify(e.vi, NULL, NULL), IP);
    CHECK_RETURN(VipSendDone(e.vi, &out), VIP_NOT_DONE);
    CHECK(out == NULL);
    out = (VIP_DESCRIPTOR *)(void *)junk;
    CHECK_RETURN(VipRecvDone(e.vi, &out), VIP_NOT_DONE);
    CHECK(out == NULL);
    CHECK_RETURN(VipSendWait(e.vi, 0, &out), VIP_TIMEOUT);
    CHECK_RETURN(VipRecvWait(e.vi, 0, &out), VIP_TIMEOUT);
    start = now_ms();
    out = (VIP_DESCRIPTOR *)(void *)junk;
    CHECK_RETURN(VipRecvWait(e.vi, 60, &out), VIP_TIMEOUT);
    CHECK(out == NULL);
    CHECK(now_ms() - start >= 59 && now_ms() - start < 1500);
    start = now_ms();
    CHECK_RETURN(VipSendWait(e.vi, 60, &out), VIP_TIMEOUT);
    CHECK(now_ms() - start >= 59 && now_ms() - start < 1500);
    end_destroy(&e);
}

static void connection_calls(void) {
    End e, other;
    Address at, from, odd;
    VIP_VI_ATTRIBUTES a;
    VIP_CONN_HANDLE connection;
    check_group("connection calls");
    end_create(&e, nic, NULL);
    end_create(&other, nic, NULL);
    address_unique(&at, nic);
    address_room(&from);
    BAD_EACH(VipConnectWait(h, &at.net, 0, &from.net, &a, &connection));
    CHECK_RETURN(VipConnectWait(nic, NULL, 0, &from.net, &a, &connection), IP);
    CHECK_RETURN(VipConnectWait(nic, &at.net, 0, NULL, &a, &connection), IP);
    CHECK_RETURN(VipConnectWait(nic, &at.net, 0, &from.net, NULL, &connection), IP);
    CHECK_RETURN(VipConnectWait(nic, &at.net, 0, &from.net, &a, NULL), IP);
    odd = at;
    odd.net.DiscriminatorLen = DISCRIMINATOR_MAX + 1;
    CHECK_RETURN(VipConnectWait(nic, &odd.net, 0, &from.net, &a, &connection), IP);
    CHECK_RETURN(VipConnectRequest(e.vi, &at.net, &odd.net, 0, &a), IP);
    CHECK_RETURN(VipConnectRequest(e.vi, &odd.net, &at.net, 0, &a), IP);
    CHECK_RETURN(VipConnectPeerRequest(e.vi, &odd.net, &at.net, 0), IP);
    odd = at;
    odd.net.HostAddressLen = 3;
    CHECK_RETURN(VipConnectRequest(e.vi, &at.net, &odd.net, 0, &a), IP);
    odd.net.HostAddressLen = 0xFFFF;
    CHECK_RETURN(VipConnectRequest(e.vi, &at.net, &odd.net, 0, &a), IP);
    CHECK_RETURN(VipConnectPeerRequest(e.vi, &at.net, &odd.net, 0), IP);
    BAD_EACH(VipConnectAccept(h, e.vi));
    BAD_EACH(VipConnectReject(h));
    BAD_EACH(VipConnectRequest(h, &at.net, &at.net, 0, &a));
    CHECK_RETURN(VipConnectRequest(e.vi, NULL, &at.net, 0, &a), IP);
    CHECK_RETURN(VipConnectRequest(e.vi, &at.net, NULL, 0, &a), IP);
    CHECK_RETURN(VipConnectRequest(e.vi, &at.net, &at.net, 0, NULL), IP);
    BAD_EACH(VipConnectPeerRequest(h, &at.net, &at.net, 0));
    CHECK_RETURN(VipConnectPeerRequest(e.vi, NULL, &at.net, 0), IP);
    CHECK_RETURN(VipConnectPeerRequest(e.vi, &at.net, NULL, 0), IP);
    BAD_EACH(VipConnectPeerDone(h, &a));
    BAD_EACH(VipConnectPeerWait(h, &a));
    CHECK_RETURN(VipConnectPeerDone(e.vi, NULL), IP);
    CHECK_RETURN(VipConnectPeerWait(e.vi, NULL), IP);
    CHECK_RETURN(VipConnectPeerDone(e.vi, &a), VIP_INVALID_STATE);
    CHECK_RETURN(VipConnectPeerWait(e.vi, &a), VIP_INVALID_STATE);
    BAD_EACH(VipDisconnect(h));
    CHECK_RETURN(VipDisconnect(e.vi), VIP_SUCCESS);
    CHECK_RETURN(ends_connect(&e, &other, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipConnectRequest(e.vi, &at.net, &at.net, 0, &a), VIP_INVALID_STATE);
    CHECK_RETURN(VipConnectPeerRequest(e.vi, &at.net, &at.net, 0), VIP_INVALID_STATE);
    CHECK_RETURN(VipSetViAttributes(e.vi, &e.attributes), VIP_INVALID_STATE);
    CHECK_RETURN(VipDestroyVi(e.vi), VIP_INVALID_STATE);
    CHECK_RETURN(VipDisconnect(e.vi), VIP_SUCCESS);
    CHECK_RETURN(VipDisconnect(e.vi), VIP_SUCCESS);
    end_destroy(&e);
    end_destroy(&other);
}

static void cq_calls(void) {
    VIP_CQ_HANDLE cq = NULL;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN r;
    VIP_NIC_ATTRIBUTES limits;
    EndOptions options = {0};
    End e;
    double start;
    VIP_DESCRIPTOR *d;
    check_group("completion queue calls");
    CHECK_RETURN(VipQueryNic(nic, &limits), VIP_SUCCESS);
    BAD_EACH(VipCreateCQ(h, 16, &cq));
    CHECK_RETURN(VipCreateCQ(nic, 16, NULL), IP);
    CHECK_RETURN(VipCreateCQ(nic, 0, &cq), IP);
    CHECK_RETURN(VipCreateCQ(nic, limits.MaxCQEntries + 1, &cq), VIP_ERROR_RESOURCE);
    CHECK_RETURN(VipCreateCQ(nic, ULONG_MAX, &cq), VIP_ERROR_RESOURCE);
    CHECK_RETURN(VipCreateCQ(nic, 16, &cq), VIP_SUCCESS);
    BAD_EACH(VipResizeCQ(h, 16));
    CHECK_RETURN(VipResizeCQ(cq, 0), IP);
    CHECK_RETURN(VipResizeCQ(cq, ULONG_MAX), VIP_ERROR_RESOURCE);
    CHECK_RETURN(VipResizeCQ(cq, 1024), VIP_SUCCESS);
    BAD_EACH(VipCQDone(h, &vi, &r));
    CHECK_RETURN(VipCQDone(cq, NULL, &r), IP);
    CHECK_RETURN(VipCQDone(cq, &vi, NULL), IP);
    CHECK_RETURN(VipCQDone(cq, &vi, &r), VIP_NOT_DONE);
    BAD_EACH(VipCQWait(h, 0, &vi, &r));
    CHECK_RETURN(VipCQWait(cq, 0, NULL, &r), IP);
    CHECK_RETURN(VipCQWait(cq, 0, &vi, NULL), IP);
    CHECK_RETURN(VipCQWait(cq, 0, &vi, &r), VIP_TIMEOUT);
    start = now_ms();
    CHECK_RETURN(VipCQWait(cq, 60, &vi, &r), VIP_TIMEOUT);
    CHECK(now_ms() - start >= 59 && now_ms() - start < 1500);
    BAD_EACH(VipCQNotify(h, NULL, nothing_cq));
    CHECK_RETURN(VipCQNotify(cq, NULL, NULL), IP);
    options.send_cq = cq;
    end_create(&e, nic, &options);
    CHECK_RETURN(VipSendWait(e.vi, 0, &d), VIP_INVALID_STATE);
    CHECK_RETURN(VipSendNotify(e.vi, NULL, nothing_vi), VIP_INVALID_STATE);
    CHECK_RETURN(VipRecvWait(e.vi, 0, &d), VIP_TIMEOUT); /* that queue has no CQ */
    CHECK_RETURN(VipDestroyCQ(cq), VIP_ERROR_RESOURCE);
    post_send(&e, work_send(&e, 0, 0, 4));
    post_send(&e, work_send(&e, 1, 0, 4));
    CHECK_RETURN(VipResizeCQ(cq, 1), VIP_ERROR_RESOURCE); /* two entries are in it */
    CHECK_RETURN(VipResizeCQ(cq, 2), VIP_SUCCESS);
    CHECK_RETURN(VipCQDone(cq, &vi, &r), VIP_SUCCESS);
    CHECK(vi == e.vi && r == VIP_FALSE);
    end_destroy(&e);
    BAD_EACH(VipDestroyCQ(h));
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
    CHECK_RETURN(VipDestroyCQ(cq), IP);
    CHECK_RETURN(VipCQDone(cq, &vi, &r), IP);
}

static void name_calls(void) {
    Address a;
    char name[64];
    VIP_ULONG room = sizeof name;
    check_group("name service calls");
    address_room(&a);
    BAD_EACH(VipNSInit(h, NULL));
    CHECK_RETURN(VipNSInit(nic, NULL), VIP_SUCCESS);
    CHECK_RETURN(VipNSInit(nic, NULL), VIP_SUCCESS);
    BAD_EACH(VipNSGetHostByName(h, "localhost", &a.net, 0));
    CHECK_RETURN(VipNSGetHostByName(nic, NULL, &a.net, 0), IP);
    CHECK_RETURN(VipNSGetHostByName(nic, "localhost", NULL, 0), IP);
    CHECK_RETURN(VipNSGetHostByName(nic, "", &a.net, 0), VIP_ERROR_NAMESERVICE);
    CHECK_RETURN(VipNSGetHostByName(nic, "1.2.3", &a.net, 0), VIP_ERROR_NAMESERVICE);
    CHECK_RETURN(VipNSGetHostByName(nic, "1.2.3.400", &a.net, 0), VIP_ERROR_NAMESERVICE);
    CHECK_RETURN(VipNSGetHostByName(nic, "localhost", &a.net, ULONG_MAX), VIP_ERROR_NAMESERVICE);
    CHECK_RETURN(VipNSGetHostByName(nic, "localhost", &a.net, 0), VIP_SUCCESS);
    BAD_EACH(VipNSGetHostByAddr(h, &a.net, name, &room));
    CHECK_RETURN(VipNSGetHostByAddr(nic, NULL, name, &room), IP);
    CHECK_RETURN(VipNSGetHostByAddr(nic, &a.net, NULL, &room), IP);
    CHECK_RETURN(VipNSGetHostByAddr(nic, &a.net, name, NULL), IP);
    CHECK_RETURN(VipNSGetHostByAddr(nic, &a.net, name, &room), VIP_SUCCESS);
    a.net.HostAddressLen = 77;
    room = sizeof name;
    CHECK_RETURN(VipNSGetHostByAddr(nic, &a.net, name, &room), IP);
    BAD_EACH(VipNSShutdown(h));
    CHECK_RETURN(VipNSShutdown(nic), VIP_SUCCESS);
    CHECK_RETURN(VipNSShutdown(nic), VIP_SUCCESS);
}

static void kinds_are_not_mixed(void) {
    End e;
    VIP_CQ_HANDLE cq;
    VIP_DESCRIPTOR *d;
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN r;
    check_group("a handle of one kind is not taken for another, nor an object of another NIC");
    end_create(&e, nic, NULL);
    CHECK_RETURN(VipCreateCQ(nic, 4, &cq), VIP_SUCCESS);
    CHECK_RETURN(VipSendDone(nic, &d), IP);
    CHECK_RETURN(VipSendDone(cq, &d), IP);
    CHECK_RETURN(VipSendDone(e.tag, &d), IP);
    CHECK_RETURN(VipCQDone(e.vi, &vi, &r), IP);
    CHECK_RETURN(VipDestroyVi(cq), IP);
    CHECK_RETURN(VipDestroyCQ(e.vi), IP);
    CHECK_RETURN(VipDestroyPtag(nic, e.vi), IP);
    CHECK_RETURN(VipCloseNic(e.vi), IP);
    CHECK_RETURN(VipConnectReject(e.vi), IP);
    {
        VIP_NIC_HANDLE second = nic_open();
        VIP_VI_ATTRIBUTES a = {0};
        a.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
        a.MaxTransferSize = 64;
        CHECK_RETURN(VipDestroyPtag(second, e.tag), IP);
        CHECK_RETURN(VipCreateVi(second, &a, cq, NULL, &vi), IP);
        a.Ptag = e.tag;
        CHECK_RETURN(VipCreateVi(second, &a, NULL, NULL, &vi), VIP_INVALID_PTAG);
        CHECK_RETURN(VipCloseNic(second), VIP_SUCCESS);
    }
    CHECK_RETURN(VipDestroyCQ(cq), VIP_SUCCESS);
    end_destroy(&e);
}

static void closing_takes_all(void) {
    VIP_NIC_HANDLE second = nic_open();
    End e;
    VIP_DESCRIPTOR *d;
    check_group("VipCloseNic takes every object with it");
    end_create(&e, second, NULL);
    post_recv(&e, work_recv(&e, 0, 0, 64));
    CHECK_RETURN(VipCloseNic(second), VIP_SUCCESS);
    CHECK_RETURN(VipRecvDone(e.vi, &d), IP);
    CHECK_RETURN(VipDestroyVi(e.vi), IP);
    CHECK_RETURN(VipDestroyPtag(second, e.tag), IP);
}

int main(void) {
    nic = nic_open();
    make_bad();
    nic_calls();
    tag_calls();
    memory_calls();
    vi_calls();
    post_calls();
    done_calls();
    connection_calls();
    cq_calls();
    name_calls();
    kinds_are_not_mixed();
    closing_takes_all();
    CHECK_RETURN(VipCloseNic(nic), VIP_SUCCESS);
    return check_end();
}
