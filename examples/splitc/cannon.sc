/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Cannon's matrix multiplication on a square of processes: blocks of A move to the left, blocks of B upward, by bulk stores; every process multiplies what it has. On a number of processes
 * that is no square, the largest square of them works.
 *
 *   cannon [N]     the size of a block (default 60)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>
#include "result.h"

static double a_value(int i, int j) { return (i * 7 + j * 3) % 11 - 5; }
static double b_value(int i, int j) { return (i * 5 + j * 2) % 13 - 6; }

static void multiply(n, c, a, b) double *c, *a, *b; {
    int i, j, k;
    for (i = 0; i < n; i++)
        for (k = 0; k < n; k++)
            for (j = 0; j < n; j++) c[i * n + j] += a[i * n + k] * b[k * n + j];
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    int n = argc > 1 ? atoi(argv[1]) : 60, q = 1, i, j, k, step, now = 0, wrong = 0;
    unsigned long result;
    double begin;
    if (n < 1) exit(2);
    while ((q + 1) * (q + 1) <= PROCS) q++;
    {
        double A[PROCS]::[2][n][n], B[PROCS]::[2][n][n], C[PROCS]::[n][n];
        double (*a)[n][n] = tolocal(A[MYPROC]), (*b)[n][n] = tolocal(B[MYPROC]), *c = (double *)tolocal(C[MYPROC]);
        int row = MYPROC / q, column = MYPROC % q, works = MYPROC < q * q;
        int left = row * q + (column + q - 1) % q, up = (row + q - 1) % q * q + column;
        for (i = 0; works && i < n; i++)
            for (j = 0; j < n; j++) {
                /* The blocks as they stand at the beginning: row r of A moved r to the left, column c of B moved c upward. */
                a[0][i][j] = a_value(row * n + i, (column + row) % q * n + j);
                b[0][i][j] = b_value((row + column) % q * n + i, column * n + j);
                c[i * n + j] = 0;
            }
        barrier();
        reset_store_sync();
        barrier();
        begin = get_seconds();
        for (step = 0; step < q; step++, now = !now) {
            if (!works) { barrier(); continue; }
            if (step + 1 < q) {
                bulk_store(&A[left][!now][0][0], &a[now][0][0], n * n * sizeof(double));
                bulk_store(&B[up][!now][0][0], &b[now][0][0], n * n * sizeof(double));
            }
            multiply(n, c, &a[now][0][0], &b[now][0][0]);
            if (step + 1 < q) store_sync(2 * n * n * sizeof(double));
            /* Nobody stores into a block that somebody still multiplies. */
            barrier();
        }
        begin = get_seconds() - begin;
        result = result_of(c, works ? n * n * sizeof(double) : 0);
        on_one {
            double *block = malloc(n * n * sizeof(double));
            int p;
            for (p = 0; p < q * q; p++) {
                bulk_read(block, &C[p][0][0], n * n * sizeof(double));
                for (i = 0; i < n; i++)
                    for (j = 0; j < n; j++) {
                        double sum = 0;
                        for (k = 0; k < q * n; k++) sum += a_value(p / q * n + i, k) * b_value(k, p % q * n + j);
                        wrong += sum != block[i * n + j];
                    }
            }
            free(block);
            printf("cannon %d processes, %d x %d, result %016lx: %.1f Mflop/s, %s\n", PROCS, q * n, q * n, result, 2e-6 * q * n * q * n * q * n / begin, wrong ? "WRONG" : "right");
        }
        barrier();
    }
    exit(all_bcast(wrong) != 0);
}
