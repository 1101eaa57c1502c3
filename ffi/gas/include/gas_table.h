/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The objects that bellwire_gas.h needs in the program itself, and the start before main: to be
 * included in one file of a program, which is linked without PIE. */
#ifndef BELLWIRE_GAS_TABLE_H
#define BELLWIRE_GAS_TABLE_H

#include "bellwire_gas.h"

gas_peer gas_peers[GAS_PROCESSES_MAX];
gas_place gas_here;

/* Set by the linker: the program's writable data from beginning to end. */
extern char __data_start[], _end[];

/* Before every constructor of the program: they may use global memory. */
__attribute__((constructor(101))) static void gas_table_start(void) { gas_start(gas_peers, &gas_here, __data_start, _end); }

#endif
