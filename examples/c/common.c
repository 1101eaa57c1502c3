/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The helpers of common.h. */
#include "common.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Longest message of the examples, bytes; both ends of a connection must agree on it. */
enum { TRANSFER_BYTES_MAX = 1 << 22, DISCRIMINATOR_MAX = 64, HOST_ADDRESS_MAX = 18 /* IPv6 with a port */ };

/* An address with room for the longest discriminator. */
typedef union {
    VIP_NET_ADDRESS net;
    unsigned char bytes[4 + HOST_ADDRESS_MAX + DISCRIMINATOR_MAX];
} Address;

const char *return_name(VIP_RETURN result) {
    switch (result) {
    case VIP_SUCCESS: return "VIP_SUCCESS";
    case VIP_NOT_DONE: return "VIP_NOT_DONE";
    case VIP_INVALID_PARAMETER: return "VIP_INVALID_PARAMETER";
    case VIP_ERROR_RESOURCE: return "VIP_ERROR_RESOURCE";
    case VIP_TIMEOUT: return "VIP_TIMEOUT";
    case VIP_REJECT: return "VIP_REJECT";
    case VIP_INVALID_RELIABILITY_LEVEL: return "VIP_INVALID_RELIABILITY_LEVEL";
    case VIP_INVALID_MTU: return "VIP_INVALID_MTU";
    case VIP_INVALID_QOS: return "VIP_INVALID_QOS";
    case VIP_INVALID_PTAG: return "VIP_INVALID_PTAG";
    case VIP_INVALID_RDMAREAD: return "VIP_INVALID_RDMAREAD";
    case VIP_DESCRIPTOR_ERROR: return "VIP_DESCRIPTOR_ERROR";
    case VIP_INVALID_STATE: return "VIP_INVALID_STATE";
    case VIP_ERROR_NAMESERVICE: return "VIP_ERROR_NAMESERVICE";
    case VIP_NO_MATCH: return "VIP_NO_MATCH";
    case VIP_NOT_REACHABLE: return "VIP_NOT_REACHABLE";
    case VIP_ERROR_NOT_SUPPORTED: return "VIP_ERROR_NOT_SUPPORTED";
    }
    return "unknown code";
}

void must(VIP_RETURN result, const char *call) {
    if (result != VIP_SUCCESS) fail("%s: %s", call, return_name(result));
}

void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fputc('\n', stderr);
    exit(1);
}

void memory_open(Memory *memory, VIP_NIC_HANDLE nic, VIP_ULONG bytes) {
    VIP_MEM_ATTRIBUTES attributes;
    VIP_PVOID base;
    MUST(VipCreatePtag(nic, &memory->tag));
    MUST(VipxAllocMem(nic, bytes, &base));
    attributes.Ptag = memory->tag;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = VIP_TRUE;
    MUST(VipRegisterMem(nic, base, bytes, &attributes, &memory->handle));
    memory->nic = nic;
    memory->bytes = base;
    memory->length = bytes;
}

void memory_close(Memory *memory) {
    MUST(VipDeregisterMem(memory->nic, memory->bytes, memory->handle));
    MUST(VipxFreeMem(memory->nic, memory->bytes));
    MUST(VipDestroyPtag(memory->nic, memory->tag));
}

VIP_VI_HANDLE vi_open(const Memory *memory, VIP_CQ_HANDLE send_cq, VIP_CQ_HANDLE recv_cq) {
    VIP_VI_ATTRIBUTES attributes;
    VIP_VI_HANDLE vi;
    memset(&attributes, 0, sizeof attributes);
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = TRANSFER_BYTES_MAX;
    attributes.Ptag = memory->tag;
    attributes.EnableRdmaWrite = VIP_TRUE;
    attributes.EnableRdmaRead = VIP_TRUE;
    MUST(VipCreateVi(memory->nic, &attributes, send_cq, recv_cq, &vi));
    return vi;
}

void vi_close(VIP_VI_HANDLE vi) {
    MUST(VipDisconnect(vi));
    MUST(VipDestroyVi(vi));
}

/* `name` at `host`: a text of up to DISCRIMINATOR_MAX bytes, and a host's name or address. */
static void address_of(Address *address, VIP_NIC_HANDLE nic, const char *name, size_t length, const char *host) {
    if (length > DISCRIMINATOR_MAX) fail("the name is longer than %d bytes: %s", DISCRIMINATOR_MAX, name);
    memset(address, 0, sizeof *address);
    address->net.HostAddressLen = HOST_ADDRESS_MAX; /* the room there is */
    if (VipNSGetHostByName(nic, (char *)host, &address->net, 0) != VIP_SUCCESS) fail("no host is known as \"%s\"", host);
    address->net.DiscriminatorLen = (VIP_UINT16)length;
    memcpy(address->bytes + 4 + address->net.HostAddressLen, name, length);
}

int vi_accept(VIP_NIC_HANDLE nic, const char *name, VIP_ULONG timeout_ms, VIP_VI_HANDLE vi) {
    Address here, from;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection;
    VIP_RETURN result;
    address_of(&here, nic, name, strlen(name), "localhost");
    from = here;
    from.net.DiscriminatorLen = DISCRIMINATOR_MAX; /* the room there is for the client's address */
    result = VipConnectWait(nic, &here.net, timeout_ms, &from.net, &attributes, &connection);
    if (result == VIP_TIMEOUT) return 0;
    must(result, "VipConnectWait");
    result = VipConnectAccept(connection, vi);
    if (result == VIP_TIMEOUT) return 0; /* the client gave up meanwhile */
    must(result, "VipConnectAccept");
    return 1;
}

void vi_dial(VIP_NIC_HANDLE nic, const char *name, VIP_ULONG timeout_ms, VIP_VI_HANDLE vi) {
    Address here, there;
    VIP_VI_ATTRIBUTES attributes;
    VIP_RETURN result;
    const char *at = strrchr(name, '@');
    address_of(&there, nic, name, at ? (size_t)(at - name) : strlen(name), at ? at + 1 : "localhost");
    address_of(&here, nic, "client", 6, "localhost");
    result = VipConnectRequest(vi, &here.net, &there.net, timeout_ms, &attributes);
    if (result == VIP_NO_MATCH || result == VIP_NOT_REACHABLE) {
        VIPX_CAUSE_INFO cause;
        memset(&cause, 0, sizeof cause);
        cause.Size = sizeof cause;
        /* Another user's process may be there, and a grant missing; or one of another release. */
        if (VipxQueryCause(vi, &cause) == VIP_SUCCESS && cause.Cause != VIPX_CAUSE_NONE) fail("\"%s\": %s", name, cause.Text);
        if (result == VIP_NO_MATCH) fail("no server waits under the name \"%s\"", name);
    }
    must(result, "VipConnectRequest");
}

void describe(VIP_DESCRIPTOR *d, const Memory *memory, void *data, VIP_UINT32 bytes) {
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->CS.Length = bytes;
    d->DS[0].Local.Data.Address = data;
    d->DS[0].Local.Handle = memory->handle;
    d->DS[0].Local.Length = bytes;
}

void describe_rdma(VIP_DESCRIPTOR *d, const Memory *memory, void *data, VIP_UINT32 bytes, VIP_UINT16 operation,
                   VIP_UINT64 remote, VIP_MEM_HANDLE handle) {
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 2;
    d->CS.Control = operation;
    d->CS.Length = bytes;
    d->DS[0].Remote.Data.AddressBits = remote;
    d->DS[0].Remote.Handle = handle;
    d->DS[1].Local.Data.Address = data;
    d->DS[1].Local.Handle = memory->handle;
    d->DS[1].Local.Length = bytes;
}

double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

int has_option(int argc, char **argv, const char *name) {
    int i;
    for (i = 1; i < argc; i++) {
        if (strcmp(argv[i], name) == 0) return i;
    }
    return 0;
}

void check_options(int argc, char **argv, const char *const *words) {
    int i, k;
    for (i = 1; i < argc; i++) {
        for (k = 0; words[k] != NULL; k++) {
            size_t length = strlen(words[k]);
            int takes_value = words[k][length - 1] == '=';
            if (strncmp(argv[i], words[k], length - takes_value) == 0 && argv[i][length - takes_value] == '\0') {
                i += takes_value;
                break;
            }
        }
        if (words[k] == NULL) fail("\"%s\" is not an option here; see --help", argv[i]);
    }
}

const char *option_text(int argc, char **argv, const char *name) {
    int i = has_option(argc, argv, name);
    if (i == 0) return NULL;
    if (i + 1 >= argc) fail("%s needs a value; see --help", name);
    return argv[i + 1];
}

long option_number(int argc, char **argv, const char *name, long otherwise) {
    const char *text = option_text(argc, argv, name);
    char *end;
    long value;
    if (text == NULL) return otherwise;
    errno = 0;
    value = strtol(text, &end, 10);
    if (errno != 0 || *end != '\0' || end == text || value < 0) fail("%s: \"%s\" is not a number", name, text);
    return value;
}
