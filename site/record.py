#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Records the first five minutes with Bellwire: runs the commands below in a terminal of a home of
their own and writes what was seen, as asciinema's format 2 has it.

    site/record.py ARCHIVE OUT.cast      ARCHIVE: that of packaging/tarball.sh

The commands are typed evenly, and waits are cut to a second; the output is the run's. A command
that fails ends the recording. `asciinema play OUT.cast` shows it in a terminal.
"""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import termios
import time

WIDTH, HEIGHT = 100, 30
GREET = """cat > greet.c <<'END'
#include <am.h>
#include <stdio.h>
static int greeted;
static void greet(void *token, int from) { greeted = printf("%d greets %d\\n", from, AMX_Rank()); }
int main(void) {
    eb_t bundle; ep_t endpoint;
    AMX_Start(&bundle, &endpoint);
    AM_SetHandler(endpoint, 1, greet);
    AMX_Barrier();
    AM_Request1(endpoint, (AMX_Rank() + 1) % AMX_Size(), 1, AMX_Rank());
    while (!greeted) AM_Poll(bundle);
    return AMX_Finish();
}
END"""
COMMANDS = [
    "# install: no root, no NIC, no kernel module",
    "tar xzf {archive} && {name}/install.sh ~/.local",
    "export PATH=~/.local/bin:$PATH LD_LIBRARY_PATH=~/.local/lib PKG_CONFIG_PATH=~/.local/lib/pkgconfig",
    "bellwire info | grep ^ok",
    "# an RDMA program as Debian has it: it finds a device",
    "bellwire run --verbs ibv_devices",
    "bellwire run --verbs ib_write_bw -D 3 > server.log & sleep 1",
    "bellwire run --verbs ib_write_bw -D 3 localhost > client.log & sleep 2; bellwire top --once | cut -c 1-96",
    "wait; tail -n 3 client.log",
    "# a program of one's own: three processes greet each other",
    GREET,
    "cc $(pkg-config --cflags bellwire-am) greet.c -o greet $(pkg-config --libs bellwire-am)",
    "bellwire run -n 3 ./greet",
]


class Terminal:
    """A shell whose output a terminal shows; the commands come to it by a pipe."""

    def __init__(self, home):
        self.master, slave = pty.openpty()
        termios.tcsetwinsize(slave, (HEIGHT, WIDTH))
        words = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "xterm", "LANG": "C.UTF-8", "COLUMNS": str(WIDTH)}
        # Not by standard input, which programs could read.
        commands, self.commands = os.pipe()
        self.shell = subprocess.Popen(["bash", f"/dev/fd/{commands}"], pass_fds=[commands], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave, cwd=home, env=words, start_new_session=True)
        os.close(slave)
        os.close(commands)

    def run(self, command):
        """Yields the output as it comes; fails if the command does."""
        os.write(self.commands, command.encode() + b"\nprintf '\\036%d\\036' $?\n")
        pending, end = b"", time.monotonic() + 120
        while time.monotonic() < end:
            if select.select([self.master], [], [], 1)[0]:
                pending += os.read(self.master, 65536)
            done = re.search(rb"\x1e(\d+)\x1e", pending)
            ready = pending[: done.start()] if done else pending.partition(b"\x1e")[0]
            if ready:
                yield ready.decode()
                pending = pending[len(ready) :]
            if done:
                if done.group(1) != b"0":
                    sys.exit(f"record: `{command}` ended with {done.group(1).decode()}: {ready.decode()}")
                return
        sys.exit(f"record: `{command}` does not end")


def main():
    archive, to = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2])
    home = pathlib.Path(tempfile.mkdtemp())
    events, now = [], 0.0
    try:
        shutil.copy(archive, home)
        terminal = Terminal(home)
        for command in COMMANDS:
            command = command.format(archive=archive.name, name=archive.name.removesuffix(".tar.gz")) if "{archive}" in command else command
            events.append((now, "$ "))
            for piece in re.findall(r"(?s).{1,4}", command):
                now += 0.1
                events.append((now, piece.replace("\n", "\r\n")))
            now += 0.3
            events.append((now, "\r\n"))
            before = time.monotonic()
            for output in terminal.run(command):
                now += min(time.monotonic() - before, 1.0)
                before = time.monotonic()
                # Where the home lies says nothing to anybody.
                events.append((now, output.replace(str(home), "~")))
            now += 1.0
        os.close(terminal.commands)
        terminal.shell.wait()
    finally:
        shutil.rmtree(home, ignore_errors=True)
    header = {"version": 2, "width": WIDTH, "height": HEIGHT, "title": "The first five minutes with Bellwire"}
    lines = [json.dumps(header)] + [json.dumps([round(at, 2), "o", text]) for at, text in events]
    to.write_text("\n".join(lines) + "\n")
    print(f"{to}: {len(COMMANDS)} commands, {now:.0f} s")


if __name__ == "__main__":
    main()
