// SPDX-License-Identifier: MIT OR Apache-2.0
// From address spaces to calls of the run-time library, before any optimisation sees them.
//
// A pointer of an address space stays the 64-bit value that it is. An access through it becomes a
// call: LLVM must not move, merge or invent accesses to another process's memory. The short ways of
// these calls are in runtime/inline.c, which is linked into each module and inlined.
#pragma once

#include "llvm/ADT/StringRef.h"
#include <functional>
#include <memory>
#include <string>

namespace llvm {
class DebugLoc;
class LLVMContext;
class Module;
}

namespace splitc {

struct LowerOptions {
    bool check = false; // look at each pointer before it is used, and know the source line
    // The error, and its place in the source; no line: not known.
    std::function<void(const std::string &text, llvm::StringRef file, unsigned line, unsigned column)> error;
};

void lower(llvm::Module &module, const LowerOptions &options);
// Brings the bodies of what `lower` calls.
bool linkInline(llvm::Module &module, std::string &why);

} // namespace splitc
