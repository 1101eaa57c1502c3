/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * LU decomposition of a matrix whose columns are spread: column j is in process j % PROCS. The owner of the next column scales it, all others fetch it and change their own columns.
 *
 *   lu [N]     order of the matrix (default 96)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>
#include "result.h"

/* Diagonally dominant: it needs no exchange of rows. */
static double element(int i, int j, int n) { return (i * 7 + j * 13) % 17 - 8 + (i == j ? 9 * n : 0); }

splitc_main(argc, argv)
int argc;
char **argv;
{
    int n = argc > 1 ? atoi(argv[1]) : 96, i, j, k, wrong = 0;
    double *column, begin;
    unsigned long result;
    if (n < 1) exit(2);
    column = malloc(n * sizeof(double));
    {
        double A[n]::[n];
        for_my_1d(j, n) {
            double *own = tolocal(A[j]);
            for (i = 0; i < n; i++) own[i] = element(i, j, n);
        }
        barrier();
        begin = get_seconds();
        for (k = 0; k < n; k++) {
            if (k % PROCS == MYPROC) {
                double *own = tolocal(A[k]);
                for (i = k + 1; i < n; i++) own[i] /= own[k];
            }
            barrier();
            bulk_read(column + k, &A[k][k], (n - k) * sizeof(double));
            for_my_1d(j, n) {
                double *own = tolocal(A[j]);
                if (j > k)
                    for (i = k + 1; i < n; i++) own[i] -= column[i] * own[k];
            }
        }
        barrier();
        begin = get_seconds() - begin;
        /* A process's columns lie one behind the other. */
        result = result_of(tolocal(A[MYPROC]), MYPROC < n ? (n - MYPROC + PROCS - 1) / PROCS * n * sizeof(double) : 0);
        /* The product, a column for each process. */
        {
            double *product = malloc(n * sizeof(double));
            for_my_1d(j, n) {
                const double *own = tolocal(A[j]);
                memset(product, 0, n * sizeof(double));
                for (k = 0; k <= j; k++) {
                    bulk_read(column, &A[k][0], n * sizeof(double));
                    product[k] += own[k];
                    for (i = k + 1; i < n; i++) product[i] += column[i] * own[k];
                }
                for (i = 0; i < n; i++) wrong += fabs(product[i] - element(i, j, n)) > 1e-9 * n;
            }
        }
        wrong = all_reduce_to_all_add(wrong);
        on_one printf("lu %d processes, order %d, result %016lx: %.1f Mflop/s, %s\n", PROCS, n, result, 2e-6 / 3 * n * n * n / begin, wrong ? "WRONG" : "right");
        barrier();
    }
    exit(wrong != 0);
}
