/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* control.h: statements of some processes, and loops over one's own part. */
#ifndef SPLIT_C_CONTROL_H
#define SPLIT_C_CONTROL_H

#include <split-c/split-c.h>

/* An else of the program's own cannot be taken for one of these. */
#define on_proc(process) if (MYPROC != (process)) {} else
#define on_one on_proc(0)

/* The indices of an array of n spread elements that are this process's own. */
#define for_my_1d(i, n) for ((i) = MYPROC; (i) < (n); (i) += PROCS)
/* The same for an array of n rows and m columns, all spread. */
#define for_my_2d(i, j, n, m) for ((i) = MYPROC / (m), (j) = MYPROC % (m); (i) < (n); (j) += PROCS, (i) += (j) / (m), (j) %= (m))

#endif
