#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""The blocks of commands, code and output of README, the guide and the site's other pages.

    scripts/blocks.py check             each block is run, or has a line in scripts/blocks.txt
    scripts/blocks.py script [long]     one bash script of all blocks that scripts/guide.sh runs
    scripts/blocks.py like PAGE:LINE    whether standard input has the shape of that block

A block that is marked "sh" runs. Further words of its mark:
    needs:COMMAND     it is skipped, visibly, where there is no such command
    listens           after a line that ends in "&", the next waits until that program listens
    long              it runs in make test-long
A line above a block, which readers do not see, says more:
    <!-- in: FOLDER -->      the block runs in a shell of its own, in this folder
    <!-- file: FILE -->      the block is the text of this file, which is written
    <!-- then: COMMAND -->   runs after the block
    <!-- like: COMMAND -->   the command's output has the block's lines in this order; numbers,
                             folders and the host may be others
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLE = "scripts/blocks.txt"
BESIDE = ["README.md", "site/index.md", "python/README.md", "ARCHITECTURE.md", "MEMORY_MODEL.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"]
HIDDEN = re.compile(r"<!-- (in|file|then|like): (.+) -->")


class Block:
    def __init__(self, page, line, mark, above):
        self.page, self.line, self.lines = page, line, []
        self.kind, *self.words = mark.split() or [""]
        self.above = above
        self.place = f"{page}:{line}"

    def first(self):
        return next((line.strip() for line in self.lines if line.strip()), "")

    def runs(self):
        return self.kind == "sh" or any(word in self.above for word in ("file", "like"))

    def lacks(self):
        """What it needs and is not there."""
        for word in self.words:
            if word.startswith("needs:"):
                command = word[6:]
                if not shutil.which(command):
                    return f"no {command}"
                if command == "unshare" and subprocess.run(["unshare", "--user", "--map-root-user", "--mount", "true"], stderr=subprocess.DEVNULL, check=False).returncode:
                    return "no user namespaces"
        return None


def blocks(page, text):
    found, inside, above = [], None, {}
    for number, line in enumerate(text.splitlines(), 1):
        mark = re.match(r"```(.*)$", line)
        if inside:
            if mark:
                inside = None
            else:
                inside.lines.append(line)
        elif mark:
            inside = Block(page, number, mark.group(1), above)
            found.append(inside)
            above = {}
        else:
            hidden = HIDDEN.fullmatch(line)
            if hidden:
                above[hidden.group(1)] = hidden.group(2)
            elif line.strip():
                above = {}
    return found


def pages():
    """All pages: those of the guide in its order first, for their blocks build on each other."""
    guide = re.findall(r"^\| \[[^\]]+\]\(([a-z-]+\.md)\)", (ROOT / "docs/guide/README.md").read_text(), re.M)
    named = [f"docs/guide/{name}" for name in guide] + BESIDE
    return named + sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").rglob("*.md") if path.relative_to(ROOT).as_posix() not in named)


def all_blocks():
    return [block for page in pages() for block in blocks(page, (ROOT / page).read_text())]


def script(long):
    for block in all_blocks():
        if not block.runs() or ("long" in block.words and not long):
            continue
        lacks = block.lacks()
        if lacks:
            print(f"echo {shlex.quote(f'SKIPPED {block.place}: {lacks}')} >&3")
            continue
        print(f'echo "== {block.place} at $SECONDS s" >&3')
        folder = block.above.get("in")
        if folder:
            print(f"(cd {folder}")
        if "file" in block.above:
            print(f"cat > {block.above['file']} <<'END-OF-BLOCK'", *block.lines, "END-OF-BLOCK", sep="\n")
        elif "like" in block.above:
            print(f"{{ {block.above['like']}; }} 2>&1 | python3 {shlex.quote(str(ROOT / 'scripts/blocks.py'))} like {block.place}")
        else:
            for line in block.lines:
                background = "listens" in block.words and re.search(r"&\s*(#.*)?$", line)
                if background:
                    print("listeners=$(listening)")
                print(line)
                if background:
                    print("until_one_listens $listeners")
            if "listens" in block.words:
                print("wait")
        if "then" in block.above:
            print(block.above["then"])
        if folder:
            print(")")


def shape(line):
    """A line whose numbers, folders and host do not matter."""
    line = re.sub(r"\bon [\w.-]+\)", "on host)", line)
    line = re.sub(r"(?<![\w/])/[\w.-]+(?:/[\w.-]+)*/", "/", line)
    return " ".join(re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{16}\b|[-+]*\d[\d.,]*", "#", line).split())


def like(place):
    block = next(block for block in all_blocks() if block.place == place)
    said = sys.stdin.read().splitlines()
    at, shapes = 0, [shape(line) for line in said]
    for line in block.lines:
        try:
            at = shapes.index(shape(line), at) + 1
        except ValueError:
            sys.exit("\n".join([f"{place}: no line like this one, behind those above it:", line, "the output:", *said[:60]]))


def code(line):
    """A line of code without comments and spaces: a formatter may break it elsewhere."""
    return re.sub(r"\s+", "", re.sub(r"(//|/\*).*$", "", line))


def lacking(lines, text):
    """The first line that the text does not have behind those above it."""
    text, at = "".join(code(line) for line in text.splitlines()), 0
    for line in lines:
        found = text.find(code(line), at)
        if found < 0:
            return line
        at = found + len(code(line))
    return None


def complaints(found, rows):
    """What is wrong with a table for these blocks."""
    said, used = [], set()
    for block in found:
        fits = [row for row in rows if row[0] == block.page and block.first().startswith(row[1])]
        used.update(row[:2] for row in fits)
        if block.runs():
            if fits:
                said.append(f"{block.place} runs, and {TABLE} has it too")
        elif not fits:
            said.append(f"{block.place}: a block that nothing runs: mark it sh, or say in {TABLE} where it is tested or why not: {block.first()}")
        else:
            _, _, kind, rest = max(fits, key=lambda row: len(row[1]))
            path, _, words = rest.partition(" ")
            if kind != "no" and not (ROOT / path).is_file():
                said.append(f"{TABLE}: {block.place}: there is no {path}")
            elif kind == "run" and pathlib.PurePath(block.page).name not in (ROOT / path).read_text():
                said.append(f"{TABLE}: {path} does not read {block.page}")
            elif kind == "alike" and (not words or words not in (ROOT / path).read_text()):
                said.append(f"{TABLE}: {block.place}: {path} has no {words!r}")
            elif kind == "same":
                line = lacking(block.lines, (ROOT / path).read_text())
                if line:
                    said.append(f"{block.place} is not what {path} has: {line}")
            elif kind == "no" and len(rest) < 10:
                said.append(f"{TABLE}: {block.place}: why not?")
            elif kind not in ("run", "alike", "same", "no"):
                said.append(f"{TABLE}: {block.place}: its kind is {kind}; it can be run, alike, same or no")
    said += [f"{TABLE}: no block of {row[0]} begins with: {row[1]}" for row in rows if row[:2] not in used]
    return said


def check():
    rows = []
    for line in (ROOT / TABLE).read_text().splitlines():
        if line and not line.startswith("#"):
            row = re.fullmatch(r"(\S+) \| (.+) \| (\w+) (.+)", line)
            if not row:
                sys.exit(f"{TABLE}: PAGE | FIRST WORDS | KIND REST, not: {line}")
            rows.append(row.groups())
    found = all_blocks()
    said = complaints(found, rows)
    # It can fail: a new block, a line too many, a test that does not speak of the page, code that
    # differs.
    new = blocks("README.md", "```text\nbellwire frobnicate\n```\n")
    row = ("README.md", "bellwire frob")
    for wrong, words in (
        (complaints(found + new, rows), "a block that nothing runs"),
        (complaints(found, [*rows, (*row, "no", "there is no such block")]), "no block of README.md begins with"),
        (complaints(found + new, [*rows, (*row, "run", "scripts/parts.sh")]), "does not read README.md"),
        (complaints(found + new, [*rows, (*row, "run", "scripts/none.sh")]), "there is no scripts/none.sh"),
        (complaints(found + new, [*rows, (*row, "alike", "scripts/parts.sh frobnicate")]), "has no 'frobnicate'"),
        (complaints(found + new, [*rows, (*row, "same", "scripts/parts.sh")]), "is not what scripts/parts.sh has"),
        (complaints(found + new, [*rows, (*row, "no", "why")]), "why not?"),
    ):
        if not any(words in line for line in wrong):
            said.append(f"this check does not find what it is there for: {words}")
    for line in said:
        print(f"FAILED: {line}")
    running = sum(block.runs() for block in found)
    print(f"{len(found)} blocks: {running} run by scripts/guide.sh, {len(found) - running} in {TABLE}; {len(said)} failures")
    sys.exit(bool(said))


if __name__ == "__main__":
    words = sys.argv[1:]
    if words == ["check"]:
        check()
    elif words in (["script"], ["script", "long"]):
        script("long" in words)
    elif len(words) == 2 and words[0] == "like":
        like(words[1])
    else:
        sys.exit(__doc__)
