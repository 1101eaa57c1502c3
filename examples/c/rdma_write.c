/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * RDMA write: one side offers a region, the other writes into it without its help, and the last write carries immediate data that tells the owner
 * that all is there. Then the bytes are read back by RDMA read.
 *
 * What it shows: passing on an address and a memory handle, address segments, immediate data that consumes a receive.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static const char help[] =
    "rdma_write [server|client] [--size BYTES] [--count WRITES] [--name NAME]\n"
    "\n"
    "Without server or client both run, as two processes.\n"
    "In two terminals:   rdma_write server      rdma_write client\n"
    "On two hosts:       BELLWIRE_ADDRESS=auto rdma_write server      BELLWIRE_ADDRESS=auto rdma_write client --name rdma_write@HOST\n"
    "\n"
    "  --size BYTES    bytes of one write, 1 to 4194304 (default 65536); the same at both ends\n"
    "  --count WRITES  writes (default 10000)\n"
    "  --name NAME     where the two meet (default rdma_write); the client may add @HOST\n";

/* What the owner tells the writer. */
typedef struct {
    VIP_UINT64 address;
    VIP_MEM_HANDLE handle;
    VIP_UINT32 bytes;
} Offer;

enum { DESCRIPTORS = 16, WRITES_IN_FLIGHT = 8, DATA = DESCRIPTORS * sizeof(VIP_DESCRIPTOR) + 64 };

typedef struct {
    VIP_NIC_HANDLE nic;
    Memory memory;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *descriptors;
    Offer *offer;
    unsigned char *data;
    VIP_UINT32 size;
} Side;

static void open_side(Side *s, VIP_UINT32 size) {
    MUST(VipOpenNic("nic0", &s->nic));
    memory_open(&s->memory, s->nic, DATA + 2ul * size);
    s->descriptors = (VIP_DESCRIPTOR *)s->memory.bytes;
    s->offer = (Offer *)(s->memory.bytes + DESCRIPTORS * sizeof(VIP_DESCRIPTOR));
    s->data = s->memory.bytes + DATA;
    s->size = size;
    s->vi = vi_open(&s->memory, NULL, NULL);
}

static void close_side(Side *s) {
    vi_close(s->vi);
    memory_close(&s->memory);
    MUST(VipCloseNic(s->nic));
}

static unsigned char byte_at(size_t i) {
    return (unsigned char)(i * 7 + 3);
}

/* Owner of the region. */
static void run_server(Side *s, const char *name) {
    VIP_DESCRIPTOR *done;
    size_t i;
    describe(&s->descriptors[0], &s->memory, s->data, 0);
    s->descriptors[0].CS.SegCount = 0; /* for the immediate data; the bytes go where the writer says */
    MUST(VipPostRecv(s->vi, &s->descriptors[0], s->memory.handle));
    if (!vi_accept(s->nic, name, VIP_INFINITE, s->vi)) fail("no client");
    s->offer->address = (VIP_UINT64)(size_t)s->data;
    s->offer->handle = s->memory.handle;
    s->offer->bytes = s->size;
    describe(&s->descriptors[1], &s->memory, s->offer, sizeof *s->offer);
    MUST(VipPostSend(s->vi, &s->descriptors[1], s->memory.handle));
    must(VipSendWait(s->vi, 10000, &done), "VipSendWait");
    must(VipRecvWait(s->vi, VIP_INFINITE, &done), "VipRecvWait");
    if ((done->CS.Status & VIP_STATUS_IMMEDIATE) == 0) fail("no immediate data");
    for (i = 0; i < s->size; i++) {
        if (s->data[i] != byte_at(i)) fail("byte %zu is wrong", i);
    }
    printf("owner: %u writes, the last of %u bytes, all bytes right\n", (unsigned)done->CS.ImmediateData,
           (unsigned)done->CS.Length);
    fflush(stdout);
    /* Keep the region until the writer has read it back and hangs up. */
    describe(&s->descriptors[0], &s->memory, s->data, 0);
    if (VipPostRecv(s->vi, &s->descriptors[0], s->memory.handle) == VIP_SUCCESS) VipRecvWait(s->vi, 10000, &done);
}

/* Writer. */
static void run_client(Side *s, long count, const char *name) {
    VIP_DESCRIPTOR *done;
    Offer to;
    long posted = 0, collected = 0;
    size_t i;
    double start, took;
    describe(&s->descriptors[0], &s->memory, s->offer, sizeof *s->offer);
    MUST(VipPostRecv(s->vi, &s->descriptors[0], s->memory.handle));
    vi_dial(s->nic, name, 10000, s->vi);
    must(VipRecvWait(s->vi, 10000, &done), "VipRecvWait");
    to = *s->offer;
    if (to.bytes != s->size) fail("the owner was started with --size %u", (unsigned)to.bytes);
    for (i = 0; i < s->size; i++) s->data[i] = byte_at(i);
    start = seconds();
    while (collected < count) {
        while (posted < count && posted - collected < WRITES_IN_FLIGHT) {
            VIP_DESCRIPTOR *d = &s->descriptors[1 + posted % WRITES_IN_FLIGHT];
            describe_rdma(d, &s->memory, s->data, s->size, VIP_CONTROL_OP_RDMAWRITE, to.address, to.handle);
            posted++;
            if (posted == count) { /* the last one tells the owner */
                d->CS.Control |= VIP_CONTROL_IMMEDIATE;
                d->CS.ImmediateData = (VIP_UINT32)count;
            }
            MUST(VipPostSend(s->vi, d, s->memory.handle));
        }
        must(VipSendWait(s->vi, 10000, &done), "VipSendWait");
        collected++;
    }
    took = seconds() - start;
    printf("writer: %ld writes of %u bytes in %.3f s: %.3f us each, %.2f GB/s\n", count, (unsigned)s->size, took,
           took / (double)count * 1e6, (double)count * s->size / took / 1e9);
    describe_rdma(&s->descriptors[1], &s->memory, s->data + s->size, s->size, VIP_CONTROL_OP_RDMAREAD, to.address, to.handle);
    MUST(VipPostSend(s->vi, &s->descriptors[1], s->memory.handle));
    must(VipSendWait(s->vi, 10000, &done), "VipSendWait");
    if (memcmp(s->data, s->data + s->size, s->size) != 0) fail("read back something else");
    printf("writer: read back by RDMA read, all bytes right\n");
}

static const char *const words[] = {"server", "client", "--size=", "--count=", "--name=", "--help", "-h", NULL};

int main(int argc, char **argv) {
    long size = option_number(argc, argv, "--size", 65536), count = option_number(argc, argv, "--count", 10000);
    const char *name = option_text(argc, argv, "--name");
    int server = has_option(argc, argv, "server"), client = has_option(argc, argv, "client");
    char own_name[32];
    pid_t child = 0;
    Side s;
    check_options(argc, argv, words);
    if (has_option(argc, argv, "--help") || has_option(argc, argv, "-h")) {
        fputs(help, stdout);
        return 0;
    }
    if (size < 1 || size > 1 << 22 || count < 1) fail("--size must be 1 to 4194304 and --count at least 1; see --help");
    if (name == NULL) name = "rdma_write";
    if (!server && !client) {
        snprintf(own_name, sizeof own_name, "rdma_write-%ld", (long)getpid());
        name = own_name;
        child = fork();
        if (child < 0) fail("fork failed");
        server = child == 0;
    }
    open_side(&s, (VIP_UINT32)size);
    if (server) run_server(&s, name);
    else run_client(&s, count, name);
    close_side(&s);
    if (child > 0) {
        int status;
        waitpid(child, &status, 0);
        if (status != 0) fail("the owner failed");
    }
    return 0;
}
