// SPDX-License-Identifier: MIT OR Apache-2.0
//! The objects behind the public structures. The calls that make, use and end them are above.

use crate::abi::{IbvAh, IbvCompChannel, IbvContext, IbvCq, IbvMr, IbvPd, IbvQp, IbvSrq, IbvTd, IbvXrcd, VerbsContext};
use crate::devices::{Counted, Own};
use crate::mapped::{Mapped, Used};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_verbs::{Channel, Completion, Destination, Error, Extra, Gid, Opcode, Port, QpKind, Sge, Stamp, WcFlags, WcOpcode, WcStatus};
use core::mem::offset_of;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// An open device. The public structure ends the first field.
#[repr(C)]
pub(crate) struct Context {
    pub verbs: VerbsContext,
    pub port: Arc<Port>,
    pub own: &'static Own,
    pub shared: Arc<Shared>,
    /// `cmd_fd`: programs duplicate it to make another context of the same objects.
    pub _command: OwnedFd,
}

/// What a context has in common with those that are imported from it.
pub(crate) struct Shared {
    pub port: Arc<Port>,
    pub own: &'static Own,
    pub device_memory: Used,
}

/// The context that a public one is in.
///
/// # Safety
/// V1.
#[inline]
pub(crate) unsafe fn context<'a>(context: *mut IbvContext) -> &'a Context {
    // SAFETY: V1: it is the last field of the first field.
    unsafe { &*context.byte_sub(offset_of!(VerbsContext, context)).cast::<Context>() }
}

/// The object that a public one begins.
///
/// # Safety
/// V1: `O` begins with `P`, and `public` was made as one.
#[inline]
pub(crate) unsafe fn inside<'a, P, O>(public: *mut P) -> &'a O {
    // SAFETY: the caller's.
    unsafe { &*public.cast::<O>() }
}

/// A protection domain.
#[repr(C)]
pub(crate) struct Pd {
    pub public: IbvPd,
    pub port: Arc<Port>,
    pub own: &'static Own,
    pub id: u32,
    /// It is a parent domain, of the protection domain `id`.
    pub is_parent: bool,
    /// The thread domain of a parent domain.
    pub td: Option<HeldTd>,
    pub _counted: Counted,
}

/// A thread domain: the program promises to use what is made in it by one thread at a time. Every
/// call takes the device's lock, so nothing follows from that.
#[repr(C)]
pub(crate) struct Td {
    pub public: IbvTd,
    /// Parent domains that name it.
    pub users: AtomicU32,
}

/// A parent domain's hold on its thread domain.
pub(crate) struct HeldTd(*const Td);

impl HeldTd {
    pub(crate) fn new(td: &Td) -> Self {
        // Relaxed: a count.
        td.users.fetch_add(1, Ordering::Relaxed);
        Self(td)
    }
}

impl Drop for HeldTd {
    fn drop(&mut self) {
        // SAFETY: V1: a thread domain that is held is not ended. Relaxed: a count.
        unsafe { (*self.0).users.fetch_sub(1, Ordering::Relaxed) };
    }
}

/// An XRC domain.
#[repr(C)]
pub(crate) struct Xrcd {
    pub public: IbvXrcd,
    pub port: Arc<Port>,
    pub id: u32,
}

/// A memory region.
#[repr(C)]
pub(crate) struct Mr {
    pub public: IbvMr,
    pub port: Arc<Port>,
    /// Memory of the library's own that it is of.
    pub _backing: Option<Backing>,
    pub _counted: Counted,
}

impl Mr {
    pub(crate) fn new(public: IbvMr, port: Arc<Port>, backing: Option<Backing>, counted: Counted) -> Self {
        Self { public, port, _backing: backing, _counted: counted }
    }
}

/// The owner of a region's memory, if the program is not.
pub(crate) type Backing = Arc<Mapped>;

/// A shared receive queue.
#[repr(C)]
pub(crate) struct Srq {
    pub public: IbvSrq,
    pub port: Arc<Port>,
    pub own: &'static Own,
    pub id: u32,
    pub _counted: Counted,
}

/// An address handle.
#[repr(C)]
pub(crate) struct Ah {
    pub public: IbvAh,
    pub gid: Option<Gid>,
    pub _counted: Counted,
}

/// A completion channel.
#[repr(C)]
pub(crate) struct CompChannel {
    pub public: IbvCompChannel,
    pub port: Arc<Port>,
    pub events: Arc<Channel<u64>>,
    pub users: AtomicU32,
}

/// A completion queue, of the older interface or the newer one.
#[repr(C)]
pub(crate) struct Cq {
    pub public: IbvCq,
    pub port: Arc<Port>,
    pub id: u32,
    /// Events given to the program, and those that it has acknowledged.
    pub given: AtomicU32,
    pub seen: AtomicU32,
    /// What a poll by calls stands at.
    pub current: Option<Completion>,
    /// When that came, if entries of the queue have stamps.
    pub stamp: Stamp,
    pub is_stamped: bool,
    /// Flags of every message that is received. The kernel's software device says of messages of
    /// connections, too, that they have a GRH.
    pub received: WcFlags,
    pub _counted: Counted,
    pub most: u64,
}

impl Cq {
    /// The flags of a completion, with those that the device sets for whatever it receives.
    #[inline(always)]
    pub fn flags_of(&self, c: &Completion) -> u32 {
        let is_received = !self.received.is_empty() && matches!(c.opcode, WcOpcode::Receive | WcOpcode::ReceiveWrite) && c.status == WcStatus::Success;
        (if is_received { c.flags | self.received } else { c.flags }).bits()
    }
}

/// A queue pair.
#[repr(C)]
pub(crate) struct Qp {
    pub public: IbvQp,
    pub port: Arc<Port>,
    pub number: u32,
    pub batch: Batch,
    pub kind: QpKind,
    /// Its sends may have two pieces.
    pub joins: bool,
    pub own: &'static Own,
    /// `None`: it was opened, not made.
    pub _counted: Option<Counted>,
}

impl Qp {
    #[inline(always)]
    pub(crate) fn is_datagram(&self) -> bool {
        self.kind == QpKind::Ud
    }
}

/// A request that is being built.
pub(crate) struct Building {
    pub opcode: Opcode,
    pub wr_id: u64,
    pub flags: u32,
    pub immediate: u32,
    pub address: u64,
    pub key: u32,
    pub operands: [u64; 2],
    pub extra: Extra,
    pub pieces: Vec<Sge>,
    pub inline: Option<Vec<u8>>,
    pub to: Option<Destination>,
}

/// Requests that are being built.
#[derive(Default)]
pub(crate) struct Batch {
    pub requests: Vec<Building>,
    /// Why the batch cannot be posted.
    pub failed: Option<Error>,
}
