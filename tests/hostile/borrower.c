/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A peer that speaks the protocol well, borrows all the memory that it is given, and means harm. It includes nothing of the library and links none of it. It asks
 * for every allocation, scribbles over exactly what it could map for writing, over its half of the link and over its catalogue, and sends well-formed frames of
 * which one field is spoilt now and then. What the victim took is counted, so that the lender knows that there was an attack.
 *
 *   borrower HOST(hex) DISCRIMINATOR SECONDS SEED guarded|mapped SCORES(descriptor)
 */
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "speech.h"

static uint32_t host;
static const char *victim;
static Scores *scores;
static int guarded;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void ring(Link *l) {
    char one = 0;
    if (write(l->bell, &one, 1) < 0) { /* full: it rings */ }
}

/* ---- memory: the victim's here, ours there */

static void keep_loan(Speech *s, uint32_t segment, int fd) {
    struct stat st;
    Loan *loan = &s->loans[s->loan_count];
    if (s->guarded) SCORE(s, given_in_guarded_mode, 1);
    if (s->loan_count == LOANS_MAX || fstat(fd, &st) != 0 || st.st_size == 0) return;
    loan->segment = segment, loan->bytes = (size_t)st.st_size, loan->writable = 1;
    loan->base = mmap(NULL, loan->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (loan->base == MAP_FAILED) {
        loan->writable = 0;
        loan->base = mmap(NULL, loan->bytes, PROT_READ, MAP_SHARED, fd, 0);
    }
    if (loan->base == MAP_FAILED) return;
    /* Nothing but what was meant for us: canaries lie everywhere else. */
    if (has_canaries(loan->base, loan->bytes)) SCORE(s, leaks, 1);
    if (loan->writable) SCORE(s, mapped_for_writing, 1);
    else SCORE(s, mapped_for_reading, 1);
    s->loan_count++;
}

static void answer_want(Speech *s, uint32_t segment) {
    uint8_t m[MESSAGE_BYTES];
    int fd;
    if (segment != 1 || s->ours != NULL) {
        message(m, GIVE, 0, segment, NULL);
        tell(s->l->socket, m, MESSAGE_BYTES, NULL, 0);
        return;
    }
    fd = sealed_memory(OUR_BYTES, (void **)&s->ours, F_SEAL_SHRINK | F_SEAL_GROW);
    message(m, GIVE, 3, segment, NULL);
    if (tell(s->l->socket, m, MESSAGE_BYTES, &fd, 1)) SCORE(s, lent_to_victim, 1);
    close(fd);
}

static void hear_socket(Speech *s, int ms) {
    uint8_t m[64];
    uint32_t segment;
    int fds[8], got, i;
    while (hear(s->l->socket, m, sizeof m, fds, &got, ms) == MESSAGE_BYTES) {
        memcpy(&segment, m + 4, 4);
        if (m[0] == GIVE && (m[1] & 1) != 0 && got == 1) keep_loan(s, segment, fds[0]);
        else if (m[0] == GIVE) SCORE(s, refused, 1);
        else if (m[0] == WANT) answer_want(s, segment);
        for (i = 0; i < got; i++) close(fds[i]);
    }
}

/* Asks for what the catalogue names, and for numbers that it does not name; for writing if that may be. */
static void borrow(Speech *s) {
    uint8_t m[MESSAGE_BYTES];
    uint32_t segment;
    int i;
    for (segment = 1; segment < 24; segment++) {
        message(m, WANT, 1, segment, NULL);
        tell(s->l->socket, m, MESSAGE_BYTES, NULL, 0);
    }
    hear_socket(s, 30);
    for (segment = 1; segment < 24; segment++) {
        for (i = 0; i < s->loan_count && s->loans[i].segment != segment; i++) continue;
        if (i != s->loan_count) continue;
        message(m, WANT, 0, segment, NULL);
        tell(s->l->socket, m, MESSAGE_BYTES, NULL, 0);
    }
    hear_socket(s, 30);
}

/* Regions of ours for the victim's RDMA: in our allocation 1. */
static void tell_regions(Link *l) {
    int i;
    for (i = 0; i < 64; i++) {
        uint64_t *e = l->own_catalogue + i * 8;
        e[1] = l->own_tag | (uint64_t)3 << 32, e[2] = OUR_ADDRESS, e[3] = OUR_BYTES, e[4] = 1, e[5] = 0;
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        e[0] = (uint64_t)i | (uint64_t)1 << 20 | (uint64_t)1 << 32;
    }
}

/* Shows the victim that we can read its memory, if we can: then it copies out of ours when asked to. */
static void prove(Speech *s) {
    uint64_t block[3];
    struct iovec here = {block, sizeof block}, there = {(void *)(uintptr_t)s->l->peer_probe, sizeof block};
    if (s->l->peer_probe == 0 || process_vm_readv(getppid(), &here, 1, &there, 1, 0) != sizeof block) return;
    memcpy(s->l->out + PROOF_AT, &block[2], 8);
    SCORE(s, proofs, 1);
}

/* ---- scribbling */

static uint64_t tame(uint64_t word) { return word & 0x7f7f7f7f7f7f7f7fu; }

/* Over what was lent for writing, all of it now and then; and over what we lent. */
static void scribble_loans(Speech *s) {
    int i, k, whole = rnd(10) == 0;
    for (i = 0; i < s->loan_count; i++) {
        uint64_t *words = (uint64_t *)(void *)s->loans[i].base;
        size_t count = s->loans[i].bytes / 8, at;
        if (!s->loans[i].writable) continue;
        for (at = 0; whole && at < count; at++) words[at] = tame(rnd(0));
        for (k = 0; k < 300; k++) words[rnd(count)] = tame(rnd(2) ? rnd(1 << 16) : rnd(0));
        SCORE(s, bytes_scribbled, whole ? count * 8 : 2400);
    }
    if (s->ours != NULL) for (k = 0; k < 300; k++) ((uint64_t *)(void *)s->ours)[rnd(OUR_BYTES / 8)] = tame(rnd(0));
}

/* Over everything of the link that is ours, while the victim reads it. The link is done for. */
static void scribble_link(Speech *s) {
    static const size_t words[] = {HEAD_AT, ARMED_AT, EPOCH_AT, PROOF_AT};
    double until = now() + 0.01;
    while (now() < until) {
        int i;
        for (i = 0; i < 200; i++) {
            size_t at = rnd(4) ? LINES_AT + rnd(LINES * 8) * 8 : rnd(2) ? words[rnd(4)] : rnd(LINK_BYTES / 8) * 8;
            *(volatile uint64_t *)(s->l->out + at) = tame(rnd(3) ? rnd(1 << 16) : rnd(0));
            s->l->own_catalogue[rnd(64 * 8)] = rnd(2) ? rnd(1 << 20) : rnd(0);
        }
        scribble_loans(s);
        ring(s->l);
    }
}

/* ---- connections */

static void session(Speech *s) {
    double until = now() + 0.25;
    int quiet = rnd(3) != 0, i = 0; /* mostly speaking well: the victim gets far */
    s->alive = 1, s->message = 0, s->acknowledged = 0, s->heard = 0, s->works = 0;
    memset(s->reads, 0, sizeof s->reads);
    SCORE(s, connections, 1);
    while (s->alive && now() < until) {
        speak(s, i > 20 && rnd(quiet ? 40 : 6) == 0);
        if (++i % 4 == 0) {
            if (rnd(8) == 0) scribble_loans(s);
            if (rnd(8) == 0) advertise(s);
            ring(s->l);
            usleep(i % 32 == 0 ? 400 : 60);
            listen_to(s);
        }
        if (i % 32 == 0) hear_socket(s, 0);
    }
    if (has_canaries(s->l->in_payload, PAYLOAD_BYTES)) SCORE(s, leaks, 1);
}

static void attack(void) {
    Link l;
    Loan loans[LOANS_MAX];
    Speech s;
    int i;
    if (!link_up(&l, host, victim)) return;
    memset(&s, 0, sizeof s);
    s.l = &l, s.scores = scores, s.loans = loans, s.guarded = guarded;
    l.own_tag = 7;
    tell_regions(&l);
    if (rnd(2)) prove(&s);
    for (i = 0; i < 6; i++) {
        static const int levels[] = {1, 2, 2, 2, 4, 4};
        s.level = levels[rnd(6)];
        l.own_flags = rnd(4) ? 3 : 7;
        if (!connect_vi(&l, host, victim, s.level, 80)) break;
        if (s.loan_count == 0) borrow(&s);
        advertise(&s);
        session(&s);
    }
    scribble_link(&s);
    for (i = 0; i < s.loan_count; i++) munmap(loans[i].base, loans[i].bytes);
    if (s.ours != NULL) munmap(s.ours, OUR_BYTES);
    if (rnd(8) == 0) _exit(0);
    link_down(&l);
}

int main(int argc, char **argv) {
    struct rlimit many = {4096, 4096};
    double until;
    if (argc != 7) return 1;
    host = (uint32_t)strtoul(argv[1], NULL, 16);
    victim = argv[2];
    until = now() + atof(argv[3]);
    seed_with(strtoull(argv[4], NULL, 0));
    guarded = strcmp(argv[5], "guarded") == 0;
    scores = mmap(NULL, sizeof *scores, PROT_READ | PROT_WRITE, MAP_SHARED, atoi(argv[6]), 0);
    if (scores == MAP_FAILED) return 1;
    close(atoi(argv[6]));
    signal(SIGPIPE, SIG_IGN);
    setrlimit(RLIMIT_NOFILE, &many);
    while (now() < until) attack();
    return 0;
}
