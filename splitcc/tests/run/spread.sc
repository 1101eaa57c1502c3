/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Spread pointers and arrays: the walk over processes, run-time bounds, parameters, subscripts, addresses, statics. */
#include "check.h"

struct cell {
    int colour;
    double weight[3];
};

double table[20]::[2];
static int counts[PROCS]::;

/* Old style, with a spread array of four dimensions and bounds that are parameters. */
int sum(X, v, w, q, r) int v, w, q, r; int X[v][w]::[q][r]; {
    int total = 0, a, b, c, d;
    for (a = 0; a < v; a++)
        for (b = 0; b < w; b++)
            for (c = 0; c < q; c++)
                for (d = 0; d < r; d++) total += X[a][b][c][d];
    return total;
}

static int sum_new(int v, int w, int q, int r, int X[v][w]::[q][r]) { return sum(X, v, w, q, r); }

static void walk() {
    int i, rows = 3;
    int *spread s = (int *spread)all_spread_malloc(rows * PROCS, sizeof(int));
    int *spread p, *spread *out = &p;
    CHECK(s != NULL);
    CHECK(toproc(s) == 0);
    for_my_1d (i, rows * PROCS) s[i] = 100 + i;
    barrier();
    for (i = 0; i < rows * PROCS; i++) {
        CHECK(s[i] == 100 + i);
        CHECK(*(s + i) == 100 + i);
        CHECK(toproc(s + i) == i % PROCS);
        CHECK(tolocal(s + i) == tolocal(s) + i / PROCS);
        CHECK((s + i) - s == i);
        CHECK(s + i - i == s);
        CHECK(i == 0 || s < s + i);
    }
    *out = s;
    for (i = 0; i < rows * PROCS; i++) CHECK(*p++ == 100 + i);
    CHECK(p == s + rows * PROCS);
    for (i = rows * PROCS - 1; i >= 0; i--) CHECK(*--p == 100 + i);
    p += PROCS;
    CHECK(tolocal(p) == tolocal(s) + 1);
    p -= PROCS;
    CHECK(p == s);
    barrier();
    all_spread_free(s);
}

static void blocks() {
    int p, k;
    int *spread s = (int *spread)all_spread_malloc(PROCS, 8 * sizeof(int));
    int *own = (int *)(s + MYPROC);
    int *global g;
    for (k = 0; k < 8; k++) own[k] = MYPROC * 10 + k;
    barrier();
    for (p = 0; p < PROCS; p++) {
        g = (int *global)(s + p) + 3;
        CHECK(*g == p * 10 + 3);
        CHECK(((int *global)(s + p))[5] == p * 10 + 5);
        CHECK(toproc(g + 4) == p);
        CHECK(g + 2 - g == 2);
    }
    barrier();
    all_spread_free(s);
}

static void arrays(int n, int m) {
    int A[PROCS]::[m], B[PROCS]::[m], single[PROCS]::;
    int X[n][PROCS]::[m][2];
    struct cell cells[n * PROCS]::[2];
    struct cell mine[3];
    int *global where[PROCS]::[2], *spread all[PROCS]::;
    int i, j, k, buffer[64];
    int *local = tolocal(A[MYPROC]);
    for (k = 0; k < m; k++) local[k] = MYPROC * 100 + k;
    single[MYPROC] = MYPROC + 7;
    where[MYPROC][1] = &A[MYPROC][0];
    all[MYPROC] = single;
    for (i = 0; i < n; i++)
        for (k = 0; k < m; k++) X[i][MYPROC][k][1] = i * 1000 + MYPROC * 100 + k, X[i][MYPROC][k][0] = 1;
    for (i = 0; i < n; i++) {
        cells[i * PROCS + MYPROC][1].colour = i + MYPROC;
        cells[i * PROCS + MYPROC][1].weight[2] = i * 0.5;
    }
    barrier();
    for (i = 0; i < PROCS; i++) {
        CHECK(A[i][m - 1] == i * 100 + m - 1);
        CHECK(single[i] == i + 7);
        CHECK(*where[i][1] == i * 100 && toproc(where[i][1]) == i && all[i][PROCS - 1] == PROCS + 6);
        bulk_read(buffer, &A[i][1], (m - 1) * sizeof(int));
        for (k = 1; k < m; k++) CHECK(buffer[k - 1] == i * 100 + k);
        for (j = 0; j < n; j++) {
            for (k = 0; k < m; k++) CHECK(X[j][i][k][1] == j * 1000 + i * 100 + k);
            mine[1].colour := cells[j * PROCS + i][1].colour;
            mine[2].weight[1] := cells[j * PROCS + i][1].weight[2];
            mine[0] := cells[j * PROCS + i][1];
            sync();
            CHECK(mine[1].colour == j + i);
            CHECK(mine[2].weight[1] == j * 0.5);
            CHECK(mine[0].colour == j + i && mine[0].weight[2] == j * 0.5);
        }
    }
    barrier();
    bulk_write(&B[(MYPROC + 1) % PROCS][0], local, m * sizeof(int));
    barrier();
    CHECK(B[MYPROC][m - 1] == (MYPROC + PROCS - 1) % PROCS * 100 + m - 1);
    k = sum_new(n, PROCS, m, 2, X);
    for (i = 0, j = 0; i < n * PROCS * m; i++) j += 1 + i / (PROCS * m) * 1000 + i / m % PROCS * 100 + i % m;
    CHECK(k == j);
    barrier();
}

static void statics() {
    int i;
    for (i = MYPROC; i < 20; i += PROCS) table[i][1] = i * 0.25;
    counts[MYPROC] = MYPROC + 1;
    barrier();
    for (i = 0; i < 20; i++) CHECK(table[i][1] == i * 0.25);
    for (i = 0; i < PROCS; i++) CHECK(counts[i] == i + 1);
    barrier();
}

#define POS(array, x, y) array[(y) * size + (x)]
static void swap(int size) {
    double u1[256]::, u2[256]::;
    double *spread ucurr, *spread unext, *spread t;
    int x, y;
    ucurr = u1;
    unext = u2;
    CHECK(ucurr == u1);
    CHECK(unext != u1);
    on_one for (y = 0; y < size; y++)
        for (x = 0; x < size; x++) POS(ucurr, x, y) = x + 0.01 * y;
    barrier();
    t = ucurr; ucurr = unext; unext = t;
    CHECK(ucurr == u2);
    CHECK(POS(unext, 2, 3) == 2 + 0.01 * 3);
    barrier();
}

splitc_main() {
    int i;
    walk();
    blocks();
    for (i = 0; i < 3; i++) arrays(i + 1, 3 + 2 * i);
    statics();
    swap(7);
    return check_end();
}
