/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* flags: -fsyntax-only -Wall */
/* C of the time of GCC 2 compiles, and warnings are those of today. */
#include <split-c/split-c.h>
static counter;
old(a, b)
    int *global b;
{
    int unused; /* expect: unused variable 'unused' */
    *b = a + elsewhere(counter); /* expect: implicit declaration of function 'elsewhere' */
    return *b = 3;
}
splitc_main() {
    int A[PROCS]::[4], x;
    if (x = A[0][1]) A[1][2] := x; /* expect: using the result of an assignment as a condition without parentheses */
    A[2][1] == 3; /* expect: equality comparison result unused */
    return old(1, &A[0][0]);
}
