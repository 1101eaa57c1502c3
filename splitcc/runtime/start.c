/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The beginning of every Split-C program. */
#include "gas_table.h"

#include <stdlib.h>

/* Made by splitcc beside splitc_main, whatever shape that has. */
extern int __splitc_program(int count, char **words, char **environment);

/* Of all functions that `atomic` is used with, by the linker; absent if there are none. */
extern const gas_function __start_splitc_atomic[] __attribute__((weak)), __stop_splitc_atomic[] __attribute__((weak));

int main(int count, char **words, char **environment) {
    gas_functions(__start_splitc_atomic, __stop_splitc_atomic);
    const int status = __splitc_program(count, words, environment);
    /* Nobody leaves while others still read here; a failure does not wait. */
    if (status != 0) gas_exit(status);
    gas_sync();
    gas_barrier();
    exit(0);
}
