/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Every operation through a global pointer that is wrong: `operations OPERATION KIND`, run by tests/wrong.sh. Each has a line of its own, marked with its name in a comment, which the message has to name. Before it
 * leaves, every process looks at all of its memory that an access could have gone to by mistake, and says "whole" or what has changed.
 *
 * Kinds: null; nowhere (an address at which nothing is, of another process, of this one: own); process (a number that there is not); odd (not aligned).
 */
#include <split-c/split-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pair { int a; double b; long c[40]; };
enum { GUARD = 1 << 16 };
static char before[GUARD];
static struct pair place, own;
static char after[GUARD];
static char *heap;
static int line;
static long own_word = 77;

static void look(void) {
    long i, changed = 0;
    for (i = 0; i < GUARD; i++) changed += (before[i] != 'b') + (after[i] != 'a') + (heap[i] != 'h');
    for (i = 0; i < (long)sizeof place; i++) changed += (((char *)&place)[i] != 'p') + (((char *)&own)[i] != 'o');
    changed += own_word != 77;
    if (changed) fprintf(stderr, "CHANGED in process %d: %ld bytes\n", MYPROC, changed);
    else fprintf(stderr, "whole in process %d\n", MYPROC);
}

static long add(long *word, long value) { return *word += value; }
static struct pair by_value(struct pair value) { return value; }

/* The wrong pointer, as bits: clang is not to know. */
static void *global wrong(const char *kind) {
    if (!strcmp(kind, "null")) return NULL;
    if (!strcmp(kind, "nowhere")) return toglobal(0, (void *)0x300000000);
    if (!strcmp(kind, "own")) return toglobal(MYPROC, (void *)0x300000000);
    if (!strcmp(kind, "process")) return toglobal(77, (void *)&place);
    if (!strcmp(kind, "last")) return toglobal(65535, (void *)&place);
    return (void *global)((char *global)toglobal(0, (char *)&place) + 1);
}

splitc_main(argc, argv) char **argv; {
    const char *operation = argv[1];
    static struct pair to;
    struct pair *global p;
    int *global i;
    long *global l;
    short *global s;
    char *global c;
    float *global f;
    double *global d;
    void *global any;
    int *spread wide;
    int number = 1;
    heap = malloc(GUARD);
    memset(before, 'b', GUARD);
    memset(&place, 'p', sizeof place);
    memset(&own, 'o', sizeof own);
    memset(after, 'a', GUARD);
    memset(heap, 'h', GUARD);
    to = own;
    atexit(look);
    any = wrong(argv[2]);
    p = any, i = any, l = any, s = any, c = any, f = any, d = any;
    wide = (int *spread)any;
    barrier();
    if (MYPROC == PROCS - 1) {
#define CASE(name) if (!strcmp(operation, name))
        CASE("read") number = *i; /* read */
        CASE("write") *i = number; /* write */
        CASE("get") number := *i; /* get */
        CASE("put") *i := number; /* put */
        CASE("store") *i :- number; /* store */
        CASE("read-short") number = *s; /* read-short */
        CASE("write-long") *l = number; /* write-long */
        CASE("get-double") to.b := *d; /* get-double */
        CASE("put-float") *f := (float)number; /* put-float */
        CASE("store-double") *d :- 1.5; /* store-double */
        CASE("store-char") *c :- 'x'; /* store-char */
        CASE("add") *i += 3; /* add */
        CASE("step") ++*i; /* step */
        CASE("subscript-read") number = i[2]; /* subscript-read */
        CASE("subscript-write") i[2] = number; /* subscript-write */
        CASE("struct-read") to = *p; /* struct-read */
        CASE("struct-write") *p = to; /* struct-write */
        CASE("struct-get") to := *p; /* struct-get */
        CASE("struct-put") *p := to; /* struct-put */
        CASE("struct-store") *p :- to; /* struct-store */
        CASE("struct-value") to = by_value(*p); /* struct-value */
        CASE("member-read") number = p->a; /* member-read */
        CASE("member-write") p->c[3] = number; /* member-write */
        CASE("member-get") to.c[1] := p->c[1]; /* member-get */
        CASE("member-put") p->c[1] := to.c[1]; /* member-put */
        CASE("member-store") p->b :- 2.5; /* member-store */
        CASE("spread-read") number = *wide; /* spread-read */
        CASE("spread-write") *wide = number; /* spread-write */
        CASE("spread-get") number := *wide; /* spread-get */
        CASE("spread-put") *wide := number; /* spread-put */
        CASE("spread-store") *wide :- number; /* spread-store */
        CASE("bulk_read") bulk_read(&to, any, sizeof to); /* bulk_read */
        CASE("bulk_write") bulk_write(any, &to, sizeof to); /* bulk_write */
        CASE("bulk_get") bulk_get(&to, any, sizeof to); /* bulk_get */
        CASE("bulk_put") bulk_put(any, &to, sizeof to); /* bulk_put */
        CASE("bulk_store") bulk_store(any, &to, sizeof to); /* bulk_store */
        CASE("fetch_and_add") number = fetch_and_add(i, 1); /* fetch_and_add */
        CASE("exchange") number = exchange(i, 1); /* exchange */
        CASE("test_and_set") number = test_and_set(i); /* test_and_set */
        CASE("cmp_and_swap") number = cmp_and_swap(i, 1, 2); /* cmp_and_swap */
        CASE("fetch_and_add_l") number = fetch_and_add_l(l, 1); /* fetch_and_add_l */
        CASE("exchange_l") number = exchange_l(l, 1); /* exchange_l */
        CASE("cmp_and_swap_l") number = cmp_and_swap_l(l, 1, 2); /* cmp_and_swap_l */
        CASE("atomic") number = atomic(add, l, 1); /* atomic */
    }
    sync();
    all_store_sync();
    barrier();
    fprintf(stderr, "went on after %s, %s: %d\n", operation, argv[2], number);
    return 0;
}
