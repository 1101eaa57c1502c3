// SPDX-License-Identifier: MIT OR Apache-2.0
// Small things out of which semantics.cpp builds expressions.
#pragma once

#include "tokens.h"

#include "clang/AST/ASTContext.h"
#include "clang/AST/Expr.h"
#include "clang/Sema/Sema.h"

namespace splitc {

// The address space of what a pointer of this type points to.
unsigned spaceOf(clang::QualType pointer);
// Whether an expression names a place in global memory.
bool isGlobalPlace(const clang::Expr *expression);
// The number of spread dimensions that a pointer of this type can be subscripted with; 0 if it is not a spread pointer.
unsigned spreadRank(clang::QualType pointer);
bool isGlobalPointer(clang::QualType type);

class Builder {
public:
    Builder(clang::Sema &sema, clang::Scope *scope, clang::SourceLocation place) : sema(sema), context(sema.Context), scope(scope), place(place) {}

    clang::Expr *value(clang::Expr *expression);
    clang::Expr *number(uint64_t number);
    clang::Expr *cast(clang::Expr *expression, clang::QualType type);
    clang::Expr *sizeOf(clang::QualType type);
    clang::Expr *binary(clang::BinaryOperatorKind kind, clang::Expr *left, clang::Expr *right);
    clang::Expr *call(llvm::StringRef name, llvm::MutableArrayRef<clang::Expr *> arguments);
    clang::ExprResult placeOf(clang::Expr *pointer);
    clang::QualType pointerTo(clang::QualType pointee, unsigned space);
    clang::QualType withoutSpace(clang::QualType type);

    // Spread pointers. `global`: the same pointer as a global one.
    clang::Expr *global(clang::Expr *spread);
    clang::Expr *step(clang::Expr *spread, clang::Expr *steps, bool isBack);
    clang::ExprResult subscript(clang::Expr *spread, clang::Expr *index);
    clang::Expr *convert(clang::Expr *expression, clang::QualType wanted);
    // The type of one block, and the number of blocks that a step of a pointer of this type passes.
    clang::QualType block(clang::QualType pointer);
    clang::Expr *blocksPerStep(clang::QualType pointer);

    void report(clang::DiagnosticsEngine::Level level, const char *text, clang::SourceRange range = {});

    clang::Sema &sema;
    clang::ASTContext &context;
    clang::Scope *scope;
    clang::SourceLocation place;
};

} // namespace splitc
