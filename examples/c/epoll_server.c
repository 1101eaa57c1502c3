/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A server that sleeps in epoll: one completion queue for many clients, and a timer beside it.
 *
 * What it shows: a file descriptor for a completion queue (VipxCQFd, VipxCQArm), level- or edge-triggered, together with descriptors that have
 * nothing to do with the library; messages move while the program sleeps in epoll_wait and calls nothing.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common.h"

static const char help[] =
    "epoll_server [server|client] [--clients N] [--messages N] [--edge] [--name NAME]\n"
    "\n"
    "Starts a server and its clients, which send a message now and then and wait for the answer.\n"
    "On two hosts:  BELLWIRE_ADDRESS=auto epoll_server server      BELLWIRE_ADDRESS=auto epoll_server client --name epoll_server@HOST\n"
    "\n"
    "  --clients N    how many clients, 1 to 64 (default 8)\n"
    "  --messages N   messages of each client (default 1000)\n"
    "  --edge         sleep edge-triggered\n"
    "  --name NAME    where server and clients meet (default epoll_server); a client may add @HOST\n";

enum { CLIENTS_MAX = 64, MESSAGE_BYTES = 64, TICK_MS = 50 };

/* Where a client's descriptors and bytes are in the server's memory. */
typedef struct {
    VIP_DESCRIPTOR recv, send;
    unsigned char in[MESSAGE_BYTES], out[MESSAGE_BYTES];
} Place;

typedef struct {
    VIP_NIC_HANDLE nic;
    Memory memory;
    VIP_CQ_HANDLE cq;
    VIP_VI_HANDLE vi[CLIENTS_MAX];
    Place *place;
    int epoll, cq_fd, timer;
    long answered, gone, sleeps, ticks;
} Server;

static void watch(int epoll, int fd, uint32_t flags) {
    struct epoll_event event;
    memset(&event, 0, sizeof event);
    event.events = EPOLLIN | flags;
    event.data.fd = fd;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) != 0) fail("epoll_ctl: %s", strerror(errno));
}

static void open_server(Server *s, long clients, uint32_t flags, const char *name) {
    struct itimerspec every;
    long i;
    memset(s, 0, sizeof *s);
    MUST(VipOpenNic("nic0", &s->nic));
    memory_open(&s->memory, s->nic, (VIP_ULONG)clients * sizeof(Place));
    s->place = (Place *)s->memory.bytes;
    MUST(VipCreateCQ(s->nic, (VIP_ULONG)clients * 2, &s->cq));
    MUST(VipxCQFd(s->cq, &s->cq_fd));
    s->epoll = epoll_create1(EPOLL_CLOEXEC);
    s->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (s->epoll < 0 || s->timer < 0) fail("no descriptors left");
    memset(&every, 0, sizeof every);
    every.it_value.tv_nsec = every.it_interval.tv_nsec = TICK_MS * 1000000L;
    timerfd_settime(s->timer, 0, &every, NULL);
    watch(s->epoll, s->cq_fd, flags);
    watch(s->epoll, s->timer, 0);
    for (i = 0; i < clients; i++) {
        s->vi[i] = vi_open(&s->memory, NULL, s->cq);
        describe(&s->place[i].recv, &s->memory, s->place[i].in, MESSAGE_BYTES);
        MUST(VipPostRecv(s->vi[i], &s->place[i].recv, s->memory.handle));
        if (!vi_accept(s->nic, name, 10000, s->vi[i])) fail("a client did not come");
    }
}

/* One receive of this VI is done: answer it, or note that its client has gone. */
static void serve(Server *s, VIP_VI_HANDLE vi) {
    VIP_DESCRIPTOR *done;
    VIP_RETURN result = VipRecvDone(vi, &done);
    Place *p;
    if (result == VIP_DESCRIPTOR_ERROR) {
        s->gone++;
        return;
    }
    must(result, "VipRecvDone");
    p = (Place *)((unsigned char *)done - offsetof(Place, recv));
    memcpy(p->out, p->in, MESSAGE_BYTES);
    describe(&p->recv, &s->memory, p->in, MESSAGE_BYTES);
    MUST(VipPostRecv(vi, &p->recv, s->memory.handle));
    describe(&p->send, &s->memory, p->out, MESSAGE_BYTES);
    MUST(VipPostSend(vi, &p->send, s->memory.handle));
    MUST(VipSendWait(vi, 10000, &done));
    s->answered++;
}

static void run_server(Server *s, long clients) {
    while (s->gone < clients) {
        struct epoll_event events[2];
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN is_recv;
        int count, i;
        /* Everything that is there; then arm; then, if nothing came in between, sleep. */
        while (VipCQDone(s->cq, &vi, &is_recv) == VIP_SUCCESS) serve(s, vi);
        if (s->gone >= clients || VipxCQArm(s->cq) == VIP_NOT_DONE) continue;
        s->sleeps++;
        count = epoll_wait(s->epoll, events, 2, -1);
        for (i = 0; i < count; i++) {
            uint64_t expirations;
            if (events[i].data.fd == s->timer && read(s->timer, &expirations, sizeof expirations) == sizeof expirations) s->ticks++;
        }
    }
}

static void close_server(Server *s, long clients) {
    long i;
    for (i = 0; i < clients; i++) vi_close(s->vi[i]);
    close(s->cq_fd);
    close(s->timer);
    close(s->epoll);
    MUST(VipDestroyCQ(s->cq));
    memory_close(&s->memory);
    MUST(VipCloseNic(s->nic));
}

static void run_client(long number, long messages, const char *name) {
    VIP_NIC_HANDLE nic;
    Memory memory;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR *done;
    Place *p;
    long i;
    MUST(VipOpenNic("nic0", &nic));
    memory_open(&memory, nic, sizeof(Place));
    p = (Place *)memory.bytes;
    vi = vi_open(&memory, NULL, NULL);
    vi_dial(nic, name, 10000, vi);
    for (i = 0; i < messages; i++) {
        memset(p->out, (int)(number + i), MESSAGE_BYTES);
        describe(&p->recv, &memory, p->in, MESSAGE_BYTES);
        MUST(VipPostRecv(vi, &p->recv, memory.handle));
        describe(&p->send, &memory, p->out, MESSAGE_BYTES);
        MUST(VipPostSend(vi, &p->send, memory.handle));
        MUST(VipSendWait(vi, 10000, &done));
        MUST(VipRecvWait(vi, 10000, &done));
        if (memcmp(p->in, p->out, MESSAGE_BYTES) != 0) fail("client %ld: answer %ld is wrong", number, i);
        if (i % 16 == number % 16) usleep(1000);
    }
    vi_close(vi);
    memory_close(&memory);
    MUST(VipCloseNic(nic));
}

/* Starts the clients as processes of their own. */
static void start_clients(long clients, long messages, const char *name) {
    long i;
    for (i = 0; i < clients; i++) {
        pid_t child = fork(); /* before the library is used: a NIC belongs to one process */
        if (child < 0) fail("fork failed");
        if (child == 0) {
            run_client(i, messages, name);
            exit(0);
        }
    }
}

static void wait_for_clients(void) {
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status;
    if (failed != 0) fail("a client failed");
}

static const char *const words[] = {"server", "client", "--clients=", "--messages=", "--name=", "--edge", "--help", "-h", NULL};

int main(int argc, char **argv) {
    long clients = option_number(argc, argv, "--clients", 8), messages = option_number(argc, argv, "--messages", 1000);
    uint32_t flags = has_option(argc, argv, "--edge") ? EPOLLET : 0;
    const char *name = option_text(argc, argv, "--name");
    int is_server = has_option(argc, argv, "server"), is_client = has_option(argc, argv, "client");
    char own_name[32];
    Server server;
    check_options(argc, argv, words);
    if (has_option(argc, argv, "--help") || has_option(argc, argv, "-h")) {
        fputs(help, stdout);
        return 0;
    }
    if (clients < 1 || clients > CLIENTS_MAX) fail("--clients must be 1 to %d; see --help", CLIENTS_MAX);
    if (name == NULL) name = "epoll_server";
    if (!is_server && !is_client) {
        snprintf(own_name, sizeof own_name, "epoll_server-%ld", (long)getpid());
        name = own_name;
    }
    if (!is_server) start_clients(clients, messages, name);
    if (!is_client) {
        open_server(&server, clients, flags, name);
        run_server(&server, clients);
    }
    wait_for_clients();
    if (is_client) return 0;
    if (server.answered != clients * messages) fail("%ld answers, but %ld messages", server.answered, clients * messages);
    printf("%ld messages of %ld clients answered; slept %ld times, %ld ticks of the timer beside\n", server.answered, clients, server.sleeps, server.ticks);
    close_server(&server, clients);
    return 0;
}
