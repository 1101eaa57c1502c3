// SPDX-License-Identifier: MIT OR Apache-2.0
#include "tokens.h"

#include "clang/Basic/SourceManager.h"
#include "clang/Lex/LexDiagnostic.h"
#include "clang/Lex/Lexer.h"
#include "clang/Lex/Preprocessor.h"
#include "llvm/Support/MemoryBuffer.h"
#include <algorithm>

using namespace clang;

namespace splitc {

std::vector<Token> TokenRewriter::run(std::vector<Token> tokens) {
    in = std::move(tokens);
    out.reserve(in.size() + in.size() / 8);
    nests.push_back({tok::eof});
    while (at < in.size()) step();
    return std::move(out);
}

// Closes the brackets of declarators that end here.
void TokenRewriter::close() {
    while (true) {
        auto closing = std::find(closings.begin(), closings.end(), at);
        if (closing == closings.end()) return;
        closings.erase(closing);
        write(")", in[at].getLocation());
    }
}

void TokenRewriter::step() {
    close();
    if (pointer() || spreadArray() || sign()) return;
    const Token token = in[at++];
    track(token);
    emit(token);
    if (token.is(tok::semi)) finish(token);
    if (token.isOneOf(tok::semi, tok::l_brace, tok::r_brace)) nests.back().start = out.size();
}

// Brackets, questions and labels, so that a colon's meaning is known.
void TokenRewriter::track(const Token &token) {
    switch (token.getKind()) {
    case tok::l_paren: case tok::l_square: case tok::l_brace:
        nests.push_back({token.getKind(), 0, false, out.size() + 1});
        break;
    case tok::r_paren: case tok::r_square: case tok::r_brace:
        if (nests.size() > 1) nests.pop_back();
        break;
    case tok::question: nests.back().questions++; break;
    case tok::kw_case: case tok::kw_default: nests.back().label = true; break;
    case tok::semi: nests.back().questions = 0; nests.back().label = false; break;
    case tok::colon:
        if (nests.back().questions) nests.back().questions--;
        else nests.back().label = false;
        break;
    default: break;
    }
}

// `* global`, `* const spread` and the like: the address space belongs before the star, in brackets, so that it is that of this declarator alone.
bool TokenRewriter::pointer() {
    if (in[at].isNot(tok::star)) return false;
    unsigned space = Local;
    const size_t end = qualifiers(at + 1, space);
    if (space == Local) return false;
    closings.push_back(declaratorEnd(end));
    write("(", in[at].getLocation());
    for (size_t i = at + 1; i < end;) {
        unsigned ignored;
        const size_t after = attribute(i, ignored);
        if (after == i) { i++; continue; }
        for (; i < after; i++) emit(in[i]);
    }
    emit(in[at]);
    for (size_t i = at + 1; i < end;) {
        unsigned ignored;
        const size_t after = attribute(i, ignored);
        if (after == i) emit(in[i++]);
        else i = after;
    }
    at = end;
    return true;
}

// The end of `__attribute__((__address_space__(N)))` as our macros expand; `from` if there is none.
size_t TokenRewriter::attribute(size_t from, unsigned &space) const {
    static const tok::TokenKind shape[] = {tok::kw___attribute, tok::l_paren, tok::l_paren, tok::identifier, tok::l_paren, tok::numeric_constant, tok::r_paren, tok::r_paren, tok::r_paren};
    if (from + 9 > in.size()) return from;
    for (size_t i = 0; i < 9; i++)
        if (in[from + i].isNot(shape[i])) return from;
    if (in[from + 3].getIdentifierInfo()->getName() != "__address_space__") return from;
    space = in[from + 5].getLength() == 1 && *in[from + 5].getLiteralData() == '1' ? Global : Spread;
    return from + 9;
}

size_t TokenRewriter::qualifiers(size_t from, unsigned &space) const {
    while (from < in.size()) {
        const size_t after = attribute(from, space);
        if (after != from) from = after;
        else if (in[from].isOneOf(tok::kw_const, tok::kw_volatile, tok::kw_restrict)) from++;
        else break;
    }
    return from;
}

// The place after a bracket's partner.
size_t TokenRewriter::group(size_t from) const {
    unsigned depth = 0;
    for (size_t i = from; i < in.size(); i++) {
        if (in[i].isOneOf(tok::l_paren, tok::l_square, tok::l_brace)) depth++;
        else if (in[i].isOneOf(tok::r_paren, tok::r_square, tok::r_brace) && --depth == 0) return i + 1;
    }
    return in.size() - 1;
}

size_t TokenRewriter::declaratorEnd(size_t from) const {
    unsigned ignored;
    while (from < in.size() && in[from].is(tok::star)) from = qualifiers(from + 1, ignored);
    if (in[from].is(tok::identifier)) from++;
    while (from < in.size()) {
        if (in[from].isOneOf(tok::l_paren, tok::l_square)) from = group(from);
        else if (in[from].is(tok::colon) && in[from + 1].is(tok::colon) && in[from - 1].is(tok::r_square)) from += 2;
        else break;
    }
    return from;
}

bool TokenRewriter::declares(tok::TokenKind word) const {
    for (size_t i = nests.back().start; i < out.size(); i++)
        if (out[i].is(word)) return true;
    return false;
}

std::string TokenRewriter::spelling(const std::vector<Token> &tokens) const {
    std::string text;
    for (const Token &token : tokens) text += pp.getSpelling(token) + " ";
    return text;
}

// Whether a declaration outside functions stands between a parameter list and a body, in the old style: a bracket before it is followed by the name of a type.
bool TokenRewriter::isOldParameter(size_t name) const {
    size_t begin = name;
    for (unsigned depth = 0; begin > 0; begin--) {
        if (depth == 0 && out[begin - 1].is(tok::r_brace)) return false;
        if (depth == 0 && out[begin - 1].is(tok::r_paren)) return out[begin].getIdentifierInfo() != nullptr;
        if (out[begin - 1].is(tok::r_square)) depth++;
        else if (out[begin - 1].is(tok::l_square) && depth) depth--;
    }
    return false;
}

// `name[v][w]::[q][r]`, met at its `::`: the name and its dimensions are in `out` already.
bool TokenRewriter::spreadArray() {
    if (in[at].isNot(tok::colon) || at + 1 >= in.size() || in[at + 1].isNot(tok::colon) || out.empty() || out.back().isNot(tok::r_square)) return false;
    const SourceLocation place = in[at].getLocation();
    std::vector<std::vector<Token>> bounds;
    size_t name = out.size();
    while (name > 0 && out[name - 1].is(tok::r_square)) {
        size_t open = name - 1;
        for (unsigned depth = 1; depth && open > 0;) {
            open--;
            if (out[open].is(tok::r_square)) depth++;
            else if (out[open].is(tok::l_square)) depth--;
        }
        bounds.insert(bounds.begin(), std::vector<Token>(out.begin() + open + 1, out.begin() + name - 1));
        name = open;
    }
    DiagnosticsEngine &diagnostics = pp.getDiagnostics();
    if (name == 0 || out[name - 1].isNot(tok::identifier)) {
        diagnostics.Report(place, diagnostics.getCustomDiagID(DiagnosticsEngine::Error, "'::' has to follow the spread dimensions of a declared array"));
        at += 2;
        return true;
    }
    name--;
    if (bounds.size() > SpreadDimensionsMax) {
        diagnostics.Report(place, diagnostics.getCustomDiagID(DiagnosticsEngine::Error, "a spread array has at most 8 dimensions before '::'"));
        bounds.resize(SpreadDimensionsMax);
    }
    const Token identifier = out[name];
    const std::string word = identifier.getIdentifierInfo()->getName().str();
    std::vector<Token> dimensions;
    for (size_t i = 1; i < bounds.size(); i++) {
        for (Token &token : lexed("[", place)) dimensions.push_back(token);
        dimensions.insert(dimensions.end(), bounds[i].begin(), bounds[i].end());
        for (Token &token : lexed("]", place)) dimensions.push_back(token);
    }
    out.resize(name);
    write("(__attribute__((__address_space__(" + std::to_string(Spread + bounds.size() - 1) + "))) *", identifier.getLocation());
    emit(identifier);
    write(")", identifier.getLocation());
    out.insert(out.end(), dimensions.begin(), dimensions.end());
    for (at += 2; in[at].is(tok::l_square);) {
        const size_t end = group(at);
        while (at < end) emit(in[at++]);
    }

    // Elements may be global pointers: their bracket closes before the storage.
    close();

    const bool isParameter = nests.back().kind == tok::l_paren;
    bool isInFunction = false;
    for (const Nest &nest : nests) isInFunction |= nest.kind == tok::l_brace;
    if (isParameter || (!isInFunction && isOldParameter(name)) || declares(tok::kw_extern) || declares(tok::kw_typedef)) return true;
    if (bounds[0].empty()) {
        diagnostics.Report(place, diagnostics.getCustomDiagID(DiagnosticsEngine::Error, "the spread array '%0' needs its first dimension here")) << word;
        return true;
    }
    const std::string make = "__splitc_spread_array(" + word + ", ";
    if (isInFunction && !declares(tok::kw_static)) {
        write("__attribute__((__cleanup__(__splitc_automatic_end))) = " + make, identifier.getLocation());
        out.insert(out.end(), bounds[0].begin(), bounds[0].end());
        write(", 1)", identifier.getLocation());
    } else {
        pending.push_back({"if (!" + word + ") " + word + " = " + make + spelling(bounds[0]) + ", 0);", identifier.getLocation(), !isInFunction});
    }
    return true;
}

// The end of a declaration: here the storage of spread arrays that are not automatic is asked for.
void TokenRewriter::finish(const Token &end) {
    if (pending.empty()) return;
    for (const Pending &one : pending) {
        if (one.file) write("static void __attribute__((__constructor__)) __splitc_storage_" + std::to_string(arrays++) + "(void) {" + one.allocation + "}", one.place);
        else write(one.allocation, one.place);
    }
    pending.clear();
}

bool TokenRewriter::isAdjacent(size_t which) const {
    return which < in.size() && !in[which].hasLeadingSpace() && !in[which].isAtStartOfLine();
}

// Whether the colon at hand ends a label or an old-style designator: a name alone is never a global place.
bool TokenRewriter::isLabel() const {
    if (nests.back().questions || nests.back().label) return true;
    const size_t n = out.size();
    return n >= 2 && out[n - 1].is(tok::identifier) && out[n - 2].isOneOf(tok::semi, tok::l_brace, tok::r_brace, tok::colon, tok::comma);
}

bool TokenRewriter::sign() {
    if (in[at].isNot(tok::colon) || !isAdjacent(at + 1)) return false;
    const Token &next = in[at + 1];
    const SourceLocation place = in[at].getLocation();
    if (next.is(tok::equal)) {
        signs.split.insert(place);
        write("=", place);
        at += 2;
        return true;
    }
    if (!next.isOneOf(tok::minus, tok::minusminus) || isLabel()) return false;
    signs.store.insert(place);
    write("=", place);
    // `:--x` is `:-` and `-x`.
    if (next.is(tok::minusminus)) write("-", next.getLocation());
    at += 2;
    return true;
}

void TokenRewriter::write(llvm::StringRef text, SourceLocation place) {
    for (Token &token : lexed(text, place)) emit(token);
}

std::vector<Token> TokenRewriter::lexed(llvm::StringRef text, SourceLocation place) {
    // Literals are read from this copy for as long as the program is compiled.
    char *copy = static_cast<char *>(pp.getPreprocessorAllocator().Allocate(text.size() + 1, 1));
    std::copy(text.begin(), text.end(), copy);
    copy[text.size()] = 0;
    Lexer lexer(SourceLocation(), pp.getLangOpts(), copy, copy, copy + text.size());
    std::vector<Token> tokens;
    Token token;
    while (!lexer.LexFromRawLexer(token)) {
        if (token.is(tok::eof)) break;
        token.setLocation(place);
        if (token.is(tok::raw_identifier)) pp.LookUpIdentifierInfo(token);
        tokens.push_back(token);
    }
    if (token.isNot(tok::eof)) {
        token.setLocation(place);
        if (token.is(tok::raw_identifier)) pp.LookUpIdentifierInfo(token);
        tokens.push_back(token);
    }
    return tokens;
}

} // namespace splitc
