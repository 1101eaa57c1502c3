// SPDX-License-Identifier: MIT OR Apache-2.0
// splitcc: clang's own driver, so that every option of cc is there, with what Split-C needs
// besides: sources named .sc, the headers, the start-up code and the library.
#include "action.h"
#include "printer.h"

#include "clang/Basic/DiagnosticOptions.h"
#include "clang/Driver/Compilation.h"
#include "clang/Driver/Driver.h"
#include "clang/Frontend/CompilerInstance.h"
#include "clang/Frontend/CompilerInvocation.h"
#include "clang/Frontend/TextDiagnosticBuffer.h"
#include "clang/Frontend/TextDiagnosticPrinter.h"
#include "clang/Frontend/Utils.h"
#include "clang/Lex/PreprocessorOptions.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Host.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/TargetSelect.h"
#include <unistd.h>

using namespace clang;

namespace splitc {
namespace {

bool isSplitC(llvm::StringRef file) { return file.endswith(".sc"); }

// The files of a Split-C installation, beside this program: ../include/split-c and ../lib, or those
// named by SPLITC_HOME while it is not installed.
struct Home {
    std::string include, lib;
    explicit Home(llvm::StringRef program) {
        std::string home = getenv("SPLITC_HOME") ? getenv("SPLITC_HOME") : llvm::sys::path::parent_path(llvm::sys::path::parent_path(program)).str();
        include = home + "/include";
        lib = home + "/lib";
    }
};

// The arguments of `splitcc` as clang's driver takes them.
std::vector<std::string> forDriver(llvm::ArrayRef<const char *> arguments, const Home &home) {
    std::vector<std::string> result = {arguments[0]};
    bool isLanguageGiven = false, isDebug = false, isCheck = false, hasSplitC = false;
    std::vector<std::string> rest;
    for (size_t i = 1; i < arguments.size(); i++) {
        const llvm::StringRef argument = arguments[i];
        if (argument == "-fsplitc-check") { isCheck = true; continue; }
        if (argument.startswith("-x")) isLanguageGiven = argument != "-xnone";
        if (argument.startswith("-g") && argument != "-g0") isDebug = true;
        static const char *const withValue[] = {"-o", "-I", "-D", "-U", "-include", "-isystem", "-L", "-MF", "-MT", "-MQ", "-Xclang", "-Xlinker", "-l", "-x"};
        const bool takesNext = std::find(std::begin(withValue), std::end(withValue), argument) != std::end(withValue) && i + 1 < arguments.size();
        if (!argument.startswith("-") && isSplitC(argument)) {
            hasSplitC = true;
            if (!isLanguageGiven) rest.insert(rest.end(), {"-x", "c", argument.str(), "-x", "none"});
            else rest.push_back(argument.str());
            continue;
        }
        rest.push_back(argument.str());
        if (takesNext) rest.push_back(arguments[++i]);
    }
    // C as it was: the user's own options come later and win.
    result.insert(result.end(), {"-fcommon", "-fno-pie", "-no-pie", "-I" + home.include, "-Wno-unused-command-line-argument"});
    if (hasSplitC) result.insert(result.end(), {"-std=gnu89", "-Wimplicit-int", "-Wno-implicit-int"});
    if (isCheck) {
        result.push_back("-D__SPLITC_CHECK__");
        if (!isDebug) result.push_back("-gline-tables-only");
    }
    result.insert(result.end(), rest.begin(), rest.end());
    return result;
}

// The libraries go to the end of the command line.
void addLibraries(std::vector<std::string> &arguments, const Home &home) {
    for (const std::string &argument : arguments)
        if (argument == "-c" || argument == "-S" || argument == "-E" || argument == "-fsyntax-only" || argument == "-shared" || argument == "-r" || argument == "-nostdlib" || argument == "-M" || argument == "-MM") return;
    arguments.insert(arguments.end(), {"-Wl,--undefined=main", "-L" + home.lib, "-Wl,-rpath," + home.lib, "-lsplitc", "-lbellwire_gas", "-lm"});
}

int compile(llvm::SmallVectorImpl<const char *> &arguments) {
    // arguments[1] is -cc1.
    auto compiler = std::make_unique<CompilerInstance>();
    IntrusiveRefCntPtr<DiagnosticOptions> options = new DiagnosticOptions();
    auto *buffer = new TextDiagnosticBuffer;
    DiagnosticsEngine early(new DiagnosticIDs(), &*options, buffer);
    const bool isGood = CompilerInvocation::CreateFromArgs(compiler->getInvocation(), llvm::makeArrayRef(arguments).slice(2), early, arguments[0]);
    const FrontendOptions &frontend = compiler->getFrontendOpts();
    bool isOurs = frontend.Inputs.size() == 1 && frontend.Inputs[0].isFile() && isSplitC(frontend.Inputs[0].getFile());
    switch (frontend.ProgramAction) {
    case frontend::EmitObj: case frontend::EmitAssembly: case frontend::EmitLLVM: case frontend::EmitBC: case frontend::ParseSyntaxOnly: break;
    default: isOurs = false;
    }
    if (!isOurs) {
        // Plain C, the preprocessor alone and the like: clang as it is.
        std::vector<const char *> others(arguments.begin(), arguments.end());
        others[0] = SPLITCC_CLANG;
        // The words of Split-C are macros in what comes out of the preprocessor, too.
        others.push_back(nullptr);
        execv(SPLITCC_CLANG, const_cast<char **>(others.data()));
        llvm::errs() << "splitcc: cannot run " << SPLITCC_CLANG << ": " << strerror(errno) << "\n";
        return 1;
    }
    compiler->createDiagnostics(new Printer(&compiler->getDiagnosticOpts()), true);
    if (!compiler->hasDiagnostics()) return 1;
    buffer->FlushDiagnostics(compiler->getDiagnostics());
    if (!isGood) return 1;
    const std::string file = frontend.Inputs[0].getFile().str();
    if (auto source = llvm::MemoryBuffer::getFile(file)) {
        const std::string joined = withJoinedLiterals((*source)->getBuffer());
        if (!joined.empty()) compiler->getPreprocessorOpts().addRemappedFile(file, llvm::MemoryBuffer::getMemBufferCopy(joined, file).release());
    }
    // Places of the source for what the lowering has to say; none of it is in the object file.
    if (compiler->getCodeGenOpts().getDebugInfo() == codegenoptions::NoDebugInfo) compiler->getCodeGenOpts().setDebugInfo(codegenoptions::LocTrackingOnly);
    Action action;
    const bool done = compiler->ExecuteAction(action);
    return done && !compiler->getDiagnostics().hasErrorOccurred() ? 0 : 1;
}

int drive(llvm::ArrayRef<const char *> arguments) {
    const std::string program = llvm::sys::fs::getMainExecutable(arguments[0], reinterpret_cast<void *>(&drive));
    const Home home(program);
    std::vector<std::string> words = forDriver(arguments, home);
    addLibraries(words, home);
    llvm::SmallVector<const char *, 64> list;
    for (const std::string &word : words) list.push_back(word.c_str());

    IntrusiveRefCntPtr<DiagnosticOptions> options = CreateAndPopulateDiagOpts(list);
    auto *printer = new TextDiagnosticPrinter(llvm::errs(), &*options);
    printer->setPrefix("splitcc");
    DiagnosticsEngine diagnostics(new DiagnosticIDs(), &*options, printer);
    ProcessWarningOptions(diagnostics, *options, false);
    driver::Driver driver(program, llvm::sys::getDefaultTargetTriple(), diagnostics, "splitcc");
    driver.ResourceDir = SPLITCC_RESOURCES;
    driver.setCheckInputsExist(true);
    driver.CC1Main = compile;
    std::unique_ptr<driver::Compilation> compilation(driver.BuildCompilation(list));
    if (!compilation || compilation->containsError()) return 1;
    llvm::SmallVector<std::pair<int, const driver::Command *>, 4> failed;
    const int result = driver.ExecuteCompilation(*compilation, failed);
    for (const auto &one : failed)
        if (one.first < 0) return 1;
    return result;
}

} // namespace
} // namespace splitc

int main(int count, const char **words) {
    llvm::InitLLVM init(count, words);
    llvm::InitializeNativeTarget();
    llvm::InitializeNativeTargetAsmPrinter();
    llvm::InitializeNativeTargetAsmParser();
    llvm::SmallVector<const char *, 64> arguments(words, words + count);
    if (count > 1 && llvm::StringRef(words[1]) == "-cc1") return splitc::compile(arguments);
    return splitc::drive(arguments);
}
