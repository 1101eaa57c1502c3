/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "pair.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void need(int code, const char *what) {
    if (code == AM_OK) return;
    printf("%s: %d\n", what, code);
    exit(2);
}

Pair pair_fork(void) {
    Pair pair;
    int ends[2], end;
    const int id = (int)getpid();
    fflush(stdout);
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) exit(2);
    pair.child = fork();
    end = ends[pair.child == 0];
    close(ends[pair.child != 0]);
    /* Without shared memory two processes need addresses of their own. */
    if (getenv("BELLWIRE_SHM") != NULL) {
        char address[32];
        snprintf(address, sizeof address, "127.%d.%d.%d", (id >> 8 & 0x7f) | 0x80, id & 0xff, pair.child == 0 ? 1 : 2);
        setenv("BELLWIRE_ADDRESS", address, 1);
    }
    need(AM_Init(), "AM_Init");
    need(AM_AllocateBundle(AM_SEQ, &pair.bundle), "AM_AllocateBundle");
    need(AM_AllocateEndpoint(pair.bundle, &pair.endpoint, &pair.own), "AM_AllocateEndpoint");
    need(AM_SetTag(pair.endpoint, TAG), "AM_SetTag");
    if (write(end, &pair.own, sizeof pair.own) != (ssize_t)sizeof pair.own || read(end, &pair.other, sizeof pair.other) != (ssize_t)sizeof pair.other) exit(2);
    need(AM_Map(pair.endpoint, 0, pair.other, TAG), "AM_Map");
    close(end);
    return pair;
}

int pair_until(Pair *pair, volatile int *counter, int count) {
    const time_t end = time(NULL) + PATIENCE_SECONDS;
    while (*counter < count) {
        if (AM_Poll(pair->bundle) != AM_OK || time(NULL) > end) return 0;
    }
    return 1;
}

int pair_ended(Pair *pair) {
    int status = 0;
    return waitpid(pair->child, &status, 0) == pair->child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
