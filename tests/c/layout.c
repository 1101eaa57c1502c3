/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sizes, offsets and values of vipl.h on LP64, each checked when this file is compiled and counted when it runs. Compiled as C11 and as
 * C++17, with -pedantic -Wall -Wextra -Werror.
 */
#include <stddef.h>
#include <stdint.h>

#include "check.h"
#include "vipl.h"
#include "viplx.h"

#ifdef __cplusplus
#define COMPILE_TIME(condition, text) static_assert(condition, text)
#else
#define COMPILE_TIME(condition, text) _Static_assert(condition, text)
#endif

#define SAME(actual, expected)                                \
    do {                                                      \
        COMPILE_TIME((actual) == (expected), #actual);        \
        CHECK_SAME((actual), (expected));                     \
    } while (0)
#define AT(type, field, offset) SAME(offsetof(type, field), (size_t)(offset))
#define SIZE(type, bytes) SAME(sizeof(type), (size_t)(bytes))

static void scalars(void) {
    check_group("scalar types");
    SIZE(VIP_PVOID, 8);
    SIZE(VIP_BOOLEAN, 4);
    SIZE(VIP_CHAR, 1);
    SIZE(VIP_UCHAR, 1);
    SIZE(VIP_USHORT, 2);
    SIZE(VIP_SHORT, 2);
    SIZE(VIP_ULONG, 8);
    SIZE(VIP_LONG, 8);
    SIZE(VIP_UINT8, 1);
    SIZE(VIP_UINT16, 2);
    SIZE(VIP_UINT32, 4);
    SIZE(VIP_UINT64, 8);
    SIZE(VIP_MEM_HANDLE, 4);
    SIZE(VIP_RELIABILITY_LEVEL, 2);
    SIZE(VIP_QOS, 8);
    SIZE(VIP_NIC_HANDLE, 8);
    SIZE(VIP_EVENT_HANDLE, 8);
    SIZE(VIP_RETURN, 4);
    SAME((VIP_MEM_HANDLE)-1 > 0, 1);
    SAME(VIP_TRUE, 1);
    SAME(VIP_FALSE, 0);
}

static void descriptor(void) {
    check_group("descriptor");
    SIZE(VIP_PVOID64, 8);
    SIZE(VIP_CONTROL_SEGMENT, 32);
    AT(VIP_CONTROL_SEGMENT, Next, 0);
    AT(VIP_CONTROL_SEGMENT, NextHandle, 8);
    AT(VIP_CONTROL_SEGMENT, SegCount, 12);
    AT(VIP_CONTROL_SEGMENT, Control, 14);
    AT(VIP_CONTROL_SEGMENT, Reserved, 16);
    AT(VIP_CONTROL_SEGMENT, ImmediateData, 20);
    AT(VIP_CONTROL_SEGMENT, Length, 24);
    AT(VIP_CONTROL_SEGMENT, Status, 28);
    SIZE(VIP_ADDRESS_SEGMENT, 16);
    AT(VIP_ADDRESS_SEGMENT, Data, 0);
    AT(VIP_ADDRESS_SEGMENT, Handle, 8);
    AT(VIP_ADDRESS_SEGMENT, Reserved, 12);
    SIZE(VIP_DATA_SEGMENT, 16);
    AT(VIP_DATA_SEGMENT, Data, 0);
    AT(VIP_DATA_SEGMENT, Handle, 8);
    AT(VIP_DATA_SEGMENT, Length, 12);
    SIZE(VIP_DESCRIPTOR_SEGMENT, 16);
    SIZE(VIP_DESCRIPTOR, 64);
    SIZE(struct _VIP_DESCRIPTOR, 64);
    SIZE(VIP_DESCRIPTOR[3], 192);
    AT(VIP_DESCRIPTOR, CS, 0);
    AT(VIP_DESCRIPTOR, Control, 0);
    AT(VIP_DESCRIPTOR, DS, 32);
    AT(VIP_DESCRIPTOR, Data, 32);
    SAME(VIP_DESCRIPTOR_ALIGNMENT, 64);
#ifdef __cplusplus
    SAME(alignof(VIP_DESCRIPTOR), 64u);
#else
    SAME(_Alignof(VIP_DESCRIPTOR), 64u);
#endif
}

static void spellings(void) {
    VIP_DESCRIPTOR d;
    check_group("two spellings of one descriptor");
    d.CS.Next.AddressBits = 0;
    d.CS.Next.Descriptor = &d;
    CHECK(d.CS.Next.Address == (VIP_PVOID)&d);
    d.CS.Length = 17;
    d.CS.Control = VIP_CONTROL_IMMEDIATE;
    CHECK_SAME(d.Control.Length, 17);
    CHECK_SAME(d.Control.Control, VIP_CONTROL_IMMEDIATE);
    d.Data[0].Handle = 5;
    d.Data[1].Length = 6;
    CHECK_SAME(d.DS[0].Remote.Handle, 5);
    CHECK_SAME(d.DS[1].Local.Length, 6);
    d.DS[0].Local.Data.Address = &d;
    CHECK(d.Data[0].Data.Address == (VIP_PVOID)&d);
}

static void structures(void) {
    check_group("structures");
    SIZE(VIP_NET_ADDRESS, 8);
    AT(VIP_NET_ADDRESS, HostAddressLen, 0);
    AT(VIP_NET_ADDRESS, DiscriminatorLen, 2);
    AT(VIP_NET_ADDRESS, HostAddress, 4);
    SIZE(VIP_NIC_ATTRIBUTES, 200);
    AT(VIP_NIC_ATTRIBUTES, Name, 0);
    AT(VIP_NIC_ATTRIBUTES, HardwareVersion, 64);
    AT(VIP_NIC_ATTRIBUTES, ProviderVersion, 72);
    AT(VIP_NIC_ATTRIBUTES, NicAddressLen, 80);
    AT(VIP_NIC_ATTRIBUTES, LocalNicAddress, 88);
    AT(VIP_NIC_ATTRIBUTES, ThreadSafe, 96);
    AT(VIP_NIC_ATTRIBUTES, MaxDiscriminatorLen, 100);
    AT(VIP_NIC_ATTRIBUTES, MaxRegisterBytes, 104);
    AT(VIP_NIC_ATTRIBUTES, MaxRegisterRegions, 112);
    AT(VIP_NIC_ATTRIBUTES, MaxRegisterBlockBytes, 120);
    AT(VIP_NIC_ATTRIBUTES, MaxVI, 128);
    AT(VIP_NIC_ATTRIBUTES, MaxDescriptorsPerQueue, 136);
    AT(VIP_NIC_ATTRIBUTES, MaxSegmentsPerDesc, 144);
    AT(VIP_NIC_ATTRIBUTES, MaxCQ, 152);
    AT(VIP_NIC_ATTRIBUTES, MaxCQEntries, 160);
    AT(VIP_NIC_ATTRIBUTES, MaxTransferSize, 168);
    AT(VIP_NIC_ATTRIBUTES, NativeMTU, 176);
    AT(VIP_NIC_ATTRIBUTES, MaxPtags, 184);
    AT(VIP_NIC_ATTRIBUTES, ReliabilityLevelSupport, 192);
    AT(VIP_NIC_ATTRIBUTES, RDMAReadSupport, 194);
    SIZE(VIP_VI_ATTRIBUTES, 40);
    AT(VIP_VI_ATTRIBUTES, ReliabilityLevel, 0);
    AT(VIP_VI_ATTRIBUTES, MaxTransferSize, 8);
    AT(VIP_VI_ATTRIBUTES, QoS, 16);
    AT(VIP_VI_ATTRIBUTES, Ptag, 24);
    AT(VIP_VI_ATTRIBUTES, EnableRdmaWrite, 32);
    AT(VIP_VI_ATTRIBUTES, EnableRdmaRead, 36);
    SIZE(VIP_MEM_ATTRIBUTES, 16);
    AT(VIP_MEM_ATTRIBUTES, Ptag, 0);
    AT(VIP_MEM_ATTRIBUTES, EnableRdmaWrite, 8);
    AT(VIP_MEM_ATTRIBUTES, EnableRdmaRead, 12);
    SIZE(VIP_ERROR_DESCRIPTOR, 48);
    AT(VIP_ERROR_DESCRIPTOR, NicHandle, 0);
    AT(VIP_ERROR_DESCRIPTOR, ViHandle, 8);
    AT(VIP_ERROR_DESCRIPTOR, CQHandle, 16);
    AT(VIP_ERROR_DESCRIPTOR, DescriptorPtr, 24);
    AT(VIP_ERROR_DESCRIPTOR, OpCode, 32);
    AT(VIP_ERROR_DESCRIPTOR, ResourceCode, 40);
    AT(VIP_ERROR_DESCRIPTOR, ErrorCode, 44);
    SIZE(VIP_AUTODISCOVERY_LIST, 24);
    AT(VIP_AUTODISCOVERY_LIST, ADAddrArray, 8);
    AT(VIP_AUTODISCOVERY_LIST, NumAdAddrs, 16);
}

static void extensions(void) {
    check_group("extension structures begin with Size");
    AT(VIPX_VI_INFO, Size, 0);
    AT(VIPX_MEM_INFO, Size, 0);
    AT(VIPX_LINK_INFO, Size, 0);
    AT(VIPX_NIC_INFO, Size, 0);
    AT(VIPX_VI_ATTRIBUTES, Size, 0);
    SIZE(VIPX_VI_INFO, 88);
    SIZE(VIPX_MEM_INFO, 16);
    SIZE(VIPX_LINK_INFO, 112);
    AT(VIPX_CAUSE_INFO, Size, 0);
    AT(VIPX_CAUSE_INFO, Text, 16);
    SIZE(VIPX_CAUSE_INFO, 128);
    AT(VIPX_LINK_INFO, RttNs, 56);
    SIZE(VIPX_NIC_INFO, 48);
    AT(VIPX_NIC_INFO, Memory, 40);
    AT(VIPX_CACHE_INFO, Size, 0);
    AT(VIPX_CACHE_INFO, Hits, 40);
    SIZE(VIPX_CACHE_INFO, 88);
    SIZE(VIPX_VI_ATTRIBUTES, 16);
}

static void enumerations(void) {
    check_group("enumerations");
    SAME(VIP_SUCCESS, 0);
    SAME(VIP_NOT_DONE, 1);
    SAME(VIP_INVALID_PARAMETER, 2);
    SAME(VIP_ERROR_RESOURCE, 3);
    SAME(VIP_TIMEOUT, 4);
    SAME(VIP_REJECT, 5);
    SAME(VIP_INVALID_RELIABILITY_LEVEL, 6);
    SAME(VIP_INVALID_MTU, 7);
    SAME(VIP_INVALID_QOS, 8);
    SAME(VIP_INVALID_PTAG, 9);
    SAME(VIP_INVALID_RDMAREAD, 10);
    SAME(VIP_DESCRIPTOR_ERROR, 11);
    SAME(VIP_INVALID_STATE, 12);
    SAME(VIP_ERROR_NAMESERVICE, 13);
    SAME(VIP_NO_MATCH, 14);
    SAME(VIP_NOT_REACHABLE, 15);
    SAME(VIP_ERROR_NOT_SUPPORTED, 16);
    SAME(VIP_STATE_IDLE, 0);
    SAME(VIP_STATE_CONNECTED, 1);
    SAME(VIP_STATE_CONNECT_PENDING, 2);
    SAME(VIP_STATE_ERROR, 3);
    SAME(VIP_ERROR_POST_DESC, 0);
    SAME(VIP_ERROR_CONN_LOST, 1);
    SAME(VIP_ERROR_RECVQ_EMPTY, 2);
    SAME(VIP_ERROR_VI_OVERRUN, 3);
    SAME(VIP_ERROR_RDMAW_PROT, 4);
    SAME(VIP_ERROR_RDMAW_DATA, 5);
    SAME(VIP_ERROR_RDMAW_ABORT, 6);
    SAME(VIP_ERROR_RDMAR_PROT, 7);
    SAME(VIP_ERROR_COMP_PROT, 8);
    SAME(VIP_ERROR_RDMA_TRANSPORT, 9);
    SAME(VIP_ERROR_CATASTROPHIC, 10);
    SAME(VIP_RESOURCE_NIC, 0);
    SAME(VIP_RESOURCE_VI, 1);
    SAME(VIP_RESOURCE_CQ, 2);
    SAME(VIP_RESOURCE_DESCRIPTOR, 3);
}

static void constants(void) {
    check_group("macro constants");
    SAME(VIP_SERVICE_UNRELIABLE, 1);
    SAME(VIP_SERVICE_RELIABLE_DELIVERY, 2);
    SAME(VIP_SERVICE_RELIABLE_RECEPTION, 4);
    SAME(VIP_BASE_SERVICES, 7);
    SAME(VIP_SERVICE_ACK, 1 << 14);
    SAME(VIP_SERVICE_DFC, 1 << 15);
    SAME(VIP_CONTROL_OP_SENDRECV, 0);
    SAME(VIP_CONTROL_OP_RDMAWRITE, 1);
    SAME(VIP_CONTROL_OP_RDMAREAD, 2);
    SAME(VIP_CONTROL_OP_RESERVED, 3);
    SAME(VIP_CONTROL_OP_MASK, 3);
    SAME(VIP_CONTROL_IMMEDIATE, 4);
    SAME(VIP_CONTROL_QFENCE, 8);
    SAME(VIP_CONTROL_RESERVED, 0xFFF0);
    SAME(VIP_STATUS_DONE, 0x1);
    SAME(VIP_STATUS_FORMAT_ERROR, 0x2);
    SAME(VIP_STATUS_PROTECTION_ERROR, 0x4);
    SAME(VIP_STATUS_LENGTH_ERROR, 0x8);
    SAME(VIP_STATUS_PARTIAL_ERROR, 0x10);
    SAME(VIP_STATUS_DESC_FLUSHED_ERROR, 0x20);
    SAME(VIP_STATUS_TRANSPORT_ERROR, 0x40);
    SAME(VIP_STATUS_RDMA_PROT_ERROR, 0x80);
    SAME(VIP_STATUS_REMOTE_DESC_ERROR, 0x100);
    SAME(VIP_STATUS_ERROR_MASK, 0x1FE);
    SAME(VIP_STATUS_OP_SEND, 0);
    SAME(VIP_STATUS_OP_RECEIVE, 0x10000);
    SAME(VIP_STATUS_OP_RDMA_WRITE, 0x20000);
    SAME(VIP_STATUS_OP_REMOTE_RDMA_WRITE, 0x30000);
    SAME(VIP_STATUS_OP_RDMA_READ, 0x40000);
    SAME(VIP_STATUS_OP_MASK, 0x70000);
    SAME(VIP_STATUS_IMMEDIATE, 0x80000);
    SAME(VIP_STATUS_RESERVED, 0xFFF0FE00u);
    SAME(VIP_SMI_AUTODISCOVERY, 1ul);
    SAME(sizeof(VIP_SMI_AUTODISCOVERY), sizeof(VIP_ULONG));
    SAME(VIP_INFINITE, 0xFFFFFFFFul);
    SAME(INFINITE, 0xFFFFFFFFul);
}

int main(void) {
    scalars();
    descriptor();
    spellings();
    structures();
    extensions();
    enumerations();
    constants();
    return check_end();
}
