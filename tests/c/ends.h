/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * ends.h - what the test programs share: a NIC with a tag, a VI, descriptors and data in one registered block ("an end"), addresses, and
 * connecting two ends of one process. Helpers check what they do and go on; a test that builds on a failed step fails there.
 */
#ifndef ENDS_H
#define ENDS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "check.h"
#include "vipl.h"
#include "viplx.h"

enum {
    END_DESCRIPTORS = 64,
    END_DATA_BYTES = 1 << 18,
    WAIT_MS = 5000, /* longer than anything here takes, shorter than the watchdog */
    HOST_ADDRESS_MAX = 18, /* IPv6 with a port */
    DISCRIMINATOR_MAX = 64
};

/* An address with room for the longest discriminator. */
typedef union {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + HOST_ADDRESS_MAX + DISCRIMINATOR_MAX];
} Address;

typedef struct {
    VIP_NIC_HANDLE nic;
    VIP_PROTECTION_HANDLE tag;
    VIP_VI_HANDLE vi;
    VIP_VI_ATTRIBUTES attributes;
    VIP_DESCRIPTOR *descriptors; /* END_DESCRIPTORS of them */
    unsigned char *data;         /* END_DATA_BYTES */
    VIP_MEM_HANDLE memory;       /* covers descriptors and data, with both RDMA rights */
    void *block;
    int engine_memory; /* the block comes from VipxAllocMem */
} End;

/* What an end is to be; zero bytes mean the usual thing. */
typedef struct {
    VIP_RELIABILITY_LEVEL level;  /* 0: Reliable Delivery */
    VIP_ULONG transfer_bytes_max; /* 0: END_DATA_BYTES */
    VIP_CQ_HANDLE send_cq, recv_cq;
    int rnr_wait; /* VIPX_VI_RNR_WAIT */
    VIPX_VI_ATTRIBUTES *extension; /* instead of rnr_wait, for what else there is */
    int no_rdma_write, no_rdma_read; /* rights of the VI */
    int no_tag;                      /* the VI has tag NULL */
    int foreign_memory;              /* malloc instead of VipxAllocMem */
} EndOptions;

/* Opens a NIC; a failure is a failed check. */
VIP_NIC_HANDLE nic_open(void);

/* Makes an end on an open NIC; options may be NULL. end_destroy disconnects, drains and frees everything but the NIC. */
void end_create(End *end, VIP_NIC_HANDLE nic, const EndOptions *options);
void end_destroy(End *end);
/* The same, and closes its NIC. */
void end_close(End *end);

/* An address of this host with the given discriminator. address_unique makes one that nothing else on the machine uses. */
void address_set(Address *address, VIP_NIC_HANDLE nic, const void *discriminator, size_t bytes);
void address_unique(Address *address, VIP_NIC_HANDLE nic);
/* An address's discriminator as text for a command line, and back. */
typedef struct {
    char hex[2 * DISCRIMINATOR_MAX + 1];
} AddressText;
AddressText address_text(const Address *address);
void address_of_text(Address *address, VIP_NIC_HANDLE nic, const char *hex);
/* Prepares an out argument of VipConnectWait: all the room there is. */
void address_room(Address *address);

/* Connects two idle ends; returns what VipConnectRequest gave and puts what VipConnectAccept gave into *accepted (if not NULL). */
VIP_RETURN ends_connect(End *client, End *server, VIP_RETURN *accepted);
/* One half of the same, for two processes: asks for a connection to who waits at the address; waits there for one request and accepts it. */
VIP_RETURN end_request(End *end, const Address *at, int ms);
VIP_RETURN end_accept(End *end, const Address *at, int ms);
/* The same until somebody waits there, in a process that may have begun before the other. */
VIP_RETURN end_request_soon(End *end, const Address *at);
/* Runs a case in two fresh processes, which get the same address, and checks that both end well.
 * Neither function comes back. */
void ends_in_processes(int which, void (*server)(int which, const Address *at), void (*client)(int which, const Address *at));
/* Two ends on the given NICs (may be the same), connected. */
void ends_pair(End *client, VIP_NIC_HANDLE client_nic, End *server, VIP_NIC_HANDLE server_nic, const EndOptions *options);

/* Fill a descriptor of the end and give it back, not posted. offset and bytes are within the end's data. */
VIP_DESCRIPTOR *work_send(End *end, int slot, size_t offset, VIP_UINT32 bytes);
VIP_DESCRIPTOR *work_recv(End *end, int slot, size_t offset, VIP_UINT32 bytes);
VIP_DESCRIPTOR *work_rdma(End *end, int slot, int operation, size_t offset, VIP_UINT32 bytes, void *remote, VIP_MEM_HANDLE handle);
/* Adds immediate data to a descriptor. */
VIP_DESCRIPTOR *with_immediate(VIP_DESCRIPTOR *descriptor, VIP_UINT32 value);

/* Post, checked. */
void post_send(End *end, VIP_DESCRIPTOR *descriptor);
void post_recv(End *end, VIP_DESCRIPTOR *descriptor);

/* Wait for the next completion of a queue; check that it is `expected` with exactly these status bits besides DONE (0: success). */
void expect_send(End *end, VIP_DESCRIPTOR *expected, VIP_UINT32 status);
void expect_recv(End *end, VIP_DESCRIPTOR *expected, VIP_UINT32 status);

/* The state of the end's VI. */
VIP_VI_STATE state_of(End *end);
/* Waits until the VI is in that state, for at most WAIT_MS; checks that it got there. */
void expect_state(End *end, VIP_VI_STATE state);

/* Milliseconds of the monotonic clock, with fraction. */
double now_ms(void);
void sleep_ms(int ms);

/* Starts this program anew in a process of its own, with two arguments; it is killed when the caller's thread ends. */
pid_t start_again(const char *job, const char *argument);

/* For qsort of double. */
int by_value(const void *a, const void *b);

/* A pattern that differs with seed and position; pattern_ok gives 1 if all bytes match. */
void pattern_fill(unsigned char *bytes, size_t count, unsigned seed);
int pattern_ok(const unsigned char *bytes, size_t count, unsigned seed);

/* Error callbacks of a NIC, counted by code. errors_watch registers; errors_wait waits until one with this code was seen. */
typedef struct {
    volatile int seen[16];
    volatile VIP_ERROR_DESCRIPTOR last;
} Errors;
void errors_watch(VIP_NIC_HANDLE nic, Errors *errors);
int errors_wait(Errors *errors, VIP_ERROR_CODE code, int ms);

#endif
