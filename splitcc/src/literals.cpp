// SPDX-License-Identifier: MIT OR Apache-2.0
#include "action.h"

namespace splitc {

// Where a string that is open at the end of a line closes: the place of the closing quote, or npos if a directive or the end of the file comes first.
static size_t closing(llvm::StringRef source, size_t at) {
    for (; at < source.size(); at++) {
        if (source[at] == '\\') at++;
        else if (source[at] == '"') return at;
        else if (source[at] == '\n') {
            const llvm::StringRef next = source.drop_front(at + 1).ltrim(" \t");
            if (next.startswith("#")) return llvm::StringRef::npos;
        }
    }
    return llvm::StringRef::npos;
}

std::string withJoinedLiterals(llvm::StringRef source) {
    std::string out;
    bool changed = false, directive = false, lineStart = true;
    for (size_t i = 0; i < source.size(); i++) {
        const char c = source[i];
        const llvm::StringRef rest = source.drop_front(i);
        if (c == '\n') {
            if (i == 0 || source[i - 1] != '\\') directive = false;
            lineStart = true;
        } else if (c == '#' && lineStart) {
            directive = true;
        }
        if (rest.startswith("/*")) {
            const size_t end = source.find("*/", i + 2);
            const size_t to = end == llvm::StringRef::npos ? source.size() : end + 2;
            out += source.slice(i, to).str();
            i = to - 1;
            continue;
        }
        if (c == '\'' && i + 2 < source.size()) {
            // 'c' or an escape; an apostrophe elsewhere (in text that is left out) is only itself.
            const size_t end = source[i + 1] == '\\' ? source.find('\'', i + 3) : i + 2;
            if (end != llvm::StringRef::npos && end - i < 8 && source[end] == '\'') {
                out += source.slice(i, end + 1).str();
                i = end;
                lineStart = false;
                continue;
            }
        }
        if (c == '"' && !directive) {
            const size_t end = closing(source, i + 1);
            if (end != llvm::StringRef::npos) {
                for (; i < end; i++) {
                    if (source[i] == '\\') { out += source[i++]; out += source[i]; continue; }
                    if (source[i] == '\n') { out += "\\n\\"; changed = true; }
                    out += source[i];
                }
            }
        }
        out += source[i];
        if (!isspace(static_cast<unsigned char>(c))) lineStart = false;
    }
    return changed ? out : std::string();
}

} // namespace splitc
