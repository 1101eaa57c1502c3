/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Fast Fourier transform: the first butterflies join places far from each other, so places lie in turn over the processes (cyclic); one exchange in bulk, and the last ones are local as well
 * (blocks). On a number of processes that is no power of two, the largest power of two of them works.
 *
 *   fft [LOG2_N]     points (default 2^12; at least the square of the processes)
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>
#include <split-c/control.h>
#include "result.h"

typedef struct {
    double re, im;
} complex_t;

static complex_t point(int i) {
    complex_t z;
    z.re = (i * 37 + 11) % 101 - 50;
    z.im = (i * 53 + 5) % 97 - 48;
    return z;
}

/* One butterfly of a stage whose partners are `half` apart, at place i of the first half; decimation in frequency. */
static void butterfly(complex_t *a, complex_t *b, int i, int half) {
    const double angle = -M_PI * (i % half) / half, c = cos(angle), s = sin(angle);
    const complex_t x = *a, y = *b;
    const double re = x.re - y.re, im = x.im - y.im;
    a->re = x.re + y.re;
    a->im = x.im + y.im;
    b->re = re * c - im * s;
    b->im = re * s + im * c;
}

static int reversed(int i, int bits) {
    int r = 0;
    while (bits-- > 0) { r = r << 1 | (i & 1); i >>= 1; }
    return r;
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    int bits = argc > 1 ? atoi(argv[1]) : 12, q = 1, n, m, i, k, half, works, wrong = 0;
    double begin;
    unsigned long result;
    while (2 * q <= PROCS) q *= 2;
    while (1 << bits < q * q) bits++;
    n = 1 << bits;
    m = n / q;
    works = MYPROC < q;
    {
        complex_t C[PROCS]::[m], B[PROCS]::[m];
        complex_t *cyclic = tolocal(C[MYPROC]), *block = tolocal(B[MYPROC]), *packed = malloc(m * sizeof(complex_t));
        for (i = 0; works && i < m; i++) cyclic[i] = point(i * q + MYPROC);
        barrier();
        begin = get_seconds();
        /* Place i here is place i * q + MYPROC of all; partners are in this process while they are at least q apart. */
        for (half = n / 2; works && half >= q; half /= 2)
            for (i = 0; i < m; i++)
                if ((i & half / q) == 0) butterfly(&cyclic[i], &cyclic[i + half / q], i * q + MYPROC, half);
        /* Block p gets this process's places p * m / q and on; there they are q apart. They travel side by side and are put in their places at the end. */
        for (k = 0; works && k < q; k++) bulk_store(&B[k][MYPROC * (m / q)], &cyclic[k * (m / q)], m / q * sizeof(complex_t));
        all_store_sync();
        for (i = 0; works && i < m; i++) packed[i % (m / q) * q + i / (m / q)] = block[i];
        for (half = q / 2; works && half >= 1; half /= 2)
            for (i = 0; i < m; i++)
                if ((i & half) == 0) butterfly(&packed[i], &packed[i + half], MYPROC * m + i, half);
        barrier();
        begin = get_seconds() - begin;
        /* Some frequencies by the definition. Place i holds frequency reversed(i). */
        for (k = 0; works && k < 8; k++) {
            const int at = k * 7919 % m, frequency = reversed(MYPROC * m + at, bits);
            double re = 0, im = 0;
            for (i = 0; i < n; i++) {
                const complex_t z = point(i);
                const double angle = -2 * M_PI * ((double)i * frequency / n - floor((double)i * frequency / n));
                re += z.re * cos(angle) - z.im * sin(angle);
                im += z.re * sin(angle) + z.im * cos(angle);
            }
            wrong += fabs(re - packed[at].re) > 1e-8 * n || fabs(im - packed[at].im) > 1e-8 * n;
        }
        wrong = all_reduce_to_all_add(wrong);
        result = result_of(packed, works ? m * sizeof(complex_t) : 0);
        on_one printf("fft %d processes, %d points, result %016lx: %.1f Mflop/s, %s\n", PROCS, n, result, 5e-6 * n * bits / begin, wrong ? "WRONG" : "right");
        barrier();
    }
    exit(wrong != 0);
}
