// SPDX-License-Identifier: MIT OR Apache-2.0
// Messages that speak of global and spread instead of numbered address spaces.
#pragma once

#include "clang/Basic/Diagnostic.h"
#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Frontend/TextDiagnostic.h"
#include <memory>
#include <string>

namespace splitc {

// The words of Split-C for those of clang.
std::string reworded(llvm::StringRef message);

class Printer : public clang::DiagnosticConsumer {
public:
    Printer(clang::DiagnosticOptions *options) : options(options) {}
    void BeginSourceFile(const clang::LangOptions &language, const clang::Preprocessor *preprocessor) override;
    void EndSourceFile() override { text.reset(); }
    void HandleDiagnostic(clang::DiagnosticsEngine::Level level, const clang::Diagnostic &info) override;

private:
    llvm::IntrusiveRefCntPtr<clang::DiagnosticOptions> options;
    std::unique_ptr<clang::TextDiagnostic> text;
};

} // namespace splitc
