/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Two processes with an endpoint each, which know each other's names: what the tests share. */
#ifndef PAIR_H
#define PAIR_H

#include <am.h>
#include <sys/types.h>

enum { TAG = 0x5eed, PATIENCE_SECONDS = 30 };

typedef struct {
    eb_t bundle;
    ep_t endpoint;
    en_t own, other;
    pid_t child; /* 0 in the child */
} Pair;

/* Forks; then each process initialises the library, makes an endpoint with tag TAG, and learns the other's name, which is entry 0 of its table. */
Pair pair_fork(void);
/* Polls until *counter is at least `count`; 0 if that takes too long. */
int pair_until(Pair *pair, volatile int *counter, int count);
/* The child has ended well? Called by the parent. */
int pair_ended(Pair *pair);

#endif
