/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The counters and printing behind check.h. */
#include "check.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

enum { GROUP_SECONDS_MAX = 60 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static long passed, failed;
static const char *group = "";
static int group_shown;

static const char *return_name(int code) {
    static const char *const names[] = {
        "VIP_SUCCESS",           "VIP_NOT_DONE",       "VIP_INVALID_PARAMETER", "VIP_ERROR_RESOURCE",
        "VIP_TIMEOUT",           "VIP_REJECT",         "VIP_INVALID_RELIABILITY_LEVEL", "VIP_INVALID_MTU",
        "VIP_INVALID_QOS",       "VIP_INVALID_PTAG",   "VIP_INVALID_RDMAREAD",  "VIP_DESCRIPTOR_ERROR",
        "VIP_INVALID_STATE",     "VIP_ERROR_NAMESERVICE", "VIP_NO_MATCH",       "VIP_NOT_REACHABLE",
        "VIP_ERROR_NOT_SUPPORTED",
    };
    return code >= 0 && code < (int)(sizeof names / sizeof names[0]) ? names[code] : "not a VIP_RETURN";
}

/* Counts; on failure prints the group's name once. Called with the lock held. */
static void count(int ok) {
    if (ok) {
        passed++;
        return;
    }
    failed++;
    if (!group_shown && group[0] != '\0') {
        printf("in: %s\n", group);
        group_shown = 1;
    }
}

int check_report(int ok, const char *what, const char *file, int line) {
    pthread_mutex_lock(&lock);
    count(ok);
    if (!ok) printf("%s:%d: failed: %s\n", file, line, what);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    return ok;
}

int check_same(long long actual, long long expected, const char *what, const char *file, int line) {
    int ok = actual == expected;
    pthread_mutex_lock(&lock);
    count(ok);
    if (!ok) printf("%s:%d: failed: %s is %lld (0x%llx), expected %lld (0x%llx)\n", file, line, what, actual,
                    (unsigned long long)actual, expected, (unsigned long long)expected);
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    return ok;
}

int check_return(int actual, int expected, const char *what, const char *file, int line) {
    int ok = actual == expected;
    pthread_mutex_lock(&lock);
    count(ok);
    if (!ok) printf("%s:%d: failed: %s gave %s (%d), expected %s\n", file, line, what, return_name(actual), actual,
                    return_name(expected));
    fflush(stdout);
    pthread_mutex_unlock(&lock);
    return ok;
}

void check_group(const char *name) {
    pthread_mutex_lock(&lock);
    group = name;
    group_shown = 0;
    if (getenv("CHECK_VERBOSE") != NULL) {
        printf("in: %s\n", name);
        fflush(stdout);
        group_shown = 1;
    }
    pthread_mutex_unlock(&lock);
    /* A hang must not look like a long run: SIGALRM ends the program. */
    alarm(GROUP_SECONDS_MAX);
}

int check_end(void) {
    alarm(0);
    printf("%ld passed, %ld failed\n", passed, failed);
    fflush(stdout);
    return failed == 0 && passed > 0 ? 0 : 1;
}
