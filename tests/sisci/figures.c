/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * figures N: times of the library beside those of the machine without it, N short turns of each:
 * PIO beside the exchange of two cache lines, copies beside memcpy, interrupts beside an eventfd.
 * Two processes, on two processors if there are. Prints the lower quartiles: on a busy machine
 * most turns are those of the scheduler.
 */
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "sisci_api.h"

enum { SIZE = 4 << 20, TURNS_MAX = 1001 };
/* Round trips of a turn; fewer in a short run: on a busy machine each may take a time slice. */
static int pio_rounds = 1000, int_rounds = 200;
static sci_error_t e;
#define MUST(call) do { call; if (e != SCI_ERR_OK) { printf("%s: %s\n", #call, SCIGetErrorString(e)); _exit(9); } } while (0)

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void pin(int to) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(to, &set);
    sched_setaffinity(0, sizeof set, &set);
}

static int processors;
/* What a wait does when the other side may need the processor. */
static void pause_a_little(long *spins) {
    if (processors < 2 || ++*spins % 300 == 0) sched_yield();
}

struct pair {
    sci_local_segment_t own;
    sci_remote_segment_t other;
    sci_dma_queue_t dq;
    sci_map_t map, rmap;
    sci_sequence_t q;
    sci_local_interrupt_t i;
    sci_remote_interrupt_t t;
    volatile uint64_t *mine, *theirs;   /* through the library */
    volatile uint64_t *line, *far_line; /* two lines of memory shared without it */
    int bell[2];
    int side;
};

static void set_up(struct pair *p, void *raw, int bells[2], int side) {
    sci_desc_t sd;
    unsigned int node, number = 700 + (unsigned int)side;
    p->side = side;
    if (processors > 1) pin(side);
    MUST(SCIInitialize(0, &e));
    MUST(SCIOpen(&sd, 0, &e));
    MUST(SCIGetLocalNodeId(0, &node, 0, &e));
    MUST(SCICreateSegment(sd, &p->own, 700 + (unsigned int)side, SIZE, NULL, NULL, 0, &e));
    MUST(SCIPrepareSegment(p->own, 0, 0, &e));
    MUST(SCISetSegmentAvailable(p->own, 0, 0, &e));
    MUST(SCICreateInterrupt(sd, &p->i, 0, &number, NULL, NULL, SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &e));
    MUST(SCIConnectSegment(sd, &p->other, node, 701 - (unsigned int)side, 0, NULL, NULL, SCI_INFINITE_TIMEOUT, 0, &e));
    MUST(SCIConnectInterrupt(sd, &p->t, node, 0, 701 - (unsigned int)side, SCI_INFINITE_TIMEOUT, 0, &e));
    MUST(p->mine = SCIMapLocalSegment(p->own, &p->map, 0, SIZE, NULL, 0, &e));
    MUST(p->theirs = SCIMapRemoteSegment(p->other, &p->rmap, 0, SIZE, NULL, 0, &e));
    MUST(SCICreateMapSequence(p->rmap, &p->q, 0, &e));
    MUST(SCICreateDMAQueue(sd, &p->dq, 0, 16, 0, &e));
    p->line = (volatile uint64_t *)raw + side * 512;
    p->far_line = (volatile uint64_t *)raw + (1 - side) * 512;
    p->bell[0] = bells[side];
    p->bell[1] = bells[1 - side];
}

/* One way of a round trip over two words, in ns. */
static double words(volatile uint64_t *mine, volatile uint64_t *theirs, int side, uint64_t *from) {
    double begin = now();
    long spins = 0;
    for (uint64_t n = *from + 1; n <= *from + (uint64_t)pio_rounds; n++) {
        if (side == 0) *theirs = n;
        while (*mine != n) pause_a_little(&spins);
        if (side == 1) *theirs = n;
    }
    *from += (uint64_t)pio_rounds;
    return (now() - begin) / pio_rounds / 2;
}

static double library_interrupts(struct pair *p) {
    double begin = now();
    for (int n = 0; n < int_rounds; n++) {
        if (p->side == 0) SCITriggerInterrupt(p->t, 0, &e);
        SCIWaitForInterrupt(p->i, SCI_INFINITE_TIMEOUT, 0, &e);
        if (p->side == 1) SCITriggerInterrupt(p->t, 0, &e);
    }
    return (now() - begin) / int_rounds / 2;
}

static double bare_eventfd(struct pair *p) {
    uint64_t one = 1, got;
    double begin = now();
    for (int n = 0; n < int_rounds; n++) {
        if (p->side == 0 && write(p->bell[1], &one, 8) != 8) _exit(8);
        if (read(p->bell[0], &got, 8) != 8) _exit(8);
        if (p->side == 1 && write(p->bell[1], &one, 8) != 8) _exit(8);
    }
    return (now() - begin) / int_rounds / 2;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double quartile(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_size);
    return values[n / 4];
}

static double v[TURNS_MAX][12];
static double column(int c, int turns) {
    double all[TURNS_MAX];
    for (int t = 0; t < turns; t++) all[t] = v[t][c];
    return quartile(all, turns);
}

int main(int argc, char **argv) {
    int turns = argc > 1 ? atoi(argv[1]) : 100, bells[2];
    if (turns < 1 || turns > TURNS_MAX) turns = 100;
    if (turns < 10) pio_rounds = 100, int_rounds = 20;
    processors = (int)sysconf(_SC_NPROCESSORS_ONLN);
    void *raw = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bells[0] = eventfd(0, 0), bells[1] = eventfd(0, 0);
    fflush(stdout);
    pid_t child = fork();
    struct pair p;
    memset(&p, 0, sizeof p);
    set_up(&p, raw, bells, child == 0);
    check_group("figures");
    uint64_t pio = 0, lines = 0;
    static char memory[SIZE];
    char *shared = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(memory, 1, SIZE);
    memset(shared, 1, SIZE);
    memset((void *)(uintptr_t)p.mine, 0, SIZE);
    static const int sizes[2] = {64 << 10, 1 << 20};
    for (int t = -1; t < turns; t++) {
        int at = t < 0 ? 0 : t; /* the first one warms up */
        check_group("figures"); /* the watchdog begins anew */
        v[at][0] = words(p.line, p.far_line, p.side, &lines);
        v[at][1] = words(p.mine, p.theirs, p.side, &pio);
        v[at][2] = bare_eventfd(&p);
        v[at][3] = library_interrupts(&p);
        if (p.side == 1) continue;
        for (int s = 0; s < 2; s++) {
            int size = sizes[s], times = (8 << 20) / size;
            double a = 0, b = 0, c = 0;
            /* By turns of a few copies, so that what else the machine does falls on all. */
            for (int n = 0; n < times; n += 4) {
                double t0 = now();
                for (int k = 0; k < 4; k++) {
                    memcpy(shared, memory, (size_t)size);
                    __asm__ volatile("" ::: "memory");
                }
                double t1 = now();
                for (int k = 0; k < 4; k++) SCIMemCpy(p.q, memory, p.rmap, 4096, (size_t)size, 0, &e);
                double t2 = now();
                for (int k = 0; k < 4; k++) SCIStartDmaTransferMem(p.dq, memory, p.other, (size_t)size, 4096, NULL, NULL, SCI_FLAG_DMA_WAIT, &e);
                a += t1 - t0, b += t2 - t1, c += now() - t2;
            }
            v[at][4 + 3 * s] = a / times;
            v[at][5 + 3 * s] = b / times;
            v[at][6 + 3 * s] = c / times;
        }
        CHECK_SAME(e, SCI_ERR_OK);
    }
    if (child == 0) {
        pause();
        _exit(0);
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    double line = column(0, turns), store = column(1, turns), bell = column(2, turns), interrupt = column(3, turns);
    printf("%-34s %10s %10s %8s\n", "", "machine", "library", "ratio");
    printf("%-34s %8.1fns %8.1fns %8.2f\n", "8 B PIO one way (two lines)", line, store, store / line);
    printf("%-34s %8.0fns %8.0fns %8.2f\n", "interrupt one way (eventfd)", bell, interrupt, interrupt / bell);
    for (int s = 0; s < 2; s++) {
        double copy = column(4 + 3 * s, turns), memcpy_ = column(5 + 3 * s, turns), dma = column(6 + 3 * s, turns);
        printf("SCIMemCpy %5d KiB (memcpy)%9s %8.0fns %8.0fns %8.2f of its bandwidth\n", sizes[s] >> 10, "", copy, memcpy_, copy / memcpy_);
        printf("DMA and wait %5d KiB (memcpy)%6s %8.0fns %8.0fns %8.2f of its bandwidth\n", sizes[s] >> 10, "", copy, dma, copy / dma);
    }
    return check_end();
}
