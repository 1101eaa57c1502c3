/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <split-c/split-c.h>
struct pair { int a, b; };
int *global *deep;
int x;
int *global first = &x; /* expect: initializing 'int *global' with an expression of type 'int *' mixes local, global and spread pointers */
int *global second = (int *global)&x; /* expect: a local pointer becomes a global one when the program runs: it cannot be an initial value of a static object */
struct { int n; int *global p; } third = {1, (int *global)&x}; /* expect: a local pointer becomes a global one when the program runs: it cannot be an initial value of a static object */
int *global fourth[2] = {(int *global)0, (int *global)&x}; /* expect: a local pointer becomes a global one when the program runs: it cannot be an initial value of a static object */
int *global nothing = NULL;
void test(int n, int *global g, int *local, int *spread s) {
    static int *global fifth = (int *global)&x; /* expect: a local pointer becomes a global one when the program runs: it cannot be an initial value of a static object */
    toglobal(g, g); /* expect: toglobal needs the number of a process and a pointer */
    toglobal(1, 2); /* expect: toglobal needs the number of a process and a pointer */
    toproc(local); /* expect: this needs a global or spread pointer, or a place in global memory */
    (struct pair global){1, 2}; /* expect: 'global' and 'spread' belong to pointers, behind the star: (T *global)p */
    deep = &local; /* expect: assigning 'int **' to 'int *global *' mixes pointers to local, global and spread pointers */
    n = g - local; /* expect: arithmetic operation with operands of type ('int *global' and 'int *') which are local, global and spread pointers: convert one of them */
    n = s - g; /* expect: arithmetic operation with operands of type ('int *spread' and 'int *global') which are local, global and spread pointers: convert one of them */
    local = n ? g : local; /* expect: conditional operator with the second and third operands of type ('int *global' and 'int *') which are local, global and spread pointers: convert one of them */
    g = s + g; /* expect: invalid operands to binary expression ('int *spread' and 'int *global') */
    local = g + 1; /* expect: assigning 'int *global' to 'int *' mixes local, global and spread pointers */
}
