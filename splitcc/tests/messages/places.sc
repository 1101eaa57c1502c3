/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <split-c/split-c.h>
#define SUM(p) (*(p) + undeclared) /* the user's macro */
int f(int *global p, int n) {
    int global wrong; /* expect: 'global' and 'spread' belong to pointers, behind the star: T *global p */
    int A[n]::[3];
    A[1][2] = p; /* expect: incompatible pointer to integer conversion assigning to 'global int' from 'int *global' */
    n = SUM(p); /* expect: use of undeclared identifier 'undeclared' */
    A[0] = 3; /* expect: array type 'int global[3]' is not assignable */
    return p->x; /* expect: member reference base type 'int global' is not a structure or union */
}
