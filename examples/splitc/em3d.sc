/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * em3d: electromagnetic waves on a bipartite graph. Each E node is a weighted sum of H nodes, and the other way round; part of the edges leave the process.
 *
 *   em3d [VERSION [NODES DEGREE PERCENT_REMOTE STEPS]]
 *
 * simple: every remote value is read when it is needed. bundle: a node reads all of its values first. ghost: each remote value is fetched once a step, to a copy of its own, by reads; get: the same
 * split-phase; put: the owner writes it to the copies; store: the owner stores it, nobody waits for acknowledgements; bulk: the owner collects all values for a process and stores them at once.
 * Without arguments all versions run. Each compares its values with those of a sequential run on process 0.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <split-c/split-c.h>
#include <split-c/control.h>
#include "result.h"

enum { KINDS = 2, VERSIONS = 7 };
static char *names[VERSIONS] = {"simple", "bundle", "ghost", "get", "put", "store", "bulk"};

typedef struct {
    int process, index; /* of the node at the other end */
    double weight;
    double *value;      /* of that node: its own, or the ghost's copy of it */
} edge_t;

typedef struct {
    int process, index;
    double value;
} ghost_t;

/* One kind of nodes, E or H, of this process. */
typedef struct {
    double *values;
    edge_t *edges;
    ghost_t *ghosts;         /* copies of nodes of the other kind that this process's edges need */
    double *copies;          /* their values, those of one process beside each other */
    int ghost_count;
    int *first;              /* where in `copies` the values of each process begin */
} side_t;

/* What this process sends to another: places of its values, and where they go. */
typedef struct {
    int count, *indices;
    double *buffer;
    double *global to;
} export_t;

static side_t sides[KINDS];
static export_t *exports[KINDS];
static double *starts[KINDS];                 /* where every process finds this one's values */
static int nodes = 400, degree = 8, percent = 30, steps = 20;

/* The same graph whoever asks: numbers from the place of the edge. */
static unsigned noise(kind, process, node, edge, salt) {
    unsigned x = kind * 2654435761u + process * 40503u + node * 2246822519u + edge * 3266489917u + salt * 668265263u;
    x ^= x >> 15; x *= 2246822519u; x ^= x >> 13; x *= 3266489917u; x ^= x >> 16;
    return x;
}
static int end_process(kind, process, node, edge) {
    return PROCS > 1 && noise(kind, process, node, edge, 1) % 100 < percent ? (process + 1 + noise(kind, process, node, edge, 2) % (PROCS - 1)) % PROCS : process;
}
static int end_index(kind, process, node, edge) { return noise(kind, process, node, edge, 3) % nodes; }
static double end_weight(kind, process, node, edge) { return (noise(kind, process, node, edge, 4) % 1000) / 1000.0 / degree; }
static double begin_value(kind, process, node) { return (noise(kind, process, node, 0, 5) % 1000) / 100.0; }

static int by_place(const void *a, const void *b) {
    const ghost_t *x = a, *y = b;
    return x->process != y->process ? x->process - y->process : x->index - y->index;
}

static void make_side(int kind) {
    side_t *s = &sides[kind];
    int i, j, k, n = 0;
    s->values = malloc(nodes * sizeof(double));
    s->edges = malloc(nodes * degree * sizeof(edge_t));
    s->ghosts = malloc(nodes * degree * sizeof(ghost_t) + 1);
    s->first = malloc((PROCS + 1) * sizeof(int));
    for (i = 0; i < nodes; i++) {
        for (j = 0; j < degree; j++) {
            edge_t *e = &s->edges[i * degree + j];
            e->process = end_process(kind, MYPROC, i, j);
            e->index = end_index(kind, MYPROC, i, j);
            e->weight = end_weight(kind, MYPROC, i, j);
            if (e->process != MYPROC) { s->ghosts[n].process = e->process; s->ghosts[n++].index = e->index; }
        }
    }
    qsort(s->ghosts, n, sizeof(ghost_t), by_place);
    for (i = k = 0; i < n; i++)
        if (k == 0 || by_place(&s->ghosts[k - 1], &s->ghosts[i]) != 0) s->ghosts[k++] = s->ghosts[i];
    s->ghost_count = k;
    s->copies = malloc(k * sizeof(double) + 1);
    for (i = 0, j = 0; j <= PROCS; j++) {
        while (i < k && s->ghosts[i].process < j) i++;
        s->first[j] = i;
    }
}

static void find_values(int kind) {
    side_t *s = &sides[kind];
    int i;
    for (i = 0; i < nodes * degree; i++) {
        edge_t *e = &s->edges[i];
        if (e->process == MYPROC) {
            e->value = &sides[!kind].values[e->index];
        } else {
            ghost_t wanted, *found;
            wanted.process = e->process;
            wanted.index = e->index;
            found = bsearch(&wanted, s->ghosts, s->ghost_count, sizeof(ghost_t), by_place);
            e->value = &s->copies[found - s->ghosts];
        }
    }
}

/* Tells every process which of its values are wanted here, and where. */
static void make_exports(int kind) {
    int from, to, i;
    int count[PROCS]::[PROCS];
    int *global indices[PROCS]::[PROCS];
    double *global places[PROCS]::[PROCS];
    side_t *s = &sides[kind];
    int *wanted = malloc(s->ghost_count * sizeof(int) + 1);
    for (i = 0; i < s->ghost_count; i++) wanted[i] = s->ghosts[i].index;
    for (from = 0; from < PROCS; from++) {
        count[from][MYPROC] = s->first[from + 1] - s->first[from];
        indices[from][MYPROC] = toglobal(MYPROC, wanted + s->first[from]);
        places[from][MYPROC] = toglobal(MYPROC, s->copies + s->first[from]);
    }
    barrier();
    exports[kind] = malloc(PROCS * sizeof(export_t));
    for (to = 0; to < PROCS; to++) {
        export_t *x = &exports[kind][to];
        x->count = count[MYPROC][to];
        x->to = places[MYPROC][to];
        x->indices = malloc(x->count * sizeof(int) + 1);
        x->buffer = malloc(x->count * sizeof(double) + 1);
        bulk_read(x->indices, indices[MYPROC][to], x->count * sizeof(int));
    }
    barrier();
    free(wanted);
}

static void restart() {
    int kind, i;
    barrier();
    for (kind = 0; kind < KINDS; kind++) {
        for (i = 0; i < nodes; i++) sides[kind].values[i] = begin_value(kind, MYPROC, i);
        memset(sides[kind].copies, 0, sides[kind].ghost_count * sizeof(double));
    }
    barrier();
}

static void fill_ghosts(int version, int kind, double *global *others) {
    side_t *s = &sides[kind];
    int i, p;
    if (version == 2) {
        for (i = 0; i < s->ghost_count; i++) s->copies[i] = *(others[s->ghosts[i].process] + s->ghosts[i].index);
    } else if (version == 3) {
        for (i = 0; i < s->ghost_count; i++) s->copies[i] := *(others[s->ghosts[i].process] + s->ghosts[i].index);
        sync();
    } else {
        /* From the owner's side. */
        for (p = 0; p < PROCS; p++) {
            export_t *x = &exports[kind][p];
            double *mine = sides[!kind].values, *global to = x->to;
            if (version == 4) for (i = 0; i < x->count; i++) *to++ := mine[x->indices[i]];
            if (version == 5) for (i = 0; i < x->count; i++) *to++ :- mine[x->indices[i]];
            if (version == 6) {
                for (i = 0; i < x->count; i++) x->buffer[i] = mine[x->indices[i]];
                if (x->count) bulk_store(to, x->buffer, x->count * sizeof(double));
            }
        }
        if (version == 4) { sync(); barrier(); }
        else all_store_sync();
    }
}

static void compute(int version, int kind, double *global *others) {
    side_t *s = &sides[kind];
    double values[64];
    int i, j;
    for (i = 0; i < nodes; i++) {
        edge_t *e = &s->edges[i * degree];
        double sum = s->values[i];
        if (version == 0) {
            for (j = 0; j < degree; j++) sum -= e[j].weight * *(others[e[j].process] + e[j].index);
        } else if (version == 1) {
            for (j = 0; j < degree; j++) values[j] := *(others[e[j].process] + e[j].index);
            sync();
            for (j = 0; j < degree; j++) sum -= e[j].weight * values[j];
        } else {
            for (j = 0; j < degree; j++) sum -= e[j].weight * *e[j].value;
        }
        s->values[i] = sum;
    }
}

static double run(int version) {
    double *global *others[KINDS];
    double begin;
    int kind, p, step;
    for (kind = 0; kind < KINDS; kind++) {
        others[kind] = malloc(PROCS * sizeof(double *global));
        starts[kind] = sides[kind].values;
    }
    barrier();
    for (kind = 0; kind < KINDS; kind++)
        for (p = 0; p < PROCS; p++) others[kind][p] = toglobal(p, *toglobal(p, &starts[!kind]));
    restart();
    begin = get_seconds();
    for (step = 0; step < steps; step++) {
        for (kind = 0; kind < KINDS; kind++) {
            if (version >= 2) fill_ghosts(version, kind, others[kind]);
            compute(version, kind, others[kind]);
            barrier();
        }
    }
    begin = get_seconds() - begin;
    for (kind = 0; kind < KINDS; kind++) free(others[kind]);
    return begin;
}

/* The whole graph on one process, without global memory. */
static double *sequential() {
    double *values = malloc(KINDS * PROCS * nodes * sizeof(double));
    int kind, p, i, j, step;
#define AT(kind, p, i) values[((kind) * PROCS + (p)) * nodes + (i)]
    for (kind = 0; kind < KINDS; kind++) for (p = 0; p < PROCS; p++) for (i = 0; i < nodes; i++) AT(kind, p, i) = begin_value(kind, p, i);
    for (step = 0; step < steps; step++)
        for (kind = 0; kind < KINDS; kind++)
            for (p = 0; p < PROCS; p++)
                for (i = 0; i < nodes; i++) {
                    double sum = AT(kind, p, i);
                    for (j = 0; j < degree; j++) sum -= end_weight(kind, p, i, j) * AT(!kind, end_process(kind, p, i, j), end_index(kind, p, i, j));
                    AT(kind, p, i) = sum;
                }
    return values;
}

splitc_main(argc, argv)
int argc;
char **argv;
{
    int version, only = -1, kind, p, i, failed = 0;
    double *expected = NULL;
    if (argc > 1 && strcmp(argv[1], "all") != 0) for (only = 0; only < VERSIONS && strcmp(names[only], argv[1]) != 0; only++) continue;
    if (argc > 2) nodes = atoi(argv[2]);
    if (argc > 3) degree = atoi(argv[3]);
    if (argc > 4) percent = atoi(argv[4]);
    if (argc > 5) steps = atoi(argv[5]);
    if (only == VERSIONS || nodes < 1 || degree < 1 || degree > 64 || steps < 1) {
        on_one fprintf(stderr, "usage: em3d [all|simple|bundle|ghost|get|put|store|bulk [NODES DEGREE(1..64) PERCENT_REMOTE STEPS]]\n");
        exit(2);
    }
    for (kind = 0; kind < KINDS; kind++) make_side(kind);
    for (kind = 0; kind < KINDS; kind++) { find_values(kind); make_exports(kind); }
    on_one expected = sequential();
    for (version = 0; version < VERSIONS; version++) {
        double seconds;
        int wrong = 0;
        unsigned long result = 0;
        if (only >= 0 && version != only) continue;
        seconds = run(version);
        for (kind = 0; kind < KINDS; kind++) result = 3 * result + result_of(starts[kind], nodes * sizeof(double));
        on_one {
            double *theirs = malloc(nodes * sizeof(double));
            for (kind = 0; kind < KINDS; kind++)
                for (p = 0; p < PROCS; p++) {
                    bulk_read(theirs, toglobal(p, *toglobal(p, &starts[kind])), nodes * sizeof(double));
                    for (i = 0; i < nodes; i++) wrong += theirs[i] != expected[(kind * PROCS + p) * nodes + i];
                }
            free(theirs);
            printf("em3d %-6s %d processes, %d nodes of %d edges each, %d %% remote, result %016lx: %7.2f ns for an edge, %s\n", names[version], PROCS, KINDS * nodes, degree, percent, result,
                   seconds * 1e9 / ((double)steps * KINDS * nodes * degree), wrong ? "WRONG" : "right");
        }
        barrier();
        failed += all_bcast(wrong);
    }
    exit(failed != 0);
}
