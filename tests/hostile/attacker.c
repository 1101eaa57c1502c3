/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A peer that means harm. It includes nothing of the library and links none of it; it has what any peer of the same user is given, and puts random and crafted
 * things wherever it may write.
 *
 *   attacker HOST(hex) DISCRIMINATOR SECONDS SEED guarded|mapped
 *
 * Exits with 9 if it is given memory that guarded mode never gives, else with 0.
 */
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "protocol.h"

static uint32_t host;
static const char *victim;
static int guarded;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- before there is a link */

static int any_descriptor(void) {
    int p[2];
    switch (rnd(12)) {
    case 0: return open("/dev/null", O_RDWR);
    case 1: return open("/", O_RDONLY | O_DIRECTORY);
    case 2: return eventfd(0, 0);
    case 3: return (int)syscall(SYS_pidfd_open, getppid(), 0);
    case 4: return sealed_memory(LINK_BYTES, NULL, 0);
    case 5: return sealed_memory(4096, NULL, F_SEAL_SHRINK | F_SEAL_GROW);
    case 6: return sealed_memory(LINK_BYTES, NULL, F_SEAL_SHRINK);
    case 7: return sealed_memory((size_t)1 << 41, NULL, F_SEAL_SHRINK | F_SEAL_GROW);
    case 8: return (int)syscall(SYS_pidfd_open, getpid(), 0);
    case 9: return socket(AF_UNIX, SOCK_STREAM, 0);
    case 10: return open("/proc/self/exe", O_RDONLY);
    default:
        if (pipe(p) != 0) return -1;
        close(p[0]);
        return p[1];
    }
}

static void garbage_on_the_socket(void) {
    int s = knock_at(host, victim), i, fds[64], count, k;
    uint8_t bytes[256];
    if (s < 0) return;
    for (i = (int)rnd(6); i >= 0; i--) {
        size_t length = rnd(3) ? MESSAGE_BYTES : 1 + (size_t)rnd(200);
        for (k = 0; k < (int)sizeof bytes; k++) bytes[k] = (uint8_t)rnd(256);
        if (rnd(4) != 0) message(bytes, (int)rnd(9), (int)rnd(4), (uint32_t)rnd(5), bytes + 64);
        count = (int)rnd(3) ? (int)rnd(5) : (int)rnd(40);
        for (k = 0; k < count; k++) fds[k] = any_descriptor();
        for (k = 0; k < count && fds[k] >= 0; k++) continue;
        tell(s, bytes, length, fds, k);
        for (k = 0; k < count; k++) if (fds[k] >= 0) close(fds[k]);
    }
    if (rnd(2)) usleep(500);
    close(s);
}

/* An offer in which one thing is a lie. Memory without seals is cut off afterwards. */
static void lying_offer(void) {
    uint8_t m[64], id[16] = {0};
    int s = knock_at(host, victim), fds[8], got, own[5], pipes[2], i, lie = (int)rnd(5);
    void *base = NULL;
    if (s < 0) return;
    for (i = 0; i < 16; i++) id[i] = (uint8_t)rnd(256);
    message(m, KNOCK, 0, 0, id);
    tell(s, m, MESSAGE_BYTES, NULL, 0);
    if (hear(s, m, sizeof m, fds, &got, 300) != MESSAGE_BYTES) { close(s); return; }
    if (rnd(4) == 0) memcpy(id, m + 8, 16); /* "I am you" */
    own[0] = sealed_memory(LINK_BYTES, &base, lie == 0 ? (int)(rnd(2) ? 0 : F_SEAL_SHRINK) : F_SEAL_SHRINK | F_SEAL_GROW);
    own[1] = sealed_memory(lie == 3 ? 4096 : PAYLOAD_BYTES, NULL, lie == 4 ? 0 : F_SEAL_SHRINK | F_SEAL_GROW);
    own[2] = sealed_memory(CATALOGUE_BYTES, NULL, lie == 1 ? 0 : F_SEAL_SHRINK | F_SEAL_GROW);
    if (pipe2(pipes, O_NONBLOCK) != 0) { close(s); return; }
    own[3] = pipes[1];
    own[4] = (int)syscall(SYS_pidfd_open, rnd(2) ? getpid() : getppid(), 0);
    if (lie == 2) { i = (int)rnd(5); close(own[i]); own[i] = any_descriptor(); }
    message(m, OFFER, (int)rnd(4), 0, id);
    tell(s, m, MESSAGE_BYTES, own, own[0] >= 0 && own[1] >= 0 && own[2] >= 0 && own[3] >= 0 && own[4] >= 0 ? 5 - (int)(rnd(5) == 0) : 0);
    for (i = 0; i < 50; i++) { /* while it looks */
        if (ftruncate(own[0], i % 2 ? LINK_BYTES : 0) != 0 || ftruncate(own[1], i % 2 ? PAYLOAD_BYTES : 0) != 0 || ftruncate(own[2], i % 2 ? CATALOGUE_BYTES : 0) != 0) usleep(20);
    }
    if (base != NULL) munmap(base, LINK_BYTES);
    for (i = 0; i < 5; i++) if (own[i] >= 0) close(own[i]);
    close(pipes[0]), close(s);
}

static void many_sockets(void) {
    static int s[4096];
    int count = 0, wanted = 200 + (int)rnd(1200), i;
    uint8_t m[MESSAGE_BYTES];
    double until = now() + 0.3;
    while (count < wanted && now() < until) {
        s[count] = knock_at(host, victim);
        if (s[count] < 0) { usleep(200); continue; }
        message(m, KNOCK, 0, (uint32_t)0, m);
        if (rnd(2)) tell(s[count], m, MESSAGE_BYTES, NULL, 0);
        count++;
    }
    for (i = 0; i < count; i++) close(s[i]);
}

static void many_links(void) {
    static Link l[256];
    int count = 0, i;
    double until = now() + 0.4;
    while (count < 256 && now() < until) count += link_up(&l[count], host, victim);
    for (i = 0; i < count; i++) link_down(&l[i]);
}

/* ---- with a link */

/* An address in or near something that the victim has registered; its handle and tag. */
static void any_target(Link *l, uint64_t *address, uint32_t *handle, uint32_t *length) {
    volatile Entry *e = &l->catalogue[rnd(8)];
    static const int64_t near[] = {-4096, -64, -8, -1, 0, 1, 7, 64, 4095, 4096, 65536};
    uint64_t at = e->address, bytes = e->length;
    int64_t off = near[rnd(sizeof near / sizeof near[0])];
    *handle = (uint32_t)e->tag;
    if (rnd(8) == 0) *handle ^= (uint32_t)1 << rnd(32);
    *address = rnd(2) ? at + (uint64_t)off : at + bytes - (uint64_t)(rnd(2) ? off : (int64_t)rnd(300));
    *length = (uint32_t)(rnd(4) ? rnd(600) : rnd(16385));
    if (rnd(16) == 0) *address = rnd(0);
    if (rnd(16) == 0) *length = (uint32_t)rnd(0);
}

static void crafted_line(Link *l, uint64_t *w) {
    int op = rnd(8) ? 1 + (int)rnd(OP_COUNT - 1) : (int)rnd(32), i;
    uint64_t address;
    uint32_t handle, length, total, offset;
    for (i = 0; i < 8; i++) w[i] = rnd(3) ? rnd(100) : rnd(0);
    any_target(l, &address, &handle, &length);
    total = rnd(3) ? length : (uint32_t)rnd(300000);
    offset = rnd(3) ? 0 : (uint32_t)rnd(rnd(2) ? 70000 : 0);
    w[0] = (uint64_t)op << 1 | (rnd(4) ? 1 << 7 : 0) | (rnd(4) ? 0 : 1 << 6) | (rnd(3) ? (uint64_t)0xff << 8 : rnd(256) << 8) | rnd(rnd(2) ? 4 : 65536) << 16;
    if (op < OP_CONNECT_REQUEST || rnd(8) == 0) w[0] |= (uint64_t)(rnd(12) ? l->vi : (uint32_t)rnd(0)) << 32;
    if (rnd(8) != 0) {
        w[1] = offset | (uint64_t)total << 32;
        w[2] = (w[2] & 0xffffffffu) | (uint64_t)(rnd(6) ? length % 16385 : (uint32_t)rnd(0)) << 32;
        w[3] = address;
        w[4] = handle | rnd(rnd(2) ? 16 : 0) << 32;
        w[7] = rnd(10) ? rnd(PAYLOAD_BYTES / 2) : rnd(0);
    }
}

/* A line that an honest peer might send; what it leads to may still be forbidden. */
static void plausible_line(Link *l, uint64_t *w) {
    uint64_t address;
    uint32_t handle, length, inline_bytes = (uint32_t)rnd(57);
    memset(w, 0, 64);
    any_target(l, &address, &handle, &length);
    length %= 4096;
    w[0] = 1 << 7 | (uint64_t)l->vi << 32 | (uint64_t)(l->sequence & 0xffff) << 16;
    w[1] = (uint64_t)length << 32, w[2] = (uint64_t)length << 32, w[3] = address, w[4] = handle | (uint64_t)1 << 32;
    w[7] = rnd(PAYLOAD_BYTES / 2);
    if (rnd(8) != 0) { /* nothing forbidden: a region that may be written, if this is one */
        volatile Entry *e = &l->catalogue[rnd(8)];
        length = length < e->length ? length : 0;
        w[1] = (uint64_t)length << 32, w[2] = (uint64_t)length << 32, w[3] = e->address + rnd(e->length - length + 1), w[4] = (uint32_t)e->tag | (uint64_t)1 << 32;
    }
    switch (rnd(32)) {
    case 0: w[0] |= (uint64_t)(rnd(2) ? OP_ACK : OP_NOT_READY) << 1; w[1] = rnd(8); break;
    case 1: w[0] |= OP_READY << 1; break;
    case 2: w[0] |= OP_READ_REQUEST << 1; w[2] = 0; break;
    case 3: w[0] |= OP_WRITE << 1 | (uint64_t)0xff << 8; l->sequence++; break;
    case 4: case 5: case 6: w[0] |= OP_SEND << 1 | (uint64_t)0xff << 8; l->sequence++; break;
    default: w[0] |= OP_SEND << 1 | (uint64_t)inline_bytes << 8; l->sequence++; break;
    }
}

/* Writes that just miss what may be written. Where errors do not break the connection, many of them. */
static void edge_writes(Link *l) {
    int i;
    for (i = 0; i < 300; i++) {
        volatile Entry *e = &l->catalogue[rnd(16)];
        uint32_t length = (uint32_t)rnd(200), over = 1 + (uint32_t)rnd(64);
        uint64_t w[8] = {0}, address = rnd(2) ? e->address - over : e->address + e->length - length + over;
        if (e->tag == 0) continue;
        w[0] = OP_WRITE << 1 | 1 << 7 | (uint64_t)0xff << 8 | (uint64_t)l->vi << 32 | (uint64_t)(l->sequence & 0xffff) << 16;
        w[1] = (uint64_t)length << 32, w[2] = (uint64_t)length << 32, w[3] = address, w[4] = (uint32_t)e->tag | (uint64_t)1 << 32;
        push(l, w);
        if (i % 16 == 15) usleep(200);
    }
}

static void ring(Link *l) {
    uint64_t one = 1;
    if (write(l->bell, &one, 1 + (rnd(4) == 0) * 7) < 0) { /* full: it rings */ }
}

static void crafted_frames(Link *l) {
    int i, count = 1 + (int)rnd(rnd(4) ? 20 : 3000), wild = (int)rnd(5); /* 0, 1: hardly anything is wrong */
    double until = now() + 0.1;
    uint64_t w[8];
    for (i = 0; i < (int)rnd(2000); i++) l->out_payload[rnd(PAYLOAD_BYTES)] = (uint8_t)rnd(256);
    for (i = 0; i < count && now() < until; i++) {
        if (wild == 4 || (wild > 1 && rnd(20) == 0)) crafted_line(l, w);
        else plausible_line(l, w);
        push(l, w);
        if (i % 64 == 0) *(volatile uint32_t *)(l->out + HEAD_AT) = *(volatile uint32_t *)(l->out + HEAD_AT) + (uint32_t)rnd(2);
        if (wild != 4 && i % 4 == 3) ring(l), usleep(300);
        if (i % 256 == 255) ring(l), usleep(100);
    }
    ring(l);
}

/* Scribbles while the victim reads. */
static void scribble(Link *l) {
    double until = now() + (double)rnd(30) / 1000;
    *(volatile uint32_t *)(l->out + ARMED_AT) = 1;
    while (now() < until) {
        int i;
        for (i = 0; i < 200; i++) {
            static const size_t words[] = {HEAD_AT, ARMED_AT, EPOCH_AT};
            size_t at = rnd(4) ? LINES_AT + rnd(LINES * 64 / 8) * 8 : rnd(2) ? words[rnd(3)] : rnd(LINK_BYTES / 8) * 8;
            *(volatile uint64_t *)(l->out + at) = rnd(3) ? rnd(1 << 16) : rnd(0);
        }
        ring(l);
    }
}

/* Regions and receives that do not exist, or whose memory is not what it seems. */
static void false_memory(Link *l) {
    int i, round, fds[8], got;
    uint64_t *adverts = (uint64_t *)(l->out + ADVERTS_AT);
    for (i = 0; i < CATALOGUE_ENTRIES; i++) {
        uint64_t *e = l->own_catalogue + i * 8;
        e[1] = rnd(4) | (uint64_t)3 << 32, e[2] = rnd(2) ? 0x10000 : rnd(0), e[3] = rnd(2) ? 1 << 20 : rnd(0);
        e[4] = 1 + rnd(rnd(2) ? 8 : 0x100000000), e[5] = rnd(2) ? 0 : rnd(0);
        e[0] = (uint64_t)i | (uint64_t)(1 + rnd(4)) << 20 | rnd(3) << 32;
    }
    for (round = 0; round < 40; round++) {
        uint8_t m[64];
        for (i = 0; i < ADVERTS; i++) {
            /* Whatever the victim sends next: a descriptor for it is "posted". */
            uint64_t message_number = (uint64_t)round * 8 + rnd(16), connection = 1 + rnd(1000);
            adverts[i * 4] = connection << 32 | message_number;
            adverts[i * 4 + 1] = (1 + rnd(8)) | (uint64_t)(rnd(2) ? 1 << 20 : (uint32_t)rnd(0)) << 32;
            adverts[i * 4 + 2] = rnd(2) ? rnd(4096) : rnd(0);
        }
        while (hear(l->socket, m, sizeof m, fds, &got, 1) == MESSAGE_BYTES) {
            uint32_t segment;
            int fd = rnd(3) ? sealed_memory(4096 << rnd(10), NULL, rnd(3) ? F_SEAL_SHRINK | F_SEAL_GROW : 0) : any_descriptor();
            memcpy(&segment, m + 4, 4);
            for (i = 0; i < got; i++) close(fds[i]);
            if (m[0] == GIVE && guarded && (m[1] & 1) != 0) _exit(9);
            if (m[0] != WANT) { close(fd); continue; }
            message(m, GIVE, 1 | (int)rnd(2) << 1, rnd(8) ? segment : (uint32_t)rnd(0), NULL);
            tell(l->socket, m, MESSAGE_BYTES, &fd, fd >= 0);
            if (fd >= 0 && ftruncate(fd, 0) == 0 && rnd(2)) { /* it was not sealed: gone under its hands */ }
            if (fd >= 0) close(fd);
        }
        ring(l);
    }
}

static void talk(Link *l) {
    int i, fds[8], got, k;
    uint8_t m[64];
    for (i = 0; i < 3000; i++) {
        message(m, rnd(20) ? WANT : (int)rnd(9), (int)rnd(2), (uint32_t)rnd(rnd(2) ? 8 : 0), NULL);
        tell(l->socket, m, MESSAGE_BYTES, NULL, 0);
        if (i % 100 == 0 && hear(l->socket, m, sizeof m, fds, &got, 0) > 0) {
            if (m[0] == GIVE && guarded && (m[1] & 1) != 0) _exit(9);
            for (k = 0; k < got; k++) close(fds[k]);
        }
    }
}

static void flood_requests(Link *l) {
    int i;
    /* Never reading: every answer is owed. */
    for (i = 0; i < 20000; i++) {
        connection_request(l, host, rnd(4) ? "nobody" : victim, 2, 1 + (uint32_t)rnd(0xffff));
        if (i % 500 == 499) ring(l), usleep(300);
    }
}

static void spoil_bells(Link *l) {
    char bytes[4096];
    int i;
    memset(bytes, 0, sizeof bytes);
    fcntl(l->bell, F_SETFL, O_NONBLOCK);
    fcntl(l->own_bell, F_SETFL, 0);
    *(volatile uint32_t *)(l->out + ARMED_AT) = 1;
    for (i = 0; i < 300; i++) {
        char path[64];
        int again;
        while (write(l->bell, bytes, sizeof bytes) > 0) continue;
        if (i % 50 == 0) {
            snprintf(path, sizeof path, "/proc/self/fd/%d", l->bell);
            again = open(path, O_RDWR | O_NONBLOCK);
            if (again >= 0 && read(again, bytes, sizeof bytes) >= 0) fcntl(again, F_SETPIPE_SZ, 65536);
            if (again >= 0) close(again);
        }
        fcntl(l->bell, F_SETFL, i % 2 ? O_NONBLOCK : O_NONBLOCK);
        usleep(50);
    }
}

/* What the victim tells us lies in memory that we may write, unless it is guarded: it is scribbled on and punched away under its hands. */
static void spoil_payload(Link *l) {
    double until = now() + (double)rnd(30) / 1000;
    if (guarded) {
        /* Neither by the mapping that link_up tried, nor by the file. */
        if (l->in_payload_writable || fallocate(l->in_payload_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, PAYLOAD_BYTES) == 0) _exit(9);
        return;
    }
    if (ftruncate(l->in_payload_fd, 0) == 0 || fcntl(l->in_payload_fd, F_ADD_SEALS, F_SEAL_WRITE) == 0) _exit(9);
    if (!l->in_payload_writable) return;
    while (now() < until) {
        int i;
        connection_request(l, host, rnd(2) ? "nobody" : victim, 2, 1 + (uint32_t)rnd(0xffff)); /* its answers have payload */
        ring(l);
        for (i = 0; i < 500; i++) l->in_payload[rnd(PAYLOAD_BYTES)] = (uint8_t)rnd(256);
        if (fallocate(l->in_payload_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)(rnd(64) * 4096), (off_t)(4096 * (1 + rnd(64)))) != 0) continue;
    }
}

static void attack_with_link(void) {
    Link l;
    int i;
    if (!link_up(&l, host, victim)) return;
    if (rnd(5) != 0) {
        int reliability = rnd(3) ? 2 : rnd(3) ? 1 : 4;
        if (connect_vi(&l, host, victim, reliability, 60) && reliability == 1) edge_writes(&l);
    }
    for (i = (int)rnd(8); i >= 0; i--) {
        switch (rnd(20)) {
        case 0: scribble(&l); break;
        case 1: false_memory(&l); break;
        case 2: talk(&l); break;
        case 3: flood_requests(&l); break;
        case 4: spoil_bells(&l); break;
        case 5: case 6: spoil_payload(&l); break;
        default: crafted_frames(&l); break;
        }
    }
    if (rnd(8) == 0) _exit(0);
    link_down(&l);
}

int main(int argc, char **argv) {
    struct rlimit many = {4096, 4096};
    double until;
    if (argc != 6) return 1;
    host = (uint32_t)strtoul(argv[1], NULL, 16);
    victim = argv[2];
    until = now() + atof(argv[3]);
    seed_with(strtoull(argv[4], NULL, 0));
    guarded = strcmp(argv[5], "guarded") == 0;
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &many);
    while (now() < until) {
        switch (rnd(20)) {
        case 0: case 1: garbage_on_the_socket(); break;
        case 2: case 3: lying_offer(); break;
        case 4: many_sockets(); break;
        case 5: many_links(); break;
        default: attack_with_link(); break;
        }
    }
    return 0;
}
