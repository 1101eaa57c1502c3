/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* common.h - what the examples share: stopping on errors, registered memory, meeting by name. */
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H

#include <stddef.h>
#include <vipl.h>
#include <viplx.h>

/* Stops the program with a message if a call did not succeed. */
#define MUST(call) must((call), #call)
void must(VIP_RETURN result, const char *call);
/* Stops the program with a message, printf style. */
void fail(const char *format, ...);
const char *return_name(VIP_RETURN result);

/* One block of the engine's memory, registered under one tag with both RDMA rights. Descriptors begin at a multiple of 64 bytes. */
typedef struct {
    VIP_NIC_HANDLE nic;
    VIP_PROTECTION_HANDLE tag;
    unsigned char *bytes;
    VIP_ULONG length;
    VIP_MEM_HANDLE handle;
} Memory;
void memory_open(Memory *memory, VIP_NIC_HANDLE nic, VIP_ULONG bytes);
void memory_close(Memory *memory);

/* A VI at Reliable Delivery for the memory's tag; either CQ may be NULL. */
VIP_VI_HANDLE vi_open(const Memory *memory, VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq);
/* Disconnects, takes back what was posted, destroys. */
void vi_close(VIP_VI_HANDLE vi);

/* Waits for one client at `name`, a text of up to 64 bytes that both sides know, and connects it. Gives 0 if none came in time. */
int vi_accept(VIP_NIC_HANDLE nic, const char *name, VIP_ULONG timeout_ms, VIP_VI_HANDLE vi);
/* Connects to a server at `name` on this host, or at `name@host`; waits up to timeout_ms for it to be there. */
void vi_dial(VIP_NIC_HANDLE nic, const char *name, VIP_ULONG timeout_ms, VIP_VI_HANDLE vi);

/* Fill a descriptor for one segment of the memory. */
void describe(VIP_DESCRIPTOR *d, const Memory *memory, void *data, VIP_UINT32 bytes);
void describe_rdma(VIP_DESCRIPTOR *d, const Memory *memory, void *data, VIP_UINT32 bytes, VIP_UINT16 operation,
                   VIP_UINT64 remote, VIP_MEM_HANDLE handle);

/* Seconds of the monotonic clock. */
double seconds(void);

/* The text value after option `name` (NULL if absent), and the number after it (or `otherwise`). has_option looks for the bare word. */
const char *option_text(int argc, char **argv, const char *name);
long option_number(int argc, char **argv, const char *name, long otherwise);
int has_option(int argc, char **argv, const char *name);
/* Ends the program if there is a word that is none of `words` (those with a "=" at the end take a value; a NULL is last): a mistyped option must not pass for its default. */
void check_options(int argc, char **argv, const char *const *words);

#endif
