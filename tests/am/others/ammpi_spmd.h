/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* See ammpi.h. */
#include "ammpi.h"
