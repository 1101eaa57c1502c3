/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Instructions of the four calls of the data path, counted by single steps: a gate that does not depend on the machine's speed or load. A child runs messages of
 * 8 bytes (and 1 KiB) between two VIs of one NIC and stops before each call to be counted; the parent steps it to the end of the call. Of many tries the
 * smallest counts: the helper thread may take the token away in between, and then a call goes the long way.
 */
#include "ends.h"

#if defined(__x86_64__) && defined(__linux__)

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS = 4, SIZES = 2, TRIES = 12, WARM = 20000, ROUNDS = 4, STEPS_MAX = 100000 };

static const char *const names[CALLS] = {"VipPostRecv", "VipPostSend", "VipSendDone", "VipRecvDone"};
/* What the calls may cost, some compilers' whims included. 8 bytes: 172, 268, 171, 297 with rustc 1.95. */
static const long most[SIZES][CALLS] = {{200, 300, 205, 345}, {200, 620, 205, 650}};

#define MARK __asm__ volatile("int3" ::: "memory")

/* The child: for each size, try and call, WARM messages and one whose call stands between two marks. */
static void child(void) {
    End a, b;
    EndOptions options;
    VIP_NIC_HANDLE nic = nic_open();
    VIP_DESCRIPTOR *out = NULL, *in = NULL, *done = NULL;
    int size, try_, call, i;
    memset(&options, 0, sizeof options);
    ends_pair(&a, nic, &b, nic, &options);
    for (size = 0; size < SIZES; size++) {
        const VIP_UINT32 bytes = size ? 1024 : 8;
        for (try_ = 0; try_ < TRIES; try_++) {
            for (call = 0; call < CALLS; call++) {
                for (i = 0; i <= WARM; i++) {
                    const int counted = i == WARM ? call : -1;
                    out = work_send(&a, 0, 0, bytes);
                    in = work_recv(&b, 1, 4096, bytes);
                    if (counted == 0) MARK;
                    (void)VipPostRecv(b.vi, in, b.memory);
                    if (counted == 0) MARK;
                    if (counted == 1) MARK;
                    (void)VipPostSend(a.vi, out, a.memory);
                    if (counted == 1) MARK;
                    if (counted == 2) MARK;
                    (void)VipSendDone(a.vi, &done);
                    if (counted == 2) MARK;
                    if (counted == 3) MARK;
                    (void)VipRecvDone(b.vi, &done);
                    if (counted == 3) MARK;
                    while (done != in && VipRecvDone(b.vi, &done) == VIP_NOT_DONE) continue;
                }
            }
        }
    }
    _exit(0);
}

/* Steps from the mark just hit to the next one; -1 if the child ended. */
static long count(pid_t pid) {
    long steps = 0;
    int status;
    struct user_regs_struct registers;
    while (steps < STEPS_MAX) {
        if (ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL) != 0 || waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) return -1;
        if (ptrace(PTRACE_GETREGS, pid, NULL, &registers) != 0) return -1;
        errno = 0;
        if ((ptrace(PTRACE_PEEKTEXT, pid, (void *)registers.rip, NULL) & 0xff) == 0xcc && errno == 0) {
            registers.rip++;
            return ptrace(PTRACE_SETREGS, pid, NULL, &registers) == 0 ? steps : -1;
        }
        steps++;
    }
    return steps;
}

static long best[SIZES][CALLS];

static int within(void) {
    int size, call;
    for (size = 0; size < SIZES; size++)
        for (call = 0; call < CALLS; call++)
            if (best[size][call] > most[size][call]) return 0;
    return 1;
}

/* Runs the child and notes the best of its counts. How it ended. */
static int measure(int *hits) {
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
        raise(SIGSTOP);
        child();
    }
    for (;;) {
        int forward = 0;
        if (waitpid(pid, &status, 0) != pid || !WIFSTOPPED(status)) break;
        if (WSTOPSIG(status) == SIGTRAP) {
            const long steps = count(pid);
            long *const cell = &best[*hits / (TRIES * CALLS) % SIZES][*hits % CALLS];
            if (steps >= 0 && steps < *cell) *cell = steps;
            ++*hits;
        } else if (WSTOPSIG(status) != SIGSTOP) {
            forward = WSTOPSIG(status);
        }
        if (ptrace(PTRACE_CONT, pid, NULL, (void *)(long)forward) != 0) break;
    }
    return status;
}

int main(void) {
    int status = 0, round, size, call;
    check_group("instructions of the data path");
    for (size = 0; size < SIZES; size++)
        for (call = 0; call < CALLS; call++) best[size][call] = STEPS_MAX;
    /* While the child stands at a mark its helper thread believes that nobody polls, and on a busy machine it may come in between each time. */
    for (round = 0; round < ROUNDS && !within(); round++) {
        int hits = 0;
        status = measure(&hits);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77) {
            printf("SKIPPED instructions: ptrace is not permitted here\n");
            return 0;
        }
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK_SAME(hits, SIZES * TRIES * CALLS);
    }
    for (size = 0; size < SIZES; size++) {
        for (call = 0; call < CALLS; call++) {
            printf("%s, %s: %ld instructions (at most %ld)\n", names[call], size ? "1 KiB" : "8 bytes", best[size][call], most[size][call]);
            CHECK(best[size][call] <= most[size][call]);
        }
    }
    return check_end();
}

#else

int main(void) {
    printf("SKIPPED instructions: counted on x86-64 Linux only\n");
    return 0;
}

#endif
