/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See speech.h. What is well-formed here is so by crates/wire/src/frame.rs; what the victim makes of it is counted. */
#include "speech.h"

#include <string.h>
#include <unistd.h>

enum { FRAME_MAX = 16384, IMMEDIATE = 1 << 6, LAST = 1 << 7, BULK = 0xff << 8, SEND_MAX = 30000 };

int has_canaries(const volatile uint8_t *bytes, size_t count) {
    size_t i;
    /* A run covers an aligned place of half its length. */
    for (i = 0; i + CANARY_RUN <= count; i += CANARY_RUN / 2) {
        size_t k = i, from = i;
        if (bytes[i] != CANARY) continue;
        while (from > 0 && i - from < CANARY_RUN && bytes[from - 1] == CANARY) from--;
        while (k < count && k - from < CANARY_RUN && bytes[k] == CANARY) k++;
        if (k - from >= CANARY_RUN) return 1;
    }
    return 0;
}

static void pattern(uint8_t *to, uint32_t bytes, int seed) {
    uint32_t i;
    for (i = 0; i < bytes; i++) to[i] = (uint8_t)(i * 7 + (uint32_t)seed) & 0x7f;
}

/* ---- frames */

/* Spoils one field, mostly to a value beside the true one. */
static void spoil_field(uint64_t *w) {
    static const uint32_t odd[] = {0, 1, 7, 57, 4096, 16384, 16385, 65536, 0x7fffffff, 0x80000000u, 0xffffffffu};
    uint32_t any = rnd(3) == 0 ? (uint32_t)rnd(0) : odd[rnd(sizeof odd / sizeof odd[0])], beside = rnd(2) ? 1 + (uint32_t)rnd(64) : -(1 + (uint32_t)rnd(64));
    int high = 0, word = 0;
    switch (rnd(13)) {
    case 0: w[0] = (w[0] & ~(uint64_t)0x3e) | rnd(32) << 1; return;          /* operation */
    case 1: w[0] ^= (uint64_t)1 << (32 + rnd(rnd(2) ? 4 : 32)); return;      /* connection */
    case 2: w[0] ^= (uint64_t)1 << (16 + rnd(16)); return;                   /* sequence */
    case 3: w[0] ^= rnd(2) ? LAST : IMMEDIATE; return;
    case 4: w[0] = (w[0] & ~(uint64_t)0xff00) | rnd(256) << 8; return;       /* inline length */
    case 5: word = 1; break;                                                 /* offset */
    case 6: word = 1, high = 32; break;                                      /* total */
    case 7: word = 2, high = 32; break;                                      /* length */
    case 8: w[3] += rnd(4) == 0 ? rnd(0) : rnd(2) ? beside : (uint64_t)4096 * beside; return; /* address */
    case 9: w[4] ^= (uint64_t)1 << rnd(rnd(2) ? 6 : 32); return;             /* handle */
    case 10: word = 4, high = 32; break;                                     /* work */
    case 11: w[7] = rnd(2) ? PAYLOAD_BYTES - rnd(300) : rnd(0); return;      /* position of the payload */
    default: w[5] = rnd(0); return;                                          /* address in our process */
    }
    if (rnd(2)) any = (uint32_t)(w[word] >> high) + beside;
    w[word] = (w[word] & ~((uint64_t)0xffffffffu << high)) | (uint64_t)any << high;
}

static void out(Speech *s, uint64_t *w, int spoil) {
    Link *l = s->l;
    int i;
    /* Lines that the victim has not read must not be overwritten: that would be no frame. */
    for (i = 0; i < 400 && l->tail - *(volatile uint32_t *)(uintptr_t)(l->in + HEAD_AT) >= LINES - 8; i++) {
        char one = 0;
        if (write(l->bell, &one, 1) < 0) { /* full: it rings */ }
        usleep(100);
    }
    if (i == 400) s->alive = 0;
    w[0] |= (uint64_t)l->vi << 32 | (uint64_t)(l->sequence & 0xffff) << 16;
    if (spoil) spoil_field(w), SCORE(s, corrupted, 1);
    push(l, w);
}

/* Where the next payload of so many bytes goes; its position. */
static uint8_t *payload(Speech *s, uint32_t bytes, uint64_t *w7) {
    Link *l = s->l;
    if (l->payload % PAYLOAD_BYTES + bytes > PAYLOAD_BYTES) l->payload += PAYLOAD_BYTES - l->payload % PAYLOAD_BYTES;
    *w7 = l->payload % PAYLOAD_BYTES;
    l->payload += (bytes + 63) & ~63u;
    return l->out_payload + *w7;
}

/* A message in fragments. `seed` -1: any bytes. */
static void fragments(Speech *s, int op, uint32_t total, uint64_t address, uint32_t handle, int immediate, int seed, int spoil) {
    uint32_t at = 0, piece = rnd(3) ? FRAME_MAX : 1 + (uint32_t)rnd(FRAME_MAX), count = (total + piece - 1) / piece, i, which = spoil ? (uint32_t)rnd(count + 1) : count;
    uint8_t all[SEND_MAX];
    pattern(all, total, seed >= 0 ? seed : (int)rnd(128));
    for (i = 0; i < count || i == 0; i++) {
        uint32_t n = total - at < piece ? total - at : piece;
        uint64_t w[8] = {0};
        w[0] = (uint64_t)op << 1 | BULK | (at + n == total ? LAST : 0) | (immediate ? IMMEDIATE : 0);
        w[1] = at | (uint64_t)total << 32;
        w[2] = 77 | (uint64_t)n << 32;
        w[3] = address;
        w[4] = handle | (uint64_t)s->works << 32;
        memcpy(payload(s, n, &w[7]), all + at, n);
        out(s, w, spoil && (which == i || (which == count && i + 1 == count)));
        at += n;
    }
    s->works++;
    s->l->sequence++;
    if (op == OP_SEND || immediate) s->message++;
}

static void short_frame(Speech *s, int op, uint64_t one, uint64_t two, int spoil) {
    uint64_t w[8] = {0};
    w[0] = (uint64_t)op << 1 | LAST, w[1] = one, w[2] = two;
    out(s, w, spoil);
}

static void inline_send(Speech *s, int spoil) {
    uint64_t w[8] = {0};
    int immediate = rnd(4) == 0;
    w[0] = OP_SEND << 1 | LAST | rnd(immediate ? 49 : 57) << 8 | (immediate ? IMMEDIATE : 0);
    pattern((uint8_t *)(w + 1), 56, (int)rnd(128));
    out(s, w, spoil);
    s->l->sequence++, s->message++;
}

/* A region that the peers of our tag may write (or read) and at least `bytes` long; NULL if the dice find none. */
static volatile Entry *region(Speech *s, int write, uint32_t bytes) {
    int i;
    for (i = 0; i < 60; i++) {
        volatile Entry *e = &s->l->catalogue[rnd(24)];
        if (e->tag != 0 && (uint32_t)e->rights == s->l->vi_tag && (e->rights >> (write ? 32 : 33) & 1) && e->length >= bytes) return e;
    }
    return NULL;
}

static void read_request(Speech *s, uint64_t address, uint32_t handle, uint32_t bytes, int seed, int spoil) {
    uint64_t w[8] = {0};
    int i;
    for (i = 0; i < READS_MAX && s->reads[i].length != 0; i++) continue;
    if (i == READS_MAX || bytes == 0) return;
    s->reads[i].work = s->works, s->reads[i].length = bytes, s->reads[i].pattern = seed;
    w[0] = OP_READ_REQUEST << 1 | LAST, w[1] = (uint64_t)bytes << 32, w[3] = address, w[4] = handle | (uint64_t)s->works << 32;
    out(s, w, spoil);
    s->works++, s->l->sequence++;
}

/* A write and a read of the same bytes: the answer must be what was written, unless others wrote there meanwhile. */
static void write_and_read(Speech *s, int spoil) {
    uint32_t bytes = 64 + (uint32_t)rnd(3000);
    volatile Entry *e = region(s, 1, bytes);
    int seed = (int)rnd(128);
    uint64_t address;
    if (e == NULL || s->level == 1) return;
    address = e->address + rnd(e->length - bytes + 1);
    fragments(s, OP_WRITE, bytes, address, (uint32_t)e->tag, 0, seed, spoil);
    read_request(s, address, (uint32_t)e->tag, bytes, seed, 0);
}

/* Data put into an advertised receive, and the word that it is there. */
static int placed_send(Speech *s, int spoil) {
    uint32_t at, bytes = 2048 + (uint32_t)rnd(20000);
    volatile uint64_t *a;
    int i;
    at = ((s->l->vi * 0x9e3779b1u << 10 | s->l->vi * 0x9e3779b1u >> 22) + s->message) & (ADVERTS - 1);
    a = (volatile uint64_t *)(uintptr_t)(s->l->in + ADVERTS_AT) + (size_t)at * 4;
    if (a[0] != ((uint64_t)s->l->vi << 32 | s->message) || bytes > a[1] >> 32) return 0;
    for (i = 0; i < s->loan_count; i++) {
        if (s->loans[i].segment != (uint32_t)a[1] || !s->loans[i].writable || a[2] + bytes > s->loans[i].bytes) continue;
        pattern(s->loans[i].base + a[2], bytes, (int)rnd(128));
        short_frame(s, OP_SEND_PLACED, s->message | (uint64_t)bytes << 32, 0, spoil);
        s->l->sequence++, s->message++;
        SCORE(s, placed, 1);
        return 1;
    }
    return 0;
}

/* Something that the victim is to copy out of our process; where "there" is nothing, too. */
static void pulled(Speech *s, int spoil) {
    static uint8_t here[70000];
    uint64_t w[8] = {0};
    uint32_t bytes = 1 + (uint32_t)rnd(SEND_MAX);
    volatile Entry *e = rnd(2) ? region(s, 1, bytes) : NULL;
    w[0] = (uint64_t)(e != NULL ? OP_WRITE_PULL : OP_SEND_PULL) << 1 | LAST;
    w[1] = (uint64_t)bytes << 32, w[2] = (uint64_t)bytes << 32, w[4] = (uint64_t)s->works << 32;
    if (e != NULL) w[3] = e->address + rnd(e->length - bytes + 1), w[4] |= (uint32_t)e->tag;
    w[5] = rnd(8) ? (uint64_t)(uintptr_t)here + rnd(sizeof here - bytes) : rnd(2) ? 4096 : rnd(0);
    out(s, w, spoil);
    s->works++;
    if (e == NULL) s->message++;
}

/* Where a request of so many bytes begins: in the region; or, to spoil it, so that a few bytes of it lie before or behind. */
static uint64_t place_in(volatile Entry *e, uint32_t bytes, int over) {
    uint32_t beside = 1 + (uint32_t)rnd(rnd(2) ? 8 : 64);
    if (over) return rnd(2) ? e->address - beside : e->address + e->length - bytes + beside;
    return e->address + (rnd(3) ? rnd(e->length - bytes + 1) : rnd(2) * (e->length - bytes));
}

void speak(Speech *s, int spoil) {
    int over = spoil && rnd(3) != 0; /* what is spoilt is the place */
    uint32_t bytes = rnd(4) ? 57 + (uint32_t)rnd(4000) : 1 + (uint32_t)rnd(SEND_MAX);
    volatile Entry *e;
    switch (rnd(16)) {
    case 0: case 1: case 2: inline_send(s, spoil); break;
    case 3: case 4: fragments(s, OP_SEND, bytes, 0, 0, rnd(4) == 0, -1, spoil); break;
    case 5: case 6: if (!placed_send(s, spoil)) fragments(s, OP_SEND, 2048 + bytes % 8192, 0, 0, 0, -1, spoil); break;
    case 7: case 8: case 9:
        e = region(s, 1, bytes);
        if (e == NULL) return;
        fragments(s, OP_WRITE, bytes, place_in(e, bytes, over), (uint32_t)e->tag, rnd(4) == 0, -1, spoil && !over);
        SCORE(s, corrupted, over);
        break;
    case 10: case 11:
        e = region(s, 0, bytes);
        if (e == NULL || s->level == 1) return;
        read_request(s, place_in(e, bytes, over), (uint32_t)e->tag, bytes, -1, spoil && !over);
        SCORE(s, corrupted, over);
        break;
    case 12: case 13: write_and_read(s, spoil); break;
    case 14:
        if (s->level != 2 || rnd(4) != 0) return;
        pulled(s, spoil);
        break;
    default:
        if (rnd(2)) short_frame(s, OP_READY, 0, 0, spoil);
        else short_frame(s, OP_ACK, s->heard, 0, spoil);
        break;
    }
    SCORE(s, well_formed, !spoil);
}

/* ---- what comes back */

static void read_answered(Speech *s, uint32_t work, uint32_t offset, const volatile uint8_t *bytes, uint32_t length, int last) {
    int i;
    uint8_t copy[FRAME_MAX], wanted[FRAME_MAX];
    for (i = 0; i < READS_MAX; i++) if (s->reads[i].length != 0 && s->reads[i].work == work) break;
    if (i == READS_MAX || length > FRAME_MAX) return;
    memcpy(copy, (const void *)(uintptr_t)bytes, length);
    if (has_canaries(copy, length)) SCORE(s, leaks, 1);
    if (s->reads[i].pattern >= 0 && offset == 0 && last) {
        pattern(wanted, length, s->reads[i].pattern);
        SCORE(s, read_back, memcmp(copy, wanted, length) == 0);
    }
    if (!last) return;
    SCORE(s, reads_answered, 1);
    s->reads[i].length = 0;
}

/* The victim reads from us. */
static void answer_read(Speech *s, uint32_t total, uint32_t work) {
    uint32_t at, n;
    int spoil = rnd(40) == 0;
    for (at = 0; at < total && total <= 65536; at += n) {
        uint64_t w[8] = {0};
        n = total - at < FRAME_MAX ? total - at : FRAME_MAX;
        w[0] = OP_READ_RESPONSE << 1 | BULK | (at + n == total ? LAST : 0);
        w[1] = at | (uint64_t)total << 32, w[2] = (uint64_t)n << 32, w[4] = (uint64_t)work << 32;
        pattern(payload(s, n, &w[7]), n, (int)rnd(128));
        out(s, w, spoil);
    }
    SCORE(s, answers_given, 1);
}

static void heard_frame(Speech *s, uint64_t head, volatile uint64_t *slot) {
    uint32_t bulk_length = (uint32_t)(slot[2] >> 32), position = (uint32_t)slot[7];
    int op = head >> 1 & 31, bulk = (head >> 8 & 255) == 255;
    if ((uint32_t)(head >> 32) != s->l->own_connection) return;
    switch (op) {
    case OP_ACK:
        if ((int32_t)((uint32_t)slot[1] - s->acknowledged) > 0) SCORE(s, sends_acknowledged, (uint32_t)slot[1] - s->acknowledged), s->acknowledged = (uint32_t)slot[1];
        break;
    case OP_NOT_READY: s->l->sequence = (uint32_t)slot[1]; break; /* what followed is lost: the message numbers are then wrong, too */
    case OP_READ_RESPONSE:
        if (bulk && position < PAYLOAD_BYTES && bulk_length <= PAYLOAD_BYTES - position) {
            read_answered(s, (uint32_t)(slot[4] >> 32), (uint32_t)slot[1], (uint8_t *)(uintptr_t)s->l->in_payload + position, bulk_length, (head & LAST) != 0);
        }
        break;
    case OP_SEND: case OP_SEND_PLACED: case OP_WRITE: case OP_WRITE_PLACED:
        if ((head & LAST) != 0) s->heard++;
        break;
    case OP_READ_REQUEST:
        s->heard++;
        answer_read(s, (uint32_t)(slot[1] >> 32), (uint32_t)(slot[4] >> 32));
        break;
    case OP_SEND_PULL: case OP_WRITE_PULL:
        if ((head & LAST) != 0) short_frame(s, OP_PULLED, slot[4] >> 32, rnd(8) != 0, 0);
        break;
    case OP_DISCONNECT:
        s->alive = 0;
        SCORE(s, disconnects, 1);
        break;
    default: break;
    }
}

void listen_to(Speech *s) {
    Link *l = s->l;
    uint32_t before = s->heard;
    int i;
    for (i = 0; i < LINES; i++) {
        volatile uint64_t *slot = (volatile uint64_t *)(uintptr_t)(l->in + LINES_AT + (size_t)(l->head % LINES) * 64);
        uint64_t head = slot[0];
        if ((head & 1) != ((l->head & LINES) == 0)) break;
        heard_frame(s, head, slot);
        l->head++;
    }
    *(volatile uint32_t *)(l->out + HEAD_AT) = l->head;
    if (s->alive && s->heard != before) short_frame(s, OP_ACK, s->heard, 0, rnd(30) == 0);
}

void advertise(Speech *s) {
    uint32_t k, at;
    uint64_t *adverts = (uint64_t *)(s->l->out + ADVERTS_AT);
    for (k = 0; k < 64; k++) {
        at = ((s->l->own_connection * 0x9e3779b1u << 10 | s->l->own_connection * 0x9e3779b1u >> 22) + s->heard + k) & (ADVERTS - 1);
        adverts[at * 4 + 1] = 1 | (uint64_t)(rnd(8) ? 65536 : (uint32_t)rnd(0)) << 32;
        adverts[at * 4 + 2] = rnd(16) ? rnd(OUR_BYTES - 65536) : rnd(0);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        adverts[at * 4] = (uint64_t)s->l->own_connection << 32 | (s->heard + k);
    }
}
