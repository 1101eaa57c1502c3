/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include <split-c/split-c.h>
int global plain; /* expect: 'global' and 'spread' belong to pointers, behind the star: T *global p */
int spread many[4]; /* expect: 'global' and 'spread' belong to pointers, behind the star: T *global p */
int *global *spread both;
int *global spread mixed; /* expect: 'global' and 'spread' exclude each other */
int *global global twice; /* expect: 'global' or 'spread' is there twice */
struct has { int global field; }; /* expect: 'global' and 'spread' belong to pointers, behind the star: T *global p */
int global gives(int n); /* expect: 'global' and 'spread' belong to pointers, behind the star: T *global f() */
int takes(int global n); /* expect: 'global' and 'spread' belong to pointers, behind the star: T *global p */
typedef int function(void);
function *global called; /* expect: functions are not in global memory: a pointer to one is local */
int *spread *inner;
int *global *deep;
struct pair { int a, b; };
int later[]::[3]; /* expect: the spread array 'later' needs its first dimension here */
int nine[1][2][1][2][1][2][1][2][1]::; /* expect: a spread array has at most 8 dimensions before '::' */
void test(int n, int *global g, int *local, int *spread s) {
    static int global here; /* expect: 'global' and 'spread' belong to pointers, behind the star: T *global p */
    int (*odd)[2]::[3]; /* expect: '::' has to follow the spread dimensions of a declared array */
}
