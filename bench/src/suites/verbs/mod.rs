// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verbs: devices and reliable queue pairs, as measurements use them.

pub mod measure;
pub mod stack;

use bellwire_verbs::{Access, Caps, Error as Refused, Port, QpAttributes, QpInit, QpKind, Region, Sge, connecting};
use bellwire_via::nic::NicConfig;
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::error::Error;

/// An error of the layer.
pub(crate) fn failed(error: impl core::fmt::Debug) -> Error {
    Error::failed(format!("verbs: {error:?}"))
}

/// A device as the environment says.
///
/// # Errors
/// If it cannot be opened.
pub(crate) fn open() -> Result<Port, Error> {
    let config = NicConfig::from_env().map_err(|error| Error::failed(format!("verbs: {error}")))?;
    Port::open(config, None).map_err(|error| Error::failed(format!("verbs: {error}")))
}

/// A device with a protection domain and a completion queue, on which all queue pairs complete.
pub(crate) struct Queues<'p> {
    pub port: &'p Port,
    pub domain: u32,
    pub cq: u32,
}

/// Bytes by which a queue pair is found: the GID of its device, and its number.
pub(crate) const NAME_BYTES: usize = 24;

impl<'p> Queues<'p> {
    /// With room for so many completions.
    pub fn new(port: &'p Port, entries: usize) -> Result<Self, Error> {
        let (domain, cq) = (port.create_domain().map_err(failed)?, port.create_cq(entries, None, 0).map_err(failed)?);
        Ok(Self { port, domain, cq })
    }

    /// Memory that peers may read, write and change by atomics.
    pub fn allocate(&self, bytes: usize) -> Result<Memory<'p>, Error> {
        // SAFETY: a fresh mapping at an address of the kernel's choice touches no existing memory.
        let base = unsafe { mmap_anonymous(core::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::POPULATE)? };
        let mut memory = Memory { port: self.port, base: base.cast(), length: bytes, key: 0 };
        let (address, length) = (base.expose_provenance() as u64, bytes as u64);
        let region = Region { domain: self.domain, address, length, iova: address, access: LOCAL | REMOTE, adopted: None };
        // SAFETY: R1: mapped until `memory` is dropped, which deregisters it first. Only pointers
        // reach it, no references.
        memory.key = unsafe { self.port.register(&region) }.map_err(failed)?;
        Ok(memory)
    }

    /// A reliable queue pair whose queues hold so many requests.
    pub fn create_qp(&self, sends: usize, receives: usize) -> Result<u32, Error> {
        let caps = Caps { sends: sends as u32, receives: receives as u32, send_pieces: 1, receive_pieces: 1, inline: 64 };
        let init = QpInit { kind: QpKind::Rc, domain: self.domain, send_cq: self.cq, receive_cq: self.cq, srq: None, caps, signal_all: false, cookie: 0 };
        self.port.create_qp(&init).map_err(failed)
    }

    /// The name of a queue pair.
    pub fn name(&self, qp: u32) -> [u8; NAME_BYTES] {
        let mut name = [0; NAME_BYTES];
        name[..16].copy_from_slice(&self.port.gid());
        name[16..20].copy_from_slice(&qp.to_ne_bytes());
        name
    }

    /// Connects a queue pair with the one of that name.
    pub fn connect(&self, qp: u32, name: &[u8]) -> Result<(), Error> {
        let gid = name[..16].try_into().map_err(failed)?;
        let peer = u32::from_ne_bytes(name[16..20].try_into().map_err(failed)?);
        let attributes = QpAttributes {
            access: REMOTE,
            gid: Some(gid),
            peer,
            timeout: 14,
            retries: 7,
            rnr_retries: 7,
            rnr_timer: 1,
            reads_out: READS,
            reads_in: READS,
            mtu: 5,
            port: 1,
            ..QpAttributes::default()
        };
        let moved: Result<Vec<()>, Refused> =
            connecting(QpKind::Rc).into_iter().map(|(to, given)| self.port.modify_qp(qp, Some(to), None, &attributes, given)).collect();
        moved.map(|_| ()).map_err(failed)
    }
}

/// Reads and atomics that may be under way on a queue pair.
pub(crate) const READS: u8 = 16;
const LOCAL: Access = Access::LOCAL_WRITE;
const REMOTE: Access = Access::REMOTE_WRITE.union(Access::REMOTE_READ).union(Access::REMOTE_ATOMIC);

/// Registered memory of the process, as a program has it.
pub(crate) struct Memory<'p> {
    port: &'p Port,
    base: *mut u8,
    length: usize,
    pub key: u32,
}

impl Memory<'_> {
    /// The address of `length` bytes.
    ///
    /// # Panics
    /// If they are not within the memory: a programming error of a measurement.
    #[inline]
    pub fn at(&self, at: usize, length: usize) -> *mut u8 {
        assert!(at <= self.length && length <= self.length - at, "{length} bytes at {at} of {}", self.length);
        self.base.wrapping_add(at)
    }

    /// The same as a piece of a request.
    #[inline]
    pub fn piece(&self, at: usize, length: usize) -> Sge {
        Sge { address: self.at(at, length).expose_provenance() as u64, length: length as u32, key: self.key }
    }
}

impl Drop for Memory<'_> {
    fn drop(&mut self) {
        if self.key != 0 {
            let _ = self.port.deregister(self.key);
        }
        // SAFETY: `allocate` mapped it; nothing is registered there, and nobody refers to it.
        let _ = unsafe { munmap(self.base.cast(), self.length) };
    }
}
