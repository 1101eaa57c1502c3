/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * speech.h - a borrower's talk with the victim over one connection: frames as an honest peer makes them, one field of them spoilt now and then, and an ear for
 * what comes back.
 */
#ifndef SPEECH_H
#define SPEECH_H

#include "protocol.h"
#include "scores.h"

/* An allocation of the victim's that we map. */
typedef struct {
    uint32_t segment;
    uint8_t *base;
    size_t bytes;
    int writable;
} Loan;

enum { LOANS_MAX = 16, READS_MAX = 8, OUR_BYTES = 1 << 20, OUR_ADDRESS = 0x10000 };

typedef struct {
    Link *l;
    Scores *scores;
    Loan *loans;
    int loan_count, level;
    int alive;               /* the connection has not been ended, as far as we heard */
    int guarded;
    uint32_t message;        /* number of the next message that takes a receive */
    uint32_t acknowledged;   /* by the victim, as last heard */
    uint32_t heard;          /* requests of the victim, counted as it counts them */
    struct {
        uint32_t work, length;
        int pattern;         /* -1: not what we wrote */
    } reads[READS_MAX];
    uint32_t works;
    uint8_t *ours;           /* OUR_BYTES that the victim may map: its requests go there */
} Speech;

/* Counts, from several borrowers. */
#define SCORE(speech, what, n) __atomic_fetch_add(&(speech)->scores->what, (long)(n), __ATOMIC_RELAXED)

/* One request, well-formed: one frame or a few. With `spoil` one field of one of its frames is not. */
void speak(Speech *s, int spoil);
/* Takes what the victim has sent: answers, requests, the end. */
void listen_to(Speech *s);
/* Makes our receives known, whatever message comes next. */
void advertise(Speech *s);
/* 1 if there are CANARY_RUN canaries in a row. */
int has_canaries(const volatile uint8_t *bytes, size_t count);

#endif
