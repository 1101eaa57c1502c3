/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of Split-C's library that is written on the interface of global memory. All of it is weak: a program's own functions of these names are taken instead. */
#include "bellwire_gas.h"

#include <alloca.h>
#include <stdlib.h>
#include <string.h>

#define WEAK __attribute__((weak))

WEAK int splitc_procslog(void) {
    const int n = gas_here.processes;
    return (n & (n - 1)) == 0 ? __builtin_ctz((unsigned)n) : -1;
}

#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
#define LARGER(a, b) ((b) > (a) ? (b) : (a))
#define SMALLER(a, b) ((b) < (a) ? (b) : (a))
#define BOTH(a, b) ((a) & (b))
#define EITHER(a, b) ((a) | (b))
#define ONE_OF(a, b) ((a) ^ (b))

/* In the order of the processes, so that sums of reals are the same everywhere and each time. */
#define REDUCTION(op, apply, suffix, type)                                                                                                     \
    static type to_##op##suffix(type mine, int last) {                                                                                         \
        type *all = alloca(sizeof(type) * (size_t)gas_here.processes);                                                                         \
        type result;                                                                                                                           \
        int i;                                                                                                                                 \
        gas_exchange(&mine, all, sizeof mine);                                                                                                 \
        result = all[0];                                                                                                                       \
        for (i = 1; i <= last; i++) result = (type)apply(result, all[i]);                                                                      \
        return result;                                                                                                                         \
    }                                                                                                                                          \
    WEAK type all_reduce_to_all_##op##suffix(type mine) { return to_##op##suffix(mine, gas_here.processes - 1); }                              \
    WEAK type all_reduce_to_one_##op##suffix(type mine) {                                                                                      \
        const type result = to_##op##suffix(mine, gas_here.processes - 1);                                                                     \
        return gas_here.process == 0 ? result : mine;                                                                                          \
    }                                                                                                                                          \
    WEAK type all_scan_##op##suffix(type mine) { return to_##op##suffix(mine, gas_here.process); }
#define REDUCTIONS(suffix, type) REDUCTION(add, PLUS, suffix, type) REDUCTION(mul, TIMES, suffix, type) REDUCTION(max, LARGER, suffix, type) REDUCTION(min, SMALLER, suffix, type)
#define BITS(suffix, type) REDUCTION(and, BOTH, suffix, type) REDUCTION(or, EITHER, suffix, type) REDUCTION(xor, ONE_OF, suffix, type)
#define INTEGERS(X) X(, int) X(_c, char) X(_s, short) X(_i, int) X(_l, long) X(_u, unsigned) X(_ul, unsigned long)
#define REALS(X) X(_f, float) X(_d, double) X(_ld, long double)
INTEGERS(REDUCTIONS)
REALS(REDUCTIONS)
INTEGERS(BITS)

/* The first element of each process's array: to process 0 (gather), to all (concat). Every array has room for all. */
static void collect(void *array, size_t bytes, int is_everywhere) {
    char *all = alloca(bytes * (size_t)gas_here.processes);
    gas_exchange(array, all, bytes);
    if (is_everywhere || gas_here.process == 0) memcpy(array, all, bytes * (size_t)gas_here.processes);
}
WEAK void all_gather(int *array) { collect(array, sizeof *array, 0); }
WEAK void all_gather_d(double *array) { collect(array, sizeof *array, 0); }
WEAK void all_concat(int *array) { collect(array, sizeof *array, 1); }
WEAK void all_concat_d(double *array) { collect(array, sizeof *array, 1); }

/* What headers of the time make of malloc and free. */
WEAK void *sc_malloc_wrapper(size_t bytes) { return malloc(bytes); }
WEAK void sc_free_wrapper(void *block) { free(block); }

/* Memory of one process, taken by another: from the taker's own arena, which all keep free for it. */
gas_ptr splitc_global_malloc(int process, size_t bytes) {
    const gas_ptr made = process >= 0 && process < gas_here.processes ? gas_spread_make_alone(1, bytes) : 0;
    return made ? made | (gas_ptr)process << 48 : 0;
}
void *splitc_all_malloc(size_t bytes) { return (void *)(gas_spread_make(gas_here.processes, bytes, 0) & ((1UL << 48) - 1)); }
void splitc_all_free(void *block) { gas_spread_end((gas_ptr)block); }
