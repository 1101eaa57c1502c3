// SPDX-License-Identifier: MIT OR Apache-2.0
#include "action.h"
#include "lower.h"
#include "semantics.h"

#include "clang/AST/ASTConsumer.h"
#include "clang/AST/ASTContext.h"
#include "clang/AST/DeclGroup.h"
#include "clang/AST/RecursiveASTVisitor.h"
#include "clang/Basic/TargetInfo.h"
#include "clang/CodeGen/BackendUtil.h"
#include "clang/CodeGen/ModuleBuilder.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Lex/Preprocessor.h"
#include "clang/Lex/PreprocessorOptions.h"
#include "clang/Parse/Parser.h"
#include "clang/Sema/Sema.h"
#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/Module.h"

using namespace clang;

namespace splitc {
namespace {

// A conversion of a local pointer into a global one: which it is depends on the process.
class Conversion : public RecursiveASTVisitor<Conversion> {
public:
    explicit Conversion(ASTContext &context) : context(context) {}

    bool VisitCastExpr(CastExpr *cast) {
        const bool isNull = cast->getSubExpr()->IgnoreParenCasts()->isNullPointerConstant(context, Expr::NPC_NeverValueDependent) != Expr::NPCK_NotNull;
        if (cast->getCastKind() == CK_AddressSpaceConversion && !isNull) found = cast;
        return !found;
    }

    const CastExpr *found = nullptr;

private:
    ASTContext &context;
};

// Errors that clang lets pass: `int global x` of static storage or as a function's result, an
// initial value that only a running process knows.
class Places : public RecursiveASTVisitor<Places> {
public:
    explicit Places(DiagnosticsEngine &diagnostics) : diagnostics(diagnostics) {}

    bool VisitVarDecl(VarDecl *variable) {
        if (variable->isInvalidDecl() || !variable->hasGlobalStorage()) return true;
        look(variable, variable->getType(), "'global' and 'spread' belong to pointers, behind the star: T *global p");
        Conversion conversion(variable->getASTContext());
        if (variable->getInit()) conversion.TraverseStmt(variable->getInit());
        if (conversion.found) report(conversion.found->getBeginLoc(), "a local pointer becomes a global one when the program runs: it cannot be an initial value of a static object");
        return true;
    }

    bool VisitFunctionDecl(FunctionDecl *function) {
        if (!function->isInvalidDecl()) look(function, function->getReturnType(), "'global' and 'spread' belong to pointers, behind the star: T *global f()");
        return true;
    }

private:
    void look(const Decl *declaration, QualType type, llvm::StringRef text) {
        // Of an array, the space is that of its elements.
        for (QualType at = type.getCanonicalType();;) {
            if (at.getQualifiers().hasAddressSpace()) return report(declaration->getLocation(), text);
            const ArrayType *array = at->getAsArrayTypeUnsafe();
            if (!array) return;
            at = array->getElementType();
        }
    }

    void report(SourceLocation place, llvm::StringRef text) { diagnostics.Report(place, diagnostics.getDiagnosticIDs()->getCustomDiagID(DiagnosticIDs::Error, text)); }

    DiagnosticsEngine &diagnostics;
};

// Hands declarations to clang's IR generator, and the finished module to the lowering and the back
// end.
class Consumer : public ASTConsumer {
public:
    Consumer(CompilerInstance &compiler, llvm::StringRef file, BackendAction action, std::unique_ptr<llvm::raw_pwrite_stream> output)
        : compiler(compiler), action(action), output(std::move(output)),
          generator(CreateLLVMCodeGen(compiler.getDiagnostics(), file, compiler.getHeaderSearchOpts(), compiler.getPreprocessorOpts(), compiler.getCodeGenOpts(), context)) {}

    void Initialize(ASTContext &context) override { generator->Initialize(context); }
    bool HandleTopLevelDecl(DeclGroupRef group) override { return generator->HandleTopLevelDecl(group); }
    void HandleInlineFunctionDefinition(FunctionDecl *function) override { generator->HandleInlineFunctionDefinition(function); }
    void HandleTagDeclDefinition(TagDecl *tag) override { generator->HandleTagDeclDefinition(tag); }
    void HandleTagDeclRequiredDefinition(const TagDecl *tag) override { generator->HandleTagDeclRequiredDefinition(tag); }
    void CompleteTentativeDefinition(VarDecl *variable) override { generator->CompleteTentativeDefinition(variable); }
    void CompleteExternalDeclaration(VarDecl *variable) override { generator->CompleteExternalDeclaration(variable); }

    void HandleTranslationUnit(ASTContext &ast) override {
        keepInline(ast);
        generator->HandleTranslationUnit(ast);
        DiagnosticsEngine &diagnostics = compiler.getDiagnostics();
        if (diagnostics.hasErrorOccurred()) return;
        std::unique_ptr<llvm::Module> module(generator->ReleaseModule());
        if (!module) return;
        // Weak, so that a definition elsewhere is taken; and the same everywhere, so that it may be
        // inlined.
        for (const std::string &name : kept)
            if (llvm::Function *function = module->getFunction(name)) function->setLinkage(llvm::GlobalValue::WeakODRLinkage);
        LowerOptions options;
        for (const auto &macro : compiler.getPreprocessorOpts().Macros) options.check |= !macro.second && macro.first == "__SPLITC_CHECK__";
        const unsigned report = diagnostics.getCustomDiagID(DiagnosticsEngine::Error, "%0");
        options.error = [&](const std::string &text, llvm::StringRef file, unsigned line, unsigned column) {
            const auto entry = compiler.getFileManager().getFile(file);
            diagnostics.Report(entry && line ? compiler.getSourceManager().translateFileLineCol(*entry, line, column ? column : 1) : SourceLocation(), report) << text;
        };
        lower(*module, options);
        std::string why;
        if (!linkInline(*module, why)) options.error(why, "", 0, 0);
        if (diagnostics.hasErrorOccurred()) return;
        EmitBackendOutput(diagnostics, compiler.getHeaderSearchOpts(), compiler.getCodeGenOpts(), compiler.getTargetOpts(), compiler.getLangOpts(), ast.getTargetInfo().getDataLayoutString(), module.get(), action,
                          std::move(output));
    }

private:
    // `extern inline` of GNU89 emits nothing where the function is not inlined. GCC 2 inlined
    // whatever it was told to, so programs of its time have no other definition: here they get one.
    void keepInline(ASTContext &ast) {
        if (!compiler.getLangOpts().GNUInline) return;
        for (Decl *declaration : ast.getTranslationUnitDecl()->decls()) {
            auto *function = llvm::dyn_cast<FunctionDecl>(declaration);
            if (!function || !function->isThisDeclarationADefinition() || !function->isInlineSpecified() || function->getStorageClass() != SC_Extern) continue;
            // The program's own definition, behind that in a header.
            if (function->getDefinition() != function) continue;
            for (FunctionDecl *other : function->redecls()) other->setStorageClass(SC_None);
            function->addAttr(WeakAttr::CreateImplicit(ast));
            kept.push_back(function->getName().str());
        }
    }

    CompilerInstance &compiler;
    std::vector<std::string> kept;
    const BackendAction action;
    std::unique_ptr<llvm::raw_pwrite_stream> output;
    llvm::LLVMContext context;
    std::unique_ptr<CodeGenerator> generator;
};

} // namespace

bool Action::BeginSourceFileAction(CompilerInstance &compiler) {
    Preprocessor &preprocessor = compiler.getPreprocessor();
    preprocessor.setPredefines(preprocessor.getPredefines() + prelude);
    return true;
}

std::unique_ptr<ASTConsumer> Action::CreateASTConsumer(CompilerInstance &compiler, llvm::StringRef file) {
    switch (compiler.getFrontendOpts().ProgramAction) {
    case frontend::EmitObj: return std::make_unique<Consumer>(compiler, file, Backend_EmitObj, compiler.createDefaultOutputFile(true, file, "o"));
    case frontend::EmitAssembly: return std::make_unique<Consumer>(compiler, file, Backend_EmitAssembly, compiler.createDefaultOutputFile(false, file, "s"));
    case frontend::EmitLLVM: return std::make_unique<Consumer>(compiler, file, Backend_EmitLL, compiler.createDefaultOutputFile(false, file, "ll"));
    case frontend::EmitBC: return std::make_unique<Consumer>(compiler, file, Backend_EmitBC, compiler.createDefaultOutputFile(true, file, "bc"));
    default: return std::make_unique<ASTConsumer>();
    }
}

void Action::ExecuteAction() {
    CompilerInstance &compiler = getCompilerInstance();
    if (!compiler.hasPreprocessor()) return;
    if (!compiler.hasSema()) compiler.createSema(getTranslationUnitKind(), nullptr);
    Sema &sema = compiler.getSema();
    ASTConsumer &consumer = sema.getASTConsumer();
    Preprocessor &preprocessor = sema.getPreprocessor();

    // The parser first: it is what knows the pragmas.
    Parser parser(preprocessor, sema, false);
    preprocessor.EnterMainSourceFile();
    std::vector<Token> tokens;
    do {
        tokens.emplace_back();
        preprocessor.Lex(tokens.back());
    } while (tokens.back().isNot(tok::eof));
    tokens = TokenRewriter(preprocessor, found).run(std::move(tokens));
    preprocessor.EnterTokenStream(tokens, true, false);

    signs = &found;
    parser.Initialize();
    Parser::DeclGroupPtrTy group;
    Places places(compiler.getDiagnostics());
    for (bool isEnd = parser.ParseFirstTopLevelDecl(group); !isEnd; isEnd = parser.ParseTopLevelDecl(group))
        if (group) {
            for (Decl *declaration : group.get()) places.TraverseDecl(declaration);
            if (!consumer.HandleTopLevelDecl(group.get())) break;
        }
    for (Decl *declaration : sema.WeakTopLevelDecls()) consumer.HandleTopLevelDecl(DeclGroupRef(declaration));
    consumer.HandleTranslationUnit(sema.getASTContext());
    signs = nullptr;
}

} // namespace splitc
