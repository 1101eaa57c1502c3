// SPDX-License-Identifier: MIT OR Apache-2.0
#include "build.h"

#include "clang/Sema/Lookup.h"

using namespace clang;

namespace splitc {

static unsigned numberOf(LangAS space) { return isTargetAddressSpace(space) ? toTargetAddressSpace(space) : 0; }

// Of an array, the space is that of its elements.
static LangAS lastSpace(QualType type) {
    for (QualType at = type;;) {
        if (at.getQualifiers().hasAddressSpace()) return at.getAddressSpace();
        const ArrayType *array = at->getAsArrayTypeUnsafe();
        if (!array) return LangAS::Default;
        at = array->getElementType();
    }
}

unsigned spaceOf(QualType type) {
    // An expression that clang has not typed yet has none.
    if (type.isNull()) return Local;
    if (const auto *pointer = type->getAs<PointerType>()) return numberOf(lastSpace(pointer->getPointeeType().getCanonicalType()));
    return 0;
}

bool isGlobalPlace(const Expr *expression) {
    return !expression->getType().isNull() && expression->isGLValue() && numberOf(lastSpace(expression->getType().getCanonicalType())) == Global;
}

unsigned spreadRank(QualType type) {
    const unsigned space = spaceOf(type);
    return space >= Spread && space <= SpreadLast ? space - Spread + 1 : 0;
}

bool isGlobalPointer(QualType type) { return spaceOf(type) == Global; }

Expr *Builder::value(Expr *expression) {
    ExprResult result = sema.DefaultFunctionArrayLvalueConversion(expression);
    return result.isInvalid() ? expression : result.get();
}

Expr *Builder::number(uint64_t number) {
    return IntegerLiteral::Create(context, llvm::APInt(context.getTypeSize(context.LongTy), number), context.LongTy, place);
}

Expr *Builder::cast(Expr *expression, QualType type) {
    expression = value(expression);
    if (context.hasSameType(expression->getType(), type)) return expression;
    ExprResult result = sema.BuildCStyleCastExpr(place, context.getTrivialTypeSourceInfo(type, place), place, expression);
    return result.isInvalid() ? expression : result.get();
}

Expr *Builder::sizeOf(QualType type) {
    ExprResult result = sema.CreateUnaryExprOrTypeTraitExpr(context.getTrivialTypeSourceInfo(type, place), place, UETT_SizeOf, SourceRange(place));
    return result.isInvalid() ? number(1) : result.get();
}

Expr *Builder::binary(BinaryOperatorKind kind, Expr *left, Expr *right) {
    ExprResult result = sema.BuildBinOp(scope, place, kind, left, right);
    return result.isInvalid() ? left : result.get();
}

Expr *Builder::call(llvm::StringRef name, llvm::MutableArrayRef<Expr *> arguments) {
    auto *function = cast_or_null<FunctionDecl>(sema.LookupSingleName(sema.TUScope, &context.Idents.get(name), place, Sema::LookupOrdinaryName));
    assert(function && "declared in the prelude");
    Expr *callee = sema.BuildDeclRefExpr(function, function->getType(), VK_LValue, place);
    ExprResult result = sema.BuildCallExpr(scope, callee, place, arguments, place);
    return result.isInvalid() ? nullptr : result.get();
}

ExprResult Builder::placeOf(Expr *pointer) { return sema.CreateBuiltinUnaryOp(place, UO_Deref, pointer); }

QualType Builder::withoutSpace(QualType type) {
    if (lastSpace(type.getCanonicalType()) == LangAS::Default) return type;
    if (type.getQualifiers().hasAddressSpace()) return context.removeAddrSpaceQualType(type);
    // An array: the space stands at its elements.
    if (const ConstantArrayType *array = context.getAsConstantArrayType(type))
        return context.getConstantArrayType(withoutSpace(array->getElementType()), array->getSize(), array->getSizeExpr(), array->getSizeModifier(), array->getIndexTypeCVRQualifiers());
    if (const VariableArrayType *array = context.getAsVariableArrayType(type))
        return context.getVariableArrayType(withoutSpace(array->getElementType()), array->getSizeExpr(), array->getSizeModifier(), array->getIndexTypeCVRQualifiers(), array->getBracketsRange());
    if (const IncompleteArrayType *array = context.getAsIncompleteArrayType(type))
        return context.getIncompleteArrayType(withoutSpace(array->getElementType()), array->getSizeModifier(), array->getIndexTypeCVRQualifiers());
    return context.removeAddrSpaceQualType(type);
}

QualType Builder::pointerTo(QualType pointee, unsigned space) {
    QualType plain = withoutSpace(pointee);
    return context.getPointerType(space == Local ? plain : context.getAddrSpaceQualType(plain, getLangASFromTargetAS(space)));
}

Expr *Builder::global(Expr *spread) {
    spread = value(spread);
    return cast(spread, pointerTo(spread->getType()->getPointeeType(), Global));
}

QualType Builder::block(QualType pointer) {
    QualType type = pointer->getPointeeType();
    for (unsigned rank = spreadRank(pointer); rank > 1; rank--)
        if (const ArrayType *array = context.getAsArrayType(type)) type = array->getElementType();
    return withoutSpace(type);
}

Expr *Builder::blocksPerStep(QualType pointer) {
    Expr *count = nullptr;
    QualType type = pointer->getPointeeType();
    for (unsigned rank = spreadRank(pointer); rank > 1; rank--) {
        const ArrayType *array = context.getAsArrayType(type);
        if (!array) break;
        // A bound that was computed when the array was declared: the size of so many chars, which
        // does not compute it again.
        Expr *bound = nullptr;
        if (const auto *constant = dyn_cast<ConstantArrayType>(array)) bound = number(constant->getSize().getZExtValue());
        else if (const auto *variable = dyn_cast<VariableArrayType>(array))
            bound = cast(sizeOf(context.getVariableArrayType(context.CharTy, variable->getSizeExpr(), ArrayType::Normal, 0, SourceRange(place))), context.LongTy);
        if (bound) count = count ? binary(BO_Mul, count, bound) : bound;
        type = array->getElementType();
    }
    return count;
}

Expr *Builder::step(Expr *spread, Expr *steps, bool isBack) {
    spread = value(spread);
    const QualType type = spread->getType().getUnqualifiedType();
    steps = cast(steps, context.LongTy);
    if (Expr *each = blocksPerStep(type)) steps = binary(BO_Mul, steps, each);
    if (isBack) steps = sema.CreateBuiltinUnaryOp(place, UO_Minus, steps).get();
    const QualType unit = block(type);
    Expr *size = unit->isVoidType() ? number(1) : sizeOf(unit);
    Expr *arguments[] = {cast(spread, pointerTo(context.VoidTy, Spread)), steps, size};
    Expr *moved = call("__splitc_spread_add", arguments);
    return moved ? cast(moved, type) : spread;
}

ExprResult Builder::subscript(Expr *spread, Expr *index) {
    spread = value(spread);
    const QualType type = spread->getType();
    Expr *moved = step(spread, index, false);
    const unsigned rank = spreadRank(type);
    if (rank == 1) return placeOf(global(moved));
    const ArrayType *array = context.getAsArrayType(type->getPointeeType());
    assert(array && "a spread pointer of several dimensions points to an array");
    return cast(moved, pointerTo(array->getElementType(), Spread + rank - 2));
}

// A spread pointer where a global one, or a spread pointer of another shape, is wanted.
Expr *Builder::convert(Expr *expression, QualType wanted) {
    if (!expression || expression->isTypeDependent() || wanted.isNull()) return expression;
    QualType type = expression->getType();
    if (type->isArrayType() || !spreadRank(type)) return expression;
    const bool same = spaceOf(wanted) == spaceOf(type);
    if (!isGlobalPointer(wanted) && !spreadRank(wanted)) return expression;
    if (same) return expression;
    const QualType to = wanted->getPointeeType(), from = withoutSpace(block(type));
    const bool isShape = spreadRank(wanted) != 0;
    if (isShape || to->isVoidType()) return cast(expression, wanted.getUnqualifiedType());
    // Only the space changes: a pointer to another type is clang's to complain about.
    return cast(expression, pointerTo(from, spaceOf(wanted)));
}

void Builder::report(DiagnosticsEngine::Level level, const char *text, SourceRange range) {
    DiagnosticsEngine &diagnostics = sema.getDiagnostics();
    diagnostics.Report(place, diagnostics.getDiagnosticIDs()->getCustomDiagID(static_cast<DiagnosticIDs::Level>(level), text)) << range;
}

} // namespace splitc
