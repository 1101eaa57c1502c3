/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * This program moves a stream of bytes by UDP between two processes in several ways, at the sockets
 * alone: what a protocol above them could gain by each. A run of packets leaves by one call (GSO)
 * and arrives by one (GRO). The receiver tells how far it is in a word of shared memory, so nothing
 * is lost and no packet is spent on that. All ways take turns; a line has the median of their
 * bandwidths, and the median of the ratios to the first way of the same round.
 *
 *   cc -O2 -o udp_ways udp_ways.c
 *   ./udp_ways -h
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/errqueue.h>
#include <linux/io_uring.h>
#include <netinet/udp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#ifndef SO_ZEROCOPY
#define SO_ZEROCOPY 60
#define MSG_ZEROCOPY 0x4000000
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif

enum { MEMORY = 1 << 20, RUN_MAX = 65507, WINDOW = 384 << 10, HEADER = 64, ROUNDS_MAX = 101, DEPTH = 16 };
/* How bytes leave, and how they arrive. */
typedef enum { SEND, COPY_SEND, ZEROCOPY, RING_SEND, RING_ZEROCOPY } Out;
typedef enum { RECEIVE, RECEIVE_COPY, RECEIVE_READ, PEEK, SCATTER, RING_RECEIVE } In;
static const struct {
    const char *name;
    Out out;
    In in;
} ways[] = {
    {"sendmsg; recvmsg (bare)", SEND, RECEIVE},
    {"bare; the receiver reads each byte", SEND, RECEIVE_READ},
    {"copy, sendmsg; recvmsg, copy", COPY_SEND, RECEIVE_COPY},
    {"sendmsg; recvmsg, copy", SEND, RECEIVE_COPY},
    {"copy, sendmsg; recvmsg", COPY_SEND, RECEIVE},
    {"copy, sendmsg; recvmsg that scatters heads and data", COPY_SEND, SCATTER},
    {"copy, sendmsg; peek at a head, then recvmsg", COPY_SEND, PEEK},
    {"sendmsg MSG_ZEROCOPY; recvmsg", ZEROCOPY, RECEIVE},
    {"io_uring sendmsg; recvmsg", RING_SEND, RECEIVE},
    {"io_uring sendmsg_zc; recvmsg", RING_ZEROCOPY, RECEIVE},
    {"sendmsg; io_uring recvmsg, several at once", SEND, RING_RECEIVE},
    {"io_uring on both sides", RING_SEND, RING_RECEIVE},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* Shared by both processes. */
struct shared {
    _Atomic uint64_t received; /* bytes */
    _Atomic uint32_t round;    /* which measurement the receiver is to be in */
    _Atomic uint32_t ready;    /* and is */
    _Atomic uint32_t over;
    _Atomic uint64_t sink;
};
static struct shared *shared;
static int segment = 16336, rounds = 9, millis = 60, fd;
static const char *address = "127.0.0.1", *space[2];
static unsigned char *memory, *staging;

static void die(const char *what) {
    perror(what);
    kill(0, SIGTERM);
    exit(1);
}

static uint64_t now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void enter(const char *name, int processor) {
    cpu_set_t set;
    char path[256];
    CPU_ZERO(&set);
    CPU_SET(processor, &set);
    if (sysconf(_SC_NPROCESSORS_ONLN) > 1) sched_setaffinity(0, sizeof set, &set);
    if (name == NULL) return;
    snprintf(path, sizeof path, "/run/netns/%s", name);
    int space_fd = open(path, O_RDONLY);
    if (space_fd < 0 || setns(space_fd, CLONE_NEWNET) != 0) die(path);
    close(space_fd);
}

/* ---- io_uring, by its system calls */

struct ring {
    int fd;
    _Atomic unsigned *sq_head, *sq_tail, *cq_head, *cq_tail;
    unsigned sq_mask, cq_mask, *array;
    struct io_uring_sqe *entries;
    struct io_uring_cqe *done;
};

static int ring_open(struct ring *r, unsigned entries) {
    struct io_uring_params p = {0};
    p.flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_CQSIZE;
    p.cq_entries = 8 * entries;
    r->fd = (int)syscall(SYS_io_uring_setup, entries, &p);
    if (r->fd < 0) return 0;
    size_t bytes = p.cq_off.cqes + p.cq_entries * sizeof(struct io_uring_cqe), other = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    char *at = mmap(NULL, bytes > other ? bytes : other, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQ_RING);
    r->entries = mmap(NULL, p.sq_entries * sizeof(struct io_uring_sqe), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, r->fd, IORING_OFF_SQES);
    if (at == MAP_FAILED || r->entries == MAP_FAILED) return 0;
    r->sq_head = (_Atomic unsigned *)(void *)(at + p.sq_off.head);
    r->sq_tail = (_Atomic unsigned *)(void *)(at + p.sq_off.tail);
    r->cq_head = (_Atomic unsigned *)(void *)(at + p.cq_off.head);
    r->cq_tail = (_Atomic unsigned *)(void *)(at + p.cq_off.tail);
    r->sq_mask = *(unsigned *)(void *)(at + p.sq_off.ring_mask);
    r->cq_mask = *(unsigned *)(void *)(at + p.cq_off.ring_mask);
    r->array = (unsigned *)(void *)(at + p.sq_off.array);
    r->done = (struct io_uring_cqe *)(void *)(at + p.cq_off.cqes);
    return 1;
}

static void ring_put(struct ring *r, int code, const struct msghdr *message, uint64_t number) {
    unsigned tail = *r->sq_tail, at = tail & r->sq_mask;
    struct io_uring_sqe *e = &r->entries[at];
    memset(e, 0, sizeof *e);
    e->opcode = (uint8_t)code;
    e->fd = fd;
    e->addr = (uint64_t)(uintptr_t)message;
    e->len = 1;
    e->user_data = number;
    r->array[at] = at;
    *r->sq_tail = tail + 1;
}

static void ring_enter(struct ring *r, unsigned count, unsigned wait) {
    while (syscall(SYS_io_uring_enter, r->fd, count, wait, wait ? IORING_ENTER_GETEVENTS : 0, NULL, 0) < 0) {
        if (errno != EINTR) die("io_uring_enter");
    }
}

static int ring_take(struct ring *r, struct io_uring_cqe *to) {
    unsigned head = *r->cq_head;
    if (head == *r->cq_tail) return 0;
    *to = r->done[head & r->cq_mask];
    *r->cq_head = head + 1;
    return 1;
}

/* Ends what is posted: it would take packets from the next way. */
static void ring_cancel(struct ring *r, unsigned posted) {
    struct io_uring_cqe done;
    unsigned ended = 0;
    ring_put(r, IORING_OP_ASYNC_CANCEL, NULL, 0);
    r->entries[(*r->sq_tail - 1) & r->sq_mask].cancel_flags = IORING_ASYNC_CANCEL_ALL | IORING_ASYNC_CANCEL_ANY;
    ring_enter(r, 1, 1);
    for (int looks = 0; ended < posted + 1 && looks < 100000; looks++) {
        while (ring_take(r, &done)) ended++;
        if (ended < posted + 1) ring_enter(r, 0, 0);
    }
}

/* ---- the sender */

/* A run: as many whole packets as a call takes. */
struct run {
    struct msghdr message;
    struct iovec piece;
    union {
        char bytes[CMSG_SPACE(sizeof(uint16_t))];
        struct cmsghdr align;
    } control;
};

static void run_set(struct run *r, unsigned char *from, size_t bytes) {
    uint16_t size = (uint16_t)segment;
    memset(r, 0, sizeof *r);
    r->piece.iov_base = from;
    r->piece.iov_len = bytes;
    r->message.msg_iov = &r->piece;
    r->message.msg_iovlen = 1;
    r->message.msg_control = r->control.bytes;
    r->message.msg_controllen = sizeof r->control.bytes;
    struct cmsghdr *c = CMSG_FIRSTHDR(&r->message);
    c->cmsg_level = SOL_UDP;
    c->cmsg_type = UDP_SEGMENT;
    c->cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(c), &size, sizeof size);
}

static long zerocopy_out;
static void reap_zerocopy(void) {
    char control[128];
    struct msghdr m = {.msg_control = control, .msg_controllen = sizeof control};
    while (zerocopy_out > 0 && recvmsg(fd, &m, MSG_ERRQUEUE | MSG_DONTWAIT) >= 0) {
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        struct sock_extended_err e;
        if (c != NULL) {
            memcpy(&e, CMSG_DATA(c), sizeof e);
            zerocopy_out -= (long)(e.ee_data - e.ee_info) + 1;
        }
        m.msg_controllen = sizeof control;
    }
}

/* As the engine does: a head, and a packet's bytes behind it. */
static unsigned char *copied(const unsigned char *from, size_t bytes, size_t *at) {
    if (*at + bytes > 6 * (size_t)RUN_MAX) *at = 0;
    unsigned char *to = staging + *at;
    for (size_t done = 0; done < bytes; done += (size_t)segment) {
        memset(to + done, 7, HEADER);
        memcpy(to + done + HEADER, from + done, (size_t)segment - HEADER);
    }
    *at += bytes;
    return to;
}

static void send_for(Out out, struct ring *ring) {
    static struct run runs[DEPTH];
    size_t bytes = (size_t)(RUN_MAX / segment) * (size_t)segment, at = 0, staged = 0;
    uint64_t end = now() + (uint64_t)millis * 1000000u, sent = shared->received;
    unsigned in_ring = 0, next = 0;
    struct io_uring_cqe done;
    while (now() < end) {
        int looks = 0;
        while (sent + bytes > shared->received + WINDOW) {
            if (++looks % 1000 == 0) sched_yield();
            if (now() > end + 1000000000u) return;
        }
        unsigned char *from = memory + at;
        at = at + 2 * bytes > MEMORY ? 0 : at + bytes;
        if (out == COPY_SEND) from = copied(from, bytes, &staged);
        if (out >= RING_SEND) {
            struct run *r = &runs[next++ % DEPTH];
            run_set(r, from, bytes);
            ring_put(ring, out == RING_SEND ? IORING_OP_SENDMSG : IORING_OP_SENDMSG_ZC, &r->message, 1);
            in_ring++;
            /* Two runs share a system call. */
            if (in_ring % 2 == 0) ring_enter(ring, 2, 0);
            while (ring_take(ring, &done)) {
                if (done.res < 0 && !(done.flags & IORING_CQE_F_NOTIF)) {
                    errno = -done.res;
                    die("io_uring send");
                }
            }
        } else {
            run_set(&runs[0], from, bytes);
            if (sendmsg(fd, &runs[0].message, out == ZEROCOPY ? MSG_ZEROCOPY : 0) < 0) {
                if (errno == ENOBUFS && out == ZEROCOPY) {
                    reap_zerocopy();
                    continue;
                }
                die("sendmsg");
            }
            if (out == ZEROCOPY && ++zerocopy_out > 32) reap_zerocopy();
        }
        sent += bytes;
    }
    if (out >= RING_SEND && in_ring % 2 != 0) ring_enter(ring, 1, 0);
    /* All that is under way arrives. */
    while (shared->received < sent && now() < end + 1000000000u) sched_yield();
    reap_zerocopy();
}

/* ---- the receiver */

static ssize_t receive(void *to, size_t room, int flags) {
    struct iovec piece = {to, room};
    struct msghdr m = {.msg_iov = &piece, .msg_iovlen = 1};
    return recvmsg(fd, &m, flags);
}

static void receive_for(In in, uint32_t round, struct ring *ring) {
    static unsigned char buffers[DEPTH][RUN_MAX + 1];
    static struct iovec pieces[DEPTH], scattered[2 * 64];
    static struct msghdr messages[DEPTH];
    size_t at = 0, buffer = 0;
    uint64_t sum = 0;
    if (in == RING_RECEIVE) {
        for (unsigned i = 0; i < DEPTH; i++) {
            pieces[i] = (struct iovec){buffers[i], RUN_MAX};
            messages[i] = (struct msghdr){.msg_iov = &pieces[i], .msg_iovlen = 1};
            ring_put(ring, IORING_OP_RECVMSG, &messages[i], i);
        }
        ring_enter(ring, DEPTH, 0);
    }
    shared->ready = round;
    while (shared->round == round && !shared->over) {
        ssize_t got;
        if (in == RING_RECEIVE) {
            struct io_uring_cqe done;
            unsigned back = 0;
            uint64_t bytes = 0;
            while (ring_take(ring, &done)) {
                if (done.res < 0) {
                    errno = -done.res;
                    die("io_uring receive");
                }
                bytes += (uint64_t)done.res;
                ring_put(ring, IORING_OP_RECVMSG, &messages[done.user_data], done.user_data);
                back++;
            }
            /* A completion waits for this thread to enter the kernel. */
            ring_enter(ring, back, 0);
            shared->received += bytes;
            continue;
        }
        unsigned char *into = in == RECEIVE || in == RECEIVE_READ ? memory + at : buffers[buffer++ % 4];
        if (in == PEEK) {
            if (receive(into, HEADER, MSG_PEEK | MSG_DONTWAIT) < 0) continue;
            into = memory + at;
        }
        if (in == SCATTER) {
            int n = 0;
            for (size_t done = 0; done + (size_t)segment <= RUN_MAX && n < 128; done += (size_t)segment) {
                scattered[n++] = (struct iovec){into + done / (size_t)segment * HEADER, HEADER};
                scattered[n++] = (struct iovec){memory + at + done, (size_t)segment - HEADER};
            }
            struct msghdr m = {.msg_iov = scattered, .msg_iovlen = (size_t)n};
            got = recvmsg(fd, &m, MSG_DONTWAIT);
        } else {
            got = receive(into, RUN_MAX, MSG_DONTWAIT);
        }
        if (got < 0) continue;
        if (in == RECEIVE_COPY) {
            for (size_t done = 0; done + (size_t)segment <= (size_t)got; done += (size_t)segment) {
                memcpy(memory + at + done, into + done + HEADER, (size_t)segment - HEADER);
            }
        }
        if (in == RECEIVE_READ) {
            for (size_t i = 0; i + 8 <= (size_t)got; i += 8) {
                uint64_t word;
                memcpy(&word, into + i, 8);
                sum += word;
            }
        }
        at = at + 2 * RUN_MAX > MEMORY ? 0 : at + RUN_MAX;
        shared->received += (uint64_t)got;
    }
    shared->sink += sum;
    if (in == RING_RECEIVE) ring_cancel(ring, DEPTH);
}

/* ---- both */

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}
static double median(double *values) {
    qsort(values, (size_t)rounds, sizeof *values, by_value);
    return values[rounds / 2];
}

static void receiver(int pipe_end) {
    struct ring ring;
    struct sockaddr_in here = {.sin_family = AF_INET};
    socklen_t length = sizeof here;
    int one = 1, room = 4 << 20, has_ring = ring_open(&ring, DEPTH);
    enter(space[1], 1);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    inet_pton(AF_INET, address, &here.sin_addr);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
    setsockopt(fd, SOL_UDP, UDP_GRO, &one, sizeof one);
    if (bind(fd, (struct sockaddr *)&here, sizeof here) != 0 || getsockname(fd, (struct sockaddr *)&here, &length) != 0) die("bind");
    if (write(pipe_end, &here, sizeof here) != sizeof here) die("write");
    for (uint32_t round = 1; !shared->over; round = shared->round) {
        while (shared->round != round && !shared->over) sched_yield();
        In in = ways[(round - 1) % WAYS].in;
        if (in == RING_RECEIVE && !has_ring) {
            shared->ready = round;
            while (shared->round == round && !shared->over) sched_yield();
        } else {
            receive_for(in, round, &ring);
        }
    }
    exit(0);
}

int main(int argc, char **argv) {
    static double speed[WAYS][ROUNDS_MAX], ratio[WAYS][ROUNDS_MAX];
    struct ring ring;
    struct sockaddr_in there;
    int option, ends[2], one = 1, room = 4 << 20;
    while ((option = getopt(argc, argv, "s:r:t:a:n:h")) != -1) {
        switch (option) {
        case 's': segment = atoi(optarg); break;
        case 'r': rounds = atoi(optarg); break;
        case 't': millis = atoi(optarg); break;
        case 'a': address = optarg; break;
        case 'n': space[0] = strtok(optarg, ","), space[1] = strtok(NULL, ","); break;
        default:
            printf("usage: %s [-s BYTES-OF-A-PACKET] [-r ROUNDS] [-t MS] [-a ADDRESS] [-n SENDERS-NAMESPACE,RECEIVERS-NAMESPACE]\n", *argv);
            return option != 'h';
        }
    }
    if (segment <= HEADER || segment > RUN_MAX || rounds < 1 || rounds > ROUNDS_MAX || millis < 1) return fprintf(stderr, "out of range\n"), 2;
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memory = aligned_alloc(4096, MEMORY + RUN_MAX + 4096 + 2 * RUN_MAX);
    staging = aligned_alloc(4096, 8 << 16);
    memset(memory, 1, MEMORY + 3 * RUN_MAX);
    memset(staging, 1, 8 << 16);
    if (pipe(ends) != 0) die("pipe");
    fflush(stdout);
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        receiver(ends[1]);
    }
    enter(space[0], 0);
    int has_ring = ring_open(&ring, DEPTH);
    fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (read(ends[0], &there, sizeof there) != sizeof there || connect(fd, (struct sockaddr *)&there, sizeof there) != 0) die("connect");
    setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
    setsockopt(fd, SOL_SOCKET, SO_ZEROCOPY, &one, sizeof one);
    uint32_t number = 0;
    for (int r = 0; r < rounds; r++) {
        for (int w = 0; w < WAYS; w++) {
            shared->round = ++number;
            while (shared->ready != number) sched_yield();
            if ((ways[w].out >= RING_SEND || ways[w].in == RING_RECEIVE) && !has_ring) continue;
            uint64_t begin = now(), before = shared->received;
            send_for(ways[w].out, &ring);
            speed[w][r] = (double)(shared->received - before) / (double)(now() - begin);
            ratio[w][r] = speed[w][r] / speed[0][r];
        }
    }
    shared->over = 1;
    wait(NULL);
    printf("packets of %d bytes to %s, %d rounds of %d ms\n%-54s %8s %8s\n", segment, address, rounds, millis, "sender; receiver", "GB/s", "/ bare");
    for (int w = 0; w < WAYS; w++) printf("%-54s %8.2f %8.2f\n", ways[w].name, median(speed[w]), median(ratio[w]));
    if (!has_ring) printf("no io_uring: its lines are empty\n");
    return 0;
}
