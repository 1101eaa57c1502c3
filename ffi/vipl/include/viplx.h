/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * viplx.h - extensions of the VI Provider Library that VIA 1.0 does not know. All have the prefix Vipx; the conventions at the top of
 * vipl.h hold.
 *
 * Structures that the library fills or reads begin with Size: the caller sets it to sizeof of the structure it was compiled
 * with. The library touches no byte beyond, so that a program keeps working when a later version appends fields. A Size below that of
 * the first version, or 0, gives VIP_INVALID_PARAMETER.
 */
#ifndef BELLWIRE_VIPLX_H
#define BELLWIRE_VIPLX_H

#include "vipl.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The version of the library: major * 65536 + minor * 256 + patch. Needs no NIC. */
VIP_UINT32 VipxVersion(void);

/* ------------------------------------------------------------------------------------------------ memory of the engine */

/*
 * Gives Bytes of zeroed memory, aligned to a page, that peers on the same host can map: between two such regions data moves with one
 * copy. It must still be registered to be used. To be given back to VipxFreeMem; VipCloseNic takes back what is left.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC or pointer, Bytes 0; VIP_ERROR_RESOURCE: not enough memory, or above MaxRegisterBlockBytes.
 */
VIP_RETURN VipxAllocMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG Bytes, OUT VIP_PVOID *Address);

/*
 * Gives memory back. Address is the one VipxAllocMem gave.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC, not such an address; VIP_ERROR_RESOURCE: a registered region lies in it.
 */
VIP_RETURN VipxFreeMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Address);

/* ------------------------------------------------------------------------ registration cache */

/*
 * As VipRegisterMem, for memory that is registered again and again: gives the handle of a region
 * that is registered already where one serves, and keeps regions that have no users. A region
 * serves if it has the same tag and rights and holds these bytes; if peers have rights, it must
 * have exactly these bytes. To be ended by VipxReleaseCached, once for each success;
 * VipDeregisterMem and VipSetMemAttributes refuse such a handle. The handle may cover more bytes
 * than were asked for, up to whole pages. The bytes must stay mapped until they are released and
 * no request uses them; then the program may unmap them, by any call.
 * BELLWIRE_REGISTRATION_CACHE and its kin in bellwire-environment(7) say how regions are found
 * and how many are kept.
 *   MemAttribs  as for VipRegisterMem; NULL: no tag, no rights
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: as VipRegisterMem; VIP_INVALID_PTAG; VIP_ERROR_RESOURCE: too
 * many regions, or with page-hash all records in use.
 */
VIP_RETURN VipxRegisterCached(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress, IN VIP_ULONG Length,
                              IN VIP_MEM_ATTRIBUTES *MemAttribs, OUT VIP_MEM_HANDLE *MemoryHandle);

/*
 * Ends one VipxRegisterCached. After the last one of a region peers no longer reach it; the region
 * itself is kept for the next VipxRegisterCached until room is needed, its memory is unmapped or
 * its tag is destroyed. Requests that are posted go on.
 *   VirtualAddress  any byte of the region
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC, not such a handle, not in its region, or released as
 * often as registered.
 */
VIP_RETURN VipxReleaseCached(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress, IN VIP_MEM_HANDLE MemoryHandle);

typedef struct {
    VIP_UINT32 Size;
    VIP_UINT32 Reserved;
    VIP_UINT64 Regions;      /* that can be found */
    VIP_UINT64 Unused;       /* those of them that nobody has registered now */
    VIP_UINT64 Bytes;        /* of the regions that can be found */
    VIP_UINT64 WatchedBytes; /* memory of which the kernel tells when it is unmapped */
    VIP_UINT64 Hits;         /* VipxRegisterCached that found a region */
    VIP_UINT64 Misses;       /* that made one */
    VIP_UINT64 Checks;       /* hits whose pages were looked at: their memory is not watched */
    VIP_UINT64 Evictions;    /* unused regions that made room */
    VIP_UINT64 Unmapped;     /* regions whose memory was unmapped, moved or replaced */
    VIP_UINT64 Uncached;     /* regions not kept: of VipxAllocMem, more than there is room for, or used by turns with more than that */
} VIPX_CACHE_INFO;

/*
 * Fills Info with what the registration cache of a NIC has done.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC or pointer, bad Size.
 */
VIP_RETURN VipxQueryCache(IN VIP_NIC_HANDLE NicHandle, IN OUT VIPX_CACHE_INFO *Info);

/* ------------------------------------------------------------------------------------------------ queries */

/* VIPX_VI_INFO.Wire, VIPX_LINK_INFO.Wire */
#define VIPX_WIRE_NONE 0     /* not connected */
#define VIPX_WIRE_LOOPBACK 1 /* the peer is this NIC */
#define VIPX_WIRE_SHM 2      /* shared memory of one host */
#define VIPX_WIRE_UDP 3      /* packets over UDP: VipxQueryLink says where to */

/* VIPX_VI_INFO.Mode, VIPX_NIC_INFO.Mode */
#define VIPX_MODE_MAPPED 1  /* peers map each other's shareable regions; checks are made at the initiator */
#define VIPX_MODE_GUARDED 2 /* peers see rings only; the owner checks and copies every byte */

typedef struct {
    VIP_UINT32 Size;
    VIP_UINT32 Wire;             /* VIPX_WIRE_* */
    VIP_UINT32 Mode;             /* VIPX_MODE_*; 0 while not connected */
    VIP_UINT32 PeerPid;          /* process of the peer; 0 while not connected, and if it is on another host */
    VIP_UINT32 InlineBytesMax;   /* the largest message that travels inside one cache line, and the limit of VipxSendInline */
    VIP_UINT32 LinkId;           /* VIs with the same number share one link; 0 while not connected */
    VIP_UINT64 MessagesSent;     /* since the VI was made; sends and RDMA requests */
    VIP_UINT64 MessagesReceived; /* messages that consumed a receive descriptor */
    VIP_UINT64 BytesSent;
    VIP_UINT64 BytesReceived;
    VIP_UINT64 DirectCount;      /* requests that went straight into or out of the peer's memory */
    VIP_UINT64 FrameCount;       /* requests that went as frames */
    VIP_UINT64 AttachCount;      /* requests that were copied once, by cross-memory attach */
    VIP_UINT32 Attach;           /* 1: each side can read the other's memory by cross-memory attach; 0: not, or not connected */
    VIP_UINT32 Reserved;
} VIPX_VI_INFO;

/* Fills Info. VIP_SUCCESS; VIP_INVALID_PARAMETER: bad VI or pointer, bad Size. */
VIP_RETURN VipxQueryVi(IN VIP_VI_HANDLE ViHandle, IN OUT VIPX_VI_INFO *Info);

/* VIPX_LINK_INFO.Reason: why this wire */
#define VIPX_REASON_NONE 0       /* not connected */
#define VIPX_REASON_SAME_HOST 1  /* the peer is on this host */
#define VIPX_REASON_OTHER_HOST 2 /* nobody of this host answered by shared memory */
#define VIPX_REASON_SHM_OFF 3    /* shared memory is switched off (BELLWIRE_SHM=off) */

typedef struct {
    VIP_UINT32 Size;
    VIP_UINT32 Wire;            /* VIPX_WIRE_* */
    VIP_UINT32 Reason;          /* VIPX_REASON_* */
    VIP_UINT32 LinkId;          /* as in VIPX_VI_INFO */
    /* The fields below are 0 except on VIPX_WIRE_UDP. */
    VIP_UINT8 Address[16];      /* where packets go, in network order: AddressLen bytes */
    VIP_UINT16 AddressLen;      /* 4 (IPv4) or 16 (IPv6) */
    VIP_UINT16 Port;
    VIP_UINT32 ScopeId;         /* interface of a link-local IPv6 address */
    VIP_UINT32 DatagramBytes;   /* the longest datagram that the path is known to carry, without the headers of UDP and IP */
    VIP_UINT32 Window;          /* packets that may be under way */
    VIP_UINT32 InFlight;        /* packets that are */
    VIP_UINT32 Reserved;
    VIP_UINT64 RttNs;           /* round-trip time, smoothed; 0: not known yet */
    VIP_UINT64 RttDeviationNs;  /* its mean deviation */
    VIP_UINT64 RttMinNs;        /* the least of late */
    VIP_UINT64 PacketsSent;     /* with data, for the first time */
    VIP_UINT64 PacketsReceived; /* with data, and delivered */
    VIP_UINT64 PacketsResent;
    VIP_UINT64 PacketsLost;     /* held to be lost */
} VIPX_LINK_INFO;

/* Fills Info for the link that a VI uses with all others to the same NIC. VIP_SUCCESS; VIP_INVALID_PARAMETER: bad VI or pointer, bad Size. */
VIP_RETURN VipxQueryLink(IN VIP_VI_HANDLE ViHandle, IN OUT VIPX_LINK_INFO *Info);

/* VIPX_CAUSE_INFO.By */
#define VIPX_BY_NONE 0 /* the connection did not break */
#define VIPX_BY_LINK 1 /* the link to the peer's NIC failed, with all connections over it */
#define VIPX_BY_PEER 2 /* the peer ended the connection */
#define VIPX_BY_HERE 3 /* this NIC ended the connection */

/* VIPX_CAUSE_INFO.Cause */
#define VIPX_CAUSE_NONE 0
/* VIPX_BY_LINK */
#define VIPX_CAUSE_PEER_DIED 1       /* the peer process exited or was killed */
#define VIPX_CAUSE_PEER_CLOSED 2     /* the peer closed its NIC */
#define VIPX_CAUSE_PEER_RESTARTED 3  /* another NIC has taken the peer's place */
#define VIPX_CAUSE_PEER_FORGOT 4     /* the peer no longer knows the link */
#define VIPX_CAUSE_PEER_SILENT 5     /* the peer gave no sign of life for too long */
#define VIPX_CAUSE_PEER_MISBEHAVED 6 /* the peer broke the rules of the link */
#define VIPX_CAUSE_PEER_STALLED 7    /* the peer does not read the answers it asked for */
#define VIPX_CAUSE_LOCAL_LIMIT 8     /* this side is out of memory or descriptors */
#define VIPX_CAUSE_UNREACHABLE 9     /* nobody is at that address, or no wire reaches it */
/* after VIP_NO_MATCH of VipConnectRequest: BELLWIRE_ALLOW, bellwire-environment(7) */
#define VIPX_CAUSE_NOT_ALLOWED_HERE 10  /* another user's process waits there, which this one does not allow */
#define VIPX_CAUSE_NOT_ALLOWED_THERE 11 /* the process there is another user's, and does not allow this one */
/* after VIP_NOT_REACHABLE of VipConnectRequest: BELLWIRE_KEY_FILE, bellwire-environment(7) */
#define VIPX_CAUSE_KEY 12            /* the two sides do not have keys that belong together */
#define VIPX_CAUSE_VERSION 13        /* the two sides speak no common version of the protocol */
/* VIPX_BY_PEER, VIPX_BY_HERE */
#define VIPX_CAUSE_DISCONNECTED 16
#define VIPX_CAUSE_RECEIVE_QUEUE_EMPTY 17 /* a message found no receive posted */
#define VIPX_CAUSE_TOO_LONG 18            /* a message was longer than the receive posted for it */
#define VIPX_CAUSE_WRITE_PROTECTION 19    /* an RDMA write was refused */
#define VIPX_CAUSE_READ_PROTECTION 20     /* an RDMA read was refused */
#define VIPX_CAUSE_REQUEST_FAILED 21      /* a request failed at its sender */
#define VIPX_CAUSE_PROTOCOL 22            /* the other side broke the protocol */
#define VIPX_CAUSE_RECEIVE_FAULT 23       /* the memory of a receive is not mapped */

typedef struct {
    VIP_UINT32 Size;
    VIP_UINT32 Cause;     /* VIPX_CAUSE_* */
    VIP_UINT32 By;        /* VIPX_BY_* */
    VIP_UINT32 Reserved;
    VIP_CHAR Text[112];   /* for people: a clause, ended by 0; empty for VIPX_CAUSE_NONE */
} VIPX_CAUSE_INFO;

/*
 * Fills Info with the reason for which the last connection of a VI broke. The reason stays until
 * the VI is connected again, VipDisconnect included; a program that disconnects a VI whose
 * connection stands breaks nothing. May be called from an error handler, for the ViHandle that it
 * is given. VIP_SUCCESS; VIP_INVALID_PARAMETER: bad VI or pointer, bad Size.
 */
VIP_RETURN VipxQueryCause(IN VIP_VI_HANDLE ViHandle, IN OUT VIPX_CAUSE_INFO *Info);

/* VIPX_MEM_INFO.Origin */
#define VIPX_MEM_FOREIGN 0 /* memory of the program: bytes pass through the rings, unless it is shareable */
#define VIPX_MEM_ENGINE 1  /* of VipxAllocMem */

typedef struct {
    VIP_UINT32 Size;
    VIP_UINT32 Origin;    /* VIPX_MEM_* */
    VIP_UINT32 Shareable; /* 1: peers may map it (engine memory, or pages that VipRegisterMem has exchanged, on a NIC in mapped mode), 0: not */
    VIP_UINT32 PeerCount; /* peers that map it now */
} VIPX_MEM_INFO;

/* Fills Info for a registered region. VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC, handle, address or pointer, bad Size. */
VIP_RETURN VipxQueryMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress, IN VIP_MEM_HANDLE MemoryHandle,
                        IN OUT VIPX_MEM_INFO *Info);

/* VIPX_NIC_INFO.Memory */
#define VIPX_MEMORY_TRUST 1  /* memory of the program is believed to be mapped while it is registered */
#define VIPX_MEMORY_STRICT 2 /* the kernel copies from and to it: what is not there gives VIP_STATUS_PROTECTION_ERROR (BELLWIRE_MEMORY=strict) */

typedef struct {
    VIP_UINT32 Size;
    VIP_UINT32 Mode;             /* VIPX_MODE_* */
    VIP_UINT32 LinkCount;        /* peers (NICs) with a link to this one */
    VIP_UINT32 ViCount;          /* VIs that exist */
    VIP_UINT32 RegionCount;      /* registered regions */
    VIP_UINT32 InlineBytesMax;
    VIP_UINT64 RegisteredBytes;  /* sum over the registered regions */
    VIP_UINT64 AllocatedBytes;   /* memory of VipxAllocMem */
    VIP_UINT32 Memory;           /* VIPX_MEMORY_* */
    VIP_UINT32 Reserved;
} VIPX_NIC_INFO;

/* Fills Info. VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC or pointer, bad Size. */
VIP_RETURN VipxQueryNic(IN VIP_NIC_HANDLE NicHandle, IN OUT VIPX_NIC_INFO *Info);

/* ------------------------------------------------------------------------------------------------ shared receive queues */

typedef VIP_PVOID VIPX_SRQ_HANDLE;

/*
 * Makes a queue of receives that several VIs take from, to be given back to VipxDestroySrq.
 *   Ptag  the regions that its receives may name; NULL: any of the NIC
 * VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_INVALID_PTAG: not a tag of this NIC; VIP_ERROR_RESOURCE.
 */
VIP_RETURN VipxCreateSrq(IN VIP_NIC_HANDLE NicHandle, IN VIP_PROTECTION_HANDLE Ptag, OUT VIPX_SRQ_HANDLE *SrqHandle);

/*
 * Destroys a shared receive queue that no VI uses. Receives still in it are the caller's again.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER; VIP_ERROR_RESOURCE: a VI still uses it.
 */
VIP_RETURN VipxDestroySrq(IN VIPX_SRQ_HANDLE SrqHandle);

/*
 * Posts a receive for whichever VI gets the next message; it completes on that VI's receive queue. Codes as VipPostRecv, but a fault in
 * the descriptor or its segments is refused at once with VIP_INVALID_PARAMETER.
 */
VIP_RETURN VipxPostSrqRecv(IN VIPX_SRQ_HANDLE SrqHandle, IN VIP_DESCRIPTOR *DescriptorPtr, IN VIP_MEM_HANDLE MemoryHandle);

/* ------------------------------------------------------------------------------------------------ VIs with more */

/* VIPX_VI_ATTRIBUTES.Flags */
#define VIPX_VI_RNR_WAIT 0x1u /* a message without a posted receive waits, with back-off, instead of breaking the connection */

typedef struct {
    VIP_UINT32 Size;
    VIP_UINT32 Flags;    /* VIPX_VI_*; other bits must be zero */
    VIPX_SRQ_HANDLE Srq; /* where receives come from, or NULL for a queue of its own */
} VIPX_VI_ATTRIBUTES;

/* As VipCreateVi, with Extension (NULL: none). Codes of VipCreateVi; VIP_INVALID_PARAMETER also for a bad Size, flag or Srq. */
VIP_RETURN VipxCreateVi(IN VIP_NIC_HANDLE NicHandle, IN VIP_VI_ATTRIBUTES *ViAttribs, IN const VIPX_VI_ATTRIBUTES *Extension,
                        IN VIP_CQ_HANDLE SendCQHandle, IN VIP_CQ_HANDLE RecvCQHandle, OUT VIP_VI_HANDLE *ViHandle);

#define VIPX_WEIGHT_MAX 16u

/*
 * Sets a VI's share of a link that has no room for what all its VIs have to send: bytes leave by turns, and a VI's turns are Weight times as long as those of a
 * VI as it is made. Small messages of other VIs do not wait longer than the turns of those before them. At any time, connected or not.
 *   Weight  1 (as made) to VIPX_WEIGHT_MAX
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad VI or Weight.
 */
VIP_RETURN VipxSetWeight(IN VIP_VI_HANDLE ViHandle, IN VIP_UINT32 Weight);

/* ------------------------------------------------------------------------------------------------ waiting */

/*
 * The loop of a program that sleeps in epoll:
 *
 *     for (;;) {
 *         while (VipCQDone(cq, &vi, &is_recv) == VIP_SUCCESS) serve(vi, is_recv);
 *         if (VipxCQArm(cq) == VIP_NOT_DONE) continue;
 *         epoll_wait(...);
 *     }
 */
#define VIPX_SPIN_NIC 0xFFFFFFFFu /* Spin of a call: as the NIC is set */
#define VIPX_SPIN_MAX 1000000u    /* the longest that can be asked for, microseconds */

/*
 * Sets how long the waits of a NIC poll ("spin") at most before they sleep, from now on. Without it that is 50 microseconds (none on a machine with
 * one processor), or what the environment variable BELLWIRE_SPIN_US says. Waits spin only while spinning pays: after two spins
 * without success, or one while other threads wanted the processor, they sleep at once, with a try now and then.
 *   Microseconds  0: sleep at once; up to VIPX_SPIN_MAX
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad NIC, Microseconds too large.
 */
VIP_RETURN VipxSetSpin(IN VIP_NIC_HANDLE NicHandle, IN VIP_UINT32 Microseconds);

/*
 * As VipSendWait, VipRecvWait and VipCQWait, with a spin of their own, whatever spinning found before.
 *   Spin  microseconds to poll before sleeping, 0: sleep at once; up to VIPX_SPIN_MAX, or VIPX_SPIN_NIC
 * VIP_SUCCESS, VIP_TIMEOUT and the other codes of those calls; VIP_INVALID_PARAMETER: also for a bad Spin.
 */
VIP_RETURN VipxSendWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG TimeOut, IN VIP_UINT32 Spin, OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipxRecvWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG TimeOut, IN VIP_UINT32 Spin, OUT VIP_DESCRIPTOR **DescriptorPtr);
VIP_RETURN VipxCQWait(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG TimeOut, IN VIP_UINT32 Spin, OUT VIP_VI_HANDLE *ViHandle,
                      OUT VIP_BOOLEAN *RecvQueue);

/*
 * Gives a file descriptor to sleep on with epoll, poll or select until the completion queue has an entry, beside any other descriptors. It is an
 * eventfd; level- and edge-triggered sleeping both work. It is the caller's, to be closed at any time; each call gives another for
 * the same queue, and after VipDestroyCQ or VipCloseNic it stays valid, silent. Nobody need read from it. It is silent until VipxCQArm.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad CQ or pointer; VIP_ERROR_RESOURCE: no descriptors left.
 */
VIP_RETURN VipxCQFd(IN VIP_CQ_HANDLE CQHandle, OUT int *Fd);

/*
 * To be called each time before sleeping on the descriptor, and at no other time: takes back its readiness, looks once more, and makes it readable,
 * once, when there is an entry. Messages, VipCQDone and polling never touch the descriptor. So: take entries until there is none, arm, and if that
 * says VIP_NOT_DONE take entries again, else sleep. While the program sleeps, the NIC's own thread moves its messages.
 * Destroying the queue wakes the sleeper.
 * VIP_SUCCESS: there is no entry; sleep; VIP_NOT_DONE: there is one already, and the descriptor is readable; do not sleep;
 * VIP_INVALID_PARAMETER: bad CQ; VIP_INVALID_STATE: VipxCQFd has not been called for it.
 */
VIP_RETURN VipxCQArm(IN VIP_CQ_HANDLE CQHandle);

/* ------------------------------------------------------------------------------------------------ inline sends */

/* Flags of VipxSendInline */
#define VIPX_SEND_IMMEDIATE 0x1u   /* ImmediateData is valid */
#define VIPX_SEND_UNSIGNALLED 0x2u /* no completion when it goes well */

/*
 * Sends up to InlineBytesMax bytes without a descriptor and without registered memory; Data is free again when the call returns. The message
 * takes its turn among posted sends. This version takes unsignalled sends only: there is no descriptor to hand
 * back. A failure breaks the connection and shows there.
 * VIP_SUCCESS; VIP_INVALID_PARAMETER: bad VI, Length above InlineBytesMax, Data NULL with Length above 0, unknown flag or
 * VIPX_SEND_UNSIGNALLED missing; VIP_INVALID_STATE: not connected; VIP_ERROR_RESOURCE: MaxDescriptorsPerQueue are posted.
 */
VIP_RETURN VipxSendInline(IN VIP_VI_HANDLE ViHandle, IN const void *Data, IN VIP_UINT32 Length, IN VIP_UINT32 Flags,
                          IN VIP_UINT32 ImmediateData);

#ifdef __cplusplus
}
#endif

#endif
