// SPDX-License-Identifier: MIT OR Apache-2.0
#include "semantics.h"

namespace splitc {

// The names with two underscores are found in the run-time library, in runtime/inline.c, or are operators of semantics.cpp that look like functions.
const char *const prelude = R"(
#define global __attribute__((__address_space__(1)))
#define spread __attribute__((__address_space__(2)))
#define __SPLITC__ 1
void spread *__splitc_spread_add(void spread *, long, unsigned long) __attribute__((const));
long __splitc_spread_difference(void spread *, void spread *, unsigned long) __attribute__((const));
unsigned long __splitc_spread_key(void spread *) __attribute__((const));
int __splitc_process(void global *) __attribute__((const));
void global *__splitc_global(int, void *) __attribute__((const));
void spread *__splitc_spread_make(long, unsigned long, int);
void __splitc_automatic_end(void *);
int __splitc_tolocal();
int __splitc_toproc();
int __splitc_toglobal();
int __splitc_spread_array();
)";

} // namespace splitc
