/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* scores.h - what the borrower reports to the lender, in memory that they share for this alone: whether there was an attack at all. */
#ifndef SCORES_H
#define SCORES_H

typedef struct {
    /* Attack. */
    long connections, well_formed, corrupted, placed, sends_acknowledged, reads_answered, read_back, answers_given;
    long mapped_for_writing, mapped_for_reading, refused, bytes_scribbled, lent_to_victim, proofs, disconnects;
    /* What must stay 0. */
    long leaks, given_in_guarded_mode;
} Scores;

#define SCORE_NAMES                                                                                                                              \
    "connections", "well-formed", "corrupted", "placed", "acknowledged", "reads answered", "read back equal", "answers given", "mapped rw",      \
        "mapped ro", "maps refused", "bytes scribbled", "maps lent to the victim", "proofs", "disconnects", "LEAKS", "GIVEN IN GUARDED MODE"

enum {
    SCORES = 17,
    CANARY = 0xc5,     /* what lies in memory that the hostile may neither read nor write; no byte of the borrower's has bit 7 */
    READ_ONLY = 0x52,  /* what lies in memory that it may read */
    CANARY_RUN = 16    /* so many canaries in a row are no accident */
};

_Static_assert(sizeof(Scores) == SCORES * sizeof(long), "a name for each");

#endif
