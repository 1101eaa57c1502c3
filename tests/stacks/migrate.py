# SPDX-License-Identifier: MIT OR Apache-2.0
"""Migrates a running guest of QEMU by rdma: migrate.py BELLWIRE DIRECTORY PORT [pin]

The guest is the firmware alone, under TCG, with a pattern in its memory, which must be in the
destination's memory afterwards. The waits end with QMP's answers, never with a time.
"""
import json
import os
import random
import socket
import subprocess
import sys
import time

bellwire, directory, port, pin = sys.argv[1], sys.argv[2], sys.argv[3], "pin" in sys.argv[4:]
ADDRESS, BYTES = 0x1000000, 24 << 20


class Machine:
    def __init__(self, name, *more):
        self.path = f"{directory}/{name}.qmp"
        command = [bellwire, "run", "--verbs", "qemu-system-x86_64", "-accel", "tcg", "-m", "64", "-nodefaults", "-display", "none"]
        command += ["-qmp", f"unix:{self.path},server=on,wait=off", *more]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        while True:
            self.alive()
            try:
                connection = socket.socket(socket.AF_UNIX)
                connection.connect(self.path)
                break
            except OSError:
                time.sleep(0.02)
        self.stream = connection.makefile("rw")
        self.stream.readline()
        self.ask("qmp_capabilities")

    def alive(self):
        assert self.process.poll() is None, f"QEMU ended with {self.process.returncode}"

    def ask(self, command, **arguments):
        self.stream.write(json.dumps({"execute": command, "arguments": arguments}) + "\n")
        self.stream.flush()
        while True:
            line = self.stream.readline()
            assert line, f"QEMU went away at {command}"
            answer = json.loads(line)
            assert "error" not in answer, f"{command}: {answer}"
            if "return" in answer:
                return answer["return"]


pattern = random.Random(BYTES).randbytes(BYTES)
with open(f"{directory}/pattern", "wb") as f:
    f.write(pattern)
source = Machine("source", "-device", f"loader,file={directory}/pattern,addr={ADDRESS},force-raw=on")
target = Machine("target", "-incoming", f"rdma:127.0.0.1:{port}")
if pin:
    for machine in (source, target):
        machine.ask("migrate-set-capabilities", capabilities=[{"capability": "rdma-pin-all", "state": True}])
source.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 33})
source.ask("migrate", uri=f"rdma:127.0.0.1:{port}")
while True:
    state = source.ask("query-migrate")
    if state.get("status") in ("completed", "failed", "cancelled"):
        break
    time.sleep(0.05)
assert state["status"] == "completed", state
while target.ask("query-status")["status"] == "inmigrate":
    time.sleep(0.05)
target.ask("pmemsave", val=ADDRESS, size=BYTES, filename=f"{directory}/there")
with open(f"{directory}/there", "rb") as f:
    assert f.read() == pattern, "the guest's memory is not what it was"
print("target:", target.ask("query-status")["status"], "transferred:", state["ram"]["transferred"])
for machine in (source, target):
    machine.ask("quit")
    machine.process.wait()
print("all well")
