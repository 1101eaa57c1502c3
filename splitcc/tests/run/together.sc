/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What processes do together: reductions, scans, broadcasts, gathers, atomic operations, stores and their counts, bulk. */
#include "check.h"

/* Every collective call on a type: values small enough for the smallest. */
#define OF_NUMBERS(suffix, type)                                                                    \
    {                                                                                               \
        type array[64];                                                                             \
        int j;                                                                                      \
        CHECK(all_reduce_to_all_add_##suffix((type)2) == (type)(2 * PROCS));                        \
        CHECK(all_reduce_to_one_mul_##suffix((type)(MYPROC ? 1 : 3)) == (type)(MYPROC ? 1 : 3));    \
        CHECK(all_reduce_to_all_max_##suffix((type)MYPROC) == (type)(PROCS - 1));                   \
        CHECK(all_scan_min_##suffix((type)(9 - MYPROC)) == (type)(9 - MYPROC));                     \
        CHECK(all_bcast_##suffix(MYPROC + 7) == (type)7);                                           \
        array[0] = (type)(MYPROC + 1);                                                              \
        all_concat_##suffix(array);                                                                 \
        for (j = 0; j < PROCS; j++) CHECK(array[j] == (type)(j + 1));                               \
        array[0] = (type)(MYPROC + 5);                                                              \
        array[1] = (type)77;                                                                        \
        all_gather_##suffix(array);                                                                 \
        for (j = 0; j < PROCS; j++) CHECK(array[j] == (type)(MYPROC == 0 ? j + 5 : j == 0 ? MYPROC + 5 : j == 1 ? 77 : j + 1)); \
    }
/* Each operation in its three shapes, against the same of this process alone. */
#define OF_OPERATION(op, suffix, type, expression)                                                  \
    {                                                                                               \
        type a = 1, b, upto, mine = (type)(MYPROC % 3 + 1);                                         \
        int k;                                                                                      \
        for (upto = a, k = 1; k < PROCS; k++) {                                                     \
            b = (type)(k % 3 + 1);                                                                  \
            a = (type)(expression);                                                                 \
            if (k <= MYPROC) upto = a;                                                              \
        }                                                                                           \
        CHECK(all_reduce_to_all_##op##_##suffix(mine) == a);                                        \
        CHECK(all_reduce_to_one_##op##_##suffix(mine) == (MYPROC ? mine : a));                      \
        CHECK(all_scan_##op##_##suffix(mine) == upto);                                              \
    }
#define OF_OPERATIONS(suffix, type)                                                                 \
    OF_OPERATION(add, suffix, type, a + b) OF_OPERATION(mul, suffix, type, a * b)                   \
    OF_OPERATION(max, suffix, type, b > a ? b : a) OF_OPERATION(min, suffix, type, b < a ? b : a)
#define OF_BIT_OPERATIONS(suffix, type) OF_OPERATION(and, suffix, type, a & b) OF_OPERATION(or, suffix, type, a | b) OF_OPERATION(xor, suffix, type, a ^ b)
#define OF_BITS(suffix, type)                                                                       \
    CHECK(all_reduce_to_all_or_##suffix((type)(1 << MYPROC)) == (type)((1 << PROCS) - 1));          \
    CHECK(all_reduce_to_all_and_##suffix((type)7) == (type)7);                                      \
    CHECK(all_scan_xor_##suffix((type)1) == (type)((MYPROC + 1) % 2));
static void of_every_type() {
    OF_NUMBERS(c, char) OF_NUMBERS(uc, unsigned char) OF_NUMBERS(s, short) OF_NUMBERS(us, unsigned short) OF_NUMBERS(i, int) OF_NUMBERS(u, unsigned)
    OF_NUMBERS(l, long) OF_NUMBERS(ul, unsigned long) OF_NUMBERS(ll, long long) OF_NUMBERS(ull, unsigned long long)
    OF_NUMBERS(f, float) OF_NUMBERS(d, double) OF_NUMBERS(ld, long double)
    OF_BITS(c, char) OF_BITS(uc, unsigned char) OF_BITS(s, short) OF_BITS(us, unsigned short) OF_BITS(i, int) OF_BITS(u, unsigned)
    OF_BITS(l, long) OF_BITS(ul, unsigned long) OF_BITS(ll, long long) OF_BITS(ull, unsigned long long)
}

static void every_operation() {
    OF_OPERATIONS(c, char) OF_OPERATIONS(uc, unsigned char) OF_OPERATIONS(s, short) OF_OPERATIONS(us, unsigned short) OF_OPERATIONS(i, int) OF_OPERATIONS(u, unsigned)
    OF_OPERATIONS(l, long) OF_OPERATIONS(ul, unsigned long) OF_OPERATIONS(ll, long long) OF_OPERATIONS(ull, unsigned long long)
    OF_OPERATIONS(f, float) OF_OPERATIONS(d, double) OF_OPERATIONS(ld, long double)
    OF_BIT_OPERATIONS(c, char) OF_BIT_OPERATIONS(uc, unsigned char) OF_BIT_OPERATIONS(s, short) OF_BIT_OPERATIONS(us, unsigned short) OF_BIT_OPERATIONS(i, int) OF_BIT_OPERATIONS(u, unsigned)
    OF_BIT_OPERATIONS(l, long) OF_BIT_OPERATIONS(ul, unsigned long) OF_BIT_OPERATIONS(ll, long long) OF_BIT_OPERATIONS(ull, unsigned long long)
}

static int counter, big[5000], from[5000], array[64];
static int turn;

splitc_main(int argc, char **argv) {
    int i, n = PROCS;
    double reals[64];
    char text[100];
    struct { int a; double b; } pair;
    of_every_type();
    every_operation();
    CHECK(PROCSLOG < 0 || 1 << PROCSLOG == PROCS);
    CHECK(all_reduce_to_all_add(MYPROC + 1) == n * (n + 1) / 2);
    CHECK(all_reduce_to_all_max(MYPROC) == n - 1);
    CHECK(all_reduce_to_all_min(MYPROC + 5) == 5);
    CHECK(all_reduce_to_one_add(1) == (MYPROC == 0 ? n : 1));
    CHECK(all_reduce_to_all_add_d(0.5) == n * 0.5);
    CHECK(all_reduce_to_all_dmax(MYPROC * 1.5) == (n - 1) * 1.5);
    CHECK(all_reduce_to_all_add_ld(1.0L) == n);
    CHECK(all_reduce_to_all_or_u(1u << MYPROC) == (1u << n) - 1);
    CHECK(all_scan_add(2) == 2 * (MYPROC + 1));
    CHECK(all_scan_max_l((long)-MYPROC) == 0);
    CHECK(all_bcast(MYPROC + 3) == 3);
    CHECK(all_bcast_d(MYPROC + 0.5) == 0.5);
    CHECK(all_bcast_from(n - 1, (short)MYPROC) == n - 1);
    pair.a = MYPROC + 1;
    pair.b = MYPROC * 2.0;
    pair = all_bcast(pair);
    CHECK(pair.a == 1 && pair.b == 0);
    sprintf(text, "from %d", MYPROC);
    gas_broadcast(text, sizeof text, n - 1);
    CHECK(atoi(text + 5) == n - 1);
    array[0] = MYPROC * 2;
    all_concat(array);
    for (i = 0; i < n; i++) CHECK(array[i] == 2 * i);
    reals[0] = MYPROC * 0.25;
    all_gather_d(reals);
    on_one for (i = 0; i < n; i++) CHECK(reals[i] == i * 0.25);

    for (i = 0; i < 1000; i++) fetch_and_add(toglobal(0, &counter), 1);
    barrier();
    CHECK(*toglobal(0, &counter) == 1000 * n);
    barrier();
    on_proc(n - 1) *toglobal(0, &turn) = n - 1;
    barrier();
    /* Each waits for its turn: a loop that reads the same place again and again. */
    while (*toglobal(0, &turn) != MYPROC) continue;
    CHECK(cmp_and_swap(toglobal(0, &turn), MYPROC, MYPROC - 1) == MYPROC);
    barrier();
    CHECK(exchange(toglobal(MYPROC, &turn), 9) == (MYPROC == 0 ? -1 : 0));

    for (i = 0; i < 5000; i++) from[i] = MYPROC + i;
    barrier();
    reset_store_sync();
    barrier();
    bulk_store(toglobal((MYPROC + 1) % n, big), from, sizeof from);
    {
        int *global g = toglobal((MYPROC + 1) % n, array);
        *(g++) :- MYPROC;
        *(g++) :- MYPROC + 1;
    }
    store_sync(sizeof from + 2 * sizeof(int));
    for (i = 0; i < 5000; i++) if (big[i] != (MYPROC + n - 1) % n + i) break;
    CHECK(i == 5000 && array[1] == (MYPROC + n - 1) % n + 1);
    barrier();
    bulk_get(big, toglobal((MYPROC + 1) % n, from), 4000);
    bulk_put(toglobal((MYPROC + 1) % n, &array[10]), from, 20);
    sync();
    CHECK(is_sync());
    barrier();
    CHECK(big[999] == (MYPROC + 1) % n + 999 && array[14] == (MYPROC + n - 1) % n + 4);
    barrier();
    return check_end();
}
