#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Images of containers without a daemon: folders as layers, layers as an OCI archive.

  image.py layer ROOT OUT.tar [LOWER]   the files of ROOT that are not the same in LOWER
  image.py pack OUT.tar LAYER ..        an image of these layers, with bellwire's settings
  image.py unpack IMAGE.tar ROOT        the files of an image, each sum checked

The same files give the same bytes: entries are in the order of their names, without owners' names,
and none is newer than SOURCE_DATE_EPOCH.
"""
import gzip
import hashlib
import io
import json
import os
import platform
import stat
import sys
import tarfile
from datetime import datetime, timezone

EPOCH = int(os.environ.get("SOURCE_DATE_EPOCH", "0"))
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
SETTINGS = {
    "Env": ["PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"],
    "Cmd": ["bellwire", "info"],
    "Labels": {
        "org.opencontainers.image.title": "bellwire",
        "org.opencontainers.image.description": "User-level networking: RDMA and MPI programs without RDMA hardware",
        "org.opencontainers.image.licenses": "MIT OR Apache-2.0",
    },
}


def paths(root):
    """All below a folder, parents before children."""
    found = []
    for folder, folders, files in os.walk(root):
        for name in folders + files:
            found.append(os.path.relpath(os.path.join(folder, name), root))
    return sorted(found)


def same(a, b):
    """Whether two files are, whatever their times."""
    try:
        x, y = os.lstat(a), os.lstat(b)
    except FileNotFoundError:
        return False
    if (x.st_mode, x.st_uid, x.st_gid) != (y.st_mode, y.st_uid, y.st_gid):
        return False
    if stat.S_ISLNK(x.st_mode):
        return os.readlink(a) == os.readlink(b)
    if not stat.S_ISREG(x.st_mode):
        return True
    if x.st_size != y.st_size:
        return False
    with open(a, "rb") as one, open(b, "rb") as other:
        return one.read() == other.read()


def layer(root, out, lower=None):
    with tarfile.open(out, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in paths(root):
            place = os.path.join(root, path)
            if lower and same(place, os.path.join(lower, path)):
                continue
            entry = tar.gettarinfo(place, path)
            if entry is None:
                continue
            entry.uname = entry.gname = ""
            entry.mtime = min(int(entry.mtime), EPOCH)
            entry.pax_headers = {}
            if entry.isreg():
                with open(place, "rb") as file:
                    tar.addfile(entry, file)
            else:
                tar.addfile(entry)


def sum_of(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


def pack(out, layers):
    blobs, descriptors, sums = {}, [], []

    def add(data, kind):
        blobs[sum_of(data)] = data
        return {"mediaType": kind, "digest": sum_of(data), "size": len(data)}

    for name in layers:
        with open(name, "rb") as file:
            data = file.read()
        sums.append(sum_of(data))
        descriptors.append(add(gzip.compress(data, 6, mtime=0), LAYER))
    created = datetime.fromtimestamp(EPOCH, timezone.utc).isoformat()
    machine = MACHINES.get(platform.machine(), platform.machine())
    config = {
        "created": created,
        "architecture": machine,
        "os": "linux",
        "config": SETTINGS,
        "rootfs": {"type": "layers", "diff_ids": sums},
        "history": [{"created": created, "created_by": os.path.basename(name)} for name in layers],
    }
    dump = lambda value: json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
    manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": add(dump(config), CONFIG), "layers": descriptors}
    entry = add(dump(manifest), MANIFEST)
    entry["annotations"] = {"org.opencontainers.image.ref.name": "latest"}
    files = {"oci-layout": dump({"imageLayoutVersion": "1.0.0"}), "index.json": dump({"schemaVersion": 2, "manifests": [entry]})}
    files.update({"blobs/" + name.replace(":", "/"): data for name, data in blobs.items()})
    with tarfile.open(out, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size, info.mtime, info.mode = len(files[name]), EPOCH, 0o644
            tar.addfile(info, io.BytesIO(files[name]))
    print(entry["digest"], sum(len(data) for data in files.values()), out)


def unpack(image, root):
    with tarfile.open(image) as tar:

        def read(name):
            return tar.extractfile(name).read()

        def blob(descriptor):
            data = read("blobs/" + descriptor["digest"].replace(":", "/"))
            if sum_of(data) != descriptor["digest"] or len(data) != descriptor["size"]:
                raise SystemExit(f"image.py: {descriptor['digest']} is not what its name says")
            return data

        manifest = json.loads(blob(json.loads(read("index.json"))["manifests"][0]))
        config = json.loads(blob(manifest["config"]))
        for descriptor, wanted in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
            data = gzip.decompress(blob(descriptor))
            if sum_of(data) != wanted:
                raise SystemExit(f"image.py: the layer {wanted} is not what its name says")
            with tarfile.open(fileobj=io.BytesIO(data)) as files:
                files.extractall(root, filter="fully_trusted")
    print(" ".join(config["config"]["Cmd"]))


def main(arguments):
    match arguments:
        case ["layer", root, out, *lower] if len(lower) < 2:
            layer(root, out, *lower)
        case ["pack", out, *layers] if layers:
            pack(out, layers)
        case ["unpack", image, root]:
            unpack(image, root)
        case _:
            print(__doc__, file=sys.stderr)
            return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
