/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sizes and offsets that the library was compiled with (layout.in) are those of the public
   header. Compiles or does not. */
#include <infiniband/verbs.h>
#include <stddef.h>
#include "layout.h"
int main(void) { return 0; }
