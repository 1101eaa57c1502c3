// SPDX-License-Identifier: MIT OR Apache-2.0
//! An AF_XDP socket of one queue of an interface: frames of memory that the kernel and this process
//! pass to each other by four rings.
//!
//! ```text
//!  receiving   fill: free frames -> kernel         rx: frames with packets -> us
//!  sending     tx: frames with packets -> kernel   completion: frames that have left -> us
//! ```
//!
//! The kernel copies each packet ("copy mode"), which every interface can do.
//!
//! Invariants
//! - X1: the area and the rings are mapped as long as the socket's value lives.
//! - X2: a frame is the kernel's from when it is put into `fill` or `tx` until it comes back by
//!   `rx` or `completion`; else it is ours, and nobody else reads or writes it.
//! - X3: each ring has one producer and one consumer, one of which is the kernel and the other the
//!   owner of this value.

use bellwire_memory::atomic::{AtomicU32, Ordering};
use core::ptr::NonNull;
use rustix::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use rustix::net::SendFlags;
use std::io;

/// Bytes of a frame.
pub(super) const FRAME: usize = 2048;
/// Frames for packets that arrive, and entries of their rings.
const RX: u32 = 1024;
/// The same for those that leave.
const TX: u32 = 512;

/// Options of a socket, at `SOL_XDP`.
const SOL_XDP: i32 = 283;
const MMAP_OFFSETS: i32 = 1;
const RX_RING: i32 = 2;
const TX_RING: i32 = 3;
const UMEM_REG: i32 = 4;
const UMEM_FILL_RING: i32 = 5;
const UMEM_COMPLETION_RING: i32 = 6;
/// Where the rings are mapped.
const AT_RX: u64 = 0;
const AT_TX: u64 = 0x8000_0000;
const AT_FILL: u64 = 0x1_0000_0000;
const AT_COMPLETION: u64 = 0x1_8000_0000;
/// Packets are copied.
const BIND_COPY: u16 = 1 << 1;

/// Memory that is unmapped at the end.
#[derive(Debug)]
struct Mapping {
    start: NonNull<u8>,
    bytes: usize,
}

impl Mapping {
    fn of(start: *mut core::ffi::c_void, bytes: usize) -> io::Result<Self> {
        Ok(Self { start: NonNull::new(start.cast()).ok_or(Errno::INVAL)?, bytes })
    }

    fn area(bytes: usize) -> io::Result<Self> {
        // SAFETY: a new mapping, wherever the kernel puts it.
        Self::of(unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE) }?, bytes)
    }

    fn ring(socket: BorrowedFd<'_>, at: u64, bytes: usize) -> io::Result<Self> {
        let flags = MapFlags::SHARED | MapFlags::POPULATE;
        // SAFETY: a new mapping, wherever the kernel puts it.
        Self::of(unsafe { mmap(core::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags, socket, at) }?, bytes)
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping, which nothing refers to any more (X1).
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.bytes) };
    }
}

/// A ring of entries `E`: numbers of places in the area, or those with lengths.
#[derive(Debug)]
struct Ring<E> {
    mapping: Mapping,
    producer: usize,
    consumer: usize,
    entries: usize,
    count: u32,
    /// Our end's place, as it is in the ring, and the other end's, as last seen.
    ours: u32,
    theirs: u32,
    of: core::marker::PhantomData<E>,
}

// SAFETY: X3: whoever has the value has our end of the ring.
unsafe impl<E> Send for Ring<E> {}

impl<E: Copy> Ring<E> {
    fn open(socket: BorrowedFd<'_>, at: u64, offsets: &libc::xdp_ring_offset, count: u32) -> io::Result<Self> {
        let (producer, consumer, entries) = (offsets.producer as usize, offsets.consumer as usize, offsets.desc as usize);
        let bytes = entries + count as usize * size_of::<E>();
        let aligned = producer.is_multiple_of(4) && consumer.is_multiple_of(4) && entries.is_multiple_of(align_of::<E>());
        if !aligned || producer + 4 > bytes || consumer + 4 > bytes {
            return Err(Errno::INVAL.into());
        }
        Ok(Self { mapping: Mapping::ring(socket, at, bytes)?, producer, consumer, entries, count, ours: 0, theirs: 0, of: core::marker::PhantomData })
    }

    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: X1; it lies within the mapping and is aligned, as `open` has checked; the kernel
        // changes it atomically.
        unsafe { AtomicU32::from_ptr(self.mapping.start.as_ptr().add(at).cast()) }
    }

    fn entry(&self, number: u32) -> *mut E {
        let at = self.entries + (number & (self.count - 1)) as usize * size_of::<E>();
        // SAFETY: X1; it lies within the mapping, as `open` has made it.
        unsafe { self.mapping.start.as_ptr().add(at).cast() }
    }

    /// As producer: whether so many entries have room.
    fn has_room(&mut self, entries: u32) -> bool {
        let has_room = |ring: &Self| ring.count.saturating_sub(ring.ours.wrapping_sub(ring.theirs)) >= entries;
        if !has_room(self) {
            self.theirs = self.taken();
        }
        has_room(self)
    }

    /// As producer: how far the kernel is.
    fn taken(&self) -> u32 {
        // Acquire: pairs with the kernel's release when it has taken an entry.
        self.word(self.consumer).load(Ordering::Acquire)
    }

    /// As producer, with room: one more entry, which the kernel sees after
    /// [`publish`](Self::publish).
    fn put(&mut self, entry: E) {
        // SAFETY: X1, X3: the kernel does not read it before it is published.
        unsafe { self.entry(self.ours).write(entry) };
        self.ours = self.ours.wrapping_add(1);
    }

    fn publish(&self) {
        // Release: pairs with the kernel's acquire; entries and frames before it are seen.
        self.word(self.producer).store(self.ours, Ordering::Release);
    }

    /// As consumer: whether there is an entry.
    #[inline]
    fn has_come(&mut self) -> bool {
        if self.ours == self.theirs {
            // Acquire: pairs with the kernel's release when it has put an entry.
            self.theirs = self.word(self.producer).load(Ordering::Acquire);
        }
        self.ours != self.theirs
    }

    /// As consumer: the next entry, which goes back with [`give_back`](Self::give_back).
    fn take(&mut self) -> Option<E> {
        if !self.has_come() {
            return None;
        }
        // SAFETY: X1, X3: the kernel has written it, and does not write it before it goes back.
        let entry = unsafe { self.entry(self.ours).read() };
        self.ours = self.ours.wrapping_add(1);
        Some(entry)
    }

    fn give_back(&self) {
        // Release: pairs with the kernel's acquire before it writes the entry again.
        self.word(self.consumer).store(self.ours, Ordering::Release);
    }
}

/// The socket of a queue.
#[derive(Debug)]
pub(super) struct Xsk {
    socket: OwnedFd,
    area: Mapping,
    fill: Ring<u64>,
    rx: Ring<libc::xdp_desc>,
    tx: Ring<libc::xdp_desc>,
    completion: Ring<u64>,
    /// Frames for packets that leave, which are ours (X2).
    free: Vec<u64>,
    /// Packets that the kernel was not told of.
    unsent: bool,
}

// SAFETY: X2, X3: whoever has the value has our frames and our ends of the rings.
unsafe impl Send for Xsk {}

fn set_option<T>(socket: BorrowedFd<'_>, option: i32, value: &T) -> io::Result<()> {
    // SAFETY: `value` lives, and has as many bytes as said.
    let result = unsafe { libc::setsockopt(socket.as_raw_fd(), SOL_XDP, option, core::ptr::from_ref(value).cast(), size_of::<T>() as u32) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn offsets(socket: BorrowedFd<'_>) -> io::Result<libc::xdp_mmap_offsets> {
    // SAFETY: all zeros are numbers.
    let mut offsets: libc::xdp_mmap_offsets = unsafe { core::mem::zeroed() };
    let mut length = size_of_val(&offsets) as u32;
    // SAFETY: `offsets` has `length` bytes for the answer.
    let result = unsafe { libc::getsockopt(socket.as_raw_fd(), SOL_XDP, MMAP_OFFSETS, (&raw mut offsets).cast(), &raw mut length) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(offsets) }
}

fn socket() -> io::Result<OwnedFd> {
    // SAFETY: makes a descriptor.
    let socket = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if socket < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, for nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(socket) })
}

/// Whether this process may have such sockets.
pub(super) fn possible() -> io::Result<()> {
    socket().map(drop)
}

impl Xsk {
    /// A socket for a queue of an interface, which no other process may have at the same time.
    pub fn open(interface: u32, queue: u32) -> io::Result<Self> {
        let socket = socket()?;
        let fd = socket.as_fd();
        let area = Mapping::area((RX + TX) as usize * FRAME)?;
        let umem = libc::xdp_umem_reg {
            addr: area.start.as_ptr().expose_provenance() as u64,
            len: area.bytes as u64,
            chunk_size: FRAME as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        set_option(fd, UMEM_REG, &umem)?;
        for (option, count) in [(UMEM_FILL_RING, RX), (UMEM_COMPLETION_RING, TX), (RX_RING, RX), (TX_RING, TX)] {
            set_option(fd, option, &count)?;
        }
        let at = offsets(fd)?;
        let mut fill = Ring::open(fd, AT_FILL, &at.fr, RX)?;
        let rx = Ring::open(fd, AT_RX, &at.rx, RX)?;
        let tx = Ring::open(fd, AT_TX, &at.tx, TX)?;
        let completion = Ring::open(fd, AT_COMPLETION, &at.cr, TX)?;
        (0..RX).for_each(|frame| fill.put(u64::from(frame) * FRAME as u64));
        fill.publish();
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: BIND_COPY,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        // SAFETY: an address of that kind, with its length.
        if unsafe { libc::bind(fd.as_raw_fd(), (&raw const address).cast(), size_of_val(&address) as u32) } < 0 {
            return Err(io::Error::last_os_error());
        }
        let free = (RX..RX + TX).map(|frame| u64::from(frame) * FRAME as u64).collect();
        Ok(Self { socket, area, fill, rx, tx, completion, free, unsent: false })
    }

    /// Readable when packets have arrived.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Whether packets have arrived.
    #[inline]
    pub fn has_come(&mut self) -> bool {
        self.rx.has_come()
    }

    /// Has `read` see the next packet, if there is one.
    pub fn receive<R>(&mut self, read: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let entry = self.rx.take()?;
        let (start, length) = (entry.addr as usize, entry.len as usize);
        let result = if start.checked_add(length).is_some_and(|end| end <= self.area.bytes) {
            // SAFETY: X1, X2: it is ours until it is put into `fill`, below.
            read(unsafe { core::slice::from_raw_parts(self.area.start.as_ptr().add(start), length) })
        } else {
            read(&[])
        };
        self.rx.give_back();
        // As many as frames are there: there is room.
        if self.fill.has_room(1) {
            self.fill.put((start / FRAME * FRAME) as u64);
            self.fill.publish();
        }
        Some(result)
    }

    /// Whether so many packets can leave now.
    pub fn has_room(&mut self, packets: usize) -> bool {
        if self.free.len() < packets {
            while let Some(frame) = self.completion.take() {
                self.free.push(frame);
            }
            self.completion.give_back();
        }
        self.free.len() >= packets && self.tx.has_room(packets as u32)
    }

    /// One packet, if there [`is room`](Self::has_room), which `write` writes; it leaves with
    /// [`kick`](Self::kick). Whether `write` did.
    pub fn send(&mut self, write: impl FnOnce(&mut [u8]) -> Option<usize>) -> bool {
        let Some(frame) = self.free.pop() else { return false };
        let start = frame as usize / FRAME * FRAME;
        if start + FRAME > self.area.bytes {
            return false;
        }
        // SAFETY: X1, X2: it is ours until it is put into `tx`, below.
        let bytes = unsafe { core::slice::from_raw_parts_mut(self.area.start.as_ptr().add(start), FRAME) };
        let Some(length) = write(bytes) else {
            self.free.push(frame);
            return false;
        };
        self.tx.put(libc::xdp_desc { addr: start as u64, len: length as u32, options: 0 });
        self.unsent = true;
        true
    }

    /// Has the kernel send what is to leave. It takes some packets at a call.
    pub fn kick(&mut self) {
        if !core::mem::take(&mut self.unsent) {
            return;
        }
        self.tx.publish();
        for _ in 0..=TX / 16 {
            let sent = rustix::net::send(&self.socket, &[], SendFlags::DONTWAIT);
            if self.tx.taken() == self.tx.ours {
                break;
            }
            // The device has no room: the packets stay in the ring, and leave with the next call.
            if sent.is_err_and(|e| e != Errno::AGAIN) {
                self.unsent = true;
                break;
            }
        }
    }
}
