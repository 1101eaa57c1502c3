/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* honest.h - what the victims share: their honest peers, who must not suffer, and what they watch of themselves. */
#ifndef HONEST_H
#define HONEST_H

#include <sys/types.h>

#include "ends.h"

/* The victim's NIC; and the end of its threads. */
extern VIP_NIC_HANDLE nic;
extern volatile int stop;

/* Names of this victim (environment: VICTIM) alone. */
void name_of(char *name, const char *what);
void address_of(Address *at, const char *what);

/* A thread: answers the honest peers that come under the name `what`, until `stop`. */
void *serve_honest(void *what);
/* The peer's own process, for main(): exchanges messages for so many seconds (0: a few messages); gives the exit code, 0 if all was well. */
int honest(const char *what, double seconds);
/* Starts that process. */
pid_t start_honest(const char *what, double seconds);
/* Starts a program. */
pid_t start(char *const *words);

long resident_kb(void);
int descriptors_open(void);

#endif
