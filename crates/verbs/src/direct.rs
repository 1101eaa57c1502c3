// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests on memory of a peer that is mapped here: this side does them at once. The owner says
//! once, for a queue pair and a key, where the memory lies (a grant, `grants.rs`); whether it may
//! still be reached, the engine's catalogue says at each access, so that nothing is touched after
//! a registration has ended, or the queue pair of the grant.
//!
//! Nothing overtakes: a request is done so only when all before it are answered.

use crate::connection::ConnectionId;
use crate::core::Core;
use crate::header::PACKET_BYTES;
use crate::memory::Regions;
use crate::name::QPS_MAX;
use crate::qp::{MESSAGE_MAX, SendRequest};
use crate::types::{Access, Completion, Opcode, SendFlags, Sge, WcStatus};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

/// A write of so many bytes, behind messages, waits for their answers. It is two packets, whose two
/// copies take longer.
const LONG_WRITE: u64 = 2 * PACKET_BYTES as u64;

/// The outcome of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// It is complete; so many bytes.
    Yes(u64),
    /// It can be when what is before it is answered.
    Soon,
    No,
}

/// A write or read of one piece, with nothing unusual to it.
#[derive(Clone, Copy, Debug)]
pub struct ShortAccess {
    /// The program's name for it.
    pub wr_id: u64,
    /// How.
    pub flags: SendFlags,
    /// Read; else write.
    pub reads: bool,
    /// The peer's memory.
    pub address: u64,
    /// Its key.
    pub key: u32,
    /// The program's memory.
    pub piece: Sge,
}

impl ShortAccess {
    #[inline(always)]
    pub(crate) fn of(r: &SendRequest<'_>) -> Option<Self> {
        match (r.pieces, r.opcode) {
            ([piece], Opcode::Write | Opcode::Read) => {
                Some(Self { wr_id: r.wr_id, flags: r.flags, reads: r.opcode == Opcode::Read, address: r.address, key: r.key, piece: *piece })
            }
            _ => None,
        }
    }
}

impl Core {
    /// Posts a write or read and does it in the peer's memory, if nothing is before it: without a
    /// place in the queue. `false`: nothing is done.
    ///
    /// # Safety
    /// R2.
    #[inline(always)]
    pub(crate) unsafe fn access_shortly<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, r: &ShortAccess) -> bool {
        if !self.goes_short_ways() {
            return false;
        }
        let Some(qp) = self.qps.get(number as usize & (QPS_MAX - 1)).and_then(Option::as_deref) else { return false };
        if qp.number != number || !qp.sends_shortly() || !qp.has_room() || !qp.sends.is_empty() || u64::from(r.piece.length) > MESSAGE_MAX {
            return false;
        }
        let length = u64::from(r.piece.length);
        let (access, local) = if r.reads { (Access::REMOTE_READ, Access::LOCAL_WRITE) } else { (Access::REMOTE_WRITE, Access::empty()) };
        let found = qp.grants.iter().find_map(|g| g.place(r.key, r.address, length, access).map(|at| (at, g.handle)));
        let Some(remote) = found.filter(|_| length != 0) else { return false };
        let own: *mut u8 = if r.flags.contains(SendFlags::INLINE) && !r.reads {
            if r.piece.length > qp.init.caps.inline {
                return false;
            }
            core::ptr::with_exposed_provenance_mut(r.piece.address as usize)
        } else {
            let Ok(own) = self.regions.find(r.piece.key, qp.init.domain, r.piece.address, length, local) else { return false };
            own
        };
        let Some(connection) = qp.connection.and_then(|id| self.connections.get(id)).filter(|c| c.is_free()) else { return false };
        let n = length as usize;
        let done = engine.with_remote_memory(connection.channel.vi(), remote, length, !r.reads, |remote| {
            // SAFETY: R1 for our memory, just looked up, or R2 if it is inline; the engine gives
            // the peer's for as many bytes.
            unsafe {
                if r.reads {
                    bellwire_memory::bytes::copy(own, remote, n);
                } else {
                    Regions::place(remote, own, n);
                }
            }
        });
        if !done {
            return false;
        }
        self.posts = self.posts.wrapping_add(1);
        if qp.init.signal_all || r.flags.contains(SendFlags::SIGNALED) {
            let opcode = if r.reads { Opcode::Read } else { Opcode::Write };
            let (cq, completion) = (qp.init.send_cq, Completion::of_send(r.wr_id, opcode, number, WcStatus::Success, r.piece.length));
            self.complete(cq, completion, false);
        }
        true
    }

    /// Does the next request of a queue pair in the peer's memory, if that can be.
    #[inline]
    pub(crate) fn do_directly<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, id: ConnectionId) -> Done {
        let Some(qp) = self.qps.get(number as usize & (QPS_MAX - 1)).and_then(Option::as_deref) else { return Done::No };
        let Some(send) = qp.sends.get(qp.left).filter(|_| !qp.grants.is_empty() && qp.part == 0) else { return Done::No };
        let (access, local) = match send.opcode {
            Opcode::Write => (Access::REMOTE_WRITE, Access::empty()),
            Opcode::Read => (Access::REMOTE_READ, Access::LOCAL_WRITE),
            Opcode::CompareSwap | Opcode::FetchAdd => (Access::REMOTE_ATOMIC, Access::LOCAL_WRITE),
            _ => return Done::No,
        };
        let length = u64::from(send.length);
        let Some((grant, address)) = qp.grants.iter().find_map(|g| g.place(send.key, send.address, length, access).map(|at| (g, at))) else { return Done::No };
        if length == 0 || (send.opcode.is_atomic() && !address.is_multiple_of(8)) {
            return Done::No;
        }
        if qp.left != 0 {
            // Messages may be answered late, so a short write behind them goes as a packet. A read
            // or an atomic would need the peer's turn as a packet too, and the answers come with
            // that turn. So it waits, and so does a long write: they are copied once.
            let soon = send.opcode.fetches() || length >= LONG_WRITE || qp.sends.iter().take(qp.left).all(|s| s.opcode == Opcode::Write || s.opcode.fetches());
            return if soon { Done::Soon } else { Done::No };
        }
        let Some(vi) = self.connections.get(id).filter(|c| c.channel.is_open()).map(|c| c.channel.vi()) else { return Done::No };
        let (domain, regions) = (qp.init.domain, &self.regions);
        let n = length as usize;
        // One piece, as nearly all have; others go as packets.
        let own = match send.data.owned() {
            Some(bytes) => bytes.as_ptr().cast_mut(),
            None => match regions.contiguous(send.data.pieces(), domain, 0, n, local) {
                Ok(Some(own)) => own,
                _ => return Done::No,
            },
        };
        let (opcode, operands) = (send.opcode, send.operands);
        let done = engine.with_remote_memory(vi, (address, grant.handle), length, opcode != Opcode::Read, |remote| {
            // SAFETY: R1 for our memory, just looked up; the engine gives the peer's for as many
            // bytes, aligned for atomics.
            unsafe {
                match opcode {
                    Opcode::Read => bellwire_memory::bytes::copy(own, remote, n),
                    Opcode::FetchAdd => Regions::keep(own, Regions::change(remote, operands[0], None)),
                    Opcode::CompareSwap => Regions::keep(own, Regions::change(remote, operands[0], Some(operands[1]))),
                    _ => Regions::place(remote, own, n),
                }
            }
        });
        if !done {
            return Done::No;
        }
        if let Some(qp) = self.qp(number) {
            qp.left = 1;
        }
        self.end_first(number, WcStatus::Success);
        if let Some(qp) = self.qp(number) {
            // The peer has not counted it.
            qp.first = qp.first.wrapping_sub(1);
        }
        Done::Yes(length)
    }
}
