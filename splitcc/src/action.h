// SPDX-License-Identifier: MIT OR Apache-2.0
// One compilation: preprocess, rewrite the tokens, parse with Split-C's meaning, make IR, lower it, and let clang's back end do the rest.
#pragma once

#include "clang/Frontend/FrontendAction.h"
#include "tokens.h"

namespace splitc {

class Action : public clang::ASTFrontendAction {
public:
    bool BeginSourceFileAction(clang::CompilerInstance &compiler) override;
    std::unique_ptr<clang::ASTConsumer> CreateASTConsumer(clang::CompilerInstance &compiler, llvm::StringRef file) override;
    void ExecuteAction() override;

private:
    Signs found;
};

// The source with line ends inside string literals spelt out, as compilers of the time took them; empty if there are none.
std::string withJoinedLiterals(llvm::StringRef source);

} // namespace splitc
