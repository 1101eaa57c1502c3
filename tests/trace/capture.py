# SPDX-License-Identifier: MIT OR Apache-2.0
"""Reads a file of `bellwire capture` without the code that wrote it: blocks, headers, checksums,
numbers, and what a program said of itself.
    capture.py whole FILE                    every packet is right; says how many of which opcode
    capture.py cut FILE                      the same of packets that are cut short, and there are some
    capture.py count FILE OPCODE=N ..        so many packets of an opcode
    capture.py pingpong FILE LOG             the numbers are those that ibv_rc_pingpong printed
    capture.py again FILE OTHER              the same requests were refused and left again in both
    capture.py udp FILE                      packets of NICs: each that is lost on purpose leaves again
    capture.py management FILE               a connection is set up and ended, for the queue pairs that are used
    capture.py vis FILE                      so are requests of virtual interfaces: both sides name one connection
    capture.py scapy FILE                    scapy has the same checksum for 400 packets (IPv4)
    capture.py wait                          reads a file on standard input until it has a packet
"""
import collections
import re
import struct
import sys
import zlib

Packet = collections.namedtuple("Packet", "interface time out length bytes comment ip from_ to opcode solicited pad qp wants psn rest whole")


def blocks(stream):
    while head := stream.read(8):
        kind, length = struct.unpack("<II", head)
        body = stream.read(length - 12)
        assert length % 4 == 0 and struct.unpack("<I", stream.read(4))[0] == length, "a block ends as it begins"
        yield kind, body


def options(body):
    found, at = {}, 0
    while at < len(body):
        code, length = struct.unpack_from("<HH", body, at)
        if code == 0:
            break
        found[code] = body[at + 4:at + 4 + length]
        at += 4 + (length + 3) // 4 * 4
    return found


def parse(interface, time, length, data, found):
    ip = 20 if data[0] >> 4 == 4 else 40
    total = struct.unpack_from(">H", data, 2)[0] if ip == 20 else 40 + struct.unpack_from(">H", data, 4)[0]
    assert total == length, "the length of IP"
    ends = (data[12:16], data[16:20]) if ip == 20 else (data[8:24], data[24:40])
    port, size = struct.unpack_from(">HH", data, ip + 2)
    assert size == length - ip, "UDP"
    if port != 4791:
        return None
    opcode, bits, key, qp, psn = struct.unpack_from(">BBHII", data, ip + 8)
    assert key == 0xffff and bits & 0x0f == 0, "the base header"
    return Packet(interface, time, found.get(2, b"\0")[0] == 2, length, data, found.get(1, b"").decode(), ip, *ends, opcode, bits >> 7, bits >> 4 & 3,
                  qp & 0xffffff, psn >> 31, psn & 0xffffff, data[ip + 20:], len(data) == length)


def packets(stream):
    seen = list()
    for kind, body in blocks(stream):
        if kind == 0x0A0D0D0A:
            assert struct.unpack_from("<I", body)[0] == 0x1A2B3C4D
        elif kind == 1:
            assert struct.unpack_from("<H", body)[0] == 101 and options(body[8:])[9] == b"\x09", "raw IP, nanoseconds"
            seen.append(options(body[8:])[2].decode())
        elif kind == 6:
            interface, high, low, captured, length = struct.unpack_from("<IIIII", body)
            assert interface < len(seen) and captured <= length
            found = options(body[20 + (captured + 3) // 4 * 4:])
            yield parse(interface, high << 32 | low, length, body[20:20 + captured], found), body[20:20 + captured], found.get(1, b"").decode()


def read(name):
    """The packets of RoCE."""
    with open(name, "rb") as stream:
        return [p for p, _, _ in packets(stream) if p]


def udp(name):
    """The packets of NICs (docs/PROTOCOL.md): data that was lost leaves again, and says so; unless
    it is the last of its session, whose process may have ended."""
    lost, again, sent, count = set(), set(), {}, 0
    with open(name, "rb") as stream:
        for roce, data, comment in packets(stream):
            if roce:
                continue
            count += 1
            assert ones(data[12:20] + struct.pack(">II", len(data) - 20, 17) + data[20:]) == 0xffff, "the checksum of UDP"
            kind, flags, _, word, session = struct.unpack_from("<BBHIQ", data, 28)
            assert kind >> 4 == 1 and 1 <= kind & 15 <= 12, "version and kind"
            if kind & 15 == 1:
                key = (data[12:24], session, word)
                sent.setdefault(key[:2], set()).add(word)
                if flags & 8:
                    again.add(key)
                if comment == "lost on purpose":
                    lost.add(key)
                assert "lost" not in comment or comment == "lost on purpose"
    for way, words in sent.items():
        for word in sorted(words, reverse=True):
            if (*way, word) not in lost - again:
                break
            lost.remove((*way, word))
    assert count > 100 and len(lost) > 3 and lost <= again, f"{count} packets, {len(lost)} lost, {len(lost & again)} of them again"


def checksum(p):
    """ICRC, by the specification: ones where a router may write, behind eight bytes of ones."""
    data = bytearray(p.bytes[:-4])
    for at in ([1, 8, 10, 11] if p.ip == 20 else [1, 2, 3, 7]) + [p.ip + 6, p.ip + 7, p.ip + 12]:
        data[at] = 0xff
    if p.ip == 40:
        data[0] |= 0x0f
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + bytes(data)))


def ones(data):
    total = sum(struct.unpack(f">{(len(data) + 1) // 2}H", data + b"\0" * (len(data) % 2)))
    while total >> 16:
        total = (total & 0xffff) + (total >> 16)
    return total


SERVICES = {0: "RC", 1: "UC", 3: "UD", 5: "XRC"}
OPERATIONS = ["SEND_FIRST", "SEND_MIDDLE", "SEND_LAST", "SEND_LAST_IMM", "SEND_ONLY", "SEND_ONLY_IMM", "WRITE_FIRST", "WRITE_MIDDLE", "WRITE_LAST", "WRITE_LAST_IMM",
              "WRITE_ONLY", "WRITE_ONLY_IMM", "READ_REQUEST", "READ_FIRST", "READ_MIDDLE", "READ_LAST", "READ_ONLY", "ACK", "ATOMIC_ACK", "COMPARE_SWAP", "FETCH_ADD", "?",
              "SEND_LAST_INV", "SEND_ONLY_INV"]
ANSWERS = {"READ_FIRST", "READ_MIDDLE", "READ_LAST", "READ_ONLY", "ACK", "ATOMIC_ACK"}


def name(p):
    return SERVICES[p.opcode >> 5] + "_" + OPERATIONS[p.opcode & 0x1f]


def is_answer(p):
    return OPERATIONS[p.opcode & 0x1f] in ANSWERS


def fits(p):
    """A packet by itself."""
    assert p.out != is_answer(p), "requests go out, answers come in"
    if p.ip == 20:
        assert ones(p.bytes[:20]) == 0xffff, "the checksum of IP"
    if not p.whole:
        return
    assert p.bytes[-4:] == checksum(p), f"ICRC of {name(p)} {p.psn:#x}"
    assert (p.length - p.ip) % 4 == 0, "padding"
    if p.ip == 40:
        assert ones(p.bytes[8:40] + struct.pack(">II", p.length - 40, 17) + p.bytes[40:]) == 0xffff, "the checksum of UDP"


def in_order(seen):
    """Requests of a connected queue pair have one number after another; they leave again with
    their own; an answer has the number of a request that has left."""
    next_of, left = {}, collections.defaultdict(set)
    times = [p.time for p in seen]
    assert times == sorted(times), "times"
    # A read takes the numbers of its answer.
    for p in seen:
        if is_answer(p) or p.opcode >> 5 == 3:
            continue
        key = (p.interface, p.from_, p.to, p.qp)
        expected = next_of.get(key, p.psn)
        assert p.psn == expected or p.psn in left[key] and "again" in p.comment or expected is None, f"{p.psn:#x} comes after {expected:#x}"
        left[key].add(p.psn)
        next_of[key] = None if p.opcode & 0x1f == 12 else (p.psn + 1) % (1 << 24)
        assert "again" not in p.comment or p.psn in left[key]


def check(seen):
    assert seen, "there are packets"
    for p in seen:
        fits(p)
    in_order(seen)


def management(seen):
    """The datagrams of connection management: request, reply, ready, and the end."""
    said = []
    for p in seen:
        if name(p) == "UD_SEND_ONLY" and p.qp == 1:
            key, sender = struct.unpack_from(">II", p.rest)
            mad = p.rest[8:-4]
            assert key == 0x80010000 and sender == 1 and len(mad) == 256 and mad[:4] == b"\x01\x07\x02\x03", "the datagram's headers"
            said.append((struct.unpack_from(">H", mad, 16)[0], mad, p))
    kinds = [kind for kind, _, _ in said]
    assert kinds[:3] == [0x10, 0x13, 0x14] and 0x15 in kinds, kinds
    word = lambda mad, at: struct.unpack_from(">I", mad, 24 + at)[0]
    (_, request, asked), (_, reply, answered) = said[:2]
    assert word(reply, 4) == word(request, 0) and request[8:16] == reply[8:16], "the same connection, the same transaction"
    assert word(request, 8) == 0 and word(request, 12) >> 16 == 0x0106, "a service of TCP's port space"
    assert (asked.from_, asked.to) == (answered.to, answered.from_)
    for first, number, target in [(word(request, 44) >> 8, "request", word(reply, 12) >> 8), (word(reply, 20) >> 8, "reply", word(request, 32) >> 8)]:
        used = [p.psn for p in seen if p.opcode >> 5 == 0 and not is_answer(p) and p.qp == target]
        assert used and used[0] == first, f"the {number} says that packets begin with {first:#x}: {used[:3]}"
    for kind, mad, _ in said:
        assert kind != 0x15 or word(mad, 8) >> 8 in (word(request, 32) >> 8, word(reply, 12) >> 8), "whose connection ends"


def vis(seen):
    """Requests of virtual interfaces: those of one side go to the number from which the other's come."""
    own = {(p.interface, int(p.comment.split()[2].rstrip(","), 16)) for p in seen if p.comment.startswith("virtual interface ")}
    to = {(p.interface, p.qp) for p in seen if not is_answer(p)}
    assert len(own) == len(to) == 2 and {number for _, number in own} == {number for _, number in to}, f"{own} {to}"


def repeats(seen):
    """What was refused, and left again: numbers counted from the first of each queue pair."""
    first, found = {}, collections.defaultdict(list)
    for p in seen:
        if not is_answer(p):
            first.setdefault((p.interface, p.qp), p.psn)
    of_pair = {interface: psn for (interface, _), psn in first.items()}
    for p in seen:
        syndrome = p.rest[0] if OPERATIONS[p.opcode & 0x1f] == "ACK" else None
        if "again" in p.comment or syndrome is not None and syndrome >> 5 == 1:
            found[p.interface].append((p.psn - of_pair[p.interface], syndrome))
    return sorted(found.values())


def main():
    what, files = sys.argv[1], sys.argv[2:]
    if what == "wait":
        next(packets(sys.stdin.buffer))
        return
    if what == "udp":
        udp(files[0])
        return
    seen = read(files[0])
    check(seen)
    counts = collections.Counter(name(p) for p in seen)
    if what == "whole":
        assert all(p.whole for p in seen), "nothing is cut"
        print(dict(counts))
    elif what == "cut":
        assert any(not p.whole for p in seen), "something is cut"
    elif what == "count":
        for wanted in files[1:]:
            opcode, number = wanted.split("=")
            assert counts[opcode] == int(number), f"{wanted}: {dict(counts)}"
    elif what in ("management", "vis"):
        globals()[what](seen)
    elif what == "pingpong":
        said = {(int(qp, 16), int(psn, 16)) for qp, psn in re.findall(r"local address:.*QPN (0x[0-9a-f]+), PSN (0x[0-9a-f]+)", open(files[1]).read())}
        first = {}
        for p in seen:
            if p.comment and not is_answer(p):
                first.setdefault(int(p.comment.split()[2].rstrip(","), 16), p.psn)
        # A client that came too early has said something as well.
        assert set(first.items()) <= said and len(first) == 2, f"{first} {said}"
    elif what == "again":
        ours, other = repeats(seen), repeats(read(files[1]))
        assert ours == other and sum(map(len, ours)) > 4, f"{ours} {other}"
    elif what == "scapy":
        import logging
        logging.getLogger("scapy").setLevel(logging.ERROR)
        from scapy.contrib.roce import BTH
        from scapy.layers.inet import IP

        def by_scapy(data):
            packet = IP(data)
            packet[BTH].icrc = None
            return bytes(packet)[-4:]

        # It takes two milliseconds for a packet; `whole` has computed them all.
        for p in seen[::len(seen) // 400 + 1]:
            assert by_scapy(p.bytes) == p.bytes[-4:], f"scapy: {name(p)}"
        broken = bytearray(seen[-1].bytes)
        broken[33] ^= 1
        assert by_scapy(bytes(broken)) != seen[-1].bytes[-4:], "scapy computes it"


if __name__ == "__main__":
    try:
        main()
    except AssertionError as why:
        sys.exit(f"capture.py {' '.join(sys.argv[1:])}: {why}")
