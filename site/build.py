#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds the site (`make site`): the guide, the manual and the other pages of docs/, and rustdoc.

    site/build.py OUT [--mdbook PROGRAM] [--mandoc PROGRAM] [--rustdoc FOLDER]

OUT/html is the site; OUT/src what mdBook reads. The pages lie there as in the checkout, so that
their links hold. The order of the guide is that of docs/guide/README.md; a page of the guide that
is not in its table is an error, as is a link of the site that leads nowhere. Links to files that
the site does not have (sources) become their text. The pages of docs/man are those of manual.py.
Needs nothing but Python 3.9, mdBook 0.5 and mandoc.
"""

import argparse
import html
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

sys.dont_write_bytecode = True
from manual import Manual  # noqa: E402

SITE = pathlib.Path(__file__).resolve().parent
ROOT = SITE.parent
GUIDE = pathlib.Path("docs/guide")
# Pages beside docs/; all of docs/ is found by itself.
BESIDE = ["ARCHITECTURE.md", "MEMORY_MODEL.md", "SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"]
PROJECT = {"docs/ROADMAP.md", "CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md"}
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^()\s]+)\)")


def guide_pages():
    """Title and name of each page, in the order of the table; fails if the table misses one."""
    listed = re.findall(r"^\| \[([^\]]+)\]\(([a-z-]+\.md)\)", (ROOT / GUIDE / "README.md").read_text(), re.M)
    names = [name for _, name in listed]
    there = {path.name for path in (ROOT / GUIDE).glob("*.md")} - {"README.md"}
    if set(names) != there or len(names) != len(there):
        sys.exit(f"site: the table of {GUIDE}/README.md and its folder differ: {sorted(there ^ set(names))}")
    return listed


def title(path):
    return re.search(r"^# (.+)$", (ROOT / path).read_text(), re.M).group(1)


def placed(page):
    """Where a page lies for mdBook: that of a folder is its index."""
    return re.sub(r"README\.md$", "index.md", page)


def summary(pages, manual):
    lines = ["# Summary", "", "[Bellwire](index.md)", "", "# Guide", "", f"- [User guide]({GUIDE}/index.md)"]
    lines += [f"- [{name}]({GUIDE}/{file})" for name, file in guide_pages()]
    lines += manual.summary()
    lines += ["", "# How it works", ""]
    lines += [f"- [{title(page)}]({page})" for page in pages if page not in PROJECT and page.count("/") < 2]
    for folder in ("docs/decisions", "docs/notes"):
        lines.append(f"- [{title(folder + '/README.md')}]({folder}/index.md)")
        lines += [f"  - [{title(page)}]({page})" for page in pages if page.startswith(folder + "/") and not page.endswith("README.md")]
    lines += ["", "# The project", ""]
    lines += [f"- [{title(page)}]({page})" for page in pages if page in PROJECT]
    return "\n".join(lines) + "\n"


def relinked(text, page, pages, manual):
    """Links that the site can follow; the others become their text."""
    up = "../" * page.count("/")

    def one(match):
        words, target = match.groups()
        path, _, fragment = target.partition("#")
        if not path or re.match(r"[a-z]+:", target):
            return match.group(0)
        full = (ROOT / page).parent / path
        if not full.exists():
            sys.exit(f"site: {page}: there is no {target}")
        name = full.resolve().relative_to(ROOT).as_posix()
        if name == "README.md":
            return f"[{words}]({up}index.md)"
        if name in pages:
            return f"[{words}]({placed(path)}{'#' + fragment if fragment else ''})"
        return match.group(0) if full.suffix in (".svg", ".png") else words

    def prose(piece):
        return manual.linked(LINK.sub(one, piece), up)

    parts, end = [], 0
    for fence in FENCE.finditer(text):
        parts += [prose(text[end : fence.start()]), fence.group(0)]
        end = fence.end()
    return "".join(parts) + prose(text[end:])


def picture():
    return f'<div class="picture">{(SITE / "layers.svg").read_text().strip()}</div>'


def figure():
    """The measured comparison as bars, and its circumstances."""
    measured = json.loads((SITE / "latency.json").read_text())
    rows = sorted(measured["latency_ns"].items(), key=lambda row: row[1])
    ours = measured["latency_ns"]["bellwire"]
    most = max(value for _, value in rows)
    bars = "".join(
        f'<tr{" class=ours" if name == "bellwire" else ""}><th scope="row">{html.escape(names(name))}</th>'
        f'<td><span class="bar" style="width: {100 * value / most:.1f}%"></span></td>'
        f"<td>{value:,.0f} ns</td><td>{'' if name == 'bellwire' else f'{value / ours:.1f} ×'}</td></tr>"
        for name, value in rows
    )
    note = (
        f"Medians of one run on {measured['machine']}, {measured['date'][:10]}, Bellwire {measured['version']}; "
        f"beside {', '.join(measured['peers'])}. Two processes poll; "
        f"<i>cache lines</i> is what the processors need without any protocol. {measured['note']}"
    )
    return f'<table class="bars">{bars}</table>\n\n<p class="small">{note} Measured by:</p>\n\n```text\n{measured["command"]}\n```\n'


def names(series):
    return {"bellwire": "Bellwire", "exchange": "cache lines", "bare UDP": "UDP, loopback", "bare TCP": "TCP, loopback"}.get(series, series)


def recording():
    """The recording, whole as text; the player replays it where there is JavaScript."""
    lines = (SITE / "first-minutes.cast").read_text().splitlines()
    header, events = json.loads(lines[0]), [json.loads(line) for line in lines[1:]]
    text = "".join(event[2] for event in events).replace("\r\n", "\n")
    data = json.dumps([[event[0], event[2].replace("\r\n", "\n")] for event in events]).replace("<", "\\u003c")
    shown = re.sub(r"^(\$ .*)$", r"<b>\1</b>", html.escape(re.sub(r"\x1b\[[0-9;]*[A-Za-z]", "", text)), flags=re.M)
    script = (SITE / "player.js").read_text()
    shown = shown.replace("\n\n", "\n&#8203;\n")
    return (
        f'<div class="recording"><pre class="screen" aria-label="{html.escape(header["title"])}">{shown}</pre></div>\n'
        f'<script type="application/json" id="cast">{data}</script>\n<script>{re.sub(chr(10) + "+", chr(10), script)}</script>'
    )


def fill(out, pages, rust, manual):
    source = out / "src"
    shutil.rmtree(source, ignore_errors=True)
    for page in pages:
        to = source / placed(page)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(relinked((ROOT / page).read_text(), page, pages, manual))
    # One folder above that of its source.
    first = relinked((SITE / "index.md").read_text(), "site/index.md", pages, manual).replace("](../", "](")
    for word, made in {"picture": picture(), "figure": figure(), "recording": recording(), "rust": rust}.items():
        first = first.replace("{{" + word + "}}", made)
    (source / "index.md").write_text(first)
    (source / "SUMMARY.md").write_text(summary(pages, manual))
    manual.fill(source)
    for image in list(ROOT.glob("docs/**/*.svg")) + list(ROOT.glob("docs/**/*.png")):
        to = source / image.relative_to(ROOT)
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(image, to)
    shutil.copy(SITE / "site.css", out / "site.css")
    (out / "book.toml").write_text(
        """[book]
title = "Bellwire"
description = "RDMA, MPI and messages between processes on any Linux machine"
language = "en"
src = "src"
[build]
build-dir = "html"
create-missing = false
[output.html]
additional-css = ["site.css"]
no-section-label = true
[output.html.fold]
enable = true
level = 0
[output.html.print]
enable = false
[output.html.playground]
runnable = false
# A reader who looks for a word wants the pages that explain it.
[output.html.search.chapter]
"docs/notes" = { enable = false }
"CHANGELOG.md" = { enable = false }
"""
    )


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.links = set(), []

    def handle_starttag(self, tag, attributes):
        words = dict(attributes)
        self.ids |= {words[name] for name in ("id", "name") if words.get(name)}
        for name in ("href", "src"):
            if words.get(name) and tag in ("a", "img", "link", "script"):
                self.links.append(words[name])


def dead_links(folder):
    """Links of the book's pages, into rustdoc as well, that lead nowhere."""
    pages = {}
    for path in folder.rglob("*.html"):
        if (folder / "rust") not in path.parents:
            pages[path] = Page()
            pages[path].feed(path.read_text())
    dead = []
    for path, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:", link) or (path.name == "404.html" and link.startswith("/")):
                continue
            name, _, fragment = urllib.parse.unquote(link).partition("#")
            target = (path.parent / name).resolve() if name else path
            if target.is_dir():
                target /= "index.html"
            if not target.is_file() or (fragment and target in pages and fragment not in pages[target].ids):
                dead.append(f"{path.relative_to(folder)}: {link}")
    return len(pages), sum(len(page.links) for page in pages.values()), dead


def main():
    parser = argparse.ArgumentParser(description="Builds the site.")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--mdbook", default="mdbook", help="the program (default: %(default)s)")
    parser.add_argument("--mandoc", default="mandoc", help="the program (default: %(default)s); nothing: no manual pages")
    parser.add_argument("--rustdoc", type=pathlib.Path, help="the folder that cargo doc has made")
    arguments = parser.parse_args()
    out = arguments.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    pages = sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("docs/**/*.md"))
    pages = [page for page in pages if page != "docs/README.md"] + BESIDE
    manual = Manual(ROOT, arguments.mandoc)
    fill(out, pages, "[Rust](rust/bellwire_via/index.html)" if arguments.rustdoc else "Rust", manual)
    shutil.rmtree(out / "html", ignore_errors=True)
    subprocess.run([arguments.mdbook, "build", str(out)], check=True)
    if arguments.rustdoc:
        shutil.copytree(arguments.rustdoc, out / "html/rust", ignore=shutil.ignore_patterns(".lock"))
    count, links, dead = dead_links(out / "html")
    if dead:
        sys.exit("site: links that lead nowhere:\n" + "\n".join(sorted(set(dead))))
    print(f"{out}/html: {count} pages, {links} links, none of them dead")


if __name__ == "__main__":
    main()
