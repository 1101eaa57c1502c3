#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks at pages as a reader does: a headless Chromium shows them, and they are photographed.

    site/look.py OUT PAGE=TEXT ..      a PAGE is a file (of the site, a report, a plot), PAGE?search=WORD
                                       one of the site with what was looked for

Each page is opened on a desktop's and on a phone's screen (390 points wide). It fails if a page is
blank, does not show its TEXT, is wider than the screen, or logs an error. A recording on it is
played. The photographs are in OUT. Chromium is asked by its pipe for debuggers; nothing else is needed.
"""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zlib

SCREENS = {"desktop": (1280, 900), "phone": (390, 844)}


class Browser:
    def __init__(self, program, profile):
        # It reads orders from descriptor 3 and answers on 4, each ended by a zero byte.
        read, self.orders = os.pipe()
        self.answers, write = os.pipe()

        def descriptors():
            for wanted, has in ((3, os.dup(read)), (4, os.dup(write))):
                os.dup2(has, wanted, inheritable=True)

        flags = ["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--allow-file-access-from-files", f"--user-data-dir={profile}", "--disable-background-networking", "--host-resolver-rules=MAP * ~NOTFOUND"]
        self.process = subprocess.Popen([program, *flags], close_fds=False, preexec_fn=descriptors, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        os.close(read)
        os.close(write)
        self.number, self.pending, self.events = 0, b"", []
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self.session = None
        self.session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.ask(f"{domain}.enable")

    def next(self):
        while b"\0" not in self.pending:
            piece = os.read(self.answers, 1 << 20)
            if not piece:
                sys.exit("look: Chromium ended")
            self.pending += piece
        message, _, self.pending = self.pending.partition(b"\0")
        return json.loads(message)

    def ask(self, method, **words):
        self.number += 1
        order = {"id": self.number, "method": method, "params": words}
        if getattr(self, "session", None):
            order["sessionId"] = self.session
        os.write(self.orders, json.dumps(order).encode() + b"\0")
        while True:
            message = self.next()
            if message.get("id") == self.number:
                if "error" in message:
                    sys.exit(f"look: {method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def until(self, event):
        while not any(message.get("method") == event for message in self.events):
            self.events.append(self.next())

    def value(self, expression):
        result = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            sys.exit(f"look: {expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def open(self, page, query, width, height):
        self.ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500)
        self.events = []
        self.ask("Page.navigate", url=page.as_uri() + query)
        self.until("Page.loadEventFired")
        self.value("document.fonts.ready.then(() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r))))")

    def errors(self):
        return [
            json.dumps(message["params"])[:300]
            for message in self.events
            if message.get("method") == "Runtime.exceptionThrown" or (message.get("method") == "Log.entryAdded" and message["params"]["entry"]["level"] == "error")
        ]

    def photograph(self, to, width, height):
        """The page from its top to its end, or to 5,000 points."""
        whole = max(height, min(5000, int(self.value("document.documentElement.scrollHeight || 0"))))
        clip = {"x": 0, "y": 0, "width": width, "height": whole, "scale": 1}
        to.write_bytes(base64.b64decode(self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)["data"]))

    def close(self):
        self.session = None
        self.ask("Browser.close")
        self.process.wait()


def colours(png):
    """How many different bytes the picture's rows have: a blank page has very few."""
    data, at, packed = png.read_bytes(), 8, b""
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + size]
        at += size + 12
    return len(set(zlib.decompress(packed)))


def visible(text):
    """Whether an element with this text has a place on the page."""
    return f"""(() => {{
        const walker = document.createTreeWalker(document.documentElement, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {{
            const range = document.createRange();
            range.selectNodeContents(walker.currentNode);
            const box = range.getBoundingClientRect();
            if (walker.currentNode.data.includes({json.dumps(text)}) && box.width > 0 && box.height > 0) return true;
        }}
        return false;
    }})()"""


WIDER = """(() => {
    const wide = document.documentElement.scrollWidth, screen = window.innerWidth;
    if (wide <= document.documentElement.clientWidth && screen <= %d) return "";
    const guilty = [...document.body.querySelectorAll("*")].filter(e => e.getBoundingClientRect().right > %d + 1).slice(0, 3);
    return `${wide} of ${screen} points: ` + guilty.map(e => e.outerHTML.slice(0, 120)).join(" | ");
})()"""


# Waits for at most 500 frames.
SOON = """(async () => {
    for (let frame = 0; frame < 500; frame++) {
        if (%s) return true;
        await new Promise(requestAnimationFrame);
    }
    return false;
})()"""

# The play begins with an empty screen, which fills until it is stopped.
PLAYED = """(async () => {
    const screen = document.querySelector(".recording .screen"), button = document.querySelector(".recording button");
    const whole = screen.textContent.length;
    button.click();
    for (let frame = 0; frame < 500 && screen.textContent.length < 20; frame++) await new Promise(requestAnimationFrame);
    const some = screen.textContent.length;
    button.click();
    return some >= 20 && some < whole && button.textContent == "Go on";
})()"""


def main():
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("SKIPPED: no chromium")
        return
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    failures, looks = [], 0
    with tempfile.TemporaryDirectory() as profile:
        browser = Browser(program, profile)
        for word in sys.argv[2:]:
            name, _, text = word.rpartition("=")
            file, mark, query = name.partition("?")
            page = pathlib.Path(file).resolve()
            if not name or not text or not page.is_file():
                sys.exit(f"look: {word} is no PAGE=TEXT")
            for screen, (width, height) in SCREENS.items():
                to = out / f"{page.parent.name}-{page.stem}-{'search-' if query else ''}{screen}.png"
                browser.open(page, mark + query, width, height)
                if query and not browser.value(SOON % visible(text)):
                    failures.append(f"{name}, {screen}: nothing is found")
                browser.photograph(to, width, height)
                looks += 1
                drawing = page.suffix == ".svg"
                if colours(to) < 20:
                    failures.append(f"{name}, {screen}: blank")
                if not browser.value(visible(text)):
                    failures.append(f"{name}, {screen}: '{text}' is not to be seen")
                wider = "" if drawing else browser.value(WIDER % (width, width))
                if wider:
                    failures.append(f"{name}, {screen}: wider than the screen: {wider}")
                if browser.value("!!document.querySelector('.recording button')") and not browser.value(PLAYED):
                    failures.append(f"{name}, {screen}: the recording does not play")
                failures += [f"{name}, {screen}: {error}" for error in browser.errors()]
        browser.close()
    for failure in failures:
        print(f"FAILED: {failure}")
    print(f"{looks} looks, {len(failures)} failures; the photographs are in {out}")
    sys.exit(bool(failures))


if __name__ == "__main__":
    main()
