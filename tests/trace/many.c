/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* many.c - threads that each send messages to themselves, over two VIs of a NIC of their own:
 *   many THREADS MESSAGES
 * After each 16 messages a thread sleeps for a moment, so that sixteen of them stay below a million
 * events a second. */
#include "common.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static long messages;

typedef struct {
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    const char *name;
} Accepting;

static void *accept_one(void *argument) {
    Accepting *accepting = argument;
    if (!vi_accept(accepting->nic, accepting->name, 30000, accepting->vi)) fail("nobody came at %s", accepting->name);
    return NULL;
}

static VIP_DESCRIPTOR *done(VIP_RETURN (*look)(VIP_VI_HANDLE, VIP_DESCRIPTOR **), VIP_VI_HANDLE vi) {
    VIP_DESCRIPTOR *d;
    VIP_RETURN result;
    while ((result = look(vi, &d)) == VIP_NOT_DONE) {}
    if (result != VIP_SUCCESS) fail("a look: %s", return_name(result));
    return d;
}

static void *run(void *argument) {
    char name[64];
    snprintf(name, sizeof name, "many-%d-%ld", (int)getpid(), (long)(size_t)argument);
    Memory memory;
    VIP_NIC_HANDLE nic;
    MUST(VipOpenNic("bellwire0", &nic));
    memory_open(&memory, nic, 4096);
    VIP_VI_HANDLE from = vi_open(&memory, NULL, NULL), to = vi_open(&memory, NULL, NULL);
    Accepting accepting = {nic, to, name};
    pthread_t acceptor;
    if (pthread_create(&acceptor, NULL, accept_one, &accepting) != 0) fail("no thread");
    vi_dial(nic, name, 30000, from);
    pthread_join(acceptor, NULL);
    VIP_DESCRIPTOR *send = (VIP_DESCRIPTOR *)memory.bytes, *receive = (VIP_DESCRIPTOR *)(memory.bytes + 128);
    for (long i = 0; i < messages; i++) {
        describe(receive, &memory, memory.bytes + 1024, 64);
        MUST(VipPostRecv(to, receive, memory.handle));
        describe(send, &memory, memory.bytes + 2048, 8);
        MUST(VipPostSend(from, send, memory.handle));
        done(VipSendDone, from);
        done(VipRecvDone, to);
        /* Sixteen threads stay below a million events a second. */
        if (i % 16 == 0) usleep(1000);
    }
    vi_close(from);
    vi_close(to);
    memory_close(&memory);
    MUST(VipCloseNic(nic));
    return NULL;
}

int main(int argc, char **argv) {
    if (argc != 3) fail("usage: many THREADS MESSAGES");
    long threads = atol(argv[1]);
    messages = atol(argv[2]);
    if (threads < 1 || threads > 64 || messages < 1) fail("usage: many THREADS MESSAGES");
    pthread_t made[64];
    for (long i = 0; i < threads; i++)
        if (pthread_create(&made[i], NULL, run, (void *)(size_t)i) != 0) fail("no thread");
    for (long i = 0; i < threads; i++) pthread_join(made[i], NULL);
    return 0;
}
