/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Put before the C library (LD_PRELOAD) of a program that forks once: keeps the two processes on processors of their own, counts sched_yield, and says at exit how
 * often it was called. For scripts/quiet.sh: only a peer that has a processor is awake.
 */
#include <dlfcn.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_long count;

int sched_yield(void) {
    atomic_fetch_add_explicit(&count, 1, memory_order_relaxed);
    return (int)syscall(SYS_sched_yield);
}

static void stay_on(int processor) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) perror("sched_setaffinity");
}

pid_t fork(void) {
    pid_t (*real)(void);
    pid_t pid;
    *(void **)&real = dlsym(RTLD_NEXT, "fork");
    pid = real();
    stay_on(pid == 0 ? 1 : 0);
    return pid;
}

__attribute__((destructor)) static void say(void) {
    fprintf(stderr, "yields %ld\n", (long)count);
}
