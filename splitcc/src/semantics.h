// SPDX-License-Identifier: MIT OR Apache-2.0
// The meaning of Split-C's operators, by the types of their operands. clang's parser calls clang's
// semantic analysis (Sema) for each expression that it has read; the linker puts us in between
// (--wrap, see the Makefile), so that spread arithmetic and conversions are built while types and
// source are known.
//
//   S + i, S - i, S++, S += i    calls of __splitc_spread_add, for any spread S
//   S - T, S < T                 by the order of the walk: processors first
//   *S, S[i], S->m               a global place: the step, then an address of one process. What is inside the block is then plain C
//   X[i][j] of T X[v][w]::[q]    X[i] is a spread pointer with one dimension less
//   G = S, f(S), return S        a spread pointer becomes a global one, or one of another shape, where that is wanted
//   L := R, L :- R               an assignment whose global side is in address space Get, Put or Store
#pragma once

#include "tokens.h"

namespace splitc {

// The signs of the file that is being compiled; null for one that is not Split-C.
extern const Signs *signs;

// Declarations that stand before every Split-C source.
extern const char *const prelude;

} // namespace splitc
