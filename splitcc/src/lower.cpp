// SPDX-License-Identifier: MIT OR Apache-2.0
#include "lower.h"
#include "tokens.h"

#include "llvm/IR/Constants.h"
#include "llvm/IR/DebugInfoMetadata.h"
#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/InstIterator.h"
#include "llvm/IR/IntrinsicInst.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/Operator.h"

using namespace llvm;

namespace splitc {
namespace {

bool isOurs(unsigned space) { return (space >= Global && space <= SpreadLast) || space == Put || space == Store || space == Get; }
bool isRemote(unsigned space) { return space == Global || space == Put || space == Store || space == Get; }
unsigned spaceOf(const Value *pointer) { return pointer->getType()->isPointerTy() ? pointer->getType()->getPointerAddressSpace() : 0; }

// Lowers one function.
class Lowering {
public:
    Lowering(Function &function, const LowerOptions &options) : function(function), module(*function.getParent()), layout(module.getDataLayout()), context(module.getContext()), options(options) {}

    void run() {
        std::vector<Instruction *> all;
        for (Instruction &instruction : instructions(function)) all.push_back(&instruction);
        for (Instruction *instruction : all) constants(*instruction);
        for (Instruction *instruction : all)
            if (auto *call = dyn_cast<CallInst>(instruction)) aggregates(*call);
        all.clear();
        for (Instruction &instruction : instructions(function)) all.push_back(&instruction);
        for (Instruction *instruction : all) visit(*instruction);
        for (Instruction *instruction : dead) instruction->eraseFromParent();
    }

private:
    // Constant expressions that convert between address spaces become instructions: the number of
    // this process is known when the program runs.
    void constants(Instruction &instruction) {
        for (unsigned i = 0; i < instruction.getNumOperands(); i++) {
            auto *constant = dyn_cast<ConstantExpr>(instruction.getOperand(i));
            if (!constant || !converts(constant)) continue;
            Instruction *before = &instruction;
            if (auto *phi = dyn_cast<PHINode>(&instruction)) before = phi->getIncomingBlock(i)->getTerminator();
            Instruction *expanded = constant->getAsInstruction(before);
            expanded->setDebugLoc(instruction.getDebugLoc());
            instruction.setOperand(i, expanded);
            constants(*expanded);
        }
    }

    // A struct that is passed by value: clang would have the callee's copy made from the local part
    // of its address. So it is copied here first.
    void aggregates(CallInst &call) {
        for (unsigned i = 0; i < call.arg_size(); i++) {
            auto *cast = dyn_cast<AddrSpaceCastInst>(call.getArgOperand(i)->stripPointerCasts());
            if (!cast) cast = dyn_cast<AddrSpaceCastInst>(call.getArgOperand(i));
            const bool isValue = call.isByValArgument(i), isResult = call.paramHasAttr(i, Attribute::StructRet);
            if (!cast || !isOurs(cast->getSrcAddressSpace()) || (!isValue && !isResult)) continue;
            Type *type = isValue ? call.getParamByValType(i) : call.getAttributes().getParamStructRetType(i);
            AllocaInst *place = temporary(type);
            place->setAlignment(std::max(call.getParamAlign(i).valueOrOne(), place->getAlign()));
            IRBuilder<> build(isValue ? &call : call.getNextNode());
            build.SetCurrentDebugLocation(call.getDebugLoc());
            Value *there = address(build, cast->getPointerOperand()), *size = build.getInt64(layout.getTypeAllocSize(type));
            check(build, call, there, size, layout.getABITypeAlign(type).value());
            if (isValue) bulkRead(build, "read", place, there, size);
            else bulkWrite(build, "write", there, place, size);
            call.setArgOperand(i, build.CreateBitCast(place, call.getArgOperand(i)->getType()));
        }
    }

    static bool converts(const Constant *constant) {
        const auto *expression = dyn_cast<ConstantExpr>(constant);
        if (!expression) return false;
        if (expression->getOpcode() == Instruction::AddrSpaceCast) return true;
        for (const Use &operand : expression->operands())
            if (converts(cast<Constant>(operand))) return true;
        return false;
    }

    void visit(Instruction &instruction) {
        if (auto *load = dyn_cast<LoadInst>(&instruction)) {
            if (isOurs(load->getPointerAddressSpace())) lowerLoad(*load);
        } else if (auto *store = dyn_cast<StoreInst>(&instruction)) {
            if (isOurs(store->getPointerAddressSpace())) lowerStore(*store);
        } else if (auto *set = dyn_cast<MemSetInst>(&instruction)) {
            if (isOurs(set->getDestAddressSpace())) lowerSet(*set);
        } else if (auto *transfer = dyn_cast<MemTransferInst>(&instruction)) {
            if (isOurs(transfer->getDestAddressSpace()) || isOurs(transfer->getSourceAddressSpace())) lowerCopy(*transfer);
        } else if (auto *cast = dyn_cast<AddrSpaceCastInst>(&instruction)) {
            lowerCast(*cast);
        } else if (auto *gep = dyn_cast<GetElementPtrInst>(&instruction)) {
            // Nothing is known of objects in another process.
            if (isOurs(gep->getPointerAddressSpace())) gep->setIsInBounds(false);
        } else if (isa<AtomicRMWInst>(instruction) || isa<AtomicCmpXchgInst>(instruction)) {
            if (isOurs(spaceOf(instruction.getOperand(0)))) complain(instruction, "an atomic builtin of the compiler cannot be used on a global place: use fetch_and_add, exchange or cmp_and_swap");
        } else if (auto *intrinsic = dyn_cast<IntrinsicInst>(&instruction)) {
            for (Value *argument : intrinsic->args())
                if (isRemote(spaceOf(argument)) && intrinsic->getType()->isVoidTy() && !intrinsic->isAssumeLikeIntrinsic()) complain(instruction, "this builtin cannot be used on a global place");
        } else if (auto *call = dyn_cast<CallInst>(&instruction)) {
            if (options.check) checkCall(*call);
        }
    }

    // The library's own operations on global places: the place is looked at here, where its line is
    // known.
    void checkCall(CallInst &call) {
        static const struct { const char *name; unsigned place; int length; uint64_t bytes; } known[] = {
            {"gas_bulk_read", 1, 2, 1}, {"gas_bulk_write", 0, 2, 1}, {"gas_bulk_get", 1, 2, 1}, {"gas_bulk_put", 0, 2, 1}, {"gas_bulk_store", 0, 2, 1},
            {"gas_fetch_add_4", 0, -1, 4}, {"gas_swap_4", 0, -1, 4}, {"gas_compare_swap_4", 0, -1, 4},
            {"gas_fetch_add_8", 0, -1, 8}, {"gas_swap_8", 0, -1, 8}, {"gas_compare_swap_8", 0, -1, 8}, {"gas_call", 0, -1, 1},
        };
        const auto *callee = dyn_cast<Function>(call.getCalledOperand()->stripPointerCasts());
        if (!callee) return;
        for (const auto &one : known) {
            const unsigned last = one.length < 0 ? one.place : static_cast<unsigned>(one.length);
            if (callee->getName() != one.name || call.arg_size() <= last) continue;
            IRBuilder<> build(&call);
            Value *place = call.getArgOperand(one.place);
            if (place->getType()->isPointerTy()) place = address(build, place);
            Value *bytes = one.length < 0 ? build.getInt64(one.bytes) : build.CreateZExtOrTrunc(call.getArgOperand(last), build.getInt64Ty());
            check(build, call, place, bytes, one.bytes);
        }
    }

    void complain(const Instruction &instruction, const char *text) const {
        const DebugLoc &at = instruction.getDebugLoc();
        options.error(text, at ? at->getFilename() : "", at ? at.getLine() : 0, at ? at.getCol() : 0);
    }

    static std::string where(const Instruction &instruction) {
        const DebugLoc &at = instruction.getDebugLoc();
        if (!at) return "";
        return (at->getFilename() + ":" + Twine(at.getLine()) + ":" + Twine(at.getCol()) + ": ").str();
    }

    Value *address(IRBuilder<> &build, Value *pointer) { return build.CreatePtrToInt(pointer, build.getInt64Ty()); }

    FunctionCallee runtime(const Twine &name, Type *result, ArrayRef<Type *> arguments) {
        return module.getOrInsertFunction(name.str(), FunctionType::get(result, arguments, false));
    }

    void check(IRBuilder<> &build, const Instruction &instruction, Value *address, Value *bytes, uint64_t align) {
        if (!options.check) return;
        std::string text = where(instruction);
        if (!text.empty()) text.resize(text.size() - 2);
        Value *place = build.CreateGlobalStringPtr(text, "splitc.where");
        Type *word = build.getInt64Ty();
        build.CreateCall(runtime("__splitc_check", build.getVoidTy(), {word, word, word, place->getType()}), {address, bytes, build.getInt64(align), place});
    }

    // A type that is moved as one word: bytes, or 0.
    uint64_t word(Type *type, Align align) const {
        if (!type->isIntegerTy() && !type->isPointerTy() && !type->isFloatTy() && !type->isDoubleTy()) return 0;
        const uint64_t bytes = layout.getTypeStoreSize(type);
        const bool isWord = bytes == 1 || bytes == 2 || bytes == 4 || bytes == 8;
        return isWord && layout.getTypeSizeInBits(type) == bytes * 8 && align.value() >= bytes ? bytes : 0;
    }

    AllocaInst *temporary(Type *type) {
        IRBuilder<> build(&*function.getEntryBlock().begin());
        return build.CreateAlloca(type);
    }

    static const char *reading(unsigned space) { return space == Get ? "get" : "read"; }
    static const char *writing(unsigned space) { return space == Store ? "store" : space == Put ? "put" : "write"; }

    Value *bulkRead(IRBuilder<> &build, const char *how, Value *to, Value *from, Value *bytes) {
        return build.CreateCall(runtime(Twine("__splitc_bulk_") + how, build.getVoidTy(), {build.getInt8PtrTy(), build.getInt64Ty(), build.getInt64Ty()}), {build.CreateBitCast(to, build.getInt8PtrTy()), from, bytes});
    }

    Value *bulkWrite(IRBuilder<> &build, const char *how, Value *to, Value *from, Value *bytes) {
        return build.CreateCall(runtime(Twine("__splitc_bulk_") + how, build.getVoidTy(), {build.getInt64Ty(), build.getInt8PtrTy(), build.getInt64Ty()}), {to, build.CreateBitCast(from, build.getInt8PtrTy()), bytes});
    }

    // The store that alone uses a value that is got: then it can arrive later.
    StoreInst *arrival(LoadInst &load) {
        if (load.getPointerAddressSpace() != Get || !load.hasOneUse()) return nullptr;
        auto *store = dyn_cast<StoreInst>(*load.user_begin());
        const bool isPlain = store && store->getValueOperand() == &load && store->getPointerAddressSpace() == Local && store->getParent() == load.getParent();
        return isPlain ? store : nullptr;
    }

    void lowerLoad(LoadInst &load) {
        Type *type = load.getType();
        const uint64_t bytes = word(type, load.getAlign());
        if (StoreInst *store = arrival(load)) {
            IRBuilder<> build(store);
            Value *from = address(build, load.getPointerOperand());
            Value *to = build.CreateBitCast(store->getPointerOperand(), build.getInt8PtrTy());
            Value *size = build.getInt64(layout.getTypeAllocSize(type));
            check(build, load, from, size, load.getAlign().value());
            if (bytes) build.CreateCall(runtime("__splitc_get_" + Twine(bytes), build.getVoidTy(), {build.getInt8PtrTy(), build.getInt64Ty()}), {to, from});
            else bulkRead(build, "get", to, from, size);
            dead.push_back(store);
            dead.push_back(&load);
            return;
        }
        IRBuilder<> build(&load);
        Value *from = address(build, load.getPointerOperand());
        check(build, load, from, build.getInt64(layout.getTypeAllocSize(type)), load.getAlign().value());
        Value *value;
        if (bytes) {
            Value *raw = build.CreateCall(runtime("__splitc_read_" + Twine(bytes), build.getIntNTy(bytes * 8), {build.getInt64Ty()}), {from});
            value = build.CreateBitOrPointerCast(raw, type);
        } else {
            AllocaInst *place = temporary(type);
            bulkRead(build, "read", place, from, build.getInt64(layout.getTypeAllocSize(type)));
            value = build.CreateLoad(type, place);
        }
        load.replaceAllUsesWith(value);
        dead.push_back(&load);
    }

    void lowerStore(StoreInst &store) {
        IRBuilder<> build(&store);
        Value *value = store.getValueOperand();
        const unsigned space = store.getPointerAddressSpace();
        const uint64_t bytes = word(value->getType(), store.getAlign());
        Value *to = address(build, store.getPointerOperand());
        Value *size = build.getInt64(layout.getTypeAllocSize(value->getType()));
        check(build, store, to, size, store.getAlign().value());
        if (bytes) {
            Value *raw = build.CreateBitOrPointerCast(value, build.getIntNTy(bytes * 8));
            build.CreateCall(runtime(Twine("__splitc_") + writing(space) + "_" + Twine(bytes), build.getVoidTy(), {build.getInt64Ty(), raw->getType()}), {to, raw});
        } else {
            AllocaInst *place = temporary(value->getType());
            build.CreateStore(value, place);
            // The place is used again: put or stored data have left when the call returns.
            bulkWrite(build, writing(space), to, place, size);
        }
        dead.push_back(&store);
    }

    void lowerSet(MemSetInst &set) {
        IRBuilder<> build(&set);
        Value *to = address(build, set.getRawDest());
        Value *bytes = build.CreateZExtOrTrunc(set.getLength(), build.getInt64Ty());
        check(build, set, to, bytes, 1);
        build.CreateCall(runtime("__splitc_bulk_set", build.getVoidTy(), {build.getInt64Ty(), build.getInt8Ty(), build.getInt64Ty()}), {to, set.getValue(), bytes});
        dead.push_back(&set);
    }

    void lowerCopy(MemTransferInst &copy) {
        IRBuilder<> build(&copy);
        Value *bytes = build.CreateZExtOrTrunc(copy.getLength(), build.getInt64Ty());
        const unsigned to = copy.getDestAddressSpace(), from = copy.getSourceAddressSpace();
        Value *target = isOurs(to) ? address(build, copy.getRawDest()) : nullptr;
        Value *source = isOurs(from) ? address(build, copy.getRawSource()) : nullptr;
        if (source) check(build, copy, source, bytes, copy.getSourceAlign().valueOrOne().value());
        if (target) check(build, copy, target, bytes, copy.getDestAlign().valueOrOne().value());
        if (!source) {
            bulkWrite(build, writing(to), target, copy.getRawSource(), bytes);
        } else if (!target) {
            bulkRead(build, reading(from), copy.getRawDest(), source, bytes);
        } else {
            // From one process to another: through here.
            auto *length = dyn_cast<ConstantInt>(copy.getLength());
            if (!length) return complain(copy, "a copy of this size cannot go from one global place to another"); // guard: clang makes no such copy
            AllocaInst *place = temporary(ArrayType::get(build.getInt8Ty(), length->getZExtValue()));
            place->setAlignment(Align(16));
            bulkRead(build, "read", place, source, bytes);
            bulkWrite(build, writing(to), target, place, bytes);
        }
        dead.push_back(&copy);
    }

    void lowerCast(AddrSpaceCastInst &cast) {
        const unsigned from = cast.getSrcAddressSpace(), to = cast.getDestAddressSpace();
        if (!isOurs(from) && !isOurs(to)) return;
        IRBuilder<> build(&cast);
        Value *bits = address(build, cast.getPointerOperand());
        if (!isOurs(from)) bits = build.CreateCall(runtime("__splitc_from_local", build.getInt64Ty(), {build.getInt64Ty()}), {bits});
        else if (!isOurs(to)) bits = build.CreateCall(runtime("__splitc_to_local", build.getInt64Ty(), {build.getInt64Ty()}), {bits});
        cast.replaceAllUsesWith(build.CreateIntToPtr(bits, cast.getType()));
        dead.push_back(&cast);
    }

    Function &function;
    Module &module;
    const DataLayout &layout;
    LLVMContext &context;
    const LowerOptions &options;
    std::vector<Instruction *> dead;
};

// The program's beginning for the start-up code: whatever shape splitc_main has, and with 0 where
// it falls off its end.
void program(Module &module) {
    Function *user = module.getFunction("splitc_main");
    if (!user || user->isDeclaration()) return;
    LLVMContext &context = module.getContext();
    Type *integer = Type::getInt32Ty(context), *text = Type::getInt8PtrTy(context)->getPointerTo();
    Function *begin = Function::Create(FunctionType::get(integer, {integer, text, text}, false), GlobalValue::ExternalLinkage, "__splitc_program", module);
    IRBuilder<> build(BasicBlock::Create(context, "", begin));
    SmallVector<Value *, 3> arguments;
    for (Argument &parameter : user->args()) {
        if (arguments.size() == 3) break;
        Value *argument = begin->getArg(arguments.size());
        if (argument->getType() != parameter.getType()) argument = parameter.getType()->isPointerTy() && argument->getType()->isPointerTy() ? build.CreateBitCast(argument, parameter.getType()) : Constant::getNullValue(parameter.getType());
        arguments.push_back(argument);
    }
    Value *result = build.CreateCall(user, arguments);
    build.CreateRet(result->getType() == integer ? result : build.getInt32(0));
    // A result that is never given is that of C's main.
    if (user->getReturnType() != integer) return;
    for (BasicBlock &block : *user)
        if (auto *leave = dyn_cast<ReturnInst>(block.getTerminator()))
            if (auto *load = dyn_cast<LoadInst>(leave->getReturnValue()))
                if (auto *place = dyn_cast<AllocaInst>(load->getPointerOperand())) new StoreInst(build.getInt32(0), place, place->getNextNode());
}

} // namespace

void lower(Module &module, const LowerOptions &options) {
    program(module);
    for (Function &function : module)
        if (!function.isDeclaration()) Lowering(function, options).run();
}

} // namespace splitc
