// SPDX-License-Identifier: MIT OR Apache-2.0
#include "semantics.h"
#include "build.h"

#include "clang/Sema/DeclSpec.h"
#include "clang/Sema/Scope.h"

using namespace clang;

// REAL is clang's own function, HOOK what its parser calls instead. A member function is called like a function whose first argument is the object.
#define REAL(symbol) __asm__("__real_" symbol)
#define HOOK(symbol) __asm__("__wrap_" symbol)
#define SUBSCRIPT "_ZN5clang4Sema23ActOnArraySubscriptExprEPNS_5ScopeEPNS_4ExprENS_14SourceLocationES4_S5_"
#define UNARY "_ZN5clang4Sema12ActOnUnaryOpEPNS_5ScopeENS_14SourceLocationENS_3tok9TokenKindEPNS_4ExprE"
#define POSTFIX "_ZN5clang4Sema19ActOnPostfixUnaryOpEPNS_5ScopeENS_14SourceLocationENS_3tok9TokenKindEPNS_4ExprE"
#define BINARY "_ZN5clang4Sema10ActOnBinOpEPNS_5ScopeENS_14SourceLocationENS_3tok9TokenKindEPNS_4ExprES7_"
#define MEMBER "_ZN5clang4Sema21ActOnMemberAccessExprEPNS_5ScopeEPNS_4ExprENS_14SourceLocationENS_3tok9TokenKindERNS_12CXXScopeSpecES5_RNS_13UnqualifiedIdEPNS_4DeclE"
#define CALL "_ZN5clang4Sema13ActOnCallExprEPNS_5ScopeEPNS_4ExprENS_14SourceLocationEN4llvm15MutableArrayRefIS4_EES5_S4_"
#define RETURN "_ZN5clang4Sema15ActOnReturnStmtENS_14SourceLocationEPNS_4ExprEPNS_5ScopeE"
#define CONDITION "_ZN5clang4Sema18ActOnConditionalOpENS_14SourceLocationES1_PNS_4ExprES3_S3_"
#define INITIALIZER "_ZN5clang4Sema20AddInitializerToDeclEPNS_4DeclEPNS_4ExprEb"

ExprResult realSubscript(Sema *, Scope *, Expr *, SourceLocation, Expr *, SourceLocation) REAL(SUBSCRIPT);
ExprResult realUnary(Sema *, Scope *, SourceLocation, tok::TokenKind, Expr *) REAL(UNARY);
ExprResult realPostfix(Sema *, Scope *, SourceLocation, tok::TokenKind, Expr *) REAL(POSTFIX);
ExprResult realBinary(Sema *, Scope *, SourceLocation, tok::TokenKind, Expr *, Expr *) REAL(BINARY);
ExprResult realMember(Sema *, Scope *, Expr *, SourceLocation, tok::TokenKind, CXXScopeSpec &, SourceLocation, UnqualifiedId &, Decl *) REAL(MEMBER);
ExprResult realCall(Sema *, Scope *, Expr *, SourceLocation, MultiExprArg, SourceLocation, Expr *) REAL(CALL);
StmtResult realReturn(Sema *, SourceLocation, Expr *, Scope *) REAL(RETURN);
ExprResult realCondition(Sema *, SourceLocation, SourceLocation, Expr *, Expr *, Expr *) REAL(CONDITION);
void realInitializer(Sema *, Decl *, Expr *, bool) REAL(INITIALIZER);

ExprResult hookSubscript(Sema *, Scope *, Expr *, SourceLocation, Expr *, SourceLocation) HOOK(SUBSCRIPT);
ExprResult hookUnary(Sema *, Scope *, SourceLocation, tok::TokenKind, Expr *) HOOK(UNARY);
ExprResult hookPostfix(Sema *, Scope *, SourceLocation, tok::TokenKind, Expr *) HOOK(POSTFIX);
ExprResult hookBinary(Sema *, Scope *, SourceLocation, tok::TokenKind, Expr *, Expr *) HOOK(BINARY);
ExprResult hookMember(Sema *, Scope *, Expr *, SourceLocation, tok::TokenKind, CXXScopeSpec &, SourceLocation, UnqualifiedId &, Decl *) HOOK(MEMBER);
ExprResult hookCall(Sema *, Scope *, Expr *, SourceLocation, MultiExprArg, SourceLocation, Expr *) HOOK(CALL);
StmtResult hookReturn(Sema *, SourceLocation, Expr *, Scope *) HOOK(RETURN);
ExprResult hookCondition(Sema *, SourceLocation, SourceLocation, Expr *, Expr *, Expr *) HOOK(CONDITION);
void hookInitializer(Sema *, Decl *, Expr *, bool) HOOK(INITIALIZER);

namespace splitc {

const Signs *signs = nullptr;

static bool isInteger(const Expr *expression) { return !expression->getType().isNull() && expression->getType()->isIntegralOrUnscopedEnumerationType(); }

// The same place, in an address space that says what an assignment to or from it is.
static Expr *inSpace(Builder &build, Expr *place, unsigned space) {
    const QualType type = place->getType();
    ExprResult address = build.sema.CreateBuiltinUnaryOp(build.place, UO_AddrOf, place);
    if (address.isInvalid()) return nullptr;
    ExprResult result = build.placeOf(build.cast(address.get(), build.pointerTo(type, space)));
    return result.isInvalid() ? nullptr : result.get();
}

static ExprResult splitPhase(Builder &build, Expr *left, Expr *right, bool isStore) {
    right = build.convert(right, left->getType());
    const bool isPut = isGlobalPlace(left), isGet = isGlobalPlace(right);
    const SourceRange range(left->getBeginLoc(), right->getEndLoc());
    if (left->refersToBitField() || (isGet && !isPut && right->refersToBitField())) {
        build.report(DiagnosticsEngine::Error, "a bit-field cannot be moved split-phase: use '='", range);
        return ExprError();
    }
    if (isStore && !isPut) {
        build.report(DiagnosticsEngine::Error, "the left side of ':-' has to be a global place", left->getSourceRange());
        return ExprError();
    }
    if (!isPut && !isGet) {
        build.report(DiagnosticsEngine::Warning, "':=' between two local places is a plain assignment", range);
    } else if (isPut) {
        left = inSpace(build, left, isStore ? Store : Put);
    } else {
        right = inSpace(build, right, Get);
    }
    if (!left || !right) return ExprError();
    return realBinary(&build.sema, build.scope, build.place, tok::equal, left, right);
}

// `S += n` and `++S`: S is read twice, so it must not do anything by itself.
static ExprResult stepInPlace(Builder &build, Expr *spread, Expr *steps, bool isBack, bool isOld) {
    if (spread->HasSideEffects(build.context)) {
        build.report(DiagnosticsEngine::Error, "the spread pointer that is moved here is an expression with side effects: use a variable", spread->getSourceRange());
        return ExprError();
    }
    ExprResult moved = realBinary(&build.sema, build.scope, build.place, tok::equal, spread, build.step(spread, steps, isBack));
    if (moved.isInvalid() || !isOld) return moved;
    return build.step(moved.get(), steps, !isBack);
}

static Expr *anySpread(Builder &build, Expr *spread) { return build.cast(spread, build.pointerTo(build.context.VoidTy, Spread)); }

static ExprResult difference(Builder &build, Expr *left, Expr *right) {
    const QualType type = build.value(left)->getType();
    const QualType unit = build.block(type);
    Expr *arguments[] = {anySpread(build, left), anySpread(build, right), unit->isVoidType() ? build.number(1) : build.sizeOf(unit)};
    Expr *steps = build.call("__splitc_spread_difference", arguments);
    Expr *each = build.blocksPerStep(type);
    return each ? build.binary(BO_Div, steps, each) : steps;
}

static Expr *key(Builder &build, Expr *spread) {
    Expr *arguments[] = {anySpread(build, spread)};
    return build.call("__splitc_spread_key", arguments);
}

// clang would convert one of them by itself.
static bool isMixed(Builder &build, Expr *left, Expr *right) {
    const auto isPointer = [](Expr *one) { return !one->getType().isNull() && (one->getType()->isPointerType() || one->getType()->isArrayType()); };
    const auto isNull = [&](Expr *one) { return one->isNullPointerConstant(build.context, Expr::NPC_NeverValueDependent) != Expr::NPCK_NotNull; };
    if (!isPointer(left) || !isPointer(right) || isNull(left) || isNull(right)) return false;
    const bool isLocalLeft = spaceOf(build.value(left)->getType()) == Local, isLocalRight = spaceOf(build.value(right)->getType()) == Local;
    if (isLocalLeft == isLocalRight) return false;
    build.report(DiagnosticsEngine::Error, "a local pointer cannot be compared with a global or spread one: convert one of them", SourceRange(left->getBeginLoc(), right->getEndLoc()));
    return true;
}

static ExprResult binary(Builder &build, tok::TokenKind kind, Expr *left, Expr *right) {
    const unsigned rankLeft = spreadRank(left->getType()), rankRight = spreadRank(right->getType());
    const bool isComparison = kind == tok::less || kind == tok::lessequal || kind == tok::greater || kind == tok::greaterequal || kind == tok::equalequal || kind == tok::exclaimequal;
    if (isComparison && isMixed(build, left, right)) return ExprError();
    switch (kind) {
    case tok::plus:
        if (rankLeft && isInteger(right)) return build.step(left, right, false);
        if (rankRight && isInteger(left)) return build.step(right, left, false);
        break;
    case tok::minus:
        if (rankLeft && isInteger(right)) return build.step(left, right, true);
        if (rankLeft && rankRight) return difference(build, left, right);
        break;
    case tok::plusequal: case tok::minusequal:
        if (rankLeft && isInteger(right)) return stepInPlace(build, left, right, kind == tok::minusequal, false);
        break;
    case tok::less: case tok::lessequal: case tok::greater: case tok::greaterequal:
        if (rankLeft && rankRight) { left = key(build, left); right = key(build, right); }
        break;
    case tok::equalequal: case tok::exclaimequal:
        if (rankLeft && rankRight && rankLeft != rankRight) { left = anySpread(build, left); right = anySpread(build, right); }
        else if (rankLeft) left = build.convert(left, right->getType());
        else if (rankRight) right = build.convert(right, left->getType());
        break;
    case tok::equal: right = build.convert(right, left->getType()); break;
    default: break;
    }
    return realBinary(&build.sema, build.scope, build.place, kind, left, right);
}

// The operators that look like functions.

static Expr *asGlobal(Builder &build, Expr *from) {
    if (isGlobalPlace(from) && !from->getType()->isArrayType() && !isGlobalPointer(from->getType()) && !spreadRank(from->getType())) {
        ExprResult address = build.sema.CreateBuiltinUnaryOp(build.place, UO_AddrOf, from);
        if (address.isInvalid()) return nullptr;
        from = address.get();
    }
    from = build.value(from);
    if (spreadRank(from->getType())) from = build.global(from);
    if (isGlobalPointer(from->getType())) return from;
    build.report(DiagnosticsEngine::Error, "this needs a global or spread pointer, or a place in global memory", from->getSourceRange());
    return nullptr;
}

static ExprResult toLocal(Builder &build, Expr *from) {
    from = asGlobal(build, from);
    if (!from) return ExprError();
    return build.cast(from, build.pointerTo(from->getType()->getPointeeType(), Local));
}

static ExprResult toProcess(Builder &build, Expr *from) {
    from = asGlobal(build, from);
    if (!from) return ExprError();
    Expr *arguments[] = {build.cast(from, build.pointerTo(build.context.VoidTy, Global))};
    return build.call("__splitc_process", arguments);
}

// toglobal(process, pointer): also the other way round, the types tell.
static ExprResult toGlobal(Builder &build, Expr *process, Expr *pointer) {
    if (isInteger(pointer)) std::swap(process, pointer);
    pointer = build.value(pointer);
    if (!isInteger(process) || !pointer->getType()->isPointerType()) {
        build.report(DiagnosticsEngine::Error, "toglobal needs the number of a process and a pointer");
        return ExprError();
    }
    const QualType to = spreadRank(pointer->getType()) ? build.block(pointer->getType()) : pointer->getType()->getPointeeType();
    Expr *arguments[] = {build.cast(process, build.context.IntTy), build.cast(pointer, build.context.VoidPtrTy)};
    return build.cast(build.call("__splitc_global", arguments), build.pointerTo(to, Global));
}

static ExprResult storage(Builder &build, Expr *array, Expr *rows, Expr *isAutomatic) {
    const QualType type = array->getType();
    Expr *count = build.cast(rows, build.context.LongTy);
    if (Expr *each = build.blocksPerStep(type)) count = build.binary(BO_Mul, count, each);
    Expr *arguments[] = {count, build.sizeOf(build.block(type)), isAutomatic};
    return build.cast(build.call("__splitc_spread_make", arguments), type.getUnqualifiedType());
}

// `(T *)(e)[i]` is read as a list in brackets first.
static Expr *opened(Sema *sema, Scope *scope, Expr *expression) {
    if (!isa<ParenListExpr>(expression)) return expression;
    ExprResult result = sema->MaybeConvertParenListExprToParenExpr(scope, expression);
    return result.isInvalid() ? expression : result.get();
}

static llvm::StringRef nameOf(const Expr *function) {
    const auto *reference = dyn_cast<DeclRefExpr>(function->IgnoreParenImpCasts());
    const auto *declaration = reference ? dyn_cast<FunctionDecl>(reference->getDecl()) : nullptr;
    return declaration && declaration->getIdentifier() ? declaration->getName() : "";
}

static ExprResult call(Builder &build, Expr *function, SourceLocation left, MultiExprArg arguments, SourceLocation right, Expr *config) {
    const llvm::StringRef name = nameOf(function);
    if (name.startswith("__splitc_")) {
        if (name == "__splitc_tolocal" && arguments.size() == 1) return toLocal(build, arguments[0]);
        if (name == "__splitc_toproc" && arguments.size() == 1) return toProcess(build, arguments[0]);
        if (name == "__splitc_toglobal" && arguments.size() == 2) return toGlobal(build, arguments[0], arguments[1]);
        if (name == "__splitc_spread_array" && arguments.size() == 3) return storage(build, arguments[0], arguments[1], arguments[2]);
    }
    QualType type = function->getType();
    if (const auto *pointer = type->getAs<PointerType>()) type = pointer->getPointeeType();
    if (const auto *prototype = type->getAs<FunctionProtoType>())
        for (unsigned i = 0; i < arguments.size() && i < prototype->getNumParams(); i++) arguments[i] = build.convert(arguments[i], prototype->getParamType(i));
    return realCall(&build.sema, build.scope, function, left, arguments, right, config);
}

} // namespace splitc

using namespace splitc;

ExprResult hookSubscript(Sema *sema, Scope *scope, Expr *base, SourceLocation left, Expr *index, SourceLocation right) {
    if (signs && base && index) {
        base = opened(sema, scope, base);
        Builder build(*sema, scope, left);
        if (spreadRank(base->getType())) return build.subscript(base, index);
        if (spreadRank(index->getType())) return build.subscript(index, base);
    }
    return realSubscript(sema, scope, base, left, index, right);
}

ExprResult hookUnary(Sema *sema, Scope *scope, SourceLocation place, tok::TokenKind kind, Expr *operand) {
    if (signs && operand && spreadRank(operand->getType())) {
        Builder build(*sema, scope, place);
        if (kind == tok::star) return spreadRank(operand->getType()) == 1 ? build.placeOf(build.global(operand)) : build.subscript(operand, build.number(0));
        if (kind == tok::plusplus || kind == tok::minusminus) return stepInPlace(build, operand, build.number(1), kind == tok::minusminus, false);
    }
    return realUnary(sema, scope, place, kind, operand);
}

ExprResult hookPostfix(Sema *sema, Scope *scope, SourceLocation place, tok::TokenKind kind, Expr *operand) {
    if (signs && operand && spreadRank(operand->getType())) {
        Builder build(*sema, scope, place);
        return stepInPlace(build, operand, build.number(1), kind == tok::minusminus, true);
    }
    return realPostfix(sema, scope, place, kind, operand);
}

ExprResult hookBinary(Sema *sema, Scope *scope, SourceLocation place, tok::TokenKind kind, Expr *left, Expr *right) {
    if (!signs || !left || !right) return realBinary(sema, scope, place, kind, left, right);
    Builder build(*sema, scope, place);
    const bool isStore = signs->store.count(place);
    if (kind == tok::equal && (isStore || signs->split.count(place))) return splitPhase(build, left, right, isStore);
    return splitc::binary(build, kind, left, right);
}

ExprResult hookMember(Sema *sema, Scope *scope, Expr *base, SourceLocation place, tok::TokenKind kind, CXXScopeSpec &qualifier, SourceLocation keyword, UnqualifiedId &name, Decl *protocols) {
    if (signs && base) base = opened(sema, scope, base);
    if (signs && base && kind == tok::arrow && spreadRank(base->getType()) == 1) base = Builder(*sema, scope, place).global(base);
    return realMember(sema, scope, base, place, kind, qualifier, keyword, name, protocols);
}

ExprResult hookCall(Sema *sema, Scope *scope, Expr *function, SourceLocation left, MultiExprArg arguments, SourceLocation right, Expr *config) {
    if (!signs || !function) return realCall(sema, scope, function, left, arguments, right, config);
    function = opened(sema, scope, function);
    Builder build(*sema, scope, function->getBeginLoc());
    return splitc::call(build, function, left, arguments, right, config);
}

StmtResult hookReturn(Sema *sema, SourceLocation place, Expr *value, Scope *scope) {
    const FunctionDecl *function = sema->getCurFunctionDecl();
    if (signs && value && function) value = Builder(*sema, scope, place).convert(value, function->getReturnType());
    return realReturn(sema, place, value, scope);
}

ExprResult hookCondition(Sema *sema, SourceLocation question, SourceLocation colon, Expr *condition, Expr *yes, Expr *no) {
    if (signs && yes && no) {
        Builder build(*sema, nullptr, question);
        if (isGlobalPointer(no->getType())) yes = build.convert(yes, no->getType());
        else if (spreadRank(yes->getType()) && spreadRank(no->getType())) no = build.convert(no, yes->getType());
        else if (isGlobalPointer(yes->getType())) no = build.convert(no, yes->getType());
    }
    return realCondition(sema, question, colon, condition, yes, no);
}

void hookInitializer(Sema *sema, Decl *declaration, Expr *value, bool isDirect) {
    const auto *variable = dyn_cast_or_null<VarDecl>(declaration);
    if (signs && variable && value && !isa<InitListExpr>(value)) value = Builder(*sema, nullptr, value->getBeginLoc()).convert(value, variable->getType());
    realInitializer(sema, declaration, value, isDirect);
}
