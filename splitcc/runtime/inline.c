/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The short ways of global operations. splitcc links this into every module and inlines it; what is not quick is in the library. */
#include "bellwire_gas.h"

#define SPREAD __attribute__((address_space(2)))
#define GLOBAL __attribute__((address_space(1)))
typedef unsigned long word;

#define ADDRESS_MASK ((1UL << 48) - 1)
#define ONE_PROCESS (1UL << 48)

#define WORDS(X) X(1, uint8_t) X(2, uint16_t) X(4, uint32_t) X(8, uint64_t)

/* A load and a store each time: nothing is remembered, joined or moved across. */
#define READ(bytes, type)                                                                                                                                                                       \
    type __splitc_read_##bytes(word from) { return gas_read_##bytes(from); }                                                                                                                    \
    void __splitc_write_##bytes(word to, type value) { gas_write_##bytes(to, value); }                                                                                                          \
    void __splitc_get_##bytes(void *to, word from) { gas_get_##bytes(to, from); }                                                                                                               \
    void __splitc_put_##bytes(word to, type value) { gas_put_##bytes(to, value); }                                                                                                              \
    void __splitc_store_##bytes(word to, type value) { gas_store_##bytes(to, value); }
WORDS(READ)

void __splitc_bulk_read(char *to, word from, word bytes) { gas_bulk_read(to, from, bytes); }
void __splitc_bulk_get(char *to, word from, word bytes) { gas_bulk_get(to, from, bytes); }
void __splitc_bulk_write(word to, char *from, word bytes) { gas_bulk_write(to, from, bytes); }
void __splitc_bulk_put(word to, char *from, word bytes) { gas_bulk_put(to, from, bytes); }
void __splitc_bulk_store(word to, char *from, word bytes) { gas_bulk_store(to, from, bytes); }
void __splitc_bulk_set(word to, char value, word bytes) { gas_bulk_set(to, value, bytes); }
void __splitc_check(word at, word bytes, word align, char *where) { gas_check(at, bytes, align, where); }

word __splitc_from_local(word address) { return address ? gas_here.self | (address & ADDRESS_MASK) : 0; }
word __splitc_to_local(word pointer) { return pointer & ADDRESS_MASK; }
int __splitc_process(GLOBAL void *pointer) { return (int)((word)pointer >> 48); }
GLOBAL void *__splitc_global(int process, void *address) { return (GLOBAL void *)((word)process << 48 | ((word)address & ADDRESS_MASK)); }

/* One step goes to the next process, and from the last to the first, one block further. */
SPREAD void *__splitc_spread_add(SPREAD void *pointer, long steps, word block) {
    const word at = (word)pointer;
    const long processes = gas_here.processes;
    const long to = (long)(at >> 48) + steps;
    long rows;
    if (__builtin_expect((word)to < (word)processes, 1)) return (SPREAD void *)(at + ((word)steps << 48));
    rows = to >= 0 ? to / processes : -((processes - 1 - to) / processes);
    return (SPREAD void *)((word)(to - rows * processes) << 48 | ((at + (word)rows * block) & ADDRESS_MASK));
}

long __splitc_spread_difference(SPREAD void *pointer, SPREAD void *from, word block) {
    const word a = (word)pointer, b = (word)from;
    const long rows = ((long)(a << 16) - (long)(b << 16)) / 65536 / (long)(block ? block : 1);
    return rows * gas_here.processes + (long)(a >> 48) - (long)(b >> 48);
}

word __splitc_spread_key(SPREAD void *pointer) { return (word)pointer << 16 | (word)pointer >> 48; }

SPREAD void *__splitc_spread_make(long blocks, word block, int is_automatic) { return (SPREAD void *)gas_spread_make(blocks, block, is_automatic); }
void __splitc_automatic_end(void *variable) { gas_spread_end(*(word *)variable); }
