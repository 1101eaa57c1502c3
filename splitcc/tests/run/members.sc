/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* All five operations through members of structs, of every scalar type: a member, an element of an array inside, a member of a struct inside, on either side of the sign, in an array of structs and in a spread one. */
#include "check.h"

#define TYPES(X) X(char, c) X(signed char, sc) X(unsigned char, uc) X(short, s) X(unsigned short, us) X(int, i) X(unsigned, u) X(long, l) X(unsigned long, ul) X(long long, ll) X(unsigned long long, ull) X(float, f) X(double, d) X(long double, ld)

#define INNER(type, name) type name;
#define ARRAY(type, name) type many_##name[3];
struct inner { TYPES(INNER) };
struct outer { char before; TYPES(INNER) struct inner in; TYPES(ARRAY) char after; };
static struct outer places[4], here[4];

/* `at` is a place of an array of structs of another process, `own` one here. */
#define OPERATIONS(type, member)                                                          \
    {                                                                                     \
        at[1].member = (type)(MYPROC + 3);                                                \
        CHECK(at[1].member == (type)(MYPROC + 3));                                        \
        own[2].member := at[1].member;                                                    \
        sync();                                                                           \
        CHECK(own[2].member == (type)(MYPROC + 3));                                       \
        own[2].member += 2;                                                               \
        at[3].member := own[2].member;                                                    \
        sync();                                                                           \
        CHECK(at[3].member == (type)(MYPROC + 5));                                        \
        barrier();                                                                        \
        reset_store_sync();                                                               \
        barrier();                                                                        \
        at[0].member :- own[2].member;                                                    \
        store_sync(sizeof own[2].member);                                                 \
        CHECK(mine[0].member == (type)((MYPROC + PROCS - 1) % PROCS + 5));                \
        barrier();                                                                        \
        at[0].member++;                                                                   \
        CHECK(at[0].member == (type)(MYPROC + 6));                                        \
        barrier();                                                                        \
    }
#define EACH(type, name) OPERATIONS(type, name) OPERATIONS(type, in.name) OPERATIONS(type, many_##name[1]) OPERATIONS(type, many_##name[index])

static void through(struct outer *global at, struct outer *mine, struct outer *own, int index) {
    TYPES(EACH)
    CHECK(mine[0].before == 'b' && mine[0].after == 'a' && mine[3].before == 'b' && mine[3].after == 'a');
}

splitc_main() {
    const int next = (MYPROC + 1) % PROCS, rows = PROCS;
    int k;
    for (k = 0; k < 4; k++) places[k].before = 'b', places[k].after = 'a';
    barrier();
    through(toglobal(next, places), places, here, 2);
    barrier();
    {
        /* The same in the block of a spread array with bounds of the running program. */
        struct outer A[rows]::[rows + 3];
        struct outer *own = tolocal(A[MYPROC]);
        for (k = 0; k < rows + 3; k++) own[k].before = 'b', own[k].after = 'a';
        barrier();
        through(&A[next][0], own, here, 0);
        barrier();
        here[1].many_d[2] = 2.5 + MYPROC;
        A[next][1].many_d[2] := here[1].many_d[2];
        here[1].in.ll := A[next][1].in.ll;
        sync();
        CHECK(A[next][1].many_d[2] == 2.5 + MYPROC);
        here[3].many_u[1] := A[next][2].many_u[1];
        sync();
        here[2] := A[next][1];
        sync();
        CHECK(here[2].many_d[2] == 2.5 + MYPROC && here[2].before == 'b');
        barrier();
    }
    return check_end();
}
