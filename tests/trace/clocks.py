# SPDX-License-Identifier: MIT OR Apache-2.0
"""Checks traces of two hosts (clocks.sh), and makes files of hosts whose clocks are wrong."""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

# Where a file's own part of the header begins (crates/memory/src/event_log.rs), and its words.
OWN_AT = 64
OF_DAY = 6


def load(path):
    with open(path) as file:
        return json.load(file)


def files(folder):
    return [os.path.join(folder, name) for name in sorted(os.listdir(folder))]


def own_at(data):
    at = data.find(b"bwtrace\n")
    assert at >= 0 and at % 8 == 0
    return at


def tied(path, ahead, wrong):
    """The second host's monotonic clock is `ahead` seconds ahead, its day `wrong` nanoseconds."""
    trace = load(path)
    (reference,) = [clock for clock in trace["clocks"] if clock["tie"] == "reference"]
    (clock,) = [clock for clock in trace["clocks"] if clock["tie"] == "messages"]
    error = clock["error_ns"]
    # The reference is the host whose clocks are those of this process.
    assert 0 < error < 2_000_000, error
    assert clock["messages"] >= 500, clock
    for found, true in [(clock["monotonic_offset_ns"], int(ahead) * 10**9), (clock["offset_ns"], int(wrong))]:
        assert abs(found - true) <= error, (found - true, error)
    # No packet is received before it was sent.
    sides = {}
    for thread in trace["threads"]:
        for event in thread["events"]:
            if event["event"] == "packets":
                # Of a turn that is not known, nothing is known.
                    began = event["t_ns"] - event["turn"] if event["turn"] else 0
                    sides.setdefault(thread["pid"], []).append((began, event["t_ns"], event["all_sent"], event["all_received"]))
    assert len(sides) == 2, len(sides)
    for near, far in [list(sides.values()), list(sides.values())[::-1]]:
        near, far, at = sorted(near, key=lambda p: p[1]), sorted(far, key=lambda p: p[1]), 0
        for _, came, _, received in far:
            while at < len(near) and near[at][2] < received:
                at += 1
            # What a NIC sends when it is closed is told by its peer alone.
            if at == len(near):
                break
            assert received == 0 or near[at][0] <= came + 1, (near[at], came, received)
    print(f"off by {clock['offset_ns'] - int(wrong)} ns of day and {clock['monotonic_offset_ns'] - int(ahead) * 10**9} ns, error {error} ns, {clock['messages']} messages")


def falsify(folder, by):
    for path in files(folder):
        with open(path, "r+b") as file:
            data = file.read(4096)
            at = own_at(data) + 8 * OF_DAY
            (of_day,) = struct.unpack_from("<Q", data, at)
            file.seek(at)
            file.write(struct.pack("<Q", of_day + int(by)))


def unknown(folder):
    """Has the sessions in the files of a folder be with others: their ids are changed."""
    changed = 0
    for path in files(folder):
        with open(path, "rb") as file:
            data = bytearray(file.read())
        for at in range(0, len(data) - 32, 32):
            _, head, own, peer = struct.unpack_from("<4Q", data, at)
            if head & 0xFFFFFFFF == 83:
                struct.pack_into("<2Q", data, at + 16, own ^ 1, peer)
                changed += 1
        with open(path, "wb") as file:
            file.write(data)
    assert changed >= 1


def believed(path):
    ties = sorted(clock["tie"] for clock in load(path)["clocks"])
    assert ties == ["reference", "time of day"], ties


def nonsense(bellwire, *folders):
    """Files with bytes changed by chance are read, or refused with a sentence."""
    chance = random.Random(26)
    for round_ in range(12):
        with tempfile.TemporaryDirectory() as place:
            reads = []
            for number, folder in enumerate(folders):
                os.mkdir(os.path.join(place, str(number)))
                reads += ["--read", os.path.join(place, str(number))]
                for path in files(folder):
                    with open(path, "rb") as file:
                        data = bytearray(file.read())
                    # All of the header, or of the events that there are.
                    for _ in range(1 << round_):
                        at = chance.randrange(1024 if round_ % 2 else min(len(data), 1 << 18))
                        data[at] = chance.randrange(256)
                    with open(os.path.join(place, str(number), os.path.basename(path)), "wb") as file:
                        file.write(data)
            for format_ in ["json", "tree", "perfetto"]:
                done = subprocess.run([bellwire, "trace", *reads, "--format", format_, "-o", os.path.join(place, "out")], capture_output=True, timeout=60)
                assert done.returncode == 0 and b"panicked" not in done.stderr, (round_, done.returncode, done.stderr[-500:])
    print("12 times")


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    globals()[what](*arguments)
