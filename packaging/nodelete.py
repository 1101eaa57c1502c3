#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Marks shared libraries so that dlclose leaves them where they are (DF_1_NODELETE, `-z nodelete`).

    packaging/nodelete.py LIBRARY ..

Zig links no crtbeginS.o, by which dlclose has the functions ended that a library has given to
atexit: at the program's end they would be called where nothing is any more.
"""

import struct
import sys

PT_DYNAMIC, DT_FLAGS_1, NODELETE = 2, 0x6FFFFFFB, 8


def mark(path):
    with open(path, "r+b") as file:
        data = file.read()
        if data[:6] != b"\x7fELF\x02\x01":
            sys.exit(f"nodelete: {path} is no ELF file of 64 bits, little-endian")
        headers, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
        for at in range(headers, headers + size * count, size):
            kind, _, offset, _, _, length = struct.unpack_from("<IIQQQQ", data, at)
            if kind != PT_DYNAMIC:
                continue
            for entry in range(offset, offset + length, 16):
                tag, value = struct.unpack_from("<QQ", data, entry)
                if tag == DT_FLAGS_1:
                    file.seek(entry + 8)
                    file.write(struct.pack("<Q", value | NODELETE))
                    return
    sys.exit(f"nodelete: {path} has no DT_FLAGS_1")


for library in sys.argv[1:]:
    mark(library)
