/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Ping-pong: a message goes there and back again; prints half the round trip.
 *
 * What it shows: receives posted before connecting, send and receive with one descriptor each, checking what arrived.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static const char help[] =
    "pingpong [server|client] [--size BYTES] [--count ROUNDS] [--name NAME] [--poll]\n"
    "\n"
    "Without server or client both run, as two processes.\n"
    "In two terminals:   pingpong server      pingpong client\n"
    "On two hosts:       BELLWIRE_ADDRESS=auto pingpong server      BELLWIRE_ADDRESS=auto pingpong client --name pingpong@HOST\n"
    "\n"
    "  --size BYTES    message length, 1 to 1048576 (default 8); the same at both ends\n"
    "  --count ROUNDS  round trips (default 100000); the same at both ends\n"
    "  --name NAME     where the two meet (default pingpong); the client may add @HOST\n"
    "  --poll          ask again and again (VipRecvDone) instead of waiting (VipRecvWait), which sleeps if it takes long\n";

static int poll_only;

typedef struct {
    VIP_NIC_HANDLE nic;
    Memory memory;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *send, *recv[2];
    unsigned char *out, *in[2];
    VIP_UINT32 size;
} Player;

static void open_player(Player *p, VIP_UINT32 size) {
    int i;
    size_t room = (size + 63u) & ~(size_t)63u;
    MUST(VipOpenNic("nic0", &p->nic));
    memory_open(&p->memory, p->nic, 3 * sizeof(VIP_DESCRIPTOR) + 3 * room);
    p->size = size;
    p->send = (VIP_DESCRIPTOR *)p->memory.bytes;
    p->out = p->memory.bytes + 3 * sizeof(VIP_DESCRIPTOR);
    p->vi = vi_open(&p->memory, NULL, NULL);
    for (i = 0; i < 2; i++) {
        p->recv[i] = p->send + 1 + i;
        p->in[i] = p->out + room * (size_t)(1 + i);
        /* Posted before the connection exists: the first message finds a place. */
        describe(p->recv[i], &p->memory, p->in[i], size);
        MUST(VipPostRecv(p->vi, p->recv[i], p->memory.handle));
    }
}

static void close_player(Player *p) {
    vi_close(p->vi);
    memory_close(&p->memory);
    MUST(VipCloseNic(p->nic));
}

static void send_one(Player *p, unsigned char mark) {
    memset(p->out, mark, p->size);
    describe(p->send, &p->memory, p->out, p->size);
    MUST(VipPostSend(p->vi, p->send, p->memory.handle));
}

/* Waits for the send to be done: its buffer can be used again. Polls first; a completion is usually there. */
static void collect_send(Player *p) {
    VIP_DESCRIPTOR *done;
    VIP_RETURN result = VipSendDone(p->vi, &done);
    while (poll_only && result == VIP_NOT_DONE) result = VipSendDone(p->vi, &done);
    if (result == VIP_NOT_DONE) result = VipSendWait(p->vi, 10000, &done);
    must(result, "VipSendDone");
}

static void receive_one(Player *p, unsigned char mark) {
    VIP_DESCRIPTOR *done;
    unsigned char *bytes;
    VIP_RETURN result;
    do {
        result = poll_only ? VipRecvDone(p->vi, &done) : VipRecvWait(p->vi, 10000, &done);
    } while (result == VIP_NOT_DONE);
    must(result, "receive");
    bytes = done->DS[0].Local.Data.Address;
    if (done->CS.Length != p->size || bytes[0] != mark || bytes[p->size - 1] != mark) fail("a message arrived damaged");
    describe(done, &p->memory, bytes, p->size); /* Length and Status were overwritten: fill in again, then post again */
    MUST(VipPostRecv(p->vi, done, p->memory.handle));
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static void run_client(Player *p, long count, const char *name) {
    double *times = malloc((size_t)count * sizeof *times);
    long i;
    if (times == NULL) fail("not enough memory for %ld times", count);
    vi_dial(p->nic, name, 10000, p->vi);
    for (i = 0; i < count; i++) {
        double start = seconds();
        send_one(p, (unsigned char)i);
        receive_one(p, (unsigned char)i);
        collect_send(p);
        times[i] = (seconds() - start) / 2;
    }
    qsort(times, (size_t)count, sizeof *times, by_value);
    printf("%u bytes, %ld round trips: half a round trip takes %.3f us (median), %.3f us (least), %.3f us (99 of 100)\n",
           (unsigned)p->size, count, times[count / 2] * 1e6, times[0] * 1e6, times[count * 99 / 100] * 1e6);
    free(times);
}

static void run_server(Player *p, long count, const char *name) {
    long i;
    if (!vi_accept(p->nic, name, VIP_INFINITE, p->vi)) fail("no client");
    for (i = 0; i < count; i++) {
        receive_one(p, (unsigned char)i);
        send_one(p, (unsigned char)i);
        collect_send(p);
    }
    /* The client hangs up when it has the last message. */
    {
        VIP_DESCRIPTOR *done;
        VipRecvWait(p->vi, 10000, &done);
    }
}

static const char *const words[] = {"server", "client", "--size=", "--count=", "--name=", "--poll", "--help", "-h", NULL};

int main(int argc, char **argv) {
    long size = option_number(argc, argv, "--size", 8), count = option_number(argc, argv, "--count", 100000);
    const char *name = option_text(argc, argv, "--name");
    poll_only = has_option(argc, argv, "--poll");
    int server = has_option(argc, argv, "server"), client = has_option(argc, argv, "client");
    char own_name[32];
    pid_t child = 0;
    Player p;
    check_options(argc, argv, words);
    if (has_option(argc, argv, "--help") || has_option(argc, argv, "-h")) {
        fputs(help, stdout);
        return 0;
    }
    if (size < 1 || size > 1 << 20 || count < 1) fail("--size must be 1 to 1048576 and --count at least 1; see --help");
    if (name == NULL) name = "pingpong";
    if (!server && !client) {
        snprintf(own_name, sizeof own_name, "pingpong-%ld", (long)getpid());
        name = own_name;
        child = fork(); /* before the library is used: a NIC belongs to one process */
        if (child < 0) fail("fork failed");
        server = child == 0;
    }
    open_player(&p, (VIP_UINT32)size);
    if (server) run_server(&p, count, name);
    else run_client(&p, count, name);
    close_player(&p);
    if (child > 0) {
        int status;
        waitpid(child, &status, 0);
        if (status != 0) fail("the server failed");
    }
    return 0;
}
