/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Speaking the shared-memory wire's protocol without the library. */
#include "protocol.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

/* For the 128-bit FNV-1a of the names. */
__extension__ typedef unsigned __int128 Wide;

static uint64_t state = 1;

void seed_with(uint64_t seed) {
    state = seed * 0x9e3779b97f4a7c15u + 77;
    if (state == 0) state = 1;
}

uint64_t rnd(uint64_t below) {
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return below == 0 ? state : (state >> 9) % below;
}

void address_hash(char *text, uint32_t host, const char *discriminator) {
    const Wide prime = ((Wide)0x0000000001000000u << 64) | 0x13bu;
    Wide hash = ((Wide)0x6c62272e07bb0142u << 64) | 0x62b821756295c58du;
    uint8_t bytes[128];
    size_t count = 0, i, length = strlen(discriminator);
    bytes[count++] = 4;
    memcpy(bytes + count, &host, 4), count += 4;
    bytes[count++] = (uint8_t)length;
    memcpy(bytes + count, discriminator, length), count += length;
    for (i = 0; i < count; i++) hash = (hash ^ bytes[i]) * prime;
    snprintf(text, HASH_TEXT, "%016llx%016llx", (unsigned long long)(hash >> 64), (unsigned long long)hash);
}

int waiter_name(char *name, size_t room, uint32_t host, const char *discriminator) {
    char hash[HASH_TEXT];
    address_hash(hash, host, discriminator);
    return snprintf(name, room, "bellwire/%d/%u/w/%s", VERSION, (unsigned)geteuid(), hash);
}

int knock_at(uint32_t host, const char *discriminator) {
    struct sockaddr_un a;
    char name[108];
    int length = waiter_name(name, sizeof name, host, discriminator), socket_fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    memset(&a, 0, sizeof a);
    a.sun_family = AF_UNIX;
    memcpy(a.sun_path + 1, name, (size_t)length);
    fcntl(socket_fd, F_SETFL, O_NONBLOCK);
    if (socket_fd >= 0 && connect(socket_fd, (struct sockaddr *)&a, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0) {
        return socket_fd;
    }
    if (socket_fd >= 0) close(socket_fd);
    return -1;
}

int tell(int socket, const void *bytes, size_t count, const int *fds, int fd_count) {
    struct iovec io;
    struct msghdr m;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * 64)];
    } control;
    memset(&m, 0, sizeof m);
    io.iov_base = (void *)(uintptr_t)bytes, io.iov_len = count;
    m.msg_iov = &io, m.msg_iovlen = 1;
    if (fd_count > 0) {
        m.msg_control = &control, m.msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)fd_count);
        control.header.cmsg_level = SOL_SOCKET, control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(sizeof(int) * (size_t)fd_count);
        memcpy(CMSG_DATA(&control.header), fds, sizeof(int) * (size_t)fd_count);
    }
    return sendmsg(socket, &m, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)count;
}

int hear(int socket, void *bytes, size_t room, int *fds, int *fd_count, int ms) {
    struct iovec io;
    struct msghdr m;
    struct pollfd p;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int) * 8)];
    } control;
    ssize_t got;
    p.fd = socket, p.events = POLLIN;
    *fd_count = 0;
    if (poll(&p, 1, ms) != 1) return 0;
    memset(&m, 0, sizeof m);
    io.iov_base = bytes, io.iov_len = room;
    m.msg_iov = &io, m.msg_iovlen = 1, m.msg_control = &control, m.msg_controllen = sizeof control;
    got = recvmsg(socket, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got > 0 && m.msg_controllen >= sizeof(struct cmsghdr) && control.header.cmsg_type == SCM_RIGHTS) {
        *fd_count = (int)((control.header.cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(fds, CMSG_DATA(&control.header), sizeof(int) * (size_t)*fd_count);
    }
    return (int)got;
}

void message(uint8_t *m, int kind, int flags, uint32_t segment, const uint8_t *id) {
    uint16_t version = VERSION;
    memset(m, 0, MESSAGE_BYTES);
    m[0] = (uint8_t)kind, m[1] = (uint8_t)flags;
    memcpy(m + 2, &version, 2);
    memcpy(m + 4, &segment, 4);
    if (id != NULL) memcpy(m + 8, id, 16);
}

int sealed_memory(size_t bytes, void **base, int seals) {
    int fd = memfd_create("attacker", MFD_ALLOW_SEALING | MFD_CLOEXEC);
    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) return -1;
    if (base != NULL) *base = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (seals != 0) fcntl(fd, F_ADD_SEALS, seals);
    return fd;
}

static void region_header(uint8_t *b) {
    const uint32_t words[] = {VERSION, LINES, PAYLOAD_BYTES, ADVERTS, CATALOGUE_ENTRIES, 0};
    memcpy(b, "bellwire", 8);
    memcpy(b + 8, words, sizeof words);
}

int link_up(Link *l, uint32_t host, const char *discriminator) {
    uint8_t m[64];
    void *out, *payload, *catalogue;
    int fds[8], got, own[5], pipes[2], i, fine;
    uint64_t probe;
    memset(l, 0, sizeof *l);
    l->own_flags = 7;
    l->socket = knock_at(host, discriminator);
    if (l->socket < 0) return 0;
    for (i = 0; i < 16; i++) l->own_id[i] = (uint8_t)rnd(256);
    message(m, KNOCK, 0, 0, l->own_id);
    if (!tell(l->socket, m, MESSAGE_BYTES, NULL, 0) || hear(l->socket, m, sizeof m, fds, &got, 500) != MESSAGE_BYTES || m[0] != HERE) {
        close(l->socket);
        return 0;
    }
    memcpy(l->id, m + 8, 16);
    own[0] = sealed_memory(LINK_BYTES, &out, F_SEAL_SHRINK | F_SEAL_GROW);
    own[1] = sealed_memory(PAYLOAD_BYTES, &payload, F_SEAL_SHRINK | F_SEAL_GROW);
    own[2] = sealed_memory(CATALOGUE_BYTES, &catalogue, F_SEAL_SHRINK | F_SEAL_GROW);
    if (pipe2(pipes, O_NONBLOCK | O_CLOEXEC) != 0) return 0;
    own[3] = pipes[1];
    own[4] = (int)syscall(SYS_pidfd_open, getpid(), 0);
    region_header(out);
    message(m, OFFER, 3, 0, l->own_id);
    memcpy(l->block, l->own_id, 16), l->block[16] = 9;
    probe = (uint64_t)(uintptr_t)l->block;
    memcpy(m + 24, &probe, 8);
    fine = tell(l->socket, m, MESSAGE_BYTES, own, 5) && hear(l->socket, m, sizeof m, fds, &got, 500) == MESSAGE_BYTES && m[0] == OFFER && got >= 4;
    for (i = 0; i < 5; i++) close(own[i]);
    l->out = out, l->out_payload = payload, l->own_catalogue = catalogue, l->own_bell = pipes[0];
    if (!fine) {
        munmap(out, LINK_BYTES), munmap(payload, PAYLOAD_BYTES), munmap(catalogue, CATALOGUE_BYTES);
        close(pipes[0]), close(l->socket);
        return 0;
    }
    l->in = mmap(NULL, LINK_BYTES, PROT_READ, MAP_SHARED, fds[0], 0);
    l->in_payload_fd = fds[1];
    l->in_payload = mmap(NULL, PAYLOAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0);
    l->in_payload_writable = l->in_payload != MAP_FAILED;
    if (!l->in_payload_writable) l->in_payload = mmap(NULL, PAYLOAD_BYTES, PROT_READ, MAP_SHARED, fds[1], 0);
    l->catalogue = mmap(NULL, CATALOGUE_BYTES, PROT_READ, MAP_SHARED, fds[2], 0);
    l->bell = fds[3];
    memcpy(&l->peer_probe, m + 24, 8);
    close(fds[0]), close(fds[2]);
    for (i = 4; i < got; i++) close(fds[i]);
    return 1;
}

void link_down(Link *l) {
    munmap(l->out, LINK_BYTES), munmap(l->out_payload, PAYLOAD_BYTES), munmap(l->own_catalogue, CATALOGUE_BYTES);
    munmap((void *)(uintptr_t)l->in, LINK_BYTES), munmap((void *)(uintptr_t)l->catalogue, CATALOGUE_BYTES);
    munmap((void *)(uintptr_t)l->in_payload, PAYLOAD_BYTES);
    close(l->bell), close(l->own_bell), close(l->socket), close(l->in_payload_fd);
}

void push(Link *l, const uint64_t *words) {
    volatile uint64_t *slot = (volatile uint64_t *)(l->out + LINES_AT + (size_t)(l->tail % LINES) * 64);
    int i;
    for (i = 1; i < 8; i++) slot[i] = words[i];
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    slot[0] = (words[0] & ~(uint64_t)1) | ((l->tail & LINES) == 0);
    l->tail++;
}

void connection_request(Link *l, uint32_t host, const char *discriminator, int reliability, uint32_t connection) {
    uint8_t b[200];
    uint64_t words[8] = {0}, transfer = 1 << 18;
    uint32_t length, me = 0x0900007f, position = l->payload % (PAYLOAD_BYTES / 2);
    size_t at = 32, n = strlen(discriminator);
    memset(b, 0, sizeof b);
    b[0] = 1, b[2] = (uint8_t)reliability, b[3] = (uint8_t)l->own_flags;
    b[4] = 4, b[5] = 3, b[6] = 4, b[7] = (uint8_t)n;
    memcpy(b + 8, &connection, 4), memcpy(b + 12, &l->own_tag, 4);
    l->own_connection = connection;
    memcpy(b + 16, &transfer, 8);
    memcpy(b + at, &me, 4), memcpy(b + at + 4, "bad", 3), at += 7;
    memcpy(b + at, &host, 4), memcpy(b + at + 4, discriminator, n), at += 4 + n;
    length = (uint32_t)at;
    memcpy(l->out_payload + position, b, at);
    l->payload += 256;
    words[0] = (uint64_t)OP_CONNECT_REQUEST << 1 | 1 << 7 | 0xff << 8;
    words[1] = (uint64_t)length << 32, words[2] = (uint64_t)length << 32, words[7] = position;
    push(l, words);
}

/* Reads the victim's lines; gives the connection id that an acceptance told, or 0. */
static uint32_t look_for_acceptance(Link *l) {
    for (;;) {
        volatile uint64_t *slot = (volatile uint64_t *)(uintptr_t)(l->in + LINES_AT + (size_t)(l->head % LINES) * 64);
        uint64_t head = slot[0];
        uint32_t vi = 0;
        if ((head & 1) != ((l->head & LINES) == 0)) return 0;
        if ((head >> 1 & 31) == OP_CONNECT_REPLY && (head >> 8 & 255) == 255 && slot[7] < PAYLOAD_BYTES - 64) {
            volatile uint8_t *b = l->in_payload + slot[7];
            if (b[1] == 0) memcpy(&vi, (void *)(uintptr_t)(b + 8), 4), memcpy(&l->vi_tag, (void *)(uintptr_t)(b + 12), 4), l->vi_flags = b[3];
        }
        l->head++;
        *(volatile uint32_t *)(l->out + HEAD_AT) = l->head;
        if (vi != 0) return vi;
    }
}

int connect_vi(Link *l, uint32_t host, const char *discriminator, int reliability, int ms) {
    int i;
    uint32_t name = 1 + (uint32_t)rnd(1000);
    l->sequence = 0;
    connection_request(l, host, discriminator, reliability, name);
    for (i = 0; i < ms * 10; i++) {
        char one = 0;
        l->vi = look_for_acceptance(l);
        if (l->vi != 0) return 1;
        if (i % 10 == 0 && write(l->bell, &one, 1) < 0) { /* full: it rings */ }
        usleep(100);
        if (i % 100 == 99) connection_request(l, host, discriminator, reliability, name);
    }
    return 0;
}
