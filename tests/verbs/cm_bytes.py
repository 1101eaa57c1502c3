# SPDX-License-Identifier: MIT OR Apache-2.0
"""Writes commands of any bytes into the device of connection management: each gives an errno or succeeds, and the process lives."""
import ctypes
import os
import random
import struct
import sys

random.seed(int(sys.argv[1]))
fds=[os.open("/dev/infiniband/rdma_cm", os.O_RDWR|os.O_NONBLOCK) for _ in range(3)]
buf=ctypes.create_string_buffer(4096); addr=ctypes.addressof(buf)
errs={}
sizes={0:24,1:16,2:40,3:64,4:8,5:16,6:288,7:8,8:296,9:264,10:4,11:16,12:8,13:16,14:24,15:8,16:48,17:16,18:16,19:16,20:136,21:272,22:152}
for i in range(int(sys.argv[2])):
    cmd=random.randrange(25); n=sizes.get(cmd,random.randrange(300))
    body=bytearray(random.randbytes(n)) if random.random()<.3 else bytearray(n)
    for off in (0,8):
        if n>=off+8 and random.random()<.7: body[off:off+8]=struct.pack("Q", random.choice([addr,addr,0,1,2,2**47]))
    for off in range(0,n-3,4):
        if random.random()<.15: body[off:off+4]=struct.pack("I",random.choice([1,2,3,4,fds[0],fds[1],0x0106,0x0111,0x10002]))
    if cmd in(2,3) and n>=36:
        for off in ((8,) if cmd==2 else (0,28)):
            if random.random()<.8: body[off:off+8]=struct.pack("<HHBBBB",2,random.randrange(0,5)*256,127,0,0,1)
        if cmd==2: body[36:40]=struct.pack("I",random.randrange(1,40))
        else: body[56:60]=struct.pack("I",random.randrange(1,40))
    if cmd==0 and n>=24: body[16:20]=struct.pack("<HBB",random.choice([0x106,0x111,0x13f]),2,0)
    if cmd in(4,7) : body[0:4]=struct.pack("I",random.randrange(1,40))
    hdr=struct.pack("IHH",cmd if random.random()<.97 else random.getrandbits(32), n if random.random()<.95 else random.getrandbits(16), random.choice([0,4,144,208,336,400,65535]))
    try: os.write(random.choice(fds), hdr+bytes(body)); k="ok"
    except OSError as e: k=e.errno
    errs[k]=errs.get(k,0)+1
for f in fds: os.close(f)
print("done", errs)
