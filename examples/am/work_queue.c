/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Counting primes with a queue of work: the first process gives out ranges of numbers; the others ask it for one (a short request, answered by a short reply), sieve it, and put the
 * result into their own place of the first process's segment (a bulk request). Slow workers ask less often, so the work spreads by itself.
 *
 *   work_queue [workers [limit]]
 */
#include <am.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MORE = 1, RANGE = 2, RESULT = 3 };
enum { CHUNK = 20000, WORKERS_MAX = 64 };

typedef struct {
    int64_t ranges, primes;
} Result;

#define TRY(call)                                            \
    do {                                                     \
        int code_ = (call);                                  \
        if (code_ != AM_OK) {                                \
            fprintf(stderr, "%s: error %d\n", #call, code_); \
            exit(1);                                         \
        }                                                    \
    } while (0)

static int32_t next_range, limit = 1000000; /* of the first process */
static int results;
static volatile int32_t from; /* of a worker: its range; -1 while it waits for one */

/* Runs in the first process: the next range, or `limit` when there is none. */
static void more(void *token) {
    int32_t given = next_range;
    if (next_range < limit) next_range += CHUNK;
    TRY(AM_Reply1(token, RANGE, given));
}

/* Runs in a worker. */
static void range(void *token, int32_t begin) {
    (void)token;
    from = begin;
}

/* Runs in the first process, when a worker's result is in its place. */
static void result(void *token, void *buf, size_t nbytes, int32_t worker) {
    Result r;
    (void)token;
    memcpy(&r, buf, nbytes < sizeof r ? nbytes : sizeof r);
    printf("worker %d: %lld ranges, %lld primes\n", worker, (long long)r.ranges, (long long)r.primes);
    results++;
}

/* A message came back: nobody can answer it. */
static void lost(int status, op_t op, void *argblock) {
    (void)argblock;
    fprintf(stderr, "a message of kind %d came back: status %d\n", op, status);
    exit(1);
}

static int is_prime(int32_t n) {
    int32_t d;
    for (d = 2; d <= n / d; d++)
        if (n % d == 0) return 0;
    return n > 1;
}

static ep_t open_endpoint(eb_t *bundle, en_t *name) {
    ep_t endpoint;
    TRY(AM_Init());
    TRY(AM_AllocateBundle(AM_SEQ, bundle));
    TRY(AM_AllocateEndpoint(*bundle, &endpoint, name));
    TRY(AM_SetTag(endpoint, 4711));
    TRY(AM_SetHandler(endpoint, 0, lost));
    return endpoint;
}

static int work(int worker, en_t first) {
    eb_t bundle;
    en_t name;
    ep_t endpoint = open_endpoint(&bundle, &name);
    Result mine = {0, 0};
    TRY(AM_SetHandler(endpoint, RANGE, range));
    TRY(AM_Map(endpoint, 0, first, 4711));
    TRY(AM_SetEventMask(bundle, AM_NOTEMPTY));
    for (;;) {
        int32_t n;
        from = -1;
        TRY(AM_Request0(endpoint, 0, MORE));
        while (from < 0) {
            TRY(AM_WaitSema(bundle));
            TRY(AM_Poll(bundle));
        }
        if (from >= limit) break;
        for (n = from; n < from + CHUNK && n < limit; n++) mine.primes += is_prime(n);
        mine.ranges++;
    }
    TRY(AM_RequestXfer1(endpoint, 0, (uintptr_t)worker * sizeof mine, RESULT, &mine, sizeof mine, worker));
    TRY(AM_Terminate()); /* what has been sent arrives */
    return 0;
}

int main(int count, char **arguments) {
    const int workers = count > 1 ? atoi(arguments[1]) : 3;
    int ends[WORKERS_MAX], i, failed = 0;
    int64_t primes = 0;
    eb_t bundle;
    ep_t endpoint;
    en_t name;
    Result *segment;
    void *memory;
    if (count > 2) limit = atoi(arguments[2]);
    if (workers < 1 || workers > WORKERS_MAX || limit < 1) {
        fprintf(stderr, "usage: work_queue [workers [limit]]\n");
        return 2;
    }
    fflush(stdout);
    /* Workers first: a NIC is not shared with children. Each learns the first process's name by a pipe. */
    for (i = 0; i < workers; i++) {
        int pipe_ends[2];
        if (pipe(pipe_ends) != 0) return 1;
        if (fork() == 0) {
            if (read(pipe_ends[0], &name, sizeof name) != (ssize_t)sizeof name) _exit(1);
            _exit(work(i, name));
        }
        close(pipe_ends[0]);
        ends[i] = pipe_ends[1];
    }
    endpoint = open_endpoint(&bundle, &name);
    TRY(AM_SetHandler(endpoint, MORE, more));
    TRY(AM_SetHandler(endpoint, RESULT, result));
    TRY(AMX_Alloc((size_t)workers * sizeof *segment, &memory));
    segment = memory;
    TRY(AM_SetSeg(endpoint, segment, (uintptr_t)workers * sizeof *segment));
    TRY(AM_SetEventMask(bundle, AM_NOTEMPTY));
    for (i = 0; i < workers; i++) {
        if (write(ends[i], &name, sizeof name) != (ssize_t)sizeof name) return 1;
    }
    while (results < workers) {
        TRY(AM_WaitSema(bundle));
        TRY(AM_Poll(bundle));
    }
    for (i = 0; i < workers; i++) {
        int status;
        primes += segment[i].primes;
        if (wait(&status) < 0 || status != 0) failed = 1;
    }
    printf("%lld primes below %d\n", (long long)primes, limit);
    TRY(AM_Terminate());
    return failed;
}
