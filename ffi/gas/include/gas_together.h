/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gas_together.h: reductions, scans, gathers and broadcasts of every scalar type, on gas_exchange
 * and gas_broadcast. Collective: all processes call the same, in the same order.
 *
 *     double sum = gas_all_add_d(mine);        the sum of everybody's value, for all
 *     int before = gas_scan_max_i(mine);       the greatest of the values of processes 0 to this one
 *     gas_gather_f(mine, all, 0);              everybody's value in the order of the processes, for process 0 alone
 *     gas_concat_us(mine, all);                the same, for all
 *     long them = gas_bcast_l(mine, 2);        the value of process 2, for all
 *
 * Suffixes: c uc s us i u l ul ll ull f d ld. Operations: add mul max min, and of integers and or
 * xor. They go in the order of the processes, so that sums of reals are the same everywhere and
 * each time.
 */
#ifndef BELLWIRE_GAS_TOGETHER_H
#define BELLWIRE_GAS_TOGETHER_H

#include "bellwire_gas.h"

#include <alloca.h>

#define GAS_PLUS(a, b) ((a) + (b))
#define GAS_TIMES(a, b) ((a) * (b))
#define GAS_LARGER(a, b) ((b) > (a) ? (b) : (a))
#define GAS_SMALLER(a, b) ((b) < (a) ? (b) : (a))
#define GAS_BOTH(a, b) ((a) & (b))
#define GAS_EITHER(a, b) ((a) | (b))
#define GAS_ONE_OF(a, b) ((a) ^ (b))

/* X(suffix, type) for each. */
#define GAS_INTEGERS(X) X(c, char) X(uc, unsigned char) X(s, short) X(us, unsigned short) X(i, int) X(u, unsigned) X(l, long) X(ul, unsigned long) X(ll, long long) X(ull, unsigned long long)
#define GAS_REALS(X) X(f, float) X(d, double) X(ld, long double)
#define GAS_SCALARS(X) GAS_INTEGERS(X) GAS_REALS(X)

/* X(operation, apply, suffix, type) for each that a type has. */
#define GAS_NUMBER_OPERATIONS(X, suffix, type) X(add, GAS_PLUS, suffix, type) X(mul, GAS_TIMES, suffix, type) X(max, GAS_LARGER, suffix, type) X(min, GAS_SMALLER, suffix, type)
#define GAS_BIT_OPERATIONS(X, suffix, type) X(and, GAS_BOTH, suffix, type) X(or, GAS_EITHER, suffix, type) X(xor, GAS_ONE_OF, suffix, type)

#define GAS_REDUCTION(op, apply, suffix, type)                                                                \
    static inline type gas_upto_##op##_##suffix(type mine, int last) {                                        \
        type *const all = (type *)alloca(sizeof(type) * (size_t)gas_here.processes);                          \
        type result;                                                                                          \
        int i;                                                                                                \
        gas_exchange(&mine, all, sizeof mine);                                                                \
        result = all[0];                                                                                      \
        for (i = 1; i <= last; i++) result = (type)apply(result, all[i]);                                     \
        return result;                                                                                        \
    }                                                                                                         \
    static inline type gas_all_##op##_##suffix(type mine) { return gas_upto_##op##_##suffix(mine, gas_here.processes - 1); } \
    static inline type gas_scan_##op##_##suffix(type mine) { return gas_upto_##op##_##suffix(mine, gas_here.process); }
#define GAS_NUMBER(suffix, type) GAS_NUMBER_OPERATIONS(GAS_REDUCTION, suffix, type)
#define GAS_BITS(suffix, type) GAS_BIT_OPERATIONS(GAS_REDUCTION, suffix, type)

#define GAS_GATHER(suffix, type)                                                                              \
    static inline void gas_concat_##suffix(type mine, type *all) { gas_exchange(&mine, all, sizeof mine); }   \
    static inline void gas_gather_##suffix(type mine, type *all, int root) {                                  \
        type *const room = gas_here.process == root ? all : (type *)alloca(sizeof(type) * (size_t)gas_here.processes); \
        gas_exchange(&mine, room, sizeof mine);                                                               \
    }                                                                                                         \
    static inline type gas_bcast_##suffix(type mine, int root) {                                              \
        gas_broadcast(&mine, sizeof mine, root);                                                              \
        return mine;                                                                                          \
    }

GAS_SCALARS(GAS_NUMBER)
GAS_INTEGERS(GAS_BITS)
GAS_SCALARS(GAS_GATHER)

#endif
