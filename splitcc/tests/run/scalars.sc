/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every scalar type by every operation: read, write, get, put, store; from and to statics, heap, stack, and spread memory. */
#include "check.h"

#define TYPES(X) X(char, c) X(signed char, sc) X(unsigned char, uc) X(short, s) X(unsigned short, us) X(int, i) X(unsigned, u) X(long, l) X(unsigned long, ul) \
    X(long long, ll) X(float, f) X(double, d) X(long double, ld) X(_Bool, b)

#define TEST(type, name)                                                                       \
    static type static_##name;                                                                 \
    static type value_##name(int p) { return (type)(p * 3 + 1); }                              \
    static void by_##name(type *global place) {                                                \
        type mine = value_##name(MYPROC), other;                                               \
        int left = (MYPROC + PROCS - 1) % PROCS, right = (MYPROC + 1) % PROCS;                 \
        type *global there = toglobal(right, tolocal(place));                                  \
        type *own = tolocal(place);                                                            \
        barrier();                                                                             \
        *there = mine;                                                                         \
        CHECK(*there == mine);                                                                 \
        barrier();                                                                             \
        CHECK(*own == value_##name(left));                                                     \
        CHECK(*toglobal(MYPROC, own) == value_##name(left));                                   \
        barrier();                                                                             \
        there[0] := (type)(mine + 1);                                                          \
        sync();                                                                                \
        barrier();                                                                             \
        CHECK(*own == (type)(value_##name(left) + 1));                                         \
        barrier();                                                                             \
        *own = mine;                                                                           \
        barrier();                                                                             \
        other := *there;                                                                       \
        sync();                                                                                \
        CHECK(other == value_##name(right));                                                   \
        barrier();                                                                             \
        reset_store_sync();                                                                    \
        barrier();                                                                             \
        *there :- mine + 2;                                                                    \
        store_sync(sizeof(type));                                                              \
        CHECK(*own == (type)(value_##name(left) + 2));                                         \
        barrier();                                                                             \
        *there :- mine;                                                                        \
        all_store_sync();                                                                      \
        CHECK(*own == value_##name(left));                                                     \
        barrier();                                                                             \
        (*there)++;                                                                            \
        *there += 1;                                                                           \
        barrier();                                                                             \
        CHECK(*own == (type)((type)(value_##name(left) + 1) + 1));                             \
        barrier();                                                                             \
    }                                                                                          \
    static void test_##name() {                                                                \
        type automatic = 0;                                                                    \
        type *heap = (type *)malloc(sizeof(type));                                             \
        type n[PROCS]::;                                                                       \
        type *global where;                                                                    \
        unsigned long heaps[64];                                                               \
        by_##name(toglobal(MYPROC, &static_##name));                                           \
        /* The heap's addresses differ between processes: each tells its own. */              \
        gas_exchange_test((unsigned long)heap, heaps);                                         \
        where = toglobal((MYPROC + 1) % PROCS, (type *)heaps[(MYPROC + 1) % PROCS]);           \
        *where = value_##name(MYPROC);                                                         \
        barrier();                                                                             \
        CHECK(*heap == value_##name((MYPROC + PROCS - 1) % PROCS));                            \
        gas_exchange_test((unsigned long)&automatic, heaps);                                   \
        where = toglobal((MYPROC + 1) % PROCS, (type *)heaps[(MYPROC + 1) % PROCS]);           \
        *where = value_##name(MYPROC);                                                         \
        barrier();                                                                             \
        CHECK(*(volatile type *)&automatic == value_##name((MYPROC + PROCS - 1) % PROCS));     \
        barrier();                                                                             \
        by_##name((type *global)(n + MYPROC));                                                 \
        free(heap);                                                                            \
    }

extern void gas_exchange(const void *, void *, size_t);
static void gas_exchange_test(mine, all) unsigned long mine, *all; { gas_exchange(&mine, all, sizeof mine); }

TYPES(TEST)

splitc_main() {
#define RUN(type, name) test_##name();
    TYPES(RUN)
    exit(check_end());
}
