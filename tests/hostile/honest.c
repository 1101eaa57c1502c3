/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Honest peers of a victim: each message comes back, checked at both sides. The peer's own process is the same program, started anew. */
#include "honest.h"

#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAUSE_MS_MAX = 2000, NEWCOMER_MESSAGES = 30, LATE_FACTOR = 10 };

VIP_NIC_HANDLE nic;
volatile int stop;

void name_of(char *name, const char *what) { sprintf(name, "%s-%s", what, getenv("VICTIM")); }

void address_of(Address *at, const char *what) {
    char name[64];
    name_of(name, what);
    address_set(at, nic, name, strlen(name));
}

static void honest_end(End *end) {
    VIPX_VI_ATTRIBUTES extension;
    EndOptions options = {0};
    memset(&extension, 0, sizeof extension);
    extension.Size = sizeof extension;
    extension.Flags = VIPX_VI_RNR_WAIT;
    options.extension = &extension;
    end_create(end, nic, &options);
}

static VIP_UINT32 honest_size(unsigned i) { return 1 + (i * 2654435761u >> 8) % (i % 8 == 0 ? 100000 : 300); }

void *serve_honest(void *what) {
    VIP_VI_ATTRIBUTES attributes;
    while (!stop) {
        End end;
        Address at, from;
        VIP_CONN_HANDLE connection;
        VIP_DESCRIPTOR *d;
        VIP_RETURN result;
        unsigned i = 0;
        address_of(&at, what);
        address_room(&from);
        if (VipConnectWait(nic, &at.net, 100, &from.net, &attributes, &connection) != VIP_SUCCESS) continue;
        honest_end(&end);
        post_recv(&end, work_recv(&end, 1, 131072, 131072));
        if (VipConnectAccept(connection, end.vi) == VIP_SUCCESS) {
            while ((result = VipRecvWait(end.vi, WAIT_MS, &d)) == VIP_SUCCESS) {
                VIP_UINT32 bytes = d->CS.Length;
                CHECK(bytes == honest_size(i) && pattern_ok(end.data + 131072, bytes, i));
                post_recv(&end, work_recv(&end, 1, 131072, 131072));
                pattern_fill(end.data, bytes, i + 1);
                post_send(&end, work_send(&end, 0, 0, bytes));
                if (VipSendWait(end.vi, WAIT_MS, &d) != VIP_SUCCESS) break;
                i++;
            }
            CHECK(result == VIP_DESCRIPTOR_ERROR); /* it has gone; not: it was not heard of */
        }
        end_destroy(&end);
    }
    return NULL;
}

/* The machine's own pauses: how late this thread ran. A busy machine delays each wake-up so. */
static double late_ms;
static volatile int watched_enough;

static void *watch_machine(void *unused) {
    (void)unused;
    while (!watched_enough) {
        double before = now_ms(), late;
        sleep_ms(1);
        late = now_ms() - before - 1;
        if (late > late_ms) late_ms = late;
    }
    return NULL;
}

int honest(const char *what, double seconds) {
    pthread_t watch;
    End end;
    Address at, local;
    VIP_VI_ATTRIBUTES attributes;
    VIP_DESCRIPTOR *d;
    unsigned i;
    double begin = now_ms(), last, pause = 0, connected;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    nic = nic_open();
    honest_end(&end);
    address_of(&at, what);
    address_unique(&local, nic);
    if (VipConnectRequest(end.vi, &local.net, &at.net, WAIT_MS, &attributes) != VIP_SUCCESS) return 3;
    connected = last = now_ms();
    pthread_create(&watch, NULL, watch_machine, NULL);
    for (i = 0; seconds > 0 ? now_ms() - begin < seconds * 1000 : i < NEWCOMER_MESSAGES; i++) {
        VIP_UINT32 bytes = honest_size(i);
        post_recv(&end, work_recv(&end, 1, 131072, 131072));
        pattern_fill(end.data, bytes, i);
        post_send(&end, work_send(&end, 0, 0, bytes));
        if (VipRecvWait(end.vi, WAIT_MS, &d) != VIP_SUCCESS) return 4;
        if (d->CS.Length != bytes || !pattern_ok(end.data + 131072, bytes, i + 1)) return 5;
        if (VipSendWait(end.vi, WAIT_MS, &d) != VIP_SUCCESS) return 6;
        if (now_ms() - last > pause) pause = now_ms() - last;
        last = now_ms();
    }
    watched_enough = 1;
    pthread_join(watch, NULL);
    if (seconds > 0) {
        printf("honest peer: %u messages and answers, longest pause %.1f ms (of the machine %.1f ms), connected in %.1f ms\n", i, pause, late_ms, connected - begin);
        fflush(stdout);
    }
    end_destroy(&end);
    if (VipCloseNic(nic) != VIP_SUCCESS) return 7;
    return pause > PAUSE_MS_MAX + LATE_FACTOR * late_ms ? 8 : 0;
}

pid_t start(char *const *words) {
    pid_t pid;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        execv(words[0], words);
        _exit(127);
    }
    return pid;
}

pid_t start_honest(const char *what, double seconds) {
    char text[32];
    char *words[] = {(char *)(uintptr_t)"/proc/self/exe", (char *)(uintptr_t)what, text, NULL};
    snprintf(text, sizeof text, "%.1f", seconds);
    return start(words);
}

long resident_kb(void) {
    char line[256];
    long kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f != NULL && fgets(line, sizeof line, f) != NULL) sscanf(line, "VmRSS: %ld", &kb);
    if (f != NULL) fclose(f);
    return kb;
}

int descriptors_open(void) {
    DIR *d = opendir("/proc/self/fd");
    int count = 0;
    while (d != NULL && readdir(d) != NULL) count++;
    if (d != NULL) closedir(d);
    return count;
}
