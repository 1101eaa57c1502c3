/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * check.h - the whole test framework: a failed check prints its place and goes on; check_end() prints "N passed, N failed" and gives the
 * exit code. Checks may be made from several threads.
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Counts one check and prints it if it failed; gives `ok` back. */
int check_report(int ok, const char *what, const char *file, int line);
/* As check_report, for two integers that must be equal. */
int check_same(long long actual, long long expected, const char *what, const char *file, int line);
/* As check_report, for a VIP_RETURN that must be `expected`; prints both by name. */
int check_return(int actual, int expected, const char *what, const char *file, int line);
/* Names a group of checks; the name is printed with the first failure in it, or always when CHECK_VERBOSE is set. Starts a watchdog. */
void check_group(const char *name);
/* Prints the totals and gives the exit code: 0 only when something was checked and nothing failed. */
int check_end(void);

#define CHECK(condition) check_report((condition) ? 1 : 0, #condition, __FILE__, __LINE__)
#define CHECK_SAME(actual, expected) check_same((long long)(actual), (long long)(expected), #actual, __FILE__, __LINE__)
#define CHECK_RETURN(call, expected) check_return((int)(call), (int)(expected), #call, __FILE__, __LINE__)

#ifdef __cplusplus
}
#endif

#endif
