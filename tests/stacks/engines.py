# SPDX-License-Identifier: MIT OR Apache-2.0
"""Transfer engines, memory to memory: engines.py nixl|mooncake target|initiator DIRECTORY BYTES

The two processes exchange what they have to say about themselves by files in DIRECTORY. The
initiator reads and writes the target's memory and checks every byte. It waits for transfers and
for files, never for a time. With OUTAGE=SEED Mooncake's initiator takes the port of its second
device down in the middle, and up again (`bellwire port`; BELLWIRE says where that is).
"""
import os
import random
import subprocess
import sys
import time

import numpy as np

kind, role, directory, size = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
PIECES = 64
HOST = os.environ.get("HOST", "127.0.0.1")


def say(name, content=b""):
    with open(f"{directory}/{name}.new", "wb") as f:
        f.write(content)
    os.rename(f"{directory}/{name}.new", f"{directory}/{name}")


def hear(name):
    while not os.path.exists(f"{directory}/{name}"):
        time.sleep(0.01)
    with open(f"{directory}/{name}", "rb") as f:
        return f.read()


class Nixl:
    """A transfer is one request of many pieces."""

    def __init__(self, memory):
        from nixl._api import nixl_agent, nixl_agent_config

        self.agent = nixl_agent(role, nixl_agent_config(backends=["UCX"]))
        self.agent.register_memory([(memory.ctypes.data, size, 0, "memory")], mem_type="DRAM")
        piece = size // PIECES
        own = [(memory.ctypes.data + i * piece, piece, 0) for i in range(PIECES)]
        self.own = self.agent.get_xfer_descs(own, mem_type="DRAM")

    def tell(self):
        say("metadata", self.agent.get_agent_metadata())
        say("pieces", self.agent.get_serialized_descs(self.own))

    def learn(self):
        self.peer = self.agent.add_remote_agent(hear("metadata"))
        self.theirs = self.agent.deserialize_descs(hear("pieces"))

    def move(self, operation):
        handle = self.agent.initialize_xfer(operation, self.own, self.theirs, self.peer, b"")
        state = self.agent.transfer(handle)
        while state == "PROC":
            state = self.agent.check_xfer_state(handle)
        assert state == "DONE", f"{operation}: {state}"
        self.agent.release_xfer_handle(handle)


class Mooncake:
    """A transfer is a request for each piece, which Mooncake cuts and spreads over its devices."""

    def __init__(self, memory):
        from mooncake.engine import TransferEngine

        self.engine, self.memory = TransferEngine(), memory
        devices = os.environ.get("DEVICES", "bellwire0")
        assert self.engine.initialize(HOST, "P2PHANDSHAKE", "rdma", devices) == 0, "initialize"
        assert self.engine.register_memory(memory.ctypes.data, size) == 0, "register_memory"

    def tell(self):
        say("name", f"{HOST}:{self.engine.get_rpc_port()} {self.memory.ctypes.data}".encode())

    def learn(self):
        self.peer, address = hear("name").decode().split()
        self.address = int(address)

    def move(self, operation):
        call = self.engine.transfer_sync_read if operation == "READ" else self.engine.transfer_sync_write
        piece = size // PIECES
        for i in range(PIECES):
            result = call(self.peer, self.memory.ctypes.data + i * piece, self.address + i * piece, piece)
            assert result == 0, f"{operation} of piece {i}: {result}"


def outage(engine, memory, expected):
    """The second device goes down at a round that the seed says, and comes back later."""
    seed = int(os.environ["OUTAGE"])
    down = random.Random(seed).randrange(1, 6)
    for n in range(12):
        order = {down: "down", down + 4: "up"}.get(n)
        if order:
            port = [os.environ["BELLWIRE"], "port", "bellwire1", order, "--pid", str(os.getpid())]
            # The command is to start as itself, without the preloaded device.
            subprocess.run(port, check=True, env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"})
            print(f"bellwire1 {order} before round {n} (seed {seed})", flush=True)
        memory[:] = 0
        engine.move("READ")
        assert (memory == expected).all(), f"round {n}: what was read is not what is there"


def main():
    first = np.arange(size, dtype=np.uint64).astype(np.uint8)
    second = first * np.uint8(3) + np.uint8(1)
    memory = first.copy() if role == "target" else np.zeros(size, dtype=np.uint8)
    engine = {"nixl": Nixl, "mooncake": Mooncake}[kind](memory)
    if role == "target":
        engine.tell()
        hear("done")
        assert (memory == second).all(), "what was written is not there"
        say("written")
    else:
        engine.learn()
        engine.move("READ")
        assert (memory == first).all(), "what was read is not what is there"
        memory[:] = second
        engine.move("WRITE")
        memory[:] = 0
        engine.move("READ")
        assert (memory == second).all(), "what was read is not what was written"
        if "OUTAGE" in os.environ:
            outage(engine, memory, second)
        # What the device says that it has carried, for the caller to judge.
        top = [os.environ["BELLWIRE"], "top", str(os.getpid()), "--once", "--json", "--interval", "0.05"]
        counted = subprocess.run(top, env={k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, capture_output=True)
        with open(f"{directory}/counted", "wb") as f:
            f.write(counted.stdout)
        say("done")
        hear("written")
    print("all well", flush=True)


code = 0
try:
    main()
except BaseException as error:  # noqa: BLE001
    print("FAILED:", error, flush=True)
    code = 1
# NIXL's wheel crashes at a normal exit in one of its two libnl, with and without Bellwire.
sys.stdout.flush()
os._exit(code)
