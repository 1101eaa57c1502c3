/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * wire N [FILE.json]: VIPL on the wire that is made of SISCI calls (BELLWIRE_WIRE=sisci), with each
 * switch of the report, beside SISCI without VIPL and beside the engine's own shared-memory wire:
 * N short turns of each, by turns in one run. Two processes, each with a NIC for each case. Prints
 * half a round trip, in us: the lower quartile of the turns' least times, and its ratio to the
 * others; with FILE.json as JSON too. Bytes that a receiver does not load stay in the sender's
 * cache: so each size is measured with receivers that look at the number alone (SISCI) or at two
 * bytes (VIPL), and with receivers that load all bytes.
 */
#include <sched.h>
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"
#include "sisci_api.h"

enum { SIZE_MAX_BYTES = 1 << 20, SEGMENT_BYTES = 3 << 20, DATA_AT = 2 << 20, TURNS_MAX = 1001, CASES = 8 };
static sci_error_t e;
#define SCI(call) do { call; if (e != SCI_ERR_OK) fail("%s: %s", #call, SCIGetErrorString(e)); } while (0)

static const struct {
    const char *name, *wire, *switches;
} cases[CASES] = {
    {"raw SISCI, stores", NULL, NULL},
    {"raw SISCI, DMA", NULL, NULL},
    {"VIPL on shared memory", "host", ""},
    {"VIPL on SISCI", "sisci", ""},
    {"  memory=shadow", "sisci", "memory=shadow"},
    {"  descriptors=32", "sisci", "descriptors=32"},
    {"  shadow, dma=4096", "sisci", "memory=shadow,dma=4096"},
    {"  events=memory", "sisci", "events=memory"},
};
static const int sizes[] = {8, 4096, 65536, SIZE_MAX_BYTES};

static int side, processors;

static void pin(int to) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(to, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static void give_way(long *looks) {
    if (processors < 2 || ++*looks % 30000 == 0) sched_yield();
}

/* -------------------- SISCI alone: data, then a number behind it */

static sci_map_t map, remote_map;
static sci_sequence_t sequence;
static sci_dma_queue_t queue;
static sci_local_segment_t own;
static sci_remote_segment_t other;
static volatile unsigned char *in, *out;
static unsigned char *data;
static unsigned number;

static void open_raw(void) {
    sci_desc_t sd;
    unsigned node;
    SCI(SCIInitialize(0, &e));
    SCI(SCIOpen(&sd, 0, &e));
    SCI(SCIGetLocalNodeId(0, &node, 0, &e));
    SCI(SCICreateSegment(sd, &own, 7100u + (unsigned)side, SEGMENT_BYTES, NULL, NULL, 0, &e));
    SCI(SCIPrepareSegment(own, 0, 0, &e));
    SCI(SCISetSegmentAvailable(own, 0, 0, &e));
    SCI(SCIConnectSegment(sd, &other, node, 7101u - (unsigned)side, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    SCI(in = SCIMapLocalSegment(own, &map, 0, SEGMENT_BYTES, NULL, 0, &e));
    SCI(out = SCIMapRemoteSegment(other, &remote_map, 0, SEGMENT_BYTES, NULL, 0, &e));
    SCI(SCICreateMapSequence(remote_map, &sequence, 0, &e));
    SCI(SCICreateDMAQueue(sd, &queue, 0, 4, 0, &e));
    /* The last part of the own segment is the source of DMA. */
    data = (unsigned char *)in + DATA_AT;
}

static void say_raw(int size, int by_dma) {
    volatile unsigned *flag = (volatile unsigned *)(out + SIZE_MAX_BYTES);
    number++;
    if (size <= 8) {
        *(volatile unsigned long *)out = number;
    } else if (by_dma) {
        memset(data, (int)number, (size_t)size);
        SCI(SCIStartDmaTransfer(queue, own, other, DATA_AT, (size_t)size, 0, NULL, NULL, SCI_FLAG_DMA_WAIT, &e));
    } else {
        memset(data, (int)number, (size_t)size);
        SCI(SCIMemCpy(sequence, data, remote_map, 0, (size_t)size, 0, &e));
    }
    *flag = number;
}

/* Interrupts alone: half a round trip between processes that sleep. */
static sci_local_interrupt_t bell;
static sci_remote_interrupt_t other_bell;

static void open_bells(void) {
    sci_desc_t sd;
    unsigned node, own_number = 7200u + (unsigned)side;
    SCI(SCIOpen(&sd, 0, &e));
    SCI(SCIGetLocalNodeId(0, &node, 0, &e));
    SCI(SCICreateInterrupt(sd, &bell, 0, &own_number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    SCI(SCIConnectInterrupt(sd, &other_bell, node, 0, 7201u - (unsigned)side, SCI_INFINITE_TIMEOUT, 0, &e));
}

static double interrupts(int rounds) {
    double least = 1e9;
    for (int i = 0; i < rounds; i++) {
        double begin = seconds();
        if (side == 0) SCI(SCITriggerInterrupt(other_bell, 0, &e));
        SCI(SCIWaitForInterrupt(bell, SCI_INFINITE_TIMEOUT, 0, &e));
        if (side == 1) SCI(SCITriggerInterrupt(other_bell, 0, &e));
        double took = (seconds() - begin) / 2 * 1e6;
        if (took < least) least = took;
    }
    return least;
}

/* Loads all bytes, as one that uses them does. */
static unsigned long sum;
static void use(const volatile unsigned char *bytes, int size) {
    const unsigned long *words = (const unsigned long *)(unsigned long)bytes;
    unsigned long all = 0;
    for (int i = 0; i < size / 8; i++) all += words[i];
    sum += all;
}

static void hear_raw(unsigned next, int size, int uses) {
    volatile unsigned *flag = (volatile unsigned *)(in + SIZE_MAX_BYTES);
    for (long looks = 0; *flag != next;) give_way(&looks);
    if (uses) use(in, size);
}

/* -------------------- VIPL */

typedef struct {
    VIP_NIC_HANDLE nic;
    Memory memory;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *send, *receive[2];
    unsigned char *out, *in[2];
    unsigned mark;
} Player;
static Player players[CASES];

static void open_player(Player *p, int which) {
    char name[64];
    setenv("BELLWIRE_WIRE", cases[which].wire, 1);
    setenv("BELLWIRE_SISCI_WIRE", cases[which].switches, 1);
    snprintf(name, sizeof name, "wire-%d-%d", (int)(side ? getppid() : getpid()), which);
    MUST(VipOpenNic("nic0", &p->nic));
    memory_open(&p->memory, p->nic, 4096 + 3 * (VIP_ULONG)SIZE_MAX_BYTES);
    p->send = (VIP_DESCRIPTOR *)p->memory.bytes;
    p->out = p->memory.bytes + 4096;
    p->vi = vi_open(&p->memory, NULL, NULL);
    for (int i = 0; i < 2; i++) {
        p->receive[i] = p->send + 1 + i;
        p->in[i] = p->out + (size_t)SIZE_MAX_BYTES * (size_t)(1 + i);
        describe(p->receive[i], &p->memory, p->in[i], SIZE_MAX_BYTES);
        MUST(VipPostRecv(p->vi, p->receive[i], p->memory.handle));
    }
    if (side) vi_dial(p->nic, name, 20000, p->vi);
    else if (!vi_accept(p->nic, name, 20000, p->vi)) fail("nobody dialled");
}

static void say(Player *p, int size) {
    VIP_DESCRIPTOR *done;
    VIP_RETURN result;
    p->mark++;
    memset(p->out, (int)p->mark, (size_t)size);
    describe(p->send, &p->memory, p->out, (VIP_UINT32)size);
    MUST(VipPostSend(p->vi, p->send, p->memory.handle));
    while ((result = VipSendDone(p->vi, &done)) == VIP_NOT_DONE);
    must(result, "VipSendDone");
}

static void hear(Player *p, int size, int sleeps, int uses) {
    VIP_DESCRIPTOR *done;
    VIP_RETURN result;
    unsigned char *bytes;
    do result = sleeps ? VipRecvWait(p->vi, 20000, &done) : VipRecvDone(p->vi, &done);
    while (result == VIP_NOT_DONE);
    must(result, "receive");
    bytes = done->DS[0].Local.Data.Address;
    if (done->CS.Length != (VIP_UINT32)size || bytes[size - 1] != bytes[0]) fail("a message arrived damaged");
    if (uses) use(bytes, size);
    describe(done, &p->memory, bytes, SIZE_MAX_BYTES);
    MUST(VipPostRecv(p->vi, done, p->memory.handle));
}

/* -------------------- turns */

/* The least half round trip of a turn, us. Side 0 begins. */
static double turn(int which, int size, int sleeps, int uses) {
    int rounds = size < 65536 ? (sleeps ? 20 : 100) : size < SIZE_MAX_BYTES ? 20 : 6;
    double least = 1e9;
    for (int i = 0; i < rounds; i++) {
        double begin = seconds();
        if (side == 0) {
            if (which < 2) say_raw(size, which == 1), hear_raw(number, size, uses);
            else say(&players[which], size), hear(&players[which], size, sleeps, uses);
        } else {
            if (which < 2) hear_raw(number + 1, size, uses), say_raw(size, which == 1);
            else hear(&players[which], size, sleeps, uses), say(&players[which], size);
        }
        double took = (seconds() - begin) / 2 * 1e6;
        if (took < least) least = took;
    }
    return least;
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* Figures as JSON, if they are asked for. */
static FILE *json;
static const char *comma = "";

static void note(const char *what, const char *name, double us, double raw, double shared) {
    if (!json) return;
    while (*name == ' ') name++;
    fprintf(json, "%s\n    {\"what\": \"%s\", \"case\": \"%s\", \"us\": %.3f", comma, what, name, us);
    if (raw > 0) fprintf(json, ", \"of_raw\": %.3f", us / raw);
    if (shared > 0) fprintf(json, ", \"of_shared_memory\": %.3f", us / shared);
    fputs("}", json);
    comma = ",";
}

static void show(const char *what, double (*all)[TURNS_MAX], int turns, int first, int all_stores) {
    double value[CASES];
    for (int c = first; c < CASES; c++) {
        qsort(all[c], (size_t)turns, sizeof all[c][0], by_value);
        value[c] = all[c][turns / 4];
    }
    printf("%s\n", what);
    for (int c = first; c < CASES; c++) {
        if (c == 1 && all_stores) continue; /* 8 bytes go by stores in both */
        printf("  %-24s %9.2f us", cases[c].name, value[c]);
        if (first == 0) printf("  %5.2f of raw stores", value[c] / value[0]);
        printf("  %5.2f of VIPL on shared memory\n", value[c] / value[2]);
        note(what, cases[c].name, value[c], first == 0 ? value[0] : 0, value[2]);
    }
    fflush(stdout);
}

int main(int argc, char **argv) {
    static double all[CASES][TURNS_MAX];
    int turns = argc > 1 ? atoi(argv[1]) : 20;
    if (turns < 1 || turns > TURNS_MAX - 1) turns = TURNS_MAX - 1;
    processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    pid_t child = fork();
    side = child == 0;
    if (side) prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (processors > 1) pin(side);
    if (argc > 2 && side == 0) {
        json = fopen(argv[2], "w");
        if (!json) fail("%s cannot be written", argv[2]);
        fprintf(json, "{\n  \"turns\": %d,\n  \"figures\": [", turns);
    }
    open_raw();
    open_bells();
    for (int c = 2; c < CASES; c++) open_player(&players[c], c);
    for (unsigned s = 0; s < sizeof sizes / sizeof *sizes; s++)
        for (int uses = 0; uses < (sizes[s] > 8 ? 2 : 1); uses++) {
            char what[64];
            for (int t = -1; t < turns; t++)
                for (int c = 0; c < CASES; c++) {
                    double took = turn(c, sizes[s], 0, uses);
                    if (t >= 0) all[c][t] = took; /* the first one warms up */
                }
            snprintf(what, sizeof what, "%d bytes%s", sizes[s], uses ? ", all of them loaded by the receiver" : "");
            if (side == 0) show(what, all, turns, 0, sizes[s] <= 8);
        }
    for (int t = -1; t < turns; t++)
        for (int c = 2; c < CASES; c++) {
            double took = turn(c, 8, 1, 0);
            if (t >= 0) all[c][t] = took;
        }
    if (side == 0) show("8 bytes, both sides wait", all, turns, 2, 1);
    for (int t = -1; t < turns; t++) {
        double took = interrupts(20);
        if (t >= 0) all[0][t] = took;
    }
    if (side == 0) {
        qsort(all[0], (size_t)turns, sizeof all[0][0], by_value);
        printf("an interrupt to a sleeping process\n  %-24s %9.2f us\n", "raw SISCI", all[0][turns / 4]);
        note("an interrupt to a sleeping process", "raw SISCI", all[0][turns / 4], 0, 0);
        puts("the report: SCI itself, 4 bytes in 1.4 us and 320 MB/s; of VIA2SISCI \"nearly the raw performance\", without figures");
        if (json) {
            fputs("\n  ],\n  \"report\": {\"sci_4_bytes_us\": 1.4, \"sci_mb_per_s\": 320, \"via2sisci\": \"nearly the raw performance\"}\n}\n", json);
            if (fclose(json)) fail("%s cannot be written", argv[2]);
        }
    }
    int status = 0;
    if (side == 0) {
        wait(&status);
        /* Within the test of all: everything works, whatever the times are. */
        puts(WIFEXITED(status) && WEXITSTATUS(status) == 0 ? "wire: all well" : "wire: the other side failed");
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
