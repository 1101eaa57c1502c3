/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* flags: -c -fenable-matrix */
#include <split-c/split-c.h>
typedef double matrix __attribute__((matrix_type(2, 2)));
void test(int *global g, double *global d, _Atomic int *global counter) {
    matrix m;
    __sync_fetch_and_add(g, 1); /* expect: an atomic builtin of the compiler cannot be used on a global place: use fetch_and_add, exchange or cmp_and_swap */
    (*counter)++; /* expect: an atomic builtin of the compiler cannot be used on a global place: use fetch_and_add, exchange or cmp_and_swap */
    __builtin_matrix_column_major_store(m, d, 2); /* expect: this builtin cannot be used on a global place */
}
