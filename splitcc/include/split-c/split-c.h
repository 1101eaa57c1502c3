/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * split-c.h: the library of Split-C. The words `global` and `spread`, the signs := and :-, and spread arrays are the compiler's (splitcc); docs/guide/split-c.md shows both.
 *
 * Names that programs of the time define themselves (all_gather and the like) are in the library but not declared here: a program's own take their place.
 */
#ifndef SPLIT_C_SPLIT_C_H
#define SPLIT_C_SPLIT_C_H

#ifndef __SPLITC__
#error "split-c.h is for Split-C sources: compile files named .sc with splitcc"
#endif

#include <stddef.h>

/* ------------------------------------------------------------ who and how many */

struct splitc_here {
    int process, processes;
    unsigned long self;
};
extern struct splitc_here gas_here;

#define MYPROC (gas_here.process + 0)
#define PROCS (gas_here.processes + 0)
/* Its logarithm to base 2; negative if it is not a power of two. */
#define PROCSLOG splitc_procslog()
int splitc_procslog(void);

#include <split-c/control.h>

/* ------------------------------------------------------------ pointers */

/* The local part of a global or spread pointer, or the local address of a global place: what it names in the process that owns it. */
#define tolocal(place) __splitc_tolocal(place)
/* The number of the process that owns it. */
#define toproc(place) __splitc_toproc(place)
/* The global pointer to an address of a process. */
#define toglobal(process, pointer) __splitc_toglobal(process, pointer)

/* ------------------------------------------------------------ completion */

/* Waits for this process's own := (and bulk_get, bulk_put). */
void sync(void) __asm__("gas_sync");
void bulk_sync(void) __asm__("gas_sync");
int is_sync(void) __asm__("gas_is_sync");
/* Waits until so many bytes have been stored into this process, and takes them off the count. */
void store_sync(size_t bytes) __asm__("gas_store_sync");
void reset_store_sync(void) __asm__("gas_reset_store_sync");
/* Collective: waits for all stores of all processes. */
void all_store_sync(void) __asm__("gas_all_store_sync");
void barrier(void) __asm__("gas_barrier");

/* ------------------------------------------------------------ bulk */

void bulk_read(void *to, const void *global from, size_t bytes) __asm__("gas_bulk_read");
void bulk_write(void *global to, const void *from, size_t bytes) __asm__("gas_bulk_write");
void bulk_get(void *to, const void *global from, size_t bytes) __asm__("gas_bulk_get");
void bulk_put(void *global to, const void *from, size_t bytes) __asm__("gas_bulk_put");
void bulk_store(void *global to, const void *from, size_t bytes) __asm__("gas_bulk_store");

/* ------------------------------------------------------------ spread memory: collective */

/* `count` blocks of so many bytes, block i in process i % PROCS: a pointer to the first. NULL if there is no memory. */
#define all_spread_malloc(count, bytes) __splitc_spread_make((count), (bytes), 0)
#define all_spread_free(pointer) gas_spread_end((unsigned long)(pointer))
void gas_spread_end(unsigned long);

/*
 * The same by one process alone: the others are told the pointer, and only this process frees it. global_malloc is memory of one process; all_malloc (collective) the same address in every process, a local
 * pointer.
 */
#define spread_malloc(count, bytes) ((void *spread)gas_spread_make_alone((count), (bytes)))
#define spread_free(pointer) gas_spread_end((unsigned long)(pointer))
void *spread gas_spread_make_alone(long, size_t);
#define global_malloc(process, bytes) splitc_global_malloc((process), (bytes))
#define global_free(pointer) gas_spread_end((unsigned long)(pointer))
void *global splitc_global_malloc(int process, size_t bytes);
void *all_malloc(size_t bytes) __asm__("splitc_all_malloc");
void all_free(void *block) __asm__("splitc_all_free");

/* ------------------------------------------------------------ atomic operations on an int */

int fetch_and_add(int *global place, int value) __asm__("gas_fetch_add_4");
int exchange(int *global place, int value) __asm__("gas_swap_4");
/* Returns what was there: `value` is there now if that was `expected`. */
int cmp_and_swap(int *global place, int expected, int value) __asm__("gas_compare_swap_4");
#define test_and_set(place) exchange((place), 1)
long fetch_and_add_l(long *global place, long value) __asm__("gas_fetch_add_8");
long exchange_l(long *global place, long value) __asm__("gas_swap_8");
long cmp_and_swap_l(long *global place, long expected, long value) __asm__("gas_compare_swap_8");

/*
 * Any function: runs `long function(T *place, long argument)` on a global place, one at a time on all places of its process; its result. The function is named, and touches its place alone: no other
 * global memory, no function of this header.
 */
#define atomic(function, place, argument)                                                                                                                            \
    __extension__({                                                                                                                                                  \
        static long (*const splitc_function_)() __attribute__((section("splitc_atomic"), used)) = (long (*)())(function);                                            \
        gas_call((unsigned long)(void *global)(place), (unsigned long)(&splitc_function_ - __start_splitc_atomic), (argument));                                      \
    })
extern long (*const __start_splitc_atomic[])();
long gas_call(unsigned long, unsigned long, long);

/* ------------------------------------------------------------ all processes: collective */

/* The value of process 0, of whatever type. */
#define all_bcast(value) all_bcast_from(0, value)
#define all_bcast_from(process, value) __extension__({ __typeof__((0, (value))) splitc_value_ = (value); gas_broadcast(&splitc_value_, sizeof splitc_value_, (process)); splitc_value_; })
#define all_bcast_c(value) all_bcast((char)(value))
#define all_bcast_uc(value) all_bcast((unsigned char)(value))
#define all_bcast_s(value) all_bcast((short)(value))
#define all_bcast_us(value) all_bcast((unsigned short)(value))
#define all_bcast_i(value) all_bcast((int)(value))
#define all_bcast_u(value) all_bcast((unsigned)(value))
#define all_bcast_l(value) all_bcast((long)(value))
#define all_bcast_ul(value) all_bcast((unsigned long)(value))
#define all_bcast_ll(value) all_bcast((long long)(value))
#define all_bcast_ull(value) all_bcast((unsigned long long)(value))
#define all_bcast_f(value) all_bcast((float)(value))
#define all_bcast_d(value) all_bcast((double)(value))
#define all_bcast_ld(value) all_bcast((long double)(value))
/* So many bytes at `data`, from one process to all. */
void gas_broadcast(void *data, size_t bytes, int root);

/*
 * all_gather_SUFFIX(T *array), all_concat_SUFFIX(T *array): the first element of each process's array, in the order of the processes, into the array of process 0, or into everybody's; with the suffixes below,
 * and all_gather, all_concat of int. Not declared here: see above.
 */

/*
 * Reductions, of every process's value in the order of the processes. to_one: process 0 has the result, the others their own value. Without a suffix they are of int;
 * _c _s _i _l _ll are of char, short, int, long, long long; _uc _us _u _ul _ull of these unsigned; _f _d _ld of float, double, long double; iadd, dadd ... are other names of add_i, add_d ...
 * all_scan_OP gives process i the result over processes 0 to i.
 */
#define SPLITC_REDUCTION(op, suffix, type) type all_reduce_to_one_##op##suffix(type); type all_reduce_to_all_##op##suffix(type); type all_scan_##op##suffix(type);
#define SPLITC_REDUCTIONS(suffix, type) SPLITC_REDUCTION(add, suffix, type) SPLITC_REDUCTION(mul, suffix, type) SPLITC_REDUCTION(max, suffix, type) SPLITC_REDUCTION(min, suffix, type)
#define SPLITC_BITS(suffix, type) SPLITC_REDUCTION(and, suffix, type) SPLITC_REDUCTION(or, suffix, type) SPLITC_REDUCTION(xor, suffix, type)
#define SPLITC_INTEGERS(X) X(, int) X(_c, char) X(_uc, unsigned char) X(_s, short) X(_us, unsigned short) X(_i, int) X(_l, long) X(_ll, long long) X(_u, unsigned) X(_ul, unsigned long) X(_ull, unsigned long long)
#define SPLITC_REALS(X) X(_f, float) X(_d, double) X(_ld, long double)
SPLITC_INTEGERS(SPLITC_REDUCTIONS)
SPLITC_REALS(SPLITC_REDUCTIONS)
SPLITC_INTEGERS(SPLITC_BITS)
#define all_reduce_to_one_iadd all_reduce_to_one_add_i
#define all_reduce_to_one_dadd all_reduce_to_one_add_d
#define all_reduce_to_one_fadd all_reduce_to_one_add_f
#define all_reduce_to_all_iadd all_reduce_to_all_add_i
#define all_reduce_to_all_dadd all_reduce_to_all_add_d
#define all_reduce_to_all_fadd all_reduce_to_all_add_f
#define all_reduce_to_all_imax all_reduce_to_all_max_i
#define all_reduce_to_all_dmax all_reduce_to_all_max_d
#define all_reduce_to_all_imin all_reduce_to_all_min_i
#define all_reduce_to_all_dmin all_reduce_to_all_min_d

/* ------------------------------------------------------------ the rest */

double get_seconds(void) __asm__("gas_seconds");
/* Ends the job, from any process. */
void splitc_exit(int status) __asm__("gas_exit") __attribute__((noreturn));

#endif
