/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Structs by value through global pointers: whole, member by member, as arguments and results, nested, with bit-fields, unions, pointers, odd sizes. */
#include "check.h"

struct point { double x, y; };
struct small { char c[3]; };
struct node {
    struct point at;
    int links[5];
    struct node *global next;
    unsigned flag : 3, rest : 13;
    union { int i; float f; } u;
    struct small odd;
    enum { RED, GREEN } colour;
    int (*function)(int);
};

static struct node nodes[2], copy;

static struct point middle(struct point a, struct point b) {
    struct point m;
    m.x = (a.x + b.x) / 2;
    m.y = (a.y + b.y) / 2;
    return m;
}
static double norm(struct node n) { return n.at.x * n.at.x + n.links[4]; }
static struct node fetch(struct node *global p) { return *p; }
static int twice(int i) { return 2 * i; }

splitc_main(argc, argv)
int argc;
char **argv;
{
    int next = (MYPROC + 1) % PROCS, k;
    struct node *global there = toglobal(next, &nodes[0]);
    struct node *global p;
    struct node local;
    struct small s;
    nodes[0].at.x = MYPROC;
    nodes[0].at.y = -MYPROC;
    for (k = 0; k < 5; k++) nodes[0].links[k] = MYPROC * 10 + k;
    nodes[0].next = toglobal(MYPROC, &nodes[1]);
    nodes[0].flag = MYPROC & 7;
    nodes[0].rest = 77;
    nodes[0].u.f = 1.5;
    nodes[0].odd.c[2] = 'z';
    nodes[0].colour = GREEN;
    nodes[0].function = twice;
    nodes[1].links[0] = 1000 + MYPROC;
    barrier();

    CHECK(there->at.x == next && (*there).at.y == -next);
    CHECK(there->links[4] == next * 10 + 4);
    CHECK(there->next->links[0] == 1000 + next);
    CHECK(there->flag == (next & 7) && there->rest == 77);
    CHECK(there->u.f == 1.5 && there->colour == GREEN && there->odd.c[2] == 'z');
    CHECK((there->function)(4) == 8);
    CHECK(toproc(&there->links[2]) == next);
    local = *there;
    CHECK(memcmp(&local.at, &there->at == NULL ? NULL : &local.at, sizeof local.at) == 0);
    CHECK(local.at.x == next && local.links[3] == next * 10 + 3 && local.next == toglobal(next, &nodes[1]));
    CHECK(norm(*there) == next * next + next * 10 + 4);
    CHECK(middle(there->at, nodes[0].at).x == (next + MYPROC) / 2.0);
    CHECK(fetch(there).links[1] == next * 10 + 1);
    s = there->odd;
    CHECK(s.c[2] == 'z');
    local := *there;
    sync();
    CHECK(local.u.f == 1.5);
    barrier();

    /* Into the other process: a member, the whole, a result. */
    there->flag = 5;
    there->rest++;
    there->at = middle(there->at, there->at);
    there->next->links[1] = 3 + MYPROC;
    there->links[2] -= 1;
    barrier();
    CHECK(nodes[0].flag == 5 && nodes[0].rest == 78 && nodes[1].links[1] == 3 + (MYPROC + PROCS - 1) % PROCS && nodes[0].links[2] == MYPROC * 10 + 1);
    barrier();
    p = toglobal(next, &copy);
    *p = nodes[0];
    barrier();
    CHECK(copy.links[4] == (MYPROC + PROCS - 1) % PROCS * 10 + 4);
    barrier();
    *p := nodes[1];
    sync();
    barrier();
    CHECK(copy.links[0] == 1000 + (MYPROC + PROCS - 1) % PROCS);
    barrier();
    p->at :- nodes[0].at;
    p->odd :- s;
    all_store_sync();
    CHECK(copy.at.x == (MYPROC + PROCS - 1) % PROCS && copy.odd.c[2] == 'z');
    barrier();
    /* From one process to another. */
    *toglobal(next, &copy) = *toglobal(next, &nodes[1]);
    barrier();
    CHECK(copy.links[0] == 1000 + MYPROC);
    barrier();
    exit(check_end());
}
