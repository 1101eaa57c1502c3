#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Compares a trace with what the traced program did. Used by check.sh.

    check.py vipl FILE ROUNDS          a pingpong of two processes, JSON
    check.py many FILE THREADS COUNT   many.c
    check.py killed FILE               a program that was killed
    check.py hostile PID               what a NIC answers to requests for traces
    check.py attached FILE PID         a process that is traced for a while
    check.py attached_verbs FILE PID   the same of ibv_rc_pingpong
    check.py verbs FILE ROUNDS         ibv_rc_pingpong, both sides
    check.py perfetto FILE ROUNDS      the same, in Perfetto's format
    check.py rpc FILE VALUES           rpc_store.c: one process serves two
    check.py mpi FILE ROUNDS           mpi.c, both sides
    check.py perfetto_mpi FILE ROUNDS  the same, in Perfetto's format
    check.py splitc FILE ROUNDS        splitc.sc: process 0 puts and gets
    check.py perfetto_splitc FILE ROUNDS
"""

import collections
import json
import os
import re
import socket
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def load(path):
    with open(path) as file:
        trace = json.load(file)
    assert trace["format"] == 1
    assert trace["complaints"] == [], trace["complaints"]
    return trace


def by_process(trace):
    processes = collections.defaultdict(list)
    for thread in trace["threads"]:
        assert thread["slots_lost"] == 0 and thread["senseless"] == 0, thread["thread"]
        times = [event["t_ns"] for event in thread["events"]]
        assert times == sorted(times), "a thread's events go back in time"
        processes[thread["pid"]].append(thread)
    return processes


def total(threads, name, field):
    return sum(event[field] for thread in threads for event in thread["events"] if event["event"] == name)


def count(threads, name, **fields):
    return sum(1 for thread in threads for event in thread["events"] if event["event"] == name and all(event.get(k) == v for k, v in fields.items()))


def received(threads):
    """Messages that came into receives: told one by one, or by their number."""
    return total(threads, "received", "messages")


def check_vipl(path, rounds):
    processes = by_process(load(path))
    assert len(processes) == 2, list(processes)
    for threads in processes.values():
        assert {thread["program"] for thread in threads} == {"pingpong"}
        links = [event for thread in threads for event in thread["events"] if event["event"] == "link"]
        assert len(links) == 1 and links[0]["text"].startswith("by shm"), links
        assert count(threads, "state", state="connected") == 1
        # The example exchanges some messages beside its rounds.
        posted = count(threads, "posted")
        assert rounds <= posted <= rounds + 1200, posted
        assert total(threads, "left", "requests") == posted == total(threads, "dequeued", "requests"), posted
        taken = total(threads, "receives dequeued", "requests")
        assert rounds <= taken <= rounds + 1200 and total(threads, "receives posted", "requests") >= taken, taken


def check_many(path, threads, each):
    processes = by_process(load(path))
    assert len(processes) == 1
    (all_threads,) = processes.values()
    senders = [t for t in all_threads if count([t], "posted")]
    assert len(senders) == threads, len(senders)
    for thread in senders:
        assert count([thread], "posted") == each, count([thread], "posted")
        assert total([thread], "dequeued", "requests") == each
        assert total([thread], "receives dequeued", "requests") == each


def check_killed(path):
    with open(path) as file:
        trace = json.load(file)
    events = [event for thread in trace["threads"] for event in thread["events"]]
    assert events, "no events"
    assert all(thread["senseless"] == 0 for thread in trace["threads"]), "pieces that make no sense"


def check_hostile(pid):
    def ask(*parts):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        client.settimeout(20)
        client.connect(f"\0bellwire/stat/{pid}/0")
        for part in parts:
            client.sendall(part)
        return client, client.recv(1 << 20)

    for wrong in [b"trace ", b"trace \n", b"trace 4194304\n", b"trace 4194304 \n", b"trace 1 /tmp\n", b"trace 4194304 /tmp\n", b"trace 4194304 relative\n",
                  b"trace 4194304 /dev/null\n", b"trace 4194304 /nonexistent\n", b"trace 4194304 /proc/self/fd\0\n", b"trace 4194304 /root", b"trace x /root\n",
                  b"trace 99999999999999999999 /root\n", b"trace -1 /root\n", b"trace 4194304 \xff\n", b"trace 4194304 /" + 4500 * b"x" + b"\n", b"trace " + 9000 * b"x" + b"\n",
                  b"capture 4194304 /tmp\n", b"capture 4194304 -1 /tmp\n", b"capture 4194304 100,now /root\n", b"capture 1 100 /root\n", b"capture 4194304 100 /tmp\n", b"capture "]:
        client, said = ask(wrong)
        assert b'"error"' in said, (wrong[:40], said[:200])
        client.close()
    # It answers others still, and is not traced.
    client, said = ask(b"?")
    assert json.loads(said)["pid"] == pid
    client.close()
    # One that is no user's of this process is not heard.
    if os.geteuid() == 0:
        child = os.fork()
        if child == 0:
            os.setgid(65534)
            os.setuid(65534)
            try:
                os._exit(0 if ask(b"trace 4194304 /tmp\n")[1] == b"" else 1)
            except OSError:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0, "a stranger was answered"


def check_attached(path, pid):
    with open(path) as file:
        trace = json.load(file)
    assert any("before are not seen" in complaint for complaint in trace["complaints"]), trace["complaints"]
    threads = [thread for thread in trace["threads"] if thread["pid"] == pid]
    assert threads and len(threads) == len(trace["threads"])
    # What is left of an event whose beginning was overwritten makes no sense.
    assert all(thread["senseless"] == 0 or thread["slots_lost"] for thread in threads)
    # What was before is not told as if it were now: each event is of one request, or of few.
    posted, left = count(threads, "posted"), [e["requests"] for t in threads for e in t["events"] if e["event"] == "left"]
    assert posted > 20 and max(left) <= 64, (posted, left and max(left))
    assert count(threads, "state", state="connected") >= 1 and count(threads, "link") >= 1
    return threads


def check_attached_verbs(path, pid):
    threads = check_attached(path, pid)
    posts = count(threads, "ibv_post_send", shape="begin")
    assert posts > 20 and abs(posts - count(threads, "ibv_post_send", shape="end", result=0)) <= 1, posts
    assert abs(posts - count(threads, "completion", opcode="SEND", status="SUCCESS")) <= 2, posts
    assert count(threads, "state", state="RTS") == 1


def check_verbs(path, rounds):
    processes = by_process(load(path))
    pairs = {pid: threads for pid, threads in processes.items() if count(threads, "ibv_post_send")}
    assert len(pairs) == 2, list(processes)
    for threads in pairs.values():
        for call in ["ibv_open_device", "ibv_alloc_pd", "ibv_reg_mr", "ibv_create_cq", "ibv_create_qp", "ibv_modify_qp", "ibv_destroy_qp", "ibv_close_device"]:
            assert count(threads, call, shape="begin") >= 1, f"no {call}"
            assert count(threads, call, shape="begin") == count(threads, call, shape="end"), call
        posts = [event for thread in threads for event in thread["events"] if event["event"] == "ibv_post_send" and event["shape"] == "begin"]
        assert len(posts) == rounds, len(posts)
        assert count(threads, "ibv_post_send", shape="end", result=0) == rounds
        assert {post["opcode"] for post in posts} == {"SEND"} and {post["bytes"] for post in posts} == {4096}
        # Each request, told three times over: posted, left, acknowledged; and its completion.
        for name in ["posted", "left", "acknowledged"]:
            told = sum(event["requests"] for thread in threads for event in thread["events"] if event["event"] == name and event["layer"] == "pairs")
            assert told == rounds, (name, told)
        for opcode in ["SEND", "RECV"]:
            completions = count(threads, "completion", opcode=opcode, status="SUCCESS")
            assert completions == rounds, (opcode, completions)
        assert count(threads, "state", state="RTS") == 1
    # On one clock: what one side received, the other had posted before.
    sides = list(pairs.values())
    for near, far in [sides, sides[::-1]]:
        posted = sorted(event["t_ns"] for thread in near for event in thread["events"] if event["event"] == "ibv_post_send" and event["shape"] == "begin")
        came = sorted(event["t_ns"] for thread in far for event in thread["events"] if event["event"] == "completion" and event["opcode"] == "RECV")
        early = [n for n, (at, seen) in enumerate(zip(posted, came)) if seen < at]
        assert not early, f"messages that came before they were posted: {early[:5]}"


def check_rpc(path, values):
    processes = by_process(load(path))
    callers = [threads for threads in processes.values() if count(threads, "rpc call")]
    servers = [threads for threads in processes.values() if count(threads, "rpc serve", shape="begin")]
    assert len(callers) == 2 and len(servers) == 1, (len(callers), len(servers))
    for threads in callers:
        # One more get, of a value that is not there.
        assert count(threads, "rpc call", text="store/put") == count(threads, "rpc call", text="store/get") - 1 == values
        assert count(threads, "rpc call") == count(threads, "rpc result") == count(threads, "rpc result", outcome="result") + 1
        assert count(threads, "rpc result", outcome="failed") == 1
        assert all(event["under_way"] == 0 for event in last(threads, "rpc result"))
    (server,) = servers
    calls = sum(count(threads, "rpc call") for threads in callers)
    assert count(server, "rpc serve", shape="begin") == count(server, "rpc serve", shape="end") == calls


def last(threads, name):
    """The last event of that name of each thread that has one."""
    found = [[event for event in thread["events"] if event["event"] == name] for thread in threads]
    return [events[-1] for events in found if events]


def check_mpi(path, rounds):
    processes = {pid: threads for pid, threads in by_process(load(path)).items() if count(threads, "fi_endpoint", shape="begin")}
    assert len(processes) == 2, list(processes)
    for threads in processes.values():
        sends = [event for thread in threads for event in thread["events"] if event["event"] in ("fi_send", "fi_tsend")]
        posted = [event for event in sends if event["shape"] == "begin"]
        assert sum(event["bytes"] == 100 for event in posted) == rounds, len(posted)
        assert sum(event.get("result") == 0 for event in sends if event["shape"] == "end") >= rounds
        receives = [event for thread in threads for event in thread["events"] if event["event"] == "completion" and event["bytes"] == 100]
        assert len(receives) >= rounds, len(receives)
        for call in ["fi_domain", "fi_av_open", "fi_cq_open", "fi_av_insert"]:
            assert count(threads, call, shape="begin") == count(threads, call, shape="end") >= 1, call


def check_splitc(path, rounds):
    processes = by_process(load(path))
    puts = {pid: count(threads, "gas_bulk_put", shape="begin") for pid, threads in processes.items()}
    assert sorted(puts.values())[-2:] == [0, rounds], puts
    for threads in processes.values():
        assert count(threads, "gas_bulk_put", shape="begin", second=4096) == count(threads, "gas_bulk_get", shape="end", result=0)
        if count(threads, "gas_bulk_put"):
            assert count(threads, "gas_sync", shape="end", result=0) >= 2 * rounds
    assert sum(count(threads, "gas_barrier", shape="begin") != 0 for threads in processes.values()) == 2


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def fields(data):
    """The fields of a message of protocol buffers."""
    at, found = 0, collections.defaultdict(list)
    while at < len(data):
        key, at = varint(data, at)
        number, kind = key >> 3, key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 2:
            length, at = varint(data, at)
            value = data[at : at + length]
            assert len(value) == length, "a field is cut off"
            at += length
        else:
            raise AssertionError(f"a field of kind {kind}")
        found[number].append(value)
    return found


def check_perfetto(path, rounds):
    slices(path, "ibv_post_send", 2 * rounds)


def check_perfetto_mpi(path, rounds):
    slices(path, "fi_tsend", 2 * rounds)


def check_perfetto_splitc(path, rounds):
    slices(path, "gas_bulk_put", rounds)


def slices(path, name, least):
    """There are at least so many calls of that name, all with an end."""
    with open(path, "rb") as file:
        packets = [fields(packet) for packet in fields(file.read())[1]]
    events = [(packet[8][0], fields(packet[11][0])) for packet in packets if 11 in packet]
    names = collections.Counter((event[23][0].decode(), event[9][0]) for _, event in events)
    assert names[name, 1] == names[name, 2] >= least, names
    tracks = {fields(packet[60][0])[1][0] for packet in packets if 60 in packet}
    assert all(event[11][0] in tracks for _, event in events), "an event of no track"
    # As its viewer for browsers has it (check.sh).
    processor = os.environ.get("PROCESSOR")
    if processor is None:
        return

    def ask(query):
        said = subprocess.run(["node", os.path.join(HERE, "processor.js"), processor, path, query], capture_output=True, text=True, timeout=100)
        assert said.returncode == 0, said.stderr[-500:]
        return json.loads(said.stdout)

    assert ask("select name, value from stats where value != 0 and severity != 'info'") == [], "what the processor could not take"
    (row,) = ask(f"select count(*) as n, min(dur) as least, max(dur) as most from slice where name = '{name}' and category = 'calls'")
    assert row["n"] == names[name, 1] and 0 <= row["least"] <= row["most"] < 100 * 10**9, row
    # Each is a thread's of a process that has a name.
    (row,) = ask(f"select count(*) as n from slice join thread_track on track_id = thread_track.id join thread using (utid) join process using (upid) "
                 f"where slice.name = '{name}' and process.name != '' and thread.name != ''")
    assert row["n"] == names[name, 1], row
    # The engine's steps beneath a call have it as their parent.
    (row,) = ask(f"select count(*) as n from slice step join slice call on step.parent_id = call.id where call.name = '{name}' and step.category != 'calls'")
    assert row["n"] > 0 or name.startswith("gas"), row
    # The guide's query.
    with open(os.path.join(HERE, "../../docs/guide/tracing.md")) as file:
        (query,) = re.findall(r"^```sql\n(.*?)^```", file.read(), flags=re.M | re.S)
    assert name in [row["name"] for row in ask(query)], query


if __name__ == "__main__":
    what, *arguments = sys.argv[1:]
    globals()[f"check_{what}"](*(int(argument) if argument.isdigit() else argument for argument in arguments))
