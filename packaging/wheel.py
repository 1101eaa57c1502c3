#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Packs an installation (`make install PREFIX=..`) and the Python module into a wheel.

    packaging/wheel.py PREFIX OUT [--platform manylinux_2_27_x86_64] [--strip PROGRAM]

The same files give the same bytes: entries are sorted, and their time is SOURCE_DATE_EPOCH (without
it, that of the last commit). A wheel cannot hold symbolic links: a library has the name that
programs are bound to (libvipl.so.1), and the name for `cc -l` is a linker script. Programs and
libraries are stripped. It needs nothing but Python 3.8 or later; the wheel needs cffi.
"""

import argparse
import base64
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
NATIVE = "bellwire/_native"


def version():
    return re.search(r'^version = "(.*)"$', (ROOT / "Cargo.toml").read_text(), re.M).group(1)


def metadata():
    package = (ROOT / "Cargo.toml").read_text()
    keywords = ",".join(re.findall(r'"(.*?)"', re.search(r"^keywords = \[(.*)\]", package, re.M).group(1)))
    summary = re.search(r'^description = "(.*)"$', package, re.M).group(1)
    return f"""Metadata-Version: 2.4
Name: bellwire
Version: {version()}
Summary: {summary}
Keywords: {keywords}
License-Expression: MIT OR Apache-2.0
License-File: LICENSE-MIT
License-File: LICENSE-APACHE
Classifier: Development Status :: 4 - Beta
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Programming Language :: Rust
Classifier: Topic :: System :: Distributed Computing
Classifier: Topic :: System :: Networking
Requires-Python: >=3.9
Requires-Dist: cffi>=1.15
Description-Content-Type: text/markdown

{(ROOT / "python/README.md").read_text()}"""


def is_elf(data):
    return data[:4] == b"\x7fELF"


def stripped(path, program):
    with tempfile.TemporaryDirectory() as folder:
        to = pathlib.Path(folder) / "stripped"
        subprocess.run([program, "--strip-unneeded", "-o", str(to), str(path)], check=True)
        return to.read_bytes()


def installed(prefix, strip):
    """The files of an installation: their names in the wheel, bytes, whether they can be run."""
    for path in sorted(prefix.rglob("*")):
        name = path.relative_to(prefix).as_posix()
        if path.is_dir() or name.endswith((".3", ".7", ".1")) and "/man" in name and path.read_bytes().startswith(b".so "):
            continue
        if name.startswith("lib/") and path.is_symlink():
            if re.fullmatch(r"lib/lib\w+\.so\.\d+", name):
                yield name, stripped(path.resolve(), strip), True
            elif re.fullmatch(r"lib/lib\w+\.so", name):
                yield name, f"/* GNU ld script */\nINPUT({os.path.basename(os.readlink(path))})\n".encode(), False
            continue
        if re.fullmatch(r"lib/lib\w+\.so\.\d+\..+", name):
            continue  # under the name that programs are bound to
        data = path.read_bytes()
        if name.startswith("lib/pkgconfig/"):
            data = re.sub(rb"^prefix=.*$", b"prefix=${pcfiledir}/../..", data, flags=re.M)
        elif is_elf(data):
            data = stripped(path, strip)
        yield name, data, is_elf(data)


def main():
    parser = argparse.ArgumentParser(description="Packs an installation and the Python module into a wheel.")
    parser.add_argument("prefix", type=pathlib.Path, help="where `make install` has put everything")
    parser.add_argument("out", type=pathlib.Path, help="the folder for the wheel")
    parser.add_argument("--platform", default="linux_" + os.uname().machine, help="the wheel's platform tag (default: %(default)s)")
    parser.add_argument("--strip", default="strip", help="the program that strips binaries (default: %(default)s)")
    arguments = parser.parse_args()
    prefix = arguments.prefix.resolve()
    if not (prefix / "bin/bellwire").is_file():
        sys.exit(f"wheel: {prefix}/bin/bellwire is not there: make install PREFIX={arguments.prefix}")

    epoch = os.environ.get("SOURCE_DATE_EPOCH") or subprocess.run(
        ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"], capture_output=True, text=True, check=False
    ).stdout.strip() or "1767225600"
    when = time.gmtime(max(int(epoch), 315532800))[:6]
    tag = f"py3-none-{arguments.platform}"
    information = f"bellwire-{version()}.dist-info"
    files = {}
    for path in sorted((ROOT / "python/bellwire").iterdir()):
        if path.is_file():
            files[f"bellwire/{path.name}"] = (path.read_bytes(), False)
    for name, data, runs in installed(prefix, arguments.strip):
        files[f"{NATIVE}/{name}"] = (data, runs)
    files[f"{information}/METADATA"] = (metadata().encode(), False)
    files[f"{information}/WHEEL"] = (f"Wheel-Version: 1.0\nGenerator: bellwire\nRoot-Is-Purelib: false\nTag: {tag}\n".encode(), False)
    files[f"{information}/entry_points.txt"] = (b"[console_scripts]\nbellwire = bellwire.__main__:main\n", False)
    for licence in ("LICENSE-MIT", "LICENSE-APACHE"):
        files[f"{information}/licenses/{licence}"] = ((ROOT / licence).read_bytes(), False)
    record = ""
    for name in sorted(files):
        digest = base64.urlsafe_b64encode(hashlib.sha256(files[name][0]).digest()).rstrip(b"=").decode()
        record += f"{name},sha256={digest},{len(files[name][0])}\n"
    record += f"{information}/RECORD,,\n"

    arguments.out.mkdir(parents=True, exist_ok=True)
    wheel = arguments.out / f"bellwire-{version()}-{tag}.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, (data, runs) in [*sorted(files.items()), (f"{information}/RECORD", (record.encode(), False))]:
            entry = zipfile.ZipInfo(name, when)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3
            entry.external_attr = (0o100755 if runs else 0o100644) << 16
            archive.writestr(entry, data, compresslevel=9)
    print(f"{wheel}: {wheel.stat().st_size / 1e6:.1f} MB, {len(files) + 1} files")


if __name__ == "__main__":
    main()
