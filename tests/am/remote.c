/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The traffic that a runtime for global memory makes with Active Messages, as GASNet's reference
 * implementation does: remote atomics, puts and gets of values, gets whose reply carries the
 * data, strided puts, bursts, barriers and teams. Each operation is a request that its reply
 * completes.
 *   bellwire run -n N remote [OPERATIONS [wait | times | crowded]]
 * OPERATIONS: of each kind, by each process. "wait": a process sleeps in AM_WaitSema until its
 * answer comes; otherwise it polls. "times": each phase prints its time. "crowded": programs that
 * compute run beside it, and it fails unless polls have slept in place of giving way to them.
 * Process 0 ends with a line that begins with "remote: all well".
 */
#include <am.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { PUT_VALUE = 1, GET_VALUE, ATOMIC, PUT, GET, PUT_LONG, STRIDED, ARRIVED, DONE, VALUE, DATA, GOT };
enum { ADD, FETCH_ADD, SWAP, COMPARE_SWAP };
enum { HANDLES = 256, ROUNDS = 16, LONG_MAX_BYTES = 300000 };
/* The segment: counters, a pattern that gets read, a part for each source. */
enum { COUNTERS = 0, COUNTER_BYTES = 1024, PATTERN = 1024, PATTERN_BYTES = LONG_MAX_BYTES, PARTS = 512 * 1024, PART_BYTES = 512 * 1024 };

typedef struct {
    volatile int open;
    uint64_t value;
    void *into;
    size_t nbytes;
} Handle;

static eb_t bundle;
static ep_t endpoint;
static int rank, size, waits, times, crowded;
static uint64_t slept; /* times that a poll slept */
static unsigned char *segment;
static Handle handles[HANDLES];
static volatile int arrived[2][2][ROUNDS]; /* by team or all, by phase */
static uint64_t asked, served, random_state;

#define CHECK(what)                                                                                            \
    do {                                                                                                       \
        if (!(what)) {                                                                                         \
            fprintf(stderr, "remote: rank %d, line %d: %s (%s)\n", rank, __LINE__, #what, AMX_Reason());       \
            AMX_Exit(99);                                                                                      \
        }                                                                                                      \
    } while (0)

static uint64_t joined(int32_t low, int32_t high) { return (uint32_t)low | (uint64_t)(uint32_t)high << 32; }
static int32_t low(uint64_t value) { return (int32_t)(uint32_t)value; }
static int32_t high(uint64_t value) { return (int32_t)(uint32_t)(value >> 32); }
static unsigned char pattern(int of, size_t i) { return (unsigned char)(i * 7 + (i >> 8) * 3 + (size_t)of * 13); }
static uint64_t chance(uint64_t below) {
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (random_state >> 33) % below;
}
static int another(void) { return size == 1 ? 0 : (rank + 1 + (int)chance((uint64_t)size - 1)) % size; }

/* ---------------------------------------------------------------------- what the target does */

static void put_value(void *token, int32_t at, int32_t nbytes, int32_t a, int32_t b, int32_t handle) {
    const uint64_t value = joined(a, b);
    memcpy(segment + at, &value, (size_t)nbytes);
    served++;
    CHECK(AM_Reply1(token, DONE, handle) == AM_OK);
}
static void get_value(void *token, int32_t at, int32_t nbytes, int32_t handle) {
    uint64_t value = 0;
    memcpy(&value, segment + at, (size_t)nbytes);
    served++;
    CHECK(AM_Reply3(token, VALUE, handle, low(value), high(value)) == AM_OK);
}
static void atomic(void *token, int32_t what, int32_t at, int32_t a, int32_t b, int32_t c, int32_t d, int32_t handle) {
    uint64_t *word = (uint64_t *)(void *)(segment + at), old = *word;
    switch (what) {
    case SWAP: *word = joined(a, b); break;
    case COMPARE_SWAP: if (old == joined(c, d)) *word = joined(a, b); break;
    default: *word += joined(a, b);
    }
    served++;
    if (what == ADD) CHECK(AM_Reply1(token, DONE, handle) == AM_OK);
    else CHECK(AM_Reply3(token, VALUE, handle, low(old), high(old)) == AM_OK);
}
static void put(void *token, void *data, size_t nbytes, int32_t at, int32_t handle) {
    memcpy(segment + at, data, nbytes);
    served++;
    CHECK(AM_Reply1(token, DONE, handle) == AM_OK);
}
static void get(void *token, int32_t at, int32_t nbytes, int32_t handle) {
    served++;
    CHECK(AM_ReplyI1(token, DATA, segment + at, (size_t)nbytes, handle) == AM_OK);
}
static void put_long(void *token, void *data, size_t nbytes, int32_t handle) {
    CHECK((unsigned char *)data >= segment && nbytes <= LONG_MAX_BYTES);
    served++;
    CHECK(AM_Reply1(token, DONE, handle) == AM_OK);
}
static void strided(void *token, void *data, size_t nbytes, int32_t at, int32_t chunk, int32_t stride, int32_t handle) {
    size_t i;
    for (i = 0; i < nbytes / (size_t)chunk; i++)
        memcpy(segment + at + i * (size_t)stride, (unsigned char *)data + i * (size_t)chunk, (size_t)chunk);
    served++;
    CHECK(AM_Reply1(token, DONE, handle) == AM_OK);
}
static void has_arrived(void *token, int32_t team, int32_t phase, int32_t round) {
    (void)token;
    served++;
    arrived[team][phase][round]++;
}

/* ----------------------------------------------------------------------- what the asker does */

static void complete(int32_t handle) {
    CHECK(handle >= 0 && handle < HANDLES && handles[handle].open);
    handles[handle].open = 0;
}
static void done(void *token, int32_t handle) {
    (void)token;
    complete(handle);
}
static void value_came(void *token, int32_t handle, int32_t a, int32_t b) {
    (void)token;
    handles[handle].value = joined(a, b);
    complete(handle);
}
static void data_came(void *token, void *data, size_t nbytes, int32_t handle) {
    (void)token;
    CHECK(handles[handle].nbytes == nbytes);
    memcpy(handles[handle].into, data, nbytes);
    complete(handle);
}
static void returned(int status, op_t op, void *argblock) {
    const am_returned_t *message = (const am_returned_t *)argblock;
    fprintf(stderr, "remote: rank %d: a message of kind %d to %d came back, %d\n", rank, op, message->dest, status);
    AMX_Exit(98);
}

static void poll_once(void) {
    struct rusage before, after;
    if (waits) CHECK(AM_WaitSema(bundle) == AM_OK);
    if (crowded) getrusage(RUSAGE_THREAD, &before);
    CHECK(AM_Poll(bundle) == AM_OK);
    if (!crowded) return;
    getrusage(RUSAGE_THREAD, &after);
    slept += after.ru_nvcsw > before.ru_nvcsw;
}
static int start(void *into, size_t nbytes) {
    int i;
    for (;;) {
        for (i = 0; i < HANDLES; i++) {
            if (handles[i].open) continue;
            handles[i].open = 1;
            handles[i].into = into;
            handles[i].nbytes = nbytes;
            asked++;
            return i;
        }
        poll_once();
    }
}
static uint64_t finish(int handle) {
    while (handles[handle].open) poll_once();
    return handles[handle].value;
}
static void finish_all(void) {
    int i;
    for (i = 0; i < HANDLES; i++) finish(i);
}
static int ask_atomic(int to, int what, int counter, uint64_t operand, uint64_t compare) {
    const int handle = start(NULL, 0);
    CHECK(AM_Request7(endpoint, to, ATOMIC, what, COUNTERS + counter * 8, low(operand), high(operand), low(compare), high(compare), handle) == AM_OK);
    return handle;
}
static int ask_put_value(int to, int at, int nbytes, uint64_t value) {
    const int handle = start(NULL, 0);
    CHECK(AM_Request5(endpoint, to, PUT_VALUE, at, nbytes, low(value), high(value), handle) == AM_OK);
    return handle;
}
static uint64_t value_at(int to, int at, int nbytes) {
    const int handle = start(NULL, 0);
    CHECK(AM_Request3(endpoint, to, GET_VALUE, at, nbytes, handle) == AM_OK);
    return finish(handle);
}

/* A barrier by messages: in round r each process tells the one 2^r further. `members` of a team are
 * the processes rank, rank +- step ..; team 0 is all of them. */
static void barrier(int team, int step) {
    static int phase[2];
    const int first = rank % step, members = (size - first + step - 1) / step, own = rank / step;
    int round, far;
    for (round = 0, far = 1; far < members; round++, far *= 2) {
        asked++;
        CHECK(AM_Request3(endpoint, first + (own + far) % members * step, ARRIVED, team, phase[team], round) == AM_OK);
        while (arrived[team][phase[team]][round] == 0) poll_once();
        arrived[team][phase[team]][round]--;
    }
    phase[team] ^= 1;
}
static uint64_t sum_of(uint64_t own) {
    uint64_t all[64], sum = 0;
    int i;
    CHECK(size <= 64 && AMX_AllGather(&own, sizeof own, all) == AM_OK);
    for (i = 0; i < size; i++) sum += all[i];
    return sum;
}

/* ------------------------------------------------------------------------------------ phases */

static void atomics(int operations) {
    uint64_t olds = 0, final, swapped_in = 0, swapped_out = 0;
    int i, to, handle;
    for (i = 0; i < operations; i++) {
        /* Counter 0 of process 0: each old value is given once, so that their sum is known. */
        olds += finish(ask_atomic(0, FETCH_ADD, 0, 1, 0));
        to = another();
        finish(ask_atomic(to, ADD, 1, 3, 0));
        swapped_in += (uint64_t)(rank * operations + i + 1);
        swapped_out += finish(ask_atomic(0, SWAP, 2, (uint64_t)(rank * operations + i + 1), 0));
        /* A counter by compare-and-swap: again until nobody came between. */
        for (final = 0;; final = handles[handle].value) {
            handle = ask_atomic(0, COMPARE_SWAP, 3, final + 1, final);
            if (finish(handle) == final) break;
        }
    }
    barrier(0, 1);
    final = (uint64_t)operations * (uint64_t)size;
    CHECK(sum_of(olds) == final * (final - 1) / 2);
    CHECK(sum_of(((uint64_t *)(void *)segment)[1]) == 3 * final);
    CHECK(value_at(0, 0, 8) == final && value_at(0, 3 * 8, 8) == final);
    CHECK(sum_of(swapped_in) == sum_of(swapped_out) + value_at(0, 2 * 8, 8));
}
static void values(int operations) {
    static const int sizes[] = {1, 2, 4, 8};
    int i, at, nbytes, to;
    uint64_t value;
    for (i = 0; i < operations; i++) {
        to = another();
        nbytes = sizes[i % 4];
        at = PARTS + rank * PART_BYTES + (int)chance(4096);
        value = (uint64_t)chance(1u << 30) * 0x100000001u & (nbytes == 8 ? ~UINT64_C(0) : (UINT64_C(1) << 8 * nbytes) - 1);
        finish(ask_put_value(to, at, nbytes, value));
        CHECK(value_at(to, at, nbytes) == value);
    }
}
static void gets(int operations) {
    static const size_t sizes[] = {0, 1, 8, 56, 57, 1000, 4096, 65000};
    static unsigned char into[65000];
    int i, to, at, handle;
    size_t n, k;
    for (i = 0; i < operations; i++) {
        to = another();
        n = sizes[chance(8)];
        at = (int)chance(PATTERN_BYTES - 65000);
        handle = start(into, n);
        CHECK(AM_Request3(endpoint, to, GET, PATTERN + at, (int32_t)n, handle) == AM_OK);
        finish(handle);
        for (k = 0; k < n; k++) CHECK(into[k] == pattern(to, (size_t)at + k));
    }
}
static void longs(int operations) {
    static const size_t sizes[] = {1, 5000, 65536, LONG_MAX_BYTES};
    static unsigned char data[LONG_MAX_BYTES];
    const int place = PARTS + rank * PART_BYTES;
    int i, to, handle;
    size_t n, k;
    for (i = 0; i < (operations + 3) / 4; i++) {
        to = another();
        n = sizes[chance(4)];
        for (k = 0; k < n; k++) data[k] = pattern(rank + i, k);
        handle = start(NULL, 0);
        CHECK(AM_RequestXfer1(endpoint, to, (uintptr_t)place, PUT_LONG, data, n, handle) == AM_OK);
        finish(handle);
        /* Back into the same offset of this process's own segment, which nobody else writes. */
        handle = start(NULL, 0);
        CHECK(AM_GetXfer1(endpoint, to, (uintptr_t)place, GOT, (uintptr_t)place, n, handle) == AM_OK);
        finish(handle);
        CHECK(memcmp(segment + place, data, n) == 0);
    }
}
static void got(void *token, void *data, size_t nbytes, int32_t handle) {
    (void)token;
    (void)data;
    (void)nbytes;
    served++; /* its request has no handler elsewhere */
    complete(handle);
}
static void strides(int operations) {
    static unsigned char data[4096], back[16384];
    const int place = PARTS + rank * PART_BYTES;
    int i, to, handle, chunk, stride, chunks;
    size_t k;
    for (i = 0; i < (operations + 3) / 4; i++) {
        to = another();
        chunk = 1 + (int)chance(64);
        stride = chunk + (int)chance(64);
        chunks = 1 + (int)chance(60);
        memset(back, 0xee, sizeof back);
        handle = start(NULL, 0);
        CHECK(AM_RequestI2(endpoint, to, PUT, back, sizeof back, place, handle) == AM_OK);
        finish(handle);
        for (k = 0; k < (size_t)(chunk * chunks); k++) data[k] = pattern(i, k) & 0x7f;
        handle = start(NULL, 0);
        CHECK(AM_RequestI4(endpoint, to, STRIDED, data, (size_t)(chunk * chunks), place, chunk, stride, handle) == AM_OK);
        finish(handle);
        handle = start(back, sizeof back);
        CHECK(AM_Request3(endpoint, to, GET, place, (int32_t)sizeof back, handle) == AM_OK);
        finish(handle);
        for (k = 0; k < sizeof back; k++) {
            const size_t at = k / (size_t)stride, in = k % (size_t)stride;
            CHECK(back[k] == (at < (size_t)chunks && in < (size_t)chunk ? data[at * (size_t)chunk + in] : 0xee));
        }
    }
}
static void bursts(int operations) {
    const int place = PARTS + rank * PART_BYTES;
    int i, to, source;
    for (to = 0; to < size; to++)
        for (i = 0; i < operations; i++) ask_put_value(to, place + 8 * i, 8, (uint64_t)(rank * 1000003 + i));
    finish_all();
    barrier(0, 1);
    for (source = 0; source < size; source++)
        for (i = 0; i < operations; i++)
            CHECK(((uint64_t *)(void *)(segment + PARTS + source * PART_BYTES))[i] == (uint64_t)(source * 1000003 + i));
}
static void barriers(int operations) {
    int i;
    for (i = 0; i < (operations + 3) / 4; i++) {
        finish(ask_atomic(0, ADD, 8, 1, 0));
        barrier(0, 1);
        CHECK(value_at(0, 8 * 8, 8) == (uint64_t)(size * (i + 1)));
        barrier(0, 1);
    }
}
/* Even and odd processes: a count of each team, at its first member. */
static void teams(int operations) {
    const int step = size > 1 ? 2 : 1, first = rank % step, members = (size - first + step - 1) / step;
    int i;
    for (i = 0; i < (operations + 3) / 4; i++) {
        finish(ask_atomic(first, ADD, 9, 1, 0));
        barrier(1, step);
        CHECK(value_at(first, 9 * 8, 8) == (uint64_t)(members * (i + 1)));
        barrier(1, step);
    }
}

/* Nanoseconds that this thread ran, and that it was ready and waited for a processor. */
static void scheduled(double *ran, double *waited) {
    FILE *file = fopen("/proc/self/schedstat", "r");
    if (file == NULL || fscanf(file, "%lf %lf", ran, waited) != 2) *ran = *waited = 0;
    if (file != NULL) fclose(file);
}
static double now(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (double)at.tv_sec * 1e9 + (double)at.tv_nsec;
}
static void phase(const char *name, void (*body)(int), int operations) {
    double began, ran[2], waited[2];
    struct rusage before, after;
    const uint64_t first = asked;
    barrier(0, 1);
    began = now();
    scheduled(&ran[0], &waited[0]);
    getrusage(RUSAGE_THREAD, &before);
    body(operations);
    getrusage(RUSAGE_THREAD, &after);
    scheduled(&ran[1], &waited[1]);
    if (times && rank == 0) {
        const double count = (double)(asked - first), wall = now() - began;
        printf("%-9s %6.0f operations, %9.1f us each: ran %4.1f %%, ready but without a processor %4.1f %% of it; %.1f turns each\n", name, count,
               wall / count / 1e3, (ran[1] - ran[0]) / wall * 100, (waited[1] - waited[0]) / wall * 100,
               (double)(after.ru_nvcsw + after.ru_nivcsw - before.ru_nvcsw - before.ru_nivcsw) / count);
        fflush(stdout);
    }
    barrier(0, 1);
}

int main(int argc, char **argv) {
    const int operations = argc > 1 ? atoi(argv[1]) : 100;
    uintptr_t bytes;
    void *memory;
    size_t i;
    waits = argc > 2 && strcmp(argv[2], "wait") == 0;
    crowded = argc > 2 && strcmp(argv[2], "crowded") == 0;
    times = argc > 2 && !crowded;
    CHECK(AMX_Start(&bundle, &endpoint) == AM_OK);
    rank = AMX_Rank();
    size = AMX_Size();
    random_state = (uint64_t)rank * 77 + 5;
    CHECK(operations > 0 && operations <= 10000);
    bytes = PARTS + (uintptr_t)size * PART_BYTES;
    CHECK(AMX_Alloc(bytes, &memory) == AM_OK && AM_SetSeg(endpoint, memory, bytes) == AM_OK);
    segment = (unsigned char *)memory;
    for (i = 0; i < PATTERN_BYTES; i++) segment[PATTERN + i] = pattern(rank, i);
    AM_SetHandler(endpoint, 0, returned);
    AM_SetHandler(endpoint, PUT_VALUE, put_value);
    AM_SetHandler(endpoint, GET_VALUE, get_value);
    AM_SetHandler(endpoint, ATOMIC, atomic);
    AM_SetHandler(endpoint, PUT, put);
    AM_SetHandler(endpoint, GET, get);
    AM_SetHandler(endpoint, PUT_LONG, put_long);
    AM_SetHandler(endpoint, STRIDED, strided);
    AM_SetHandler(endpoint, ARRIVED, has_arrived);
    AM_SetHandler(endpoint, DONE, done);
    AM_SetHandler(endpoint, VALUE, value_came);
    AM_SetHandler(endpoint, DATA, data_came);
    AM_SetHandler(endpoint, GOT, got);
    if (waits) CHECK(AM_SetEventMask(bundle, AM_NOTEMPTY) == AM_OK);
    CHECK(AMX_Barrier() == AM_OK);
    phase("atomics", atomics, operations);
    phase("values", values, operations);
    phase("gets", gets, operations);
    phase("longs", longs, operations);
    phase("strides", strides, operations);
    phase("bursts", bursts, operations);
    phase("barriers", barriers, operations);
    phase("teams", teams, operations);
    /* Every request was served once. */
    CHECK(AMX_Barrier() == AM_OK);
    {
        const uint64_t sent = sum_of(asked), handled = sum_of(served), sleeps = sum_of(slept);
        CHECK(sent == handled);
        if (crowded && rank == 0) printf("%llu polls slept\n", (unsigned long long)sleeps);
        /* Connecting takes a few. */
        CHECK(!crowded || sleeps > 10);
        CHECK(AMX_Finish() == AM_OK);
        if (rank == 0) printf("remote: all well, %d processes, %llu requests, each served once\n", size, (unsigned long long)sent);
    }
    return 0;
}
