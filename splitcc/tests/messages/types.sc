/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <split-c/split-c.h>
int *local;
int *global shared;
int *spread wide;
double *global real;
struct bits { unsigned b : 3; };
struct bits *global places;
void takes(int *global);
int *gives() {
    return shared; /* expect: returning 'int *global' from a function with result type 'int *' mixes local, global and spread pointers */
}
long (*variable)(int *, long);
void test(int i) {
    atomic(variable, shared, 1); /* expect: initializer element is not a compile-time constant */
    local = shared; /* expect: assigning 'int *global' to 'int *' mixes local, global and spread pointers */
    shared = local; /* expect: assigning 'int *' to 'int *global' mixes local, global and spread pointers */
    wide = shared; /* expect: assigning 'int *global' to 'int *spread' mixes local, global and spread pointers */
    local = wide; /* expect: assigning 'int *spread' to 'int *' mixes local, global and spread pointers */
    shared = wide;
    takes(local); /* expect: passing 'int *' to parameter of type 'int *global' mixes local, global and spread pointers */
    takes(wide);
    takes(wide + 1);
    real = shared; /* expect: incompatible pointer types assigning to 'double *global' from 'int *global' */
    i = shared == local; /* expect: a local pointer cannot be compared with a global or spread one: convert one of them */
    *local :- 1; /* expect: the left side of ':-' has to be a global place */
    i := 2; /* expect: ':=' between two local places is a plain assignment */
    places->b := 1; /* expect: a bit-field cannot be moved split-phase: use '=' */
    tolocal(i); /* expect: this needs a global or spread pointer, or a place in global memory */
    (*(int *spread *)(local++))++; /* expect: the spread pointer that is moved here is an expression with side effects: use a variable */
    local = (int *)shared;
    shared = (int *global)local;
    shared = (int *global)(wide + 2);
}
