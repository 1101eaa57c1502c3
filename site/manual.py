# SPDX-License-Identifier: MIT OR Apache-2.0
"""The manual pages of docs/man as pages of the site, by mandoc.

A page becomes Markdown whose headings are mdBook's, so that the search finds sections. The text
below a heading stays mandoc's HTML. A reference such as vipl(3) or VipCQWait(3) becomes a link. A
reference to a page of ours that is not there is an error.
"""

import html
import re
import subprocess
import sys

FOLDER = "docs/man"
SECTIONS = {"1": "Commands", "3": "Calls", "7": "Overviews and conventions"}
# Names that only pages of ours have, or calls of theirs.
OURS = re.compile(r"(fi_)?bellwire|vipl|sisci|splitcc|Vipx?[A-Z]|SCI[A-Z]|AMX?_|bw_")
REFERENCE = re.compile(r"<b>([\w-]+)</b>\((\d)\)")
HEADING = re.compile(r'<(h[12]) class="S[hs]" id="([^"]*)"><a[^>]*>(.*?)</a></\1>', re.S)


def title(page):
    return f"{page[:-2]}({page[-1]})"


class Manual:
    def __init__(self, root, mandoc):
        """Reads all pages. `mandoc` is the program; without it there are none."""
        self.folder = root / FOLDER
        files = sorted(self.folder.glob("*.[137]"), key=lambda path: (path.suffix, path.stem)) if mandoc else []
        self.pages = [path.name for path in files]
        self.about, self.calls, self.named, self.made, self.ids = {}, {}, {}, {}, {}
        for page in self.pages:
            source = (self.folder / page).read_text()
            name = re.search(r"^\.SH NAME\n(.*?)^\.SH", source, re.M | re.S)
            names, _, about = (name.group(1) if name else "").replace("\n", " ").partition(" \\- ")
            if not about:
                sys.exit(f"site: {FOLDER}/{page}: its section NAME does not say what it is about")
            self.about[page] = about.strip().replace("\\", "")
            called = re.search(r'^\.\\" calls: (.*)$', source, re.M)
            self.calls[page] = called.group(1).split() if called else []
            for name in [page[:-2], *names.replace("\\", "").split(", "), *self.calls[page]]:
                self.named.setdefault((name, page[-1]), page)
            self.made[page] = self.run(mandoc, page)
            self.ids[page] = set(re.findall(r' id="([^"]*)"', self.made[page]))

    def run(self, mandoc, page):
        made = subprocess.run([mandoc, "-T", "html", "-O", "fragment", page], cwd=self.folder, capture_output=True, text=True, check=False)
        if made.returncode or "<h1" not in made.stdout:
            sys.exit(f"site: {FOLDER}/{page}: mandoc fails: {made.stderr.strip()}")
        text = re.sub(r'<table class="(head|foot)">.*?</table>', "", made.stdout, flags=re.S)
        text = re.sub(r'</?section[^>]*>|<div class="manual-text">', "", text)
        return text[: text.rindex("</div>")]

    def find(self, name, section=None):
        """The page that has this name, with the name's place if it is that of a call."""
        for one in section or "137":
            page = self.named.get((name, one))
            if page:
                return page, f"#{name}" if name != page[:-2] and name in self.ids[page] else ""
        return None, ""

    def markdown(self, page):
        def link(match):
            to, place = self.find(*match.groups())
            if to and (to != page or place):
                return f'<a href="{to}.html{place}">{match.group(0)}</a>'
            if not to and OURS.match(match.group(1)):
                sys.exit(f"site: {FOLDER}/{page}: refers to {match.group(1)}({match.group(2)}), which is not there")
            return match.group(0)

        def heading(match):
            level, place, words = match.groups()
            words = html.unescape(" ".join(re.sub(r"<[^>]*>", "", words).split()))
            words = re.sub(r"([_*`<>\[\]])", r"\\\1", words)
            return f"\n\n{'##' if level == 'h1' else '###'} {words} {{#{place}}}\n\n"

        text = REFERENCE.sub(link, self.made[page])
        # A blank line would end the HTML.
        text = re.sub(r"<pre>.*?</pre>", lambda pre: re.sub(r"\n(?=\n)", "\n&#8203;", pre.group(0)), text, flags=re.S)
        text = HEADING.sub(heading, re.sub(r"\n\s*\n", "\n", text))
        return f'# {title(page)}\n\n<div class="manual">\n\n{text.strip()}\n\n</div>\n'

    def index(self):
        """All pages by section; behind a page that has calls, these."""
        lines = ["# Manual pages", "", "These are the pages that `make install` and the packages install: `man bellwire-run`, `man VipPostSend`.", "", '<div class="manual">']
        for section, words in SECTIONS.items():
            lines += ["", f"## {words} ({section})", "", "| page | about |", "|---|---|"]
            for page in self.pages:
                if page[-1] == section:
                    calls = ", ".join(f"[{name}]({page}.md{self.find(name)[1]})" for name in self.calls[page])
                    lines.append(f"| [{title(page)}]({page}.md) | {self.about[page]}{'<br>' if calls else ''}{calls} |")
        return "\n".join(lines) + "\n\n</div>\n"

    def summary(self):
        lines = [f"- [Manual pages]({FOLDER}/index.md)"] if self.pages else []
        return lines + [f"  - [{title(page)}]({FOLDER}/{page}.md)" for page in self.pages]

    def linked(self, text, up):
        """Text in which `man 3 vipl` is a link; `up` leads from its page to the site's root."""

        def one(match):
            to, place = self.find(match.group(2), match.group(1))
            return f"[{match.group(0)}]({up}{FOLDER}/{to}.md{place})" if to else match.group(0)

        return re.sub(r"(?<!\[)`man (?:([137]) )?([\w-]+)`", one, text)

    def fill(self, source):
        for page in self.pages:
            to = source / FOLDER / f"{page}.md"
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(self.markdown(page))
        if self.pages:
            (source / FOLDER / "index.md").write_text(self.index())
