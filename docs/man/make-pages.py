#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes the section 3 pages of the calls from the comments in vipl.h, viplx.h and sisci_api.h, so that header and manual cannot
disagree.

Run in this directory after a change to a header: `python3 make-pages.py`; the pages are checked in. With --check nothing is
written and the exit code says whether the pages are up to date. vipl.3, vipl-ext.7 and sisci.3 are written by hand.

A section of the header (a line of dashes with a title) becomes one page. In the comment above a call, the lines
"  Name  text" at the start describe parameters, and everything from the first "VIP_SUCCESS" or "SCI_ERR_OK" on is the list of
return codes.
"""
import pathlib
import re
import sys

HERE = pathlib.Path(__file__).parent
INCLUDE = HERE / "../../ffi/vipl/include"
PAGES = {  # section title in the header: page, what it is about
    "NIC": ("vipl-nic", "open, close and query a NIC, asynchronous errors"),
    "memory and protection": ("vipl-memory", "protection tags and registered memory"),
    "virtual interfaces": ("vipl-vi", "make, destroy and query virtual interfaces"),
    "work": ("vipl-work", "post descriptors and collect their completions"),
    "connections": ("vipl-connect", "connect virtual interfaces"),
    "completion queues": ("vipl-cq", "completion queues"),
    "name service": ("vipl-ns", "host names and addresses"),
    "memory of the engine": ("viplx-memory", "memory that peers can map"),
    "registration cache": ("viplx-cache", "registered memory that is kept for the next time"),
    "queries": ("viplx-query", "which way a VI, a region, a NIC really uses"),
    "shared receive queues": ("viplx-srq", "receives shared by several VIs"),
    "VIs with more": ("viplx-vi", "virtual interfaces with extended attributes"),
    "waiting": ("viplx-wait", "how long waits spin; a file descriptor for a completion queue"),
    "inline sends": ("viplx-inline", "small sends without descriptor"),
}
SISCI_PAGES = {
    "start": ("sisci-start", "start, nodes, queries"),
    "local segments": ("sisci-local", "memory that others may connect to"),
    "remote segments": ("sisci-remote", "connections to segments"),
    "maps": ("sisci-map", "segments in the program's memory"),
    "sequences and copies": ("sisci-pio", "sequences, barriers and copies"),
    "DMA queues": ("sisci-dma", "transfers beside the program"),
    "block transfers": ("sisci-block", "copies from one map to another"),
    "interrupts": ("sisci-interrupt", "remote interrupts"),
    "interrupt flags": ("sisci-flag", "stores that interrupt"),
    "data interrupts": ("sisci-data-interrupt", "remote interrupts with data"),
    "calls of hardware": ("sisci-hardware", "calls that answer SCI_ERR_NOT_SUPPORTED"),
}


class Library:
    """What differs between the interfaces."""

    def __init__(self, include, headers, pages, types, name, success, code, title, link, notes, see):
        self.include, self.headers, self.pages = HERE / include, headers, pages
        self.prototype = re.compile(rf"^(?:{types})\b[ *]*{name}\w+\([^;]*\);", flags=re.M)
        self.name = re.compile(rf"({name}\w+)\(")
        self.success, self.code, self.title, self.link, self.notes, self.see = success, code, title, link, notes, see


LIBRARIES = [
    Library(
        "../../ffi/vipl/include", ("vipl.h", "viplx.h"), PAGES, "VIP_RETURN|VIP_UINT32", "Vip", "VIP_SUCCESS", "VIP_[A-Z_]+",
        "VI Provider Library", ".IR \\-lvipl .",
        ["A handle that is NULL, stale or no handle, and a NULL pointer where one is needed, give",
         ".BR VIP_INVALID_PARAMETER .", "See", ".BR vipl (3)", "for the conventions of all calls."],
        [".BR vipl (3),", ".BR vipl\\-ext (7)"]),
    Library(
        "../../ffi/sisci/include", ("sisci_api.h",), SISCI_PAGES, r"\w[\w ]*", "SCI", "SCI_ERR_OK", "SCI_ERR_[A-Z_]+",
        "SISCI", ".IR \\-lsisci .",
        ["A handle that names nothing, and a NULL pointer where one is needed, give", ".BR SCI_ERR_ILLEGAL_PARAMETER .", "See",
         ".BR sisci (3)", "for the conventions of all calls, and for errors that come from most of them."],
        [".BR sisci (3)"]),
]
WIDTH = 100


def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text[:1] in ".'" else text


def wrap(text):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return "\n".join(escape(l) for l in [*lines, line] if l)


def sections(header):
    parts = re.split(r"^/\* -{20,} (.+?) \*/$", header, flags=re.M)
    return list(zip(parts[1::2], parts[2::2]))


def calls(body, library):
    """Comment and following prototypes, in order; prototypes without a comment belong to the one before."""
    out = []
    pattern = r"/\*(?P<comment>(?:[^*]|\*(?!/))*)\*/\n(?P<code>(?:(?!/\*).)*?)(?=/\*|\Z|\n#)"
    for match in re.finditer(pattern, body, flags=re.S):
        prototypes = library.prototype.findall(match["code"])
        if prototypes:
            out.append((clean(match["comment"]), [re.sub(r"\s+", " ", p) for p in prototypes]))
    return out


def clean(comment):
    return [re.sub(r"^ \* ?|^ (?=\w)", "", line).rstrip() for line in comment.strip("\n").rstrip().split("\n")]


def split(comment, success):
    """Prose, parameters as (name, text), the list of return codes."""
    prose, parameters, codes, target = [], [], [], "prose"
    for line in comment:
        parameter = re.match(r"^  (\w+(?:, \w+)*) +(\S.*)$", line)
        if success in line and target != "codes":
            before, after = line.split(success, 1)
            if before.strip():
                (prose if target == "prose" else parameters[-1][1]).append(before)
            codes.append(success + after)
            target = "codes"
        elif target == "codes":
            codes.append(line)
        elif parameter:
            parameters.append((parameter[1], [parameter[2]]))
            target = "parameter"
        elif target == "parameter" and line.startswith("   "):
            parameters[-1][1].append(line)
        else:
            target = "prose"
            prose.append(line)
    return " ".join(prose), [(n, " ".join(t)) for n, t in parameters], " ".join(codes)


def code_list(codes, code):
    """One item for each code; text between codes that names no code stays with the one before."""
    items = []
    for piece in re.split(rf"(?:;|\.)\s+(?={code})", codes):
        match = re.match(rf"^((?:{code})(?:, {code})*)(?::\s*|\s*)(.*)$", piece.strip(), flags=re.S)
        if match:
            items.append((match[1], match[2].strip().rstrip(".;")))
        elif piece.strip():
            items.append(("", piece.strip()))
    return items


def page(name, about, found, header, library):
    names = [library.name.search(p)[1] for _, ps in found for p in ps]
    out = [f'.TH {name} 3 "" Bellwire "{library.title}"', f'.\\" calls: {" ".join(names)}',
           '.\\" SPDX-License-Identifier: MIT OR Apache-2.0', '.\\" Written by make-pages.py from the comments of the header.',
           ".SH NAME", f"{', '.join(names)} \\- {about}", ".SH SYNOPSIS", f".B #include <{header}>", ".ad l"]
    for _, prototypes in found:
        for p in prototypes:
            plain = re.sub(r"\b(IN|OUT) ", "", p)
            out += [".HP 4", ".B " + escape(plain)]
    out += [".ad b", ".PP", "Link with", library.link, ".SH DESCRIPTION"]
    for comment, prototypes in found:
        prose, parameters, codes = split(comment, library.success)
        out.append(".SS " + ", ".join(library.name.search(p)[1] for p in prototypes))
        if prose:
            out.append(wrap(prose))
        for parameter, text in parameters:
            out += [".TP", f".I {escape(parameter)}", wrap(text)]
        items = code_list(codes, library.code)
        if items:
            out += [".PP", "Returns:"]
        for code, text in items:
            out += [".TP", f".B {escape(code)}", wrap(text) if text else "\\&"]
    out += [".SH NOTES", *library.notes, ".SH SEE ALSO", *library.see]
    return "\n".join(out) + "\n"


def main():
    check, stale, seen = "--check" in sys.argv, [], 0
    for library, header in ((l, h) for l in LIBRARIES for h in l.headers):
        for title, body in sections((library.include / header).read_text()):
            found = calls(body, library)
            if not found:
                continue
            name, about = library.pages[title]
            text, file = page(name, about, found, header, library), HERE / f"{name}.3"
            seen += sum(len(p) for _, p in found)
            if check and (not file.exists() or file.read_text() != text):
                stale.append(file.name)
            elif not check:
                file.write_text(text)
    print(f"{seen} calls" + (f"; out of date: {' '.join(stale)}" if stale else ""))
    return 1 if stale else 0


sys.exit(main())
