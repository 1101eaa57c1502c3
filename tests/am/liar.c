/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A peer that means harm, for the mappings of BELLWIRE_AM: it speaks to an endpoint by the calls of
 * libvipl, and says, writes and answers anything. The endpoint goes on to serve another one.
 *   liar [ROUNDS [SEED]]
 */
#include "check.h"

#include <am.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <vipl.h>
#include <viplx.h>

enum { ECHO = 1, ECHO_M, ECHO_X, ANSWER, LOOK, LONG, TAG = 0x5eed, SEGMENT = 1 << 17, PATIENCE_SECONDS = 60 };
enum { RECEIVES = 64, SENDS = 64, BUFFER = 66048, UNIT = 64, MOST = 4096, FRAME = 8 };

static uint64_t state;
static uint32_t rnd(uint32_t below) {
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((state >> 33) % below);
}

/* ---- the endpoints that live */

static volatile int answers, came_back;
static unsigned sum;

/* A peer chooses the handler and the kind of its message, so these are of messages of all kinds. */
static void read_all(const am_message_t *message) {
    size_t i;
    int at;
    for (i = 0; i < message->nbytes; i++) sum += ((const unsigned char *)message->data)[i];
    for (at = 0; at < message->num_args; at++) sum += (unsigned)message->args[at];
}
static void echo(void *token, const am_message_t *message, void *context) {
    (void)context;
    read_all(message);
    AM_Reply1(token, ANSWER, 1);
}
static void echo_m(void *token, const am_message_t *message, void *context) {
    (void)context;
    read_all(message);
    AM_ReplyI0(token, LOOK, message->data, message->nbytes > 65000 ? 65000 : message->nbytes);
}
static void echo_x(void *token, const am_message_t *message, void *context) {
    (void)context;
    read_all(message);
    AM_ReplyXfer0(token, 0, LOOK, message->data, message->nbytes);
}
static void echo_long(void *token, const am_message_t *message, void *context) {
    static unsigned char data[3000];
    (void)message;
    (void)context;
    AM_ReplyI0(token, LOOK, data, sizeof data);
}
static void look(void *token, const am_message_t *message, void *context) { (void)token; (void)context; read_all(message); }
static void answer(void *token, const am_message_t *message, void *context) {
    (void)token;
    read_all(message);
    if (context != NULL) answers++;
}
static void returned(int status, op_t op, void *argblock) { (void)status; (void)op; (void)argblock; came_back++; }

static void victims(pid_t liar, int from_liar, int to_liar) {
    eb_t bundle;
    ep_t endpoints[2];
    en_t names[2];
    void *memory;
    int i, status = -1, is_over = 0, index = 0;
    CHECK(AM_Init() == AM_OK && AM_AllocateBundle(AM_SEQ, &bundle) == AM_OK);
    for (i = 0; i < 2; i++) {
        CHECK(AM_AllocateEndpoint(bundle, &endpoints[i], &names[i]) == AM_OK && AM_SetTag(endpoints[i], TAG) == AM_OK);
        CHECK(AMX_Alloc(SEGMENT, &memory) == AM_OK && AM_SetSeg(endpoints[i], memory, SEGMENT) == AM_OK);
        AM_SetHandler(endpoints[i], 0, returned);
        AMX_SetMessageHandler(endpoints[i], ECHO, echo, NULL);
        AMX_SetMessageHandler(endpoints[i], ECHO_M, echo_m, NULL);
        AMX_SetMessageHandler(endpoints[i], ECHO_X, echo_x, NULL);
        AMX_SetMessageHandler(endpoints[i], ANSWER, answer, i == 1 ? &sum : NULL);
        AMX_SetMessageHandler(endpoints[i], LOOK, look, NULL);
        AMX_SetMessageHandler(endpoints[i], LONG, echo_long, NULL);
    }
    CHECK(AM_Map(endpoints[1], 0, names[0], TAG) == AM_OK);
    CHECK(write(to_liar, &names[0], sizeof names[0]) == (ssize_t)sizeof names[0]);
    while (!is_over) {
        const int before = answers;
        const time_t end = time(NULL) + PATIENCE_SECONDS;
        en_t name;
        is_over = waitpid(liar, &status, WNOHANG) == liar;
        /* It may ask of the endpoint what it then answers as it likes. */
        if (recv(from_liar, &name, sizeof name, MSG_DONTWAIT) == (ssize_t)sizeof name) {
            if (index > 0) AM_UnMap(endpoints[0], 1);
            index = 1;
            if (AM_Map(endpoints[0], 1, name, TAG) == AM_OK) {
                static unsigned char data[3000];
                AM_Poll(bundle);
                AM_RequestXferAsync0(endpoints[0], 1, 0, ECHO_X, data, sizeof data);
            }
        }
        AM_Request1(endpoints[1], 0, ECHO, 1);
        while (answers == before && time(NULL) < end) AM_Poll(bundle);
        if (answers == before) {
            CHECK(!"an endpoint serves others no more");
            break;
        }
    }
    CHECK_SAME(status, 0);
    CHECK(AM_Terminate() == AM_OK);
}

/* ---- the liar */

static VIP_NIC_HANDLE nic;
static VIP_PROTECTION_HANDLE ptag;
static VIP_MEM_HANDLE handle;
static char *memory;
static uint64_t ring_address, ring_units, tail;
static VIP_MEM_HANDLE ring_handle;
static int mapping;

static VIP_DESCRIPTOR *descriptor(int i) { return (VIP_DESCRIPTOR *)(void *)(memory + i * 64); }
static char *buffer(int i) { return memory + (RECEIVES + SENDS) * 64 + (size_t)i * BUFFER; }

static void receive(VIP_VI_HANDLE vi, int i) {
    VIP_DESCRIPTOR *d = descriptor(i);
    memset(d, 0, sizeof *d);
    d->CS.SegCount = 1;
    d->CS.Length = BUFFER;
    d->DS[0].Local.Data.Address = buffer(i);
    d->DS[0].Local.Handle = handle;
    d->DS[0].Local.Length = BUFFER;
    VipPostRecv(vi, d, handle);
}

/* Sends or writes what lies in a buffer, and waits until it has left or the connection is over. */
static int give(VIP_VI_HANDLE vi, int i, int is_write, uint64_t to, uint32_t nbytes, int is_immediate, uint32_t immediate) {
    VIP_DESCRIPTOR *d = descriptor(i), *done;
    int at = 0, code;
    const time_t end = time(NULL) + 5;
    memset(d, 0, sizeof *d);
    d->CS.Control = (VIP_UINT16)((is_write ? VIP_CONTROL_OP_RDMAWRITE : VIP_CONTROL_OP_SENDRECV) | (is_immediate ? VIP_CONTROL_IMMEDIATE : 0));
    d->CS.ImmediateData = immediate;
    if (is_write) {
        d->DS[at].Remote.Data.AddressBits = to;
        d->DS[at++].Remote.Handle = ring_handle;
    }
    d->DS[at].Local.Data.Address = buffer(i);
    d->DS[at].Local.Handle = handle;
    d->DS[at++].Local.Length = nbytes;
    d->CS.SegCount = (VIP_UINT16)at;
    d->CS.Length = nbytes;
    if (VipPostSend(vi, d, handle) != VIP_SUCCESS) return 0;
    while ((code = VipSendDone(vi, &done)) == VIP_NOT_DONE && time(NULL) < end) usleep(10);
    return code == VIP_SUCCESS;
}

static int any_bytes(char *at, int nbytes) {
    int i;
    for (i = 0; i < nbytes; i++) at[i] = (char)rnd(256);
    return nbytes;
}

/* A message that is nearly right. Its bytes. */
static uint32_t speech(char *at) {
    uint64_t words[5];
    const int kind = 1 + (int)(rnd(6) ? rnd(4) : rnd(rnd(8) ? 15 : 255)), args = (int)rnd(rnd(16) ? 3 : 256);
    const int has_data = kind == 2 || kind == 6 || (mapping == 1 && (kind == 3 || kind == 12));
    const int payload = (has_data ? rnd(8) != 0 : rnd(20) == 0) ? (int)rnd(MOST) : 0;
    int i;
    at[0] = (char)kind;
    at[1] = (char)rnd(rnd(4) ? 6 : 256);
    at[2] = (char)args;
    at[3] = (char)rnd(16);
    at[4] = (char)rnd(10);
    at[5] = 0;
    at[6] = (char)rnd(3);
    at[7] = 0;
    words[1] = rnd(8) ? TAG : rnd(1000);
    words[2] = rnd(SEGMENT / 2);
    words[3] = mapping == 1 ? (uint64_t)payload : rnd(MOST);
    words[4] = rnd(2) ? (uint64_t)payload : 1 + rnd(3);
    for (i = 2; i < 5; i++) {
        if (rnd(20) == 0) words[i] = rnd(2) ? UINT64_MAX - rnd(100) : rnd(1u << 30);
    }
    memcpy(at + 8, words + 1, 32);
    any_bytes(at + 40, 64);
    return (uint32_t)(40 + 8 * (((args < 17 ? args : 16) + 1) / 2) + payload);
}

static int greet(VIP_VI_HANDLE vi) {
    uint64_t words[5] = {0, 1, 0, (uint64_t)BUFFER * 8, 0};
    const int lie = (int)rnd(12);
    memcpy(words, "AMVIA v2", 8);
    words[2] = (uint64_t)(uintptr_t)buffer(RECEIVES + 1);
    words[4] = handle;
    if (lie == 0) words[1] = 2;
    if (lie == 1) words[3] = rnd(1u << 17);
    if (lie == 2) words[2] = UINT64_MAX - rnd(1u << 20);
    if (lie == 3) words[4] = (uint64_t)1 << 33;
    if (lie == 4) words[2] = 0;
    if (lie == 5) words[3] = (uint64_t)1 << (20 + rnd(40));
    memcpy(buffer(RECEIVES), words, sizeof words);
    return give(vi, RECEIVES, 0, 0, lie == 6 ? rnd(64) : 40, lie == 7, rnd(1u << 31));
}

/* Waits for the greeting, which says where the victim's ring is. */
static int heard(VIP_VI_HANDLE vi) {
    const time_t end = time(NULL) + 20;
    uint64_t words[5];
    VIP_DESCRIPTOR *done;
    int code;
    while ((code = VipRecvDone(vi, &done)) == VIP_NOT_DONE && time(NULL) < end) usleep(100);
    if (code != VIP_SUCCESS) return 0;
    memcpy(words, done->DS[0].Local.Data.Address, sizeof words);
    CHECK(memcmp(words, "AMVIA v2", 8) == 0 && words[1] == 1);
    ring_address = words[2];
    ring_units = words[3] / UNIT < BUFFER * 8 / UNIT ? words[3] / UNIT : BUFFER * 8 / UNIT;
    ring_handle = (VIP_MEM_HANDLE)words[4];
    return 1;
}

/* A message in the ring, where it belongs. */
static int put(VIP_VI_HANDLE vi, uint32_t nbytes, uint32_t said, uint32_t read) {
    const uint32_t units = (nbytes + FRAME + UNIT - 1) / UNIT, frame[2] = {said, read};
    const uint64_t place = tail % ring_units + units > ring_units ? 0 : tail % ring_units;
    memcpy(buffer(RECEIVES), frame, sizeof frame);
    tail = place + units;
    return give(vi, RECEIVES, 1, ring_address + place * UNIT, nbytes + FRAME, 1, (uint32_t)place);
}

/* Requests without end; it never says that it has read an answer. */
static int flood(VIP_VI_HANDLE vi) {
    unsigned char *const head = (unsigned char *)buffer(RECEIVES) + FRAME;
    const uint64_t tag = TAG;
    int i;
    memset(head, 0, MOST);
    head[0] = 2;
    head[1] = ECHO_M;
    memcpy(head + 8, &tag, sizeof tag);
    for (i = 0; i < 20000 && put(vi, MOST, MOST, 0); i++) {}
    return i < 20000;
}

/* v1: asks for replies that are too long for the VI of their request, and never fetches one. The
 * victim keeps so many, no more. */
static int leave_held(VIP_VI_HANDLE vi) {
    unsigned char *const head = (unsigned char *)buffer(RECEIVES);
    const uint64_t tag = TAG;
    int i;
    memset(head, 0, 40);
    head[0] = 1;
    head[1] = LONG;
    memcpy(head + 8, &tag, sizeof tag);
    for (i = 0; i < 2000 && give(vi, RECEIVES, 0, 0, 40, 0, 0); i++) {
        /* It keeps to its credits: one request at a time. */
        const time_t end = time(NULL) + 5;
        VIP_DESCRIPTOR *done;
        int code;
        while ((code = VipRecvDone(vi, &done)) == VIP_NOT_DONE && time(NULL) < end) usleep(10);
        if (code != VIP_SUCCESS) break;
        receive(vi, (int)(((char *)done - memory) / 64));
    }
    return i > 5 && i < 2000;
}

static int speak(VIP_VI_HANDLE vi) {
    char *const at = buffer(RECEIVES);
    uint32_t nbytes;
    if (mapping != 2) return give(vi, RECEIVES, 0, 0, rnd(16) ? speech(at) : (uint32_t)any_bytes(at, (int)rnd(200)), rnd(8) == 0, rnd(1u << 31));
    switch (rnd(10)) {
    case 0: /* anywhere, and says so or not */
        any_bytes(at, MOST);
        return give(vi, RECEIVES, 1, ring_address + rnd((uint32_t)ring_units * UNIT - MOST), rnd(MOST), (int)rnd(2), rnd(1u << 31) * (1 + rnd(2)));
    case 1: /* nothing, and anything of it */
        return give(vi, RECEIVES, 1, ring_address, 0, 1, rnd(2) ? rnd((uint32_t)ring_units) : 1u << 31 | rnd(100));
    case 2:
        return rnd(8) != 0 || give(vi, RECEIVES, 0, 0, rnd(100), (int)rnd(2), rnd(1u << 31));
    case 3: /* behind the ring */
        return rnd(16) != 0 || give(vi, RECEIVES, 1, ring_address + (ring_units - 1) * UNIT, 300 + rnd(MOST), 1, (uint32_t)ring_units - 1);
    default: /* where it belongs */
        nbytes = speech(at + FRAME);
        return put(vi, nbytes, rnd(16) ? nbytes : rnd(1u << 31), rnd(16) ? 0 : rnd(100));
    }
}

typedef struct {
    VIP_UINT16 host_len, discriminator_len;
    VIP_UINT8 bytes[96];
} Address;

static void address(Address *a, const unsigned char *name, const void *discriminator, size_t nbytes) {
    memset(a, 0, sizeof *a);
    a->host_len = name[1];
    a->discriminator_len = (VIP_UINT16)nbytes;
    memcpy(a->bytes, name + 2, name[1]);
    memcpy(a->bytes + name[1], discriminator, nbytes);
}

static void one_round(const unsigned char *name, int to_victims) {
    VIP_VI_ATTRIBUTES attributes, remote;
    VIP_VI_HANDLE vis[3];
    unsigned char own[48], ask[57], where[24] = "AMVIA..................";
    const int lanes = mapping == 1 ? 1 + (int)rnd(3) : 1;
    Address local, device;
    int i, at, code, is_well = 1;
    memcpy(own, name, sizeof own);
    any_bytes((char *)own + 24, 16);
    memcpy(ask, own, 48);
    memcpy(ask + 48, name + 40, 4);
    ask[53] = 0;
    ask[54] = (unsigned char)(1 + rnd(16));
    ask[55] = 0;
    ask[56] = '?';
    memset(where + 7, '.', 17);
    where[7] = name[0];
    memcpy(where + 8, name + 24, 16);
    address(&device, name, where, 24);
    memset(&attributes, 0, sizeof attributes);
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = 1 << 30;
    attributes.Ptag = ptag;
    attributes.EnableRdmaWrite = 1;
    for (at = 0; at < lanes; at++) {
        ask[52] = (unsigned char)at;
        address(&local, own, ask, sizeof ask);
        if (VipCreateVi(nic, &attributes, NULL, NULL, &vis[at]) != VIP_SUCCESS) _exit(3);
        for (i = 0; at == 0 && i < RECEIVES; i++) receive(vis[at], i);
        code = VipConnectRequest(vis[at], (VIP_NET_ADDRESS *)(void *)&local, (VIP_NET_ADDRESS *)(void *)&device, 20000, &remote);
        if (code != VIP_SUCCESS) {
            printf("VipConnectRequest gives %d\n", code);
            fflush(stdout);
            _exit(4);
        }
    }
    tail = 0;
    if (mapping == 2) is_well = heard(vis[0]) && (rnd(12) == 0 || greet(vis[0]));
    if (rnd(3) == 0) is_well = is_well && write(to_victims, own, sizeof own) == (ssize_t)sizeof own;
    if (mapping == 2 && is_well && rnd(40) == 0) {
        is_well = 0;
        CHECK(flood(vis[0]));
    }
    if (lanes == 3 && is_well && rnd(8) == 0) {
        is_well = 0;
        CHECK(leave_held(vis[0]));
    }
    for (i = 0; is_well && i < 60; i++) is_well = speak(vis[rnd((uint32_t)lanes)]);
    for (at = 0; at < lanes; at++) {
        VIP_DESCRIPTOR *done;
        VipDisconnect(vis[at]);
        while (VipSendDone(vis[at], &done) != VIP_NOT_DONE && done != NULL) done = NULL;
        while (VipRecvDone(vis[at], &done) != VIP_NOT_DONE && done != NULL) done = NULL;
        VipDestroyVi(vis[at]);
    }
}

static int liar(int from, int rounds) {
    VIP_MEM_ATTRIBUTES attributes;
    const size_t nbytes = (size_t)(RECEIVES + SENDS) * 64 + (size_t)(RECEIVES + 9) * BUFFER;
    unsigned char name[48];
    void *base;
    int i;
    prctl(PR_SET_PDEATHSIG, 9);
    if (recv(from, name, sizeof name, MSG_WAITALL) != (ssize_t)sizeof name) return 2;
    mapping = name[0] & 15;
    if (VipOpenNic("bellwire", &nic) != VIP_SUCCESS || VipCreatePtag(nic, &ptag) != VIP_SUCCESS) return 2;
    if (VipxAllocMem(nic, nbytes, &base) != VIP_SUCCESS) return 2;
    memory = (char *)base;
    memset(&attributes, 0, sizeof attributes);
    attributes.Ptag = ptag;
    attributes.EnableRdmaWrite = 1;
    CHECK(VipRegisterMem(nic, base, nbytes, &attributes, &handle) == VIP_SUCCESS);
    for (i = 0; i < rounds; i++) one_round(name, from);
    return check_end();
}

int main(int argc, char **argv) {
    const int rounds = argc > 1 ? atoi(argv[1]) : 100;
    int ends[2];
    pid_t child;
    state = argc > 2 ? strtoull(argv[2], NULL, 0) : (uint64_t)time(NULL);
    printf("seed %llu\n", (unsigned long long)state);
    fflush(stdout);
    if (sizeof(en_t) != 48 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 2;
    child = fork();
    if (child == 0) {
        close(ends[0]);
        _exit(liar(ends[1], rounds));
    }
    close(ends[1]);
    check_group("the endpoint goes on to serve");
    victims(child, ends[0], ends[0]);
    return check_end();
}
