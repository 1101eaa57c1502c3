// SPDX-License-Identifier: MIT OR Apache-2.0
#include "printer.h"

#include "clang/Basic/SourceManager.h"
#include "llvm/ADT/SmallString.h"
#include "llvm/Support/Regex.h"
#include "llvm/Support/raw_ostream.h"

using namespace clang;

namespace splitc {

static void replaceAll(std::string &text, llvm::StringRef from, llvm::StringRef to) {
    for (size_t at = 0; (at = text.find(from.str(), at)) != std::string::npos; at += to.size()) text.replace(at, from.size(), to.str());
}

// Types are printed as `global int *` or `int (spread *)[4]`; as the user writes them, the word comes after the star that it belongs to.
static std::string wordsBehindStars(std::string text) {
    static const llvm::Regex inner("(.*)\\((global|spread) \\*(.*)");
    static const llvm::Regex plain("(.*['(, ]|^)(global|spread) ([^*()',]*[^*()', ]) \\*(.*)");
    llvm::SmallVector<llvm::StringRef, 6> part;
    for (int i = 0; i < 20; i++) {
        if (inner.match(text, &part)) text = (part[1] + "(*" + part[2] + part[3]).str();
        else if (plain.match(text, &part)) text = (part[1] + part[3] + " *" + part[2] + part[4]).str();
        else break;
    }
    // clang does not close the bracket of a type that is a place; and a pointer needs none around its star.
    static const llvm::Regex open("(.*) \\((global|spread)([^)']*)'(.*)"), round("(.*)\\((\\*(global|spread))\\)('|,| \\*|$)(.*)");
    while (open.match(text, &part)) text = (part[1] + " " + part[2] + part[3] + "'" + part[4]).str();
    while (round.match(text, &part)) text = (part[1] + part[2] + part[4] + part[5]).str();
    static const llvm::Regex deeper("(.*)\\((\\*(global|spread))(\\*+)\\)('|,)(.*)");
    while (deeper.match(text, &part)) text = (part[1] + part[2] + " " + part[4] + part[5] + part[6]).str();
    return text;
}

std::string reworded(llvm::StringRef message) {
    std::string text = message.str();
    for (const char *form : {"__attribute__((address_space(", "__attribute__((__address_space__("}) {
        for (size_t at; (at = text.find(form)) != std::string::npos;) {
            const size_t number = at + strlen(form), end = text.find(")))", number);
            if (end == std::string::npos) break;
            const int space = atoi(text.c_str() + number);
            text.replace(at, end + 3 - at, space >= 2 && space <= 9 ? "spread" : "global");
        }
    }
    if (llvm::StringRef(text).contains("global") || llvm::StringRef(text).contains("spread")) text = wordsBehindStars(text);
    replaceAll(text, "changes address space of pointer", "mixes local, global and spread pointers");
    replaceAll(text, "changes address space of nested pointer", "mixes pointers to local, global and spread pointers");
    replaceAll(text, "which are pointers to non-overlapping address spaces", "which are local, global and spread pointers: convert one of them");
    replaceAll(text, "automatic variable qualified with an address space", "'global' and 'spread' belong to pointers, behind the star: T *global p");
    replaceAll(text, "parameter may not be qualified with an address space", "'global' and 'spread' belong to pointers, behind the star: T *global p");
    replaceAll(text, "field may not be qualified with an address space", "'global' and 'spread' belong to pointers, behind the star: T *global p");
    replaceAll(text, "compound literal in function scope may not be qualified with an address space", "'global' and 'spread' belong to pointers, behind the star: (T *global)p");
    replaceAll(text, "function type may not be qualified with an address space", "functions are not in global memory: a pointer to one is local");
    replaceAll(text, "operands of type  (", "operands of type (");
    replaceAll(text, "multiple identical address spaces specified for type", "'global' or 'spread' is there twice");
    replaceAll(text, "multiple address spaces specified for type", "'global' and 'spread' exclude each other");
    return text;
}

void Printer::BeginSourceFile(const LangOptions &language, const Preprocessor *) {
    text = std::make_unique<TextDiagnostic>(llvm::errs(), language, &*options);
}

void Printer::HandleDiagnostic(DiagnosticsEngine::Level level, const Diagnostic &info) {
    DiagnosticConsumer::HandleDiagnostic(level, info);
    llvm::SmallString<200> raw;
    info.FormatDiagnostic(raw);
    std::string message = reworded(raw);
    const llvm::StringRef flag = DiagnosticIDs::getWarningOptionForDiag(info.getID());
    if (!flag.empty() && options->ShowOptionNames) {
        const bool isError = level == DiagnosticsEngine::Error;
        if (isError || level == DiagnosticsEngine::Warning) message += (isError ? " [-Werror,-W" : " [-W") + flag.str() + "]";
    }
    if (!info.getLocation().isValid() || !text) {
        TextDiagnostic::printDiagnosticLevel(llvm::errs(), level, options->ShowColors);
        TextDiagnostic::printDiagnosticMessage(llvm::errs(), level == DiagnosticsEngine::Note, message, 0, 0, options->ShowColors);
        llvm::errs().flush();
        return;
    }
    text->emitDiagnostic(FullSourceLoc(info.getLocation(), info.getSourceManager()), level, message, info.getRanges(), info.getFixItHints());
    llvm::errs().flush();
}

} // namespace splitc
