/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The part of Split-C's library that is written on the interface of global memory. All of it is weak: a program's own functions of these names are taken instead. */
#include "gas_together.h"

#include <stdlib.h>

#define WEAK __attribute__((weak))

WEAK int splitc_procslog(void) {
    const int n = gas_here.processes;
    return (n & (n - 1)) == 0 ? __builtin_ctz((unsigned)n) : -1;
}

/* X(op, suffix, type) as Split-C names them: with the type's suffix, and of int also without. */
#define REDUCTION(op, apply, suffix, type) NAMED(op, suffix, _##suffix, type)
#define NAMED(op, of, suffix, type)                                                                                                            \
    WEAK type all_reduce_to_all_##op##suffix(type mine) { return gas_all_##op##_##of(mine); }                                                  \
    WEAK type all_reduce_to_one_##op##suffix(type mine) {                                                                                      \
        const type result = gas_all_##op##_##of(mine);                                                                                         \
        return gas_here.process == 0 ? result : mine;                                                                                          \
    }                                                                                                                                          \
    WEAK type all_scan_##op##suffix(type mine) { return gas_scan_##op##_##of(mine); }
#define REDUCTIONS(suffix, type) GAS_NUMBER_OPERATIONS(REDUCTION, suffix, type)
#define BITS(suffix, type) GAS_BIT_OPERATIONS(REDUCTION, suffix, type)
#define PLAIN(op, apply, suffix, type) NAMED(op, suffix, , type)
GAS_SCALARS(REDUCTIONS)
GAS_INTEGERS(BITS)
GAS_NUMBER_OPERATIONS(PLAIN, i, int)
GAS_BIT_OPERATIONS(PLAIN, i, int)

/* The first element of each process's array: to process 0 (gather), to all (concat). Every array has room for all. */
#define GATHERS(of, suffix, type)                                                                                                              \
    WEAK void all_concat##suffix(type *array) { gas_concat_##of(array[0], array); }                                                            \
    WEAK void all_gather##suffix(type *array) { gas_gather_##of(array[0], array, 0); }
#define SUFFIXED(suffix, type) GATHERS(suffix, _##suffix, type)
GAS_SCALARS(SUFFIXED)
GATHERS(i, , int)

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
