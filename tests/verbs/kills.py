#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""One of two processes of an RDMA program is killed at a moment that a seed chooses; the other one hears of it and ends.
Without udaddy, since datagrams tell nobody; riostream, which looks at its memory alone; rcopy, whose client asks for no
keepalive; and rstream, which takes the end of a stream for "try again": stream.c stands for both.

    tests/verbs/kills.py [--namespaces] LIBRARY COUNT [SEED [PROGRAM..]]

LIBRARY is libbellwire-verbs.so. --namespaces (as root): each side in a network namespace of its own, which go again.
BELLWIRE_VERBS_STRICT and BELLWIRE_FAULTS hold for both sides. The last line says how many survivors ended; nothing may be left behind. Programs that
are not installed are skipped."""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time

HOST = "127.0.0.1"
# A survivor may have requests under way, which fail after the silence that their queue pair allows.
PATIENCE = 40
LISTENS = 90
# How long programs may take to connect that say nothing, between hosts.
BLIND = 1.5
# Of "connecting" the server is killed so soon after the client began to ask, and the client hears of it in so many
# seconds, though there may be no link yet that breaks.
SOON, SHORT_PATIENCE = 0.012, 12
# Kills that came before the programs were connected are repeated.
EARLY, TRIES = "early", 3

# Has programs print each line at once (GNU coreutils).
STDBUF = "/usr/libexec/coreutils/libstdbuf.so"

work = tempfile.mkdtemp()
# Per side, how to start its programs, and what they have in their environment besides.
AT = {"server": ([], {}), "client": ([], {})}
FIO = "[global]\nioengine=rdma\nhostname=%s\nport=%d\nbs=64k\nsize=1g\ntime_based\nruntime=60\nthread\n"


def job(side, port, rest):
    path = f"{work}/{side}-{port}.fio"
    with open(path, "w") as file:
        file.write(FIO % (HOST, port) + rest)
    return path


def fio(verb):
    return (
        lambda p: ["fio", job("in", p, "iodepth=64\n[in]\nrw=read\nfilename=none\n")],
        lambda p: ["fio", job("out", p, f"iodepth=8\n[out]\nrw=write\nverb={verb}\n")],
    )


def perftest(name):
    both = ["-R", "-F", "-D", "30"]
    return lambda p: [name, "-p", str(p), *both], lambda p: [name, "-p", str(p), *both, HOST]


def both(*words):
    """A program whose client names the server by -s."""
    return lambda p: [*words, "-p", str(p)], lambda p: [*words, "-p", str(p), "-s", HOST]


PROGRAMS = {
    "rping": (lambda p: ["rping", "-s", "-p", str(p), "-v", "-C", "1000000"], lambda p: ["rping", "-c", "-a", HOST, "-p", str(p), "-v", "-C", "1000000"]),
    "ucmatose": both("ucmatose", "-c", "4", "-C", "30000", "-S", "4000"),
    "connecting": both("ucmatose", "-c", "4"),
    "stream": (lambda p: [f"{work}/stream", str(p)], lambda p: [f"{work}/stream", str(p), HOST]),
    "ib_send_bw": perftest("ib_send_bw"),
    "ib_write_bw": perftest("ib_write_bw"),
    "ib_read_bw": perftest("ib_read_bw"),
    "fio-write": fio("write"),
    "fio-read": fio("read"),
    "fio-send": fio("send"),
    "dtest": (lambda p: ["dtest", "-P", "bellwire", "-s", "-b", "1000000", "-B", "100"], lambda p: ["dtest", "-P", "bellwire", "-h", HOST, "-b", "1000000", "-B", "100"]),
}
# What a program prints once it is connected; others are, soon after they know each other.
CONNECTED = {"rping": "ping data", "stream": "connected", "ib": "#bytes", "dtest": "CONNECTED"}
# Programs that tell their client first where they are, by TCP, at this port.
TELLS = {"dtest": 15828}
# The last words of a server that nobody has asked yet.
ALONE = ("waiting for connection", "starting server")
# fio waits for ever for the rest, once it has been told that a completion is an error.
TOLD = {"fio": "cq completion status"}


def descriptors(pid):
    try:
        names = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return []
    found = []
    for name in names:
        try:
            found.append(os.readlink(f"/proc/{pid}/fd/{name}"))
        except OSError:
            pass
    return found


def names(pid):
    """Names of the host under which a process waits: one for its place, one for each service."""
    own = {d[8:-1] for d in descriptors(pid) if d.startswith("socket:[")}
    with open(f"/proc/{pid}/net/unix") as table:
        return sum(1 for line in table if "@bellwire/" in line and "/w/" in line and line.split()[6] in own)


def takes_calls(pid, port):
    """Whether a process of this one's network listens at a TCP port."""
    with open(f"/proc/{pid}/net/tcp") as table:
        return any(line.split()[1].endswith(f":{port:04X}") and line.split()[3] == "0A" for line in table)


def until(process, seconds, what):
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        if what():
            return True
        time.sleep(0.02)
    return False


def start(command, library, log):
    by_line = {"_STDBUF_O": "L"}
    preload = f"{library}:{STDBUF}" if os.path.exists(STDBUF) else library
    place, more = AT[log.split(".")[0]]
    environment = dict(os.environ, **by_line, **more, DAT_OVERRIDE=f"{work}/dat.conf")
    with open(f"{work}/{log}", "w") as out:
        return subprocess.Popen([*place, "env", f"LD_PRELOAD={preload}", *command], env=environment, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=work)


def whole(log):
    with open(f"{work}/{log}", errors="replace") as file:
        return file.read()


def tail(log):
    return " / ".join(whole(log).splitlines()[-3:])


def ends(process):
    if process.poll() is None:
        process.kill()
    process.wait()


def kill(name, port, chance, library):
    """None: the survivor ended. Or why not."""
    as_server, as_client = PROGRAMS[name]
    server = start(as_server(port), library, "server.log")
    client = None
    try:
        if not until(server, LISTENS, lambda: names(server.pid) >= 2 and (name not in TELLS or takes_calls(server.pid, TELLS[name]))):
            return f"the server does not listen: {tail('server.log')}"
        client = start(as_client(port), library, "client.log")
        if name == "connecting":
            until(client, LISTENS, lambda: "connecting" in whole("client.log"))
            time.sleep(chance.random() * SOON)
            ends(server)
            until(client, SHORT_PATIENCE, lambda: False)
            return None if client.poll() is not None else f"the client goes on after {SHORT_PATIENCE} s: {tail('client.log')}"
        # They know each other when they hold descriptors of each other's process; between hosts there are none.
        if not AT["server"][0] and not until(client, LISTENS, lambda: any("pidfd" in d for d in descriptors(server.pid))):
            return f"they do not connect: {tail('client.log')}"
        text = CONNECTED.get(name.split("_")[0])
        if text and not until(client, LISTENS, lambda: all(text in whole(log) for log in ("server.log", "client.log"))):
            return f"they do not connect: {tail('server.log')} / {tail('client.log')}"
        if AT["server"][0] and not text:
            time.sleep(BLIND)
        time.sleep(chance.random() * 0.4)
        victim, survivor, log = (server, client, "client.log") if chance.random() < 0.5 else (client, server, "server.log")
        victim.kill()
        victim.wait()
        told = TOLD.get(name.split("-")[0])
        if until(survivor, PATIENCE, lambda: told and told in tail(log)) or survivor.poll() is not None:
            return None
        if survivor is server and tail(log).endswith(ALONE):
            return EARLY
        return f"the {log[:6]} goes on after {PATIENCE} s: {tail(log)}"
    finally:
        ends(server)
        if client:
            ends(client)


def left():
    """Names that speak of us, but those with the number of a process that lives: other tests run beside this one."""
    names = {f"{d}/{n}" for d in ("/dev/shm", "/tmp") for n in os.listdir(d) if "bellwire" in n}
    return {n for n in names if not any(os.path.exists(f"/proc/{number}") for number in re.findall(r"\d+", n))}


def two_namespaces():
    """Two network namespaces with an address each, joined by a pair of interfaces; their names."""
    global HOST
    own = [f"bwk{side}{os.getpid()}" for side in "ab"]
    ip = lambda *words: subprocess.run(["ip", *words], check=True)
    for name in own:
        ip("netns", "add", name)
    ip("link", "add", own[0], "netns", own[0], "type", "veth", "peer", "name", own[1], "netns", own[1])
    for i, name in enumerate(own):
        ip("-n", name, "addr", "add", f"10.121.0.{i + 1}/24", "dev", name)
        ip("-n", name, "link", "set", name, "up")
        ip("-n", name, "link", "set", "lo", "up")
    HOST = "10.121.0.1"
    for i, side in enumerate(("server", "client")):
        AT[side] = (["ip", "netns", "exec", own[i]], {"BELLWIRE_ADDRESS": f"10.121.0.{i + 1}"})
    # Its interface is that of this host; and between hosts a silent peer is given up after 20 s.
    del PROGRAMS["dtest"], PROGRAMS["connecting"]
    return own


def main():
    library, count = os.path.abspath(sys.argv[1]), int(sys.argv[2])
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else random.SystemRandom().randrange(1 << 30)
    chance = random.Random(seed)
    with open(f"{work}/dat.conf", "w") as file:
        file.write('bellwire u2.0 nonthreadsafe default libdaplofa.so.2 dapl.2.0 "lo 0" ""\n')
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stream.c")
    subprocess.run(["cc", "-O1", "-o", f"{work}/stream", source, "-lrdmacm"], stderr=subprocess.DEVNULL, check=False)
    wanted = sys.argv[4:] or list(PROGRAMS)
    there = [n for n in wanted if shutil.which(PROGRAMS[n][0](1)[0])]
    if set(wanted) - set(there):
        print("SKIPPED kills, not installed:", *sorted(set(wanted) - set(there)))
    if not there:
        return 0
    before, heard, port = left(), 0, 20000 + os.getpid() % 20000
    for i in range(count):
        name = there[i % len(there)]
        began = time.monotonic()
        for _ in range(TRIES):
            why = kill(name, port + i % 5000, chance, library)
            if why != EARLY:
                break
        if os.environ.get("VERBOSE"):
            print(f"{i} {name}: {time.monotonic() - began:.1f} s {why or ''}", flush=True)
        if why:
            print(f"FAILED kill {i} of {name} (seed {seed}): {why}", flush=True)
        heard += why is None
    if left() - before:
        print("FAILED: left behind:", *(left() - before))
        return 1
    print(f"{heard} of {count} survivors ended, seed {seed}")
    return heard != count


namespaces = []
try:
    if "--namespaces" in sys.argv:
        sys.argv.remove("--namespaces")
        namespaces = two_namespaces()
    sys.exit(main())
finally:
    for namespace in namespaces:
        subprocess.run(["ip", "netns", "del", namespace], check=False)
    shutil.rmtree(work, ignore_errors=True)
