// SPDX-License-Identifier: MIT OR Apache-2.0
// The lexical part of Split-C: text that clang's parser cannot read becomes C with numbered address
// spaces, after the preprocessor has done its work.
//
// Every token that the user wrote keeps its place in the source, so that messages and debug
// information point at the user's own lines. A token that is made here takes the place of the word
// it was made for.
//
//   T *global p, q             T (AS1 *p), q
//   T *spread p                T (AS2 *p)
//   T X[v][w]::[q][r]          T (AS3 *X)[w][q][r]     of v rows; as a local variable with storage of its own, as a parameter without
//   L := R     L :- R          L = R                   the place of the sign is remembered: semantics.cpp makes a get, a put or a store of it
#pragma once

#include "clang/Basic/SourceLocation.h"
#include "clang/Lex/Token.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/StringRef.h"
#include <memory>
#include <string>
#include <vector>

namespace clang {
class Preprocessor;
}

namespace splitc {

// Address spaces. A spread pointer whose subscript takes k numbers (a spread array of k dimensions)
// is in space Spread + k - 1.
enum AddressSpace : unsigned { Local = 0, Global = 1, Spread = 2, SpreadLast = 9, Put = 20, Store = 21, Get = 22 };
constexpr unsigned SpreadDimensionsMax = SpreadLast - Spread + 1;

// Where the signs of split-phase assignments stand.
struct Signs {
    llvm::DenseSet<clang::SourceLocation> split; // :=
    llvm::DenseSet<clang::SourceLocation> store; // :-
};

class TokenRewriter {
public:
    TokenRewriter(clang::Preprocessor &pp, Signs &signs) : pp(pp), signs(signs) {}
    std::vector<clang::Token> run(std::vector<clang::Token> tokens);

private:
    // Open brackets, an entry for each.
    struct Nest {
        clang::tok::TokenKind kind;
        unsigned questions = 0; // ? without its : so far
        bool label = false;     // a case or default without its : so far
        size_t start = 0;       // where in `out` the current statement or declaration begins
    };
    // A spread array whose storage comes after the end of its declaration.
    struct Pending {
        std::string allocation;
        clang::SourceLocation place;
        bool file;
    };

    void step();
    void close();
    bool pointer();
    bool spreadArray();
    bool sign();
    void finish(const clang::Token &end);
    void track(const clang::Token &token);
    void emit(const clang::Token &token) { out.push_back(token); }
    void write(llvm::StringRef text, clang::SourceLocation place);
    std::vector<clang::Token> lexed(llvm::StringRef text, clang::SourceLocation place);
    size_t attribute(size_t at, unsigned &space) const;
    size_t qualifiers(size_t at, unsigned &space) const;
    size_t group(size_t at) const;
    size_t declaratorEnd(size_t at) const;
    bool isAdjacent(size_t at) const;
    bool isLabel() const;
    bool isOldParameter(size_t name) const;
    bool declares(clang::tok::TokenKind word) const;
    std::string spelling(const std::vector<clang::Token> &tokens) const;

    clang::Preprocessor &pp;
    Signs &signs;
    std::vector<clang::Token> in, out;
    size_t at = 0;
    std::vector<Nest> nests;
    std::vector<Pending> pending;
    std::vector<size_t> closings; // places in `in` before which a declarator's bracket closes
    unsigned arrays = 0;
};

} // namespace splitc
