#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""An attacker on the wire between two hosts: hears every packet by AF_PACKET, looks for plaintext, and puts forged ones
on the wire. Sent by an interface, they reach the host at its other end.

  attacker.py INTERFACE SECONDS MARKER..

Prints "ready" when it hears the wire; packets heard, those with a marker in them, and packets forged, as one line of
JSON when its time is over.
"""
import json
import random
import signal
import socket
import struct
import sys
import time

ETH, IP, UDP = 14, 20, 8
OUTGOING = 4
AUTH = 0x80
# Attackers hear each other: without a limit they would leave nobody else a processor.
FORGED_PER_SECOND = 2000


def checksum(data):
    if len(data) % 2:
        data += b"\0"
    total = sum(struct.unpack("!%dH" % (len(data) // 2), data))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def ip_packet(source, target, protocol, content):
    head = struct.pack("!BBHHHBBH4s4s", 0x45, 0, IP + len(content), random.randrange(65536), 0, 64, protocol, 0, source, target)
    return head[:10] + struct.pack("!H", checksum(head)) + head[12:] + content


def udp_packet(ends, payload):
    source, sport, target, tport = ends
    # Without a checksum: then nothing finds what was changed but the receiver's own look.
    return ip_packet(source, target, 17, struct.pack("!HHHH", sport, tport, UDP + len(payload), 0) + payload)


def unreachable(ends, payload):
    """What a host says of a port that nobody has: `ends` are those of the packet that it answers."""
    source, sport, target, tport = ends
    quoted = udp_packet(ends, payload)[: IP + 8]
    icmp = struct.pack("!BBHI", 3, 3, 0, 0) + quoted
    icmp = icmp[:2] + struct.pack("!H", checksum(icmp)) + icmp[4:]
    return ip_packet(target, source, 1, icmp)


def bent(payload):
    """A packet as the attacker would like it: changed, cut, made up of what its header shows."""
    kind = random.randrange(9)
    if kind == 0 or len(payload) < 2:
        return payload
    session = payload[8:16].ljust(8, b"\0")
    word = payload[4:8].ljust(4, b"\0")
    if kind == 1:
        changed = bytearray(payload)
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
        return bytes(changed)
    if kind == 2:
        return payload[: random.randrange(len(payload))]
    if kind == 3:
        # As it would be without keys.
        return bytes([payload[0], payload[1] & ~AUTH]) + payload[2:]
    if kind == 4:
        return bytes([0x19, 0, 0, 0]) + word + session + session + bytes(8)  # CLOSE
    if kind == 5:
        return bytes([0x18, 0, 1, 0]) + word + bytes(8) + session  # RESET
    if kind == 6:
        return bytes([0x13, 0, 4, 0]) + word + session + bytes(8)  # NACK: no such stream
    if kind == 7:
        return bytes([0x12, 1, 0, 0]) + word + session + bytes(8)  # ACK
    return bytes([0x17, 0, 2 + random.randrange(4), 0]) + bytes(4) + session + payload[16:24].ljust(8, b"\0")  # REJECT


def main():
    interface, seconds, markers = sys.argv[1], float(sys.argv[2]), [m.encode() for m in sys.argv[3:]]
    wire = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(0x0003))
    wire.bind((interface, 0))
    wire.settimeout(0.05)
    heard = told = forged = 0
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
    print("ready", flush=True)
    begin = time.monotonic()
    end = begin + seconds
    while not stop and time.monotonic() < end:
        try:
            frame, where = wire.recvfrom(1 << 17)
        except (socket.timeout, OSError):
            continue
        if len(frame) < ETH + IP + UDP + 1 or frame[12:14] != b"\x08\x00" or frame[ETH + 9] != 17:
            continue
        heard += 1
        payload = frame[ETH + IP + UDP :]
        told += any(marker in payload for marker in markers)
        source, target = frame[ETH + 12 : ETH + 16], frame[ETH + 16 : ETH + 20]
        sport, tport = struct.unpack("!HH", frame[ETH + IP : ETH + IP + 4])
        if forged > FORGED_PER_SECOND * (time.monotonic() - begin + 1):
            continue
        # What leaves here, as if the host behind this interface had sent it; what came, back to its sender.
        outgoing = where[2] == OUTGOING
        ethernet = frame[:12] if outgoing else frame[6:12] + frame[0:6]
        ends = (source, sport, target, tport) if outgoing else (target, tport, source, sport)
        out = [udp_packet(ends, bent(payload[:1400])) for _ in range(2)]
        if not outgoing and random.randrange(4) == 0:
            out.append(unreachable((source, sport, target, tport), payload))
        for packet in out:
            try:
                wire.send(ethernet + b"\x08\x00" + packet)
                forged += 1
            except OSError:
                pass
    print(json.dumps({"heard": heard, "told": told, "forged": forged}))


main()
