/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Side 1 counts interrupts in a callback; side 0 triggers them, and sends a last word as a data
 * interrupt.
 */
#include "common.h"

#include <stdatomic.h>
#include <string.h>
#include <threads.h>

enum { TIMES = 1000, COUNTED = 30, WORD = 31 };

static sci_callback_action_t on_interrupt(void *argument, sci_local_interrupt_t interrupt, sci_error_t status) {
    (void)interrupt;
    (void)status;
    atomic_fetch_add((atomic_int *)argument, 1);
    return SCI_CALLBACK_CONTINUE;
}

int main(int argc, char **argv) {
    start(argc, argv);
    if (side == 0) {
        sci_remote_interrupt_t counted;
        sci_remote_data_interrupt_t word;
        char farewell[] = "that was all";
        CALL(SCIConnectInterrupt(device, &counted, other_node, 0, COUNTED, SCI_INFINITE_TIMEOUT, 0, &error));
        CALL(SCIConnectDataInterrupt(device, &word, other_node, 0, WORD, SCI_INFINITE_TIMEOUT, 0, &error));
        for (int n = 0; n < TIMES; n++) CALL(SCITriggerInterrupt(counted, 0, &error));
        CALL(SCITriggerDataInterrupt(word, farewell, sizeof farewell, 0, &error));
        CALL(SCIDisconnectDataInterrupt(word, 0, &error));
        CALL(SCIDisconnectInterrupt(counted, 0, &error));
    } else {
        sci_local_interrupt_t counted;
        sci_local_data_interrupt_t word;
        atomic_int count = 0;
        unsigned int number = COUNTED, word_number = WORD, length;
        char text[64];
        CALL(SCICreateInterrupt(device, &counted, 0, &number, on_interrupt, &count,
                                SCI_FLAG_USE_CALLBACK | SCI_FLAG_FIXED_INTNO | SCI_FLAG_COUNTING_INT, &error));
        CALL(SCICreateDataInterrupt(device, &word, 0, &word_number, NULL, NULL, SCI_FLAG_FIXED_INTNO, &error));
        length = sizeof text;
        CALL(SCIWaitForDataInterrupt(word, text, &length, SCI_INFINITE_TIMEOUT, 0, &error));
        /* The callbacks run beside: the last may still be to come. */
        while (atomic_load(&count) < TIMES) thrd_yield();
        printf("%d interrupts, then: %s\n", atomic_load(&count), text);
        CALL(SCIRemoveDataInterrupt(word, 0, &error));
        CALL(SCIRemoveInterrupt(counted, 0, &error));
    }
    CALL(SCIClose(device, 0, &error));
    SCITerminate();
    return 0;
}
