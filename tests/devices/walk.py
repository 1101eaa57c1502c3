# SPDX-License-Identifier: MIT OR Apache-2.0
"""Looks at the device files as Python does; tests/devices/check.sh runs it."""
import ctypes
import glob
import os
import pathlib
import stat

CLASS = "/sys/class/infiniband"
device = CLASS + "/bellwire0"
assert os.listdir(CLASS) == ["bellwire0"], os.listdir(CLASS)
assert os.path.realpath(device).endswith("/infiniband/bellwire0")
assert os.path.islink(device) and os.path.isdir(device)
with open(device + "/node_guid") as file:
    guid = file.read().strip()
assert len(guid) == 19, guid
assert pathlib.Path(device, "ports/1/gid_attrs/types/0").read_text() == "RoCE v2\n"
# pyverbs finds the interface of a device so.
if os.path.exists("/dev/infiniband/rdma_cm"):
    interfaces = os.listdir(device + "/device/net/")
    assert len(interfaces) == 1 and os.path.exists("/sys/class/net/" + interfaces[0]), interfaces
assert glob.glob(CLASS + "/*/ports/*/state") == [device + "/ports/1/state"]
names = [entry.name for entry in os.scandir("/dev/infiniband") if not entry.is_dir()]
assert "uverbs0" in names, names
seen = set()
for folder, folders, files in os.walk(device + "/"):
    seen.update(os.path.join(folder, name) for name in files)
assert device + "/ports/1/pkeys/0" in seen and len(seen) > 15, seen
for path in seen:
    with open(path) as file:
        assert file.read().endswith("\n"), path
fd = os.open("/dev/infiniband/uverbs0", os.O_RDWR)
other = os.dup(fd)
os.close(fd)
assert stat.S_ISCHR(os.fstat(other).st_mode)
os.close(other)
for path in [CLASS + "/mlx5_0", "/dev/infiniband/uverbs7", device + "/ports/2"]:
    assert not os.path.exists(path), path
library = ctypes.CDLL("libibverbs.so.1")
count = ctypes.c_int()
library.ibv_get_device_list.restype = ctypes.c_void_p
assert library.ibv_get_device_list(ctypes.byref(count)) and count.value == 1
print("python: all well")
