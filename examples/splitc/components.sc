/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Connected components of a random graph whose vertices are spread: each process follows labels of its vertices' neighbours, wherever they are, until no label changes. A vertex that finds a
 * smaller label hands it to the vertex that its own label names, by a put.
 *
 *   components [VERTICES EDGES]     of each process (default 500, 600)
 */
#include <stdio.h>
#include <stdlib.h>
#include <split-c/split-c.h>
#include <split-c/control.h>
#include "result.h"

static int vertices = 500, edges = 600;

static unsigned noise(unsigned a, unsigned b, unsigned c) {
    unsigned x = a * 2654435761u + b * 2246822519u + c * 3266489917u;
    x ^= x >> 15; x *= 668265263u; x ^= x >> 13; x *= 2246822519u; x ^= x >> 16;
    return x;
}
/* An end of an edge: a vertex of all. */
static int end_of(int process, int edge, int which) { return noise(process, edge, which) % (vertices * PROCS); }

static int root_of(int *parents, int v) {
    while (parents[v] != v) v = parents[v] = parents[parents[v]];
    return v;
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    int i, rounds = 0, changed, wrong = 0, count = 0;
    double begin;
    unsigned long result;
    if (argc > 2) {
        vertices = atoi(argv[1]);
        edges = atoi(argv[2]);
    }
    if (vertices < 1 || edges < 0) exit(2);
    {
        /* Vertex v is at v / vertices, v % vertices; its label is a vertex of its component, never a greater one. */
        int L[PROCS]::[vertices], *own = tolocal(L[MYPROC]);
#define LABEL(v) L[(v) / vertices][(v) % vertices]
        for (i = 0; i < vertices; i++) own[i] = MYPROC * vertices + i;
        barrier();
        begin = get_seconds();
        do {
            changed = 0;
            for (i = 0; i < edges; i++) {
                const int a = end_of(MYPROC, i, 1), b = end_of(MYPROC, i, 2), x = LABEL(a), y = LABEL(b);
                if (x == y) continue;
                changed = 1;
                /* Two processes may hook the same vertex at a time: the one that is lost sees it in the next round. */
                if (x < y) LABEL(y) := x;
                else LABEL(x) := y;
            }
            sync();
            changed = all_reduce_to_all_max(changed);
            /* Every vertex looks where its label leads, until that leads nowhere else. */
            for (i = 0; i < vertices; i++) {
                int label = own[i], next;
                while ((next = LABEL(label)) != label) label = next;
                own[i] = label;
            }
            barrier();
            rounds++;
        } while (changed);
        begin = get_seconds() - begin;
        result = result_of(own, vertices * sizeof(int));
        on_one {
            const int all = vertices * PROCS;
            int *parents = malloc(all * sizeof(int)), p;
            for (i = 0; i < all; i++) parents[i] = i;
            for (p = 0; p < PROCS; p++)
                for (i = 0; i < edges; i++) {
                    const int a = root_of(parents, end_of(p, i, 1)), b = root_of(parents, end_of(p, i, 2));
                    if (a < b) parents[b] = a;
                    else parents[a] = b;
                }
            for (i = 0; i < all; i++) {
                wrong += LABEL(i) != root_of(parents, i);
                count += parents[i] == i;
            }
            printf("components %d processes, %d vertices and %d edges each: %d components, result %016lx: %d rounds, %6.1f ns for an edge and round, %s\n", PROCS, vertices, edges, count, result, rounds,
                   begin * 1e9 / (edges + 1) / rounds, wrong ? "WRONG" : "right");
        }
        barrier();
    }
    exit(all_bcast(wrong) != 0);
}
