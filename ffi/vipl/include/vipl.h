/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * vipl.h - the VI Provider Library, Virtual Interface Architecture 1.0.
 *
 * Link with -lvipl (pkg-config module "vipl"), or dlopen "vipl.so". Extensions that VIA 1.0 does not know are in viplx.h.
 *
 * Conventions that hold for every call, so that they are not repeated below:
 *
 * - A handle that is NULL, stale (its object was destroyed, its NIC closed) or not a handle at all, and a NULL pointer where the
 *   call needs one, give VIP_INVALID_PARAMETER; nothing has changed then. Handles are checked by value and never dereferenced.
 * - Strings, addresses and attribute structures stay the caller's; the library copies what it keeps.
 * - A descriptor belongs to the library from a successful VipPost* until VipSendDone, VipRecvDone, a wait or a notify handler hands
 *   it back. The memory it names must stay registered until then.
 * - Timeouts are in milliseconds; VIP_INFINITE (and ~0UL) waits for ever, 0 does not wait.
 * - Out arguments are written on VIP_SUCCESS only, unless a call says otherwise.
 * - Every call may be made from any thread (VIP_NIC_ATTRIBUTES.ThreadSafe is VIP_TRUE), also from within a handler.
 *
 * Before including this file, define VIPL_NO_IN_OUT to keep the words IN and OUT (both empty, VIA's own markers) undefined.
 */
#ifndef BELLWIRE_VIPL_H
#define BELLWIRE_VIPL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------------------------------------ compiler differences */

#ifndef VIPL_NO_IN_OUT
#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#endif

/* Unnamed unions are C11 and C++; __extension__ lets GCC and Clang take them in C89 and C99 without a warning. */
#if defined(__GNUC__)
#define VIPL_EXTENSION_ __extension__
#define VIPL_ALIGNED_(n) __attribute__((aligned(n)))
#else
#define VIPL_EXTENSION_
#define VIPL_ALIGNED_(n)
#endif

/* ------------------------------------------------------------------------------------------------ scalar types */

typedef void *VIP_PVOID;
typedef int VIP_BOOLEAN;
typedef char VIP_CHAR;
typedef unsigned char VIP_UCHAR;
typedef wchar_t VIP_WCHAR;
typedef short VIP_SHORT;
typedef unsigned short VIP_USHORT;
typedef long VIP_LONG;
typedef unsigned long VIP_ULONG; /* as wide as a pointer on LP64 */
typedef uint8_t VIP_UINT8;
typedef uint16_t VIP_UINT16;
typedef uint32_t VIP_UINT32;
typedef uint64_t VIP_UINT64;

#define VIP_TRUE 1
#define VIP_FALSE 0

/* Handles are opaque values; only NULL has a meaning ("none"). */
typedef VIP_PVOID VIP_QOS;
typedef VIP_PVOID VIP_NIC_HANDLE;
typedef VIP_PVOID VIP_VI_HANDLE;
typedef VIP_PVOID VIP_CQ_HANDLE;
typedef VIP_PVOID VIP_PROTECTION_HANDLE;
typedef VIP_PVOID VIP_CONN_HANDLE;
typedef VIP_PVOID VIP_EVENT_HANDLE;

typedef VIP_UINT32 VIP_MEM_HANDLE;       /* never 0 after a successful registration */
typedef VIP_USHORT VIP_RELIABILITY_LEVEL; /* a set of VIP_SERVICE_* bits; one bit in VIP_VI_ATTRIBUTES */

/* ------------------------------------------------------------------------------------------------ constants */

#ifndef INFINITE
#define INFINITE 0xFFFFFFFFUL
#endif
#define VIP_INFINITE 0xFFFFFFFFUL /* a timeout that never expires */

#define VIP_DESCRIPTOR_ALIGNMENT 64 /* bytes */

/* VIP_RELIABILITY_LEVEL */
#define VIP_SERVICE_UNRELIABLE 0x0001
#define VIP_SERVICE_RELIABLE_DELIVERY 0x0002
#define VIP_SERVICE_RELIABLE_RECEPTION 0x0004
#define VIP_BASE_SERVICES (VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION)
#define VIP_SERVICE_ACK 0x4000 /* named by old sources; not supported */
#define VIP_SERVICE_DFC 0x8000 /* named by old sources; not supported */

/* VIP_CONTROL_SEGMENT.Control: one operation, then flags; reserved bits must be zero */
#define VIP_CONTROL_OP_SENDRECV 0x0000
#define VIP_CONTROL_OP_RDMAWRITE 0x0001
#define VIP_CONTROL_OP_RDMAREAD 0x0002
#define VIP_CONTROL_OP_RESERVED 0x0003
#define VIP_CONTROL_OP_MASK 0x0003
#define VIP_CONTROL_IMMEDIATE 0x0004 /* ImmediateData travels with the message */
#define VIP_CONTROL_QFENCE 0x0008    /* do not start before the VI's earlier RDMA reads are done */
#define VIP_CONTROL_RESERVED 0xFFF0

/* VIP_CONTROL_SEGMENT.Status: how the work ended */
#define VIP_STATUS_DONE 0x00000001
#define VIP_STATUS_FORMAT_ERROR 0x00000002       /* the descriptor itself is malformed */
#define VIP_STATUS_PROTECTION_ERROR 0x00000004   /* a local segment is outside the regions of the VI's protection tag */
#define VIP_STATUS_LENGTH_ERROR 0x00000008       /* too long for the descriptor, or for MaxTransferSize */
#define VIP_STATUS_PARTIAL_ERROR 0x00000010      /* broken off after some bytes had moved */
#define VIP_STATUS_DESC_FLUSHED_ERROR 0x00000020 /* returned unprocessed: not connected, disconnected, or an earlier error */
#define VIP_STATUS_TRANSPORT_ERROR 0x00000040    /* the connection was lost while this was on its way */
#define VIP_STATUS_RDMA_PROT_ERROR 0x00000080    /* the target refused the remote address, handle or right */
#define VIP_STATUS_REMOTE_DESC_ERROR 0x00000100  /* the target's receive descriptor could not take it */
#define VIP_STATUS_ERROR_MASK 0x000001FE

/* VIP_CONTROL_SEGMENT.Status: the operation */
#define VIP_STATUS_OP_SEND 0x00000000
#define VIP_STATUS_OP_RECEIVE 0x00010000
#define VIP_STATUS_OP_RDMA_WRITE 0x00020000
#define VIP_STATUS_OP_REMOTE_RDMA_WRITE 0x00030000 /* a receive consumed by a peer's RDMA write with immediate data */
#define VIP_STATUS_OP_RDMA_READ 0x00040000
#define VIP_STATUS_OP_MASK 0x00070000
#define VIP_STATUS_IMMEDIATE 0x00080000 /* ImmediateData is valid */
#define VIP_STATUS_RESERVED 0xFFF0FE00

#define VIP_SMI_AUTODISCOVERY ((VIP_ULONG)1) /* VipQuerySystemManagementInfo: out is a VIP_AUTODISCOVERY_LIST */

/* ------------------------------------------------------------------------------------------------ enumerations */

typedef enum {
    VIP_SUCCESS = 0,
    VIP_NOT_DONE = 1,
    VIP_INVALID_PARAMETER = 2,
    VIP_ERROR_RESOURCE = 3,
    VIP_TIMEOUT = 4,
    VIP_REJECT = 5,
    VIP_INVALID_RELIABILITY_LEVEL = 6,
    VIP_INVALID_MTU = 7,
    VIP_INVALID_QOS = 8,
    VIP_INVALID_PTAG = 9,
    VIP_INVALID_RDMAREAD = 10,
    VIP_DESCRIPTOR_ERROR = 11,
    VIP_INVALID_STATE = 12,
    VIP_ERROR_NAMESERVICE = 13,
    VIP_NO_MATCH = 14,
    VIP_NOT_REACHABLE = 15,
    VIP_ERROR_NOT_SUPPORTED = 16
} VIP_RETURN;

typedef enum {
    VIP_STATE_IDLE = 0,
    VIP_STATE_CONNECTED = 1,
    VIP_STATE_CONNECT_PENDING = 2,
    VIP_STATE_ERROR = 3
} VIP_VI_STATE;

/* VIP_ERROR_DESCRIPTOR.ErrorCode */
typedef enum {
    VIP_ERROR_POST_DESC = 0,       /* a descriptor could not be taken from a queue */
    VIP_ERROR_CONN_LOST = 1,       /* the connection or its peer is gone */
    VIP_ERROR_RECVQ_EMPTY = 2,     /* a message came and no receive was posted */
    VIP_ERROR_VI_OVERRUN = 3,      /* a message was too long for its descriptor, or a queue overflowed */
    VIP_ERROR_RDMAW_PROT = 4,      /* a peer's RDMA write was outside what it may write */
    VIP_ERROR_RDMAW_DATA = 5,      /* a peer's RDMA write arrived damaged */
    VIP_ERROR_RDMAW_ABORT = 6,     /* a peer's RDMA write broke off */
    VIP_ERROR_RDMAR_PROT = 7,      /* a peer's RDMA read was outside what it may read */
    VIP_ERROR_COMP_PROT = 8,       /* a completion could not be written: descriptor memory no longer registered */
    VIP_ERROR_RDMA_TRANSPORT = 9,  /* RDMA failed on the way */
    VIP_ERROR_CATASTROPHIC = 10    /* a NIC, or a CQ that overflowed, can no longer be relied on */
} VIP_ERROR_CODE;

typedef enum {
    VIP_RESOURCE_NIC = 0,
    VIP_RESOURCE_VI = 1,
    VIP_RESOURCE_CQ = 2,
    VIP_RESOURCE_DESCRIPTOR = 3
} VIP_RESOURCE_CODE;

/* ------------------------------------------------------------------------------------------------ structures */

/*
 * An address of a connection end. A host address has 4 bytes (IPv4) or 16 (IPv6), and 2 more, the port in network order, if its NIC has a port
 * of its own (BELLWIRE_ADDRESS; VipQueryNic tells it). HostAddressLen bytes of host address are followed at once by DiscriminatorLen bytes of
 * discriminator; the caller allocates the room: 4 + HostAddressLen + DiscriminatorLen bytes. The four bytes declared
 * here are the room of one host address without discriminator.
 */
typedef struct {
    VIP_UINT16 HostAddressLen;
    VIP_UINT16 DiscriminatorLen;
    VIP_UINT8 HostAddress[4];
} VIP_NET_ADDRESS;

typedef struct {
    VIP_CHAR Name[64];
    VIP_ULONG HardwareVersion;
    VIP_ULONG ProviderVersion;
    VIP_UINT16 NicAddressLen;         /* bytes */
    const VIP_UINT8 *LocalNicAddress; /* the library's; valid until VipCloseNic */
    VIP_BOOLEAN ThreadSafe;
    VIP_UINT16 MaxDiscriminatorLen;   /* bytes */
    VIP_ULONG MaxRegisterBytes;
    VIP_ULONG MaxRegisterRegions;
    VIP_ULONG MaxRegisterBlockBytes;
    VIP_ULONG MaxVI;
    VIP_ULONG MaxDescriptorsPerQueue;
    VIP_ULONG MaxSegmentsPerDesc;
    VIP_ULONG MaxCQ;
    VIP_ULONG MaxCQEntries;
    VIP_ULONG MaxTransferSize; /* bytes */
    VIP_ULONG NativeMTU;       /* bytes */
    VIP_ULONG MaxPtags;
    VIP_RELIABILITY_LEVEL ReliabilityLevelSupport;
    VIP_RELIABILITY_LEVEL RDMAReadSupport; /* the levels at which RDMA read works */
} VIP_NIC_ATTRIBUTES;

struct _VIP_DESCRIPTOR;

/* A pointer that is 64 bits wide on every machine. On a 32-bit machine clear AddressBits before setting Address. */
typedef union {
    VIP_UINT64 AddressBits;
    VIP_PVOID Address;
    struct _VIP_DESCRIPTOR *Descriptor;
} VIP_PVOID64;

typedef struct {
    VIP_PVOID64 Next;          /* the library's while posted */
    VIP_MEM_HANDLE NextHandle; /* the library's while posted */
    VIP_UINT16 SegCount;       /* segments after this one, the address segment included */
    VIP_UINT16 Control;        /* VIP_CONTROL_* */
    VIP_UINT32 Reserved;       /* must be zero */
    VIP_UINT32 ImmediateData;
    VIP_UINT32 Length;         /* sends: the sum of the data segments; receives: written on completion, bytes received */
    VIP_UINT32 Status;         /* VIP_STATUS_*; written last; must be zero when posted by a program that polls it */
} VIP_CONTROL_SEGMENT;

/* The remote end of an RDMA operation; always the first segment, DS[0]. */
typedef struct {
    VIP_PVOID64 Data;
    VIP_MEM_HANDLE Handle;
    VIP_UINT32 Reserved; /* must be zero */
} VIP_ADDRESS_SEGMENT;

typedef struct {
    VIP_PVOID64 Data;
    VIP_MEM_HANDLE Handle;
    VIP_UINT32 Length; /* bytes; 0 is allowed */
} VIP_DATA_SEGMENT;

typedef union {
    VIP_ADDRESS_SEGMENT Remote;
    VIP_DATA_SEGMENT Local;
} VIP_DESCRIPTOR_SEGMENT;

/*
 * A descriptor: 64 bytes, 64-byte aligned, in registered memory. CS/DS and Control/Data are two spellings of the same fields.
 * More than two segments follow directly after the structure, 16 bytes each (SegCount says how many there are).
 */
VIPL_EXTENSION_ typedef struct VIPL_ALIGNED_(64) _VIP_DESCRIPTOR {
    VIPL_EXTENSION_ union {
        VIP_CONTROL_SEGMENT CS;
        VIP_CONTROL_SEGMENT Control;
    };
    VIPL_EXTENSION_ union {
        VIP_DESCRIPTOR_SEGMENT DS[2];
        VIP_DATA_SEGMENT Data[2];
    };
} VIP_DESCRIPTOR;

typedef struct {
    VIP_RELIABILITY_LEVEL ReliabilityLevel; /* one VIP_SERVICE_* bit */
    VIP_ULONG MaxTransferSize;              /* bytes; both ends must have the same to connect */
    VIP_QOS QoS;                            /* kept and given back; every value means best effort */
    VIP_PROTECTION_HANDLE Ptag;             /* NULL: any region of the NIC for local segments, none for the peer */
    VIP_BOOLEAN EnableRdmaWrite;            /* the peer may RDMA-write through this VI */
    VIP_BOOLEAN EnableRdmaRead;             /* the peer may RDMA-read through this VI */
} VIP_VI_ATTRIBUTES;

typedef struct _VIP_MEM_ATTRIBUTES {
    VIP_PROTECTION_HANDLE Ptag;
    VIP_BOOLEAN EnableRdmaWrite;
    VIP_BOOLEAN EnableRdmaRead;
} VIP_MEM_ATTRIBUTES;

typedef struct _VIP_ERROR_DESCRIPTOR {
    VIP_NIC_HANDLE NicHandle;
    VIP_VI_HANDLE ViHandle;        /* NULL unless a VI is concerned */
    VIP_CQ_HANDLE CQHandle;        /* NULL unless a CQ is concerned */
    VIP_DESCRIPTOR *DescriptorPtr; /* NULL unless a descriptor is concerned */
    VIP_ULONG OpCode;              /* VIP_STATUS_OP_* of the operation that failed, where it is known, else 0 */
    VIP_RESOURCE_CODE ResourceCode;
    VIP_ERROR_CODE ErrorCode;
} VIP_ERROR_DESCRIPTOR;

typedef struct {
    VIP_ULONG NumberOfHops;
    VIP_NET_ADDRESS **ADAddrArray;
    VIP_ULONG NumAdAddrs;
} VIP_AUTODISCOVERY_LIST;

typedef void (*VIP_ERROR_HANDLER)(VIP_PVOID Context, VIP_ERROR_DESCRIPTOR *ErrorDesc);
typedef void (*VIP_VI_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle, VIP_DESCRIPTOR *Descriptor);
typedef void (*VIP_CQ_CALLBACK)(VIP_PVOID Context, VIP_NIC_HANDLE NicHandle, VIP_VI_HANDLE ViHandle, VIP_BOOLEAN RecvQueue);

/* ------------------------------------------------------------------------------------------------ NIC */

/*
 * Opens a NIC and gives a handle, to be given back to VipCloseNic. Every open makes a NIC of its own; a process may have several.
 *   DeviceName  "" or a name that begins with /dev/, /etc/, nic, VINIC, via, clanvi or bellwire; all mean the same device
 *   NicHandle   out
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: NULL argument or a name of no known form; VIP_ERROR_RESOURCE: no memory, descriptors, NICs left.
 */
VIP_RETURN VipOpenNic(IN const VIP_CHAR *DeviceName, OUT VIP_NIC_HANDLE *NicHandle);

/*
 * Closes a NIC. Connections end (peers see them broken), posted descriptors are dropped, every object of the NIC is destroyed and
 * every handle of it is stale. Other threads that wait on the NIC return VIP_INVALID_PARAMETER. Memory of VipxAllocMem is unmapped.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: no such NIC.
 */
VIP_RETURN VipCloseNic(IN VIP_NIC_HANDLE NicHandle);

/*
 * Says what the NIC is and its limits. LocalNicAddress points into the library and is valid until the NIC is closed.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipQueryNic(IN VIP_NIC_HANDLE NicHandle, OUT VIP_NIC_ATTRIBUTES *Attributes);

/*
 * Registers the handler of asynchronous errors; it replaces the previous one. It runs on a thread of the library, one call at a
 * time for each NIC; the descriptor it gets is valid during the call only.
 *   Context  given to the handler as it is
 *   Handler  NULL restores the default, which does nothing (the error shows in VI states and descriptors)
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: no such NIC.
 */
VIP_RETURN VipErrorCallback(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Context, IN VIP_ERROR_HANDLER Handler);

/*
 * Management information. VIP_SMI_AUTODISCOVERY: SysManInfo is a VIP_AUTODISCOVERY_LIST whose NumAdAddrs says how many pointers
 * ADAddrArray has room for, each to a VIP_NET_ADDRESS of the caller; on return NumberOfHops is 0 (one host), NumAdAddrs the number written.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC or pointer, unknown InfoType.
 */
VIP_RETURN VipQuerySystemManagementInfo(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG InfoType, IN OUT VIP_PVOID SysManInfo);

/* ------------------------------------------------------------------------------------------------ memory and protection */

/*
 * Makes a protection tag: VIs reach regions of the same tag only. To be given back to VipDestroyPtag.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_ERROR_RESOURCE: MaxPtags exist.
 */
VIP_RETURN VipCreatePtag(IN VIP_NIC_HANDLE NicHandle, OUT VIP_PROTECTION_HANDLE *ProtectionTag);

/*
 * Destroys a protection tag that no VI and no region uses.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC, not a tag of it; VIP_ERROR_RESOURCE: still in use.
 */
VIP_RETURN VipDestroyPtag(IN VIP_NIC_HANDLE NicHandle, IN VIP_PROTECTION_HANDLE ProtectionTag);

/*
 * Registers Length bytes from VirtualAddress. The memory stays the caller's and must stay mapped until VipDeregisterMem; ranges may
 * overlap and may be registered several times. If the region has a tag and 32 KiB to 256 MiB of
 * whole private pages, these may be exchanged, at the same address and with the same content, for
 * pages that peers on this host map: a transfer within them is then one copy. They stay shared
 * until they are unmapped; the child of a fork gets copies. BELLWIRE_ADOPT=never forbids it.
 *   MemAttribs    NULL: no tag, no remote access. Read-only memory cannot be given EnableRdmaWrite
 *   MemoryHandle  out; never 0
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: NULL address, zero length, a range that wraps around or is not mapped, read-only memory with
 * EnableRdmaWrite; VIP_INVALID_PTAG: Ptag is not a tag of this NIC, or a right is enabled without one;
 * VIP_ERROR_RESOURCE: a limit of VIP_NIC_ATTRIBUTES is reached, or Length is above MaxRegisterBlockBytes.
 */
VIP_RETURN VipRegisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress, IN VIP_ULONG Length,
                          IN VIP_MEM_ATTRIBUTES *MemAttribs, OUT VIP_MEM_HANDLE *MemoryHandle);

/*
 * Ends a registration; from then on the handle is stale, for local segments and for peers. A transfer in flight is waited for.
 *   VirtualAddress  the address given to VipRegisterMem
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC, no such handle, not its address; VIP_ERROR_RESOURCE: posted descriptors use the region.
 */
VIP_RETURN VipDeregisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress, IN VIP_MEM_HANDLE MemoryHandle);

/*
 * Gives a region's tag and rights. VirtualAddress may be any byte of the region.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipQueryMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress, IN VIP_MEM_HANDLE MemoryHandle,
                       OUT VIP_MEM_ATTRIBUTES *MemAttribs);

/*
 * Changes a region's tag and rights; the handle stays. A right taken away is gone for peers when the call returns.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: also EnableRdmaWrite for read-only memory; VIP_INVALID_PTAG: as VipRegisterMem;
 * VIP_ERROR_RESOURCE: posted descriptors use the region.
 */
VIP_RETURN VipSetMemAttributes(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress, IN VIP_MEM_HANDLE MemoryHandle,
                               IN VIP_MEM_ATTRIBUTES *MemAttribs);

/* ------------------------------------------------------------------------------------------------ virtual interfaces */

/*
 * Makes a VI in state Idle, to be given back to VipDestroyVi.
 *   SendCQHandle, RecvCQHandle  a CQ of the same NIC that gets the completions of that queue, or NULL; both may be the same
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC, CQ or NULL pointer; VIP_INVALID_RELIABILITY_LEVEL: not exactly one supported level;
 * VIP_INVALID_MTU: MaxTransferSize 0 or above the NIC's; VIP_INVALID_PTAG: not a tag of this NIC;
 * VIP_INVALID_RDMAREAD: EnableRdmaRead at the level Unreliable; VIP_ERROR_RESOURCE: MaxVI reached, no memory.
 */
VIP_RETURN VipCreateVi(IN VIP_NIC_HANDLE NicHandle, IN VIP_VI_ATTRIBUTES *ViAttribs, IN VIP_CQ_HANDLE SendCQHandle,
                       IN VIP_CQ_HANDLE RecvCQHandle, OUT VIP_VI_HANDLE *ViHandle);

/*
 * Destroys an idle VI. Descriptors still posted are flushed and given up: they are the caller's again; their completions and
 * entries in a CQ are taken back.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_INVALID_STATE: the VI is not Idle: VipDisconnect first.
 */
VIP_RETURN VipDestroyVi(IN VIP_VI_HANDLE ViHandle);

/*
 * Says in which state a VI is. A queue is empty when no descriptor is in it, neither waiting nor completed and not yet collected.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad VI, any pointer NULL.
 */
VIP_RETURN VipQueryVi(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_STATE *State, OUT VIP_VI_ATTRIBUTES *Attributes,
                      OUT VIP_BOOLEAN *SendQueueEmpty, OUT VIP_BOOLEAN *RecvQueueEmpty);

/*
 * Changes the attributes of an idle VI.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_INVALID_STATE: not Idle; and the codes of VipCreateVi about attributes.
 */
VIP_RETURN VipSetViAttributes(IN VIP_VI_HANDLE ViHandle, IN VIP_VI_ATTRIBUTES *ViAttribs);

/* ------------------------------------------------------------------------------------------------ work */

/*
 * Posts a send, RDMA write or RDMA read. Never blocks.
 *   DescriptorPtr  64-byte aligned
 *   MemoryHandle   of the region that holds the whole descriptor
 * VIP_SUCCESS: it will complete exactly once, in order. An error inside the descriptor or in its segments shows in its
 * status; on a VI that is not connected it completes with VIP_STATUS_DESC_FLUSHED_ERROR.
 * VIP_INVALID_PARAMETER: bad VI or pointer, misaligned, the handle does not cover the descriptor;
 * VIP_ERROR_RESOURCE: MaxDescriptorsPerQueue are posted.
 */
VIP_RETURN VipPostSend(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr, IN VIP_MEM_HANDLE MemoryHandle);

/*
 * Posts a receive, also before the VI is connected. Otherwise as VipPostSend. In state Error it completes with
 * VIP_STATUS_DESC_FLUSHED_ERROR. VIP_INVALID_STATE: the VI takes its receives from a shared receive queue.
 */
VIP_RETURN VipPostRecv(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr, IN VIP_MEM_HANDLE MemoryHandle);

/*
 * Takes the oldest descriptor off the queue if it has completed. Does not block.
 * VIP_SUCCESS; VIP_DESCRIPTOR_ERROR: *DescriptorPtr is set, its Status says what went wrong; VIP_NOT_DONE: nothing has completed,
 * *DescriptorPtr is NULL; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipSendDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipRecvDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **DescriptorPtr);

/*
 * As Done, but waits until the oldest descriptor completes or TimeOut (ms) is over.
 * VIP_SUCCESS; VIP_DESCRIPTOR_ERROR; VIP_TIMEOUT: *DescriptorPtr is NULL; VIP_INVALID_PARAMETER;
 * VIP_INVALID_STATE: the queue is bound to a CQ: wait there.
 */
VIP_RETURN VipSendWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG TimeOut, OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipRecvWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG TimeOut, OUT VIP_DESCRIPTOR **DescriptorPtr);

/*
 * Has Handler called once, on a thread of the library, with the next descriptor that completes (or has completed); the descriptor is
 * taken off the queue and is the handler's. To get another one, call again, also from within the handler. Several calls queue up.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: also Handler NULL; VIP_INVALID_STATE: the queue is bound to a CQ: use VipCQNotify;
 * VIP_ERROR_RESOURCE: too many handlers wait.
 */
VIP_RETURN VipSendNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context, IN VIP_VI_CALLBACK Handler);
VIP_RETURN VipRecvNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context, IN VIP_VI_CALLBACK Handler);

/* ------------------------------------------------------------------------------------------------ connections */

/*
 * Waits until a peer asks to be connected to LocalAddr's discriminator; requests of other discriminators go to other waiters.
 *   LocalAddr       host address (length 0: this NIC's) and discriminator
 *   TimeOut         ms
 *   RemoteAddr      out: the peer's address. On entry its two length fields say how much room there is for host address and
 *                   discriminator; longer ones are cut (a host address that does not fit even without its port, wholly), and the
 *                   lengths are set to what was written. Lengths that make no sense (a host room that is not NicAddressLen, a discriminator room above MaxDiscriminatorLen) count as the bare
 *                   structure: four bytes of host address, no discriminator
 *   RemoteViAttribs out: the attributes of the peer's VI (its Ptag reads NULL)
 *   ConnHandle      out: to be given to VipConnectAccept or VipConnectReject, once
 * VIP_SUCCESS; VIP_TIMEOUT: nobody asked; VIP_INVALID_PARAMETER: bad NIC, NULL pointer, address not of this NIC, discriminator too
 * long; VIP_ERROR_RESOURCE.
 */
VIP_RETURN VipConnectWait(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *LocalAddr, IN VIP_ULONG TimeOut,
                          OUT VIP_NET_ADDRESS *RemoteAddr, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs, OUT VIP_CONN_HANDLE *ConnHandle);

/*
 * Connects ViHandle, which must be Idle, to the peer that asked. On success the handle is used up. When the attributes do not fit the handle
 * stays: another VI may be tried, or VipConnectReject.
 * VIP_SUCCESS: the VI is connected; VIP_INVALID_PARAMETER; VIP_INVALID_STATE: the VI is not Idle;
 * VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU: the two VIs differ; VIP_TIMEOUT: the peer's time was over, or the peer is gone (the handle is used up);
 * VIP_ERROR_RESOURCE.
 */
VIP_RETURN VipConnectAccept(IN VIP_CONN_HANDLE ConnHandle, IN VIP_VI_HANDLE ViHandle);

/*
 * Refuses the peer, whose VipConnectRequest returns VIP_REJECT. The handle is used up.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipConnectReject(IN VIP_CONN_HANDLE ConnHandle);

/*
 * Asks for a connection to the VI that waits at RemoteAddr, and waits for the answer, both together for at most TimeOut ms (0: one attempt).
 *   LocalAddr       the address that the peer gets to see; a host address length of 0 means this NIC's
 *   RemoteViAttribs out: the attributes of the peer's VI
 * VIP_SUCCESS: the VI is connected; VIP_NO_MATCH: nobody waited there until the time was over; VIP_TIMEOUT: a waiter had been
 * found but did not answer; VIP_REJECT: refused; VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU: the peer accepted with a VI that does not fit;
 * VIP_NOT_REACHABLE: the host address cannot be reached by any wire; VIP_INVALID_STATE: the VI is not Idle; VIP_INVALID_PARAMETER;
 * VIP_ERROR_RESOURCE. The VI is Idle again after any failure.
 */
VIP_RETURN VipConnectRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr, IN VIP_NET_ADDRESS *RemoteAddr,
                             IN VIP_ULONG TimeOut, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);

/*
 * Ends a connection, a pending request, or state Error: the VI is Idle, both queues are flushed (collect the descriptors with
 * VipSendDone and VipRecvDone). The peer's VI goes to state Error. On an idle VI the call succeeds and flushes posted receives.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipDisconnect(IN VIP_VI_HANDLE ViHandle);

/*
 * Starts a connection between equals: both sides call this, each with the other's address, in any order, also at the same moment. Returns at once; the VI
 * is Connect Pending until VipConnectPeerDone or VipConnectPeerWait says how it ended.
 *   TimeOut  ms, from now
 * VIP_SUCCESS: started; VIP_INVALID_STATE: the VI is not Idle; VIP_INVALID_PARAMETER; VIP_NOT_REACHABLE; VIP_ERROR_RESOURCE.
 */
VIP_RETURN VipConnectPeerRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr, IN VIP_NET_ADDRESS *RemoteAddr,
                                 IN VIP_ULONG TimeOut);

/*
 * Says how a peer request ended. Does not block.
 * VIP_SUCCESS: connected; VIP_NOT_DONE; VIP_TIMEOUT: the request's time is over; VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU: the two VIs
 * differ; VIP_REJECT: refused; VIP_INVALID_STATE: no request was made, or its end was told already; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipConnectPeerDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* As VipConnectPeerDone, but waits for the end; the request's timeout governs. */
VIP_RETURN VipConnectPeerWait(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* ------------------------------------------------------------------------------------------------ completion queues */

/*
 * Makes a completion queue with room for EntryCount entries, to be given back to VipDestroyCQ. A queue that overflows loses nothing
 * silently: the error handler gets VIP_ERROR_CATASTROPHIC with VIP_RESOURCE_CQ.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: also EntryCount 0; VIP_ERROR_RESOURCE: above MaxCQEntries, MaxCQ reached, no memory.
 */
VIP_RETURN VipCreateCQ(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG EntryCount, OUT VIP_CQ_HANDLE *CQHandle);

/* Destroys a CQ that no VI uses. VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_ERROR_RESOURCE: a VI still uses it. */
VIP_RETURN VipDestroyCQ(IN VIP_CQ_HANDLE CQHandle);

/*
 * Changes a CQ's room; entries in it stay, in order.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: also EntryCount 0; VIP_ERROR_RESOURCE: above MaxCQEntries, or below the entries now in it.
 */
VIP_RETURN VipResizeCQ(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG EntryCount);

/*
 * Takes the oldest entry: the VI and the queue that completed one descriptor, to be collected with VipSendDone or VipRecvDone.
 *   RecvQueue  out: VIP_TRUE for the receive queue, VIP_FALSE for the send queue
 * VIP_SUCCESS; VIP_NOT_DONE: empty; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipCQDone(IN VIP_CQ_HANDLE CQHandle, OUT VIP_VI_HANDLE *ViHandle, OUT VIP_BOOLEAN *RecvQueue);

/* As VipCQDone, but waits. VIP_SUCCESS; VIP_TIMEOUT; VIP_INVALID_PARAMETER. */
VIP_RETURN VipCQWait(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG TimeOut, OUT VIP_VI_HANDLE *ViHandle, OUT VIP_BOOLEAN *RecvQueue);

/*
 * Has Handler called once, on a thread of the library, with the next entry, which is taken off the CQ.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: also Handler NULL; VIP_ERROR_RESOURCE: too many handlers wait.
 */
VIP_RETURN VipCQNotify(IN VIP_CQ_HANDLE CQHandle, IN VIP_PVOID Context, IN VIP_CQ_CALLBACK Handler);

/* ------------------------------------------------------------------------------------------------ name service */

/*
 * Starts the name service of a NIC; may be called again. NSInitInfo is not used and may be NULL.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipNSInit(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID NSInitInfo);

/*
 * Looks up a host: "localhost", this host's own name (whole, or up to its first dot), or an IP address with a port or without ("10.0.0.5",
 * "10.0.0.5:9000", "fd00::5", "[fd00::5]:9000"). The service need not have been started. Writes HostAddressLen, DiscriminatorLen (0) and the bytes of
 * the address. There is room for NicAddressLen bytes of it, or for as many as HostAddressLen says on entry (up to 18) if that is more.
 *   NameIndex  which of a host's addresses; each has one, number 0
 * VIP_SUCCESS; VIP_ERROR_NAMESERVICE: no such name, no such index; VIP_ERROR_RESOURCE: an address longer than the room; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipNSGetHostByName(IN VIP_NIC_HANDLE NicHandle, IN const VIP_CHAR *Name, OUT VIP_NET_ADDRESS *Address,
                              IN VIP_ULONG NameIndex);

/*
 * Gives the name of a host address.
 *   NameLen  in: room of Name in bytes; out: bytes of the name with its final 0
 * VIP_SUCCESS; VIP_ERROR_NAMESERVICE: unknown address; VIP_ERROR_RESOURCE: no room: *NameLen says how much it takes; VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipNSGetHostByAddr(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *Address, OUT VIP_CHAR *Name,
                              IN OUT VIP_ULONG *NameLen);

/* Ends the name service; addresses that were looked up stay valid. VIP_SUCCESS; VIP_INVALID_PARAMETER. */
VIP_RETURN VipNSShutdown(IN VIP_NIC_HANDLE NicHandle);

#ifdef __cplusplus
}
#endif

#endif
