// SPDX-License-Identifier: MIT OR Apache-2.0
#include "lower.h"

#include "llvm/Bitcode/BitcodeReader.h"
#include "llvm/IR/Module.h"
#include "llvm/Linker/Linker.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace llvm;

namespace splitc {

// runtime/inline.c as bitcode, made by the Makefile.
static const char inlineBitcode[] = {
#include "inline.bc.inc"
};

bool linkInline(Module &module, std::string &why) {
    auto runtime = parseBitcodeFile(MemoryBufferRef(StringRef(inlineBitcode, sizeof inlineBitcode), "inline"), module.getContext());
    if (!runtime) {
        why = toString(runtime.takeError());
        return false;
    }
    std::vector<std::string> names;
    for (Function &function : **runtime)
        if (!function.isDeclaration()) names.push_back(function.getName().str());
    (*runtime)->setDataLayout(module.getDataLayout());
    (*runtime)->setTargetTriple(module.getTargetTriple());
    // Flags of the bitcode's compilation say nothing about the user's.
    if (NamedMDNode *flags = (*runtime)->getModuleFlagsMetadata()) (*runtime)->eraseNamedMetadata(flags);
    if (Linker::linkModules(module, std::move(*runtime), Linker::Flags::LinkOnlyNeeded)) {
        why = "the code of global operations could not be linked";
        return false;
    }
    for (const std::string &name : names) {
        Function *function = module.getFunction(name);
        if (!function || function->isDeclaration()) continue;
        function->setLinkage(GlobalValue::InternalLinkage);
        // Whatever processor the user compiles for.
        for (const char *attribute : {"target-cpu", "target-features", "tune-cpu", "min-legal-vector-width", "frame-pointer", "stack-protector-buffer-size"}) function->removeFnAttr(attribute);
        function->removeFnAttr(Attribute::NoInline);
        function->addFnAttr(Attribute::AlwaysInline);
    }
    return true;
}

} // namespace splitc
