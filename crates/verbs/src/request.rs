// SPDX-License-Identifier: MIT OR Apache-2.0
//! A request as it is posted: checked, what is inline copied; and the heads of its packets.

use crate::fates::Judged;
use crate::header::{AGAIN, Head, IMMEDIATE, INVALIDATE, Kind, LAST, PART, SOLICITED, UNREADY};
use crate::qp::{DATAGRAM_MAX, Data, Extra, MESSAGE_MAX, Qp, Send, SendRequest};
use crate::queue::Pieces;
use crate::types::{Error, Opcode, QpKind, QpState, SendFlags};
use bellwire_memory::bytes;

impl Qp {
    /// Checks a request, and copies what is inline.
    ///
    /// # Safety
    /// R2.
    #[inline]
    pub(crate) unsafe fn accept(&self, r: &SendRequest<'_>) -> Result<Send, Error> {
        let caps = &self.init.caps;
        if matches!(self.state, QpState::Reset | QpState::Init | QpState::Rtr) {
            return Err(Error::Invalid);
        }
        if self.sends.len() >= caps.sends as usize {
            return Err(Error::NoMemory);
        }
        let pieces = Pieces::of(r.pieces);
        let length = pieces.len();
        let service_does = match self.init.kind {
            QpKind::Rc => true,
            QpKind::XrcSend => !r.opcode.is_local() && matches!(r.extra, Extra::Srq(_)),
            QpKind::XrcReceive => false,
            QpKind::Uc => !r.opcode.fetches() && r.opcode != Opcode::SendInvalidate,
            QpKind::Ud => matches!(r.opcode, Opcode::Send | Opcode::SendImm) && r.to.is_some() && length <= DATAGRAM_MAX,
        };
        if !service_does
            || r.pieces.len() > caps.send_pieces as usize
            || length > MESSAGE_MAX
            || (r.opcode.is_atomic() && length != 8)
            || (r.opcode == Opcode::Bind) != matches!(r.extra, Extra::Bind(_))
        {
            return Err(Error::Invalid);
        }
        let is_inline = r.flags.contains(SendFlags::INLINE) && !r.opcode.fetches();
        if is_inline && length > u64::from(caps.inline) {
            return Err(Error::Invalid);
        }
        // SAFETY: R2, the caller's promise.
        let data = if is_inline { unsafe { inline(r.pieces, length as usize) } } else { Data::Pieces(pieces) };
        Ok(Send {
            wr_id: r.wr_id,
            opcode: r.opcode,
            flags: r.flags,
            immediate: r.immediate,
            length: length as u32,
            address: r.address,
            key: r.key,
            operands: r.operands,
            extra: r.extra,
            data,
            to: r.to,
            fetched: 0,
            done: false,
            judged: Judged::default(),
        })
    }

    /// The kind of a request's packets.
    #[inline]
    pub(crate) fn kind_of(&self, send: &Send) -> Kind {
        match send.opcode {
            _ if self.init.kind == QpKind::Ud => Kind::Datagram,
            // Local requests have no packets: they are carried out before one is made.
            Opcode::Send | Opcode::SendImm | Opcode::SendInvalidate | Opcode::LocalInvalidate | Opcode::Bind => Kind::Send,
            Opcode::Write | Opcode::WriteImm => Kind::Write,
            Opcode::Read => Kind::Read,
            Opcode::CompareSwap | Opcode::FetchAdd => Kind::Atomic,
        }
    }

    /// The head of the packet with `n` bytes from `part` on.
    #[inline]
    pub(crate) fn head(&self, kind: Kind, send: &Send, part: u32, n: u32) -> Head {
        let to = send.to.filter(|_| kind == Kind::Datagram).map_or(self.attributes.peer, |to| to.qp);
        let mut head = Head::new(kind, to, self.number);
        head.number = match send.to {
            // A key with the highest bit set stands for the sender's own.
            Some(to) if kind == Kind::Datagram => {
                if to.qkey >> 31 != 0 {
                    self.attributes.qkey
                } else {
                    to.qkey
                }
            }
            _ => self.first.wrapping_add(self.left as u32),
        };
        // With the end of a long message, not its beginning: a peer that hears it may look no
        // further here, but at its memory.
        head.answered = if n == send.length - part || send.opcode.fetches() { self.expected } else { self.told };
        if let Extra::Srq(srq) = send.extra {
            head.answered = srq;
        }
        (head.life, head.echo) = (self.life, self.peer_life);
        head.immediate = send.immediate;
        if send.opcode.has_immediate() {
            head.flags |= IMMEDIATE;
        }
        if send.flags.contains(SendFlags::SOLICITED) {
            head.flags |= SOLICITED;
        }
        if send.opcode == Opcode::SendInvalidate {
            head.flags |= INVALIDATE;
        }
        if send.judged.unready != 0 {
            head.flags |= UNREADY;
        }
        if self.again {
            head.flags |= AGAIN;
        }
        let length = if send.opcode.is_atomic() { u32::from(send.opcode == Opcode::CompareSwap) } else { send.length };
        head.words = [send.address, u64::from(send.key) | u64::from(length) << 32, send.operands[0], send.operands[1]];
        if n != send.length && !send.opcode.fetches() {
            head.flags |= PART | if part + n == send.length { LAST } else { 0 };
            (head.offset, head.total) = (part, send.length);
        }
        head
    }
}

/// A copy of what a request has inline.
///
/// # Safety
/// R2.
unsafe fn inline(pieces: &[crate::types::Sge], length: usize) -> Data {
    let copy = |to: &mut [u8]| {
        let mut at = 0;
        for p in pieces {
            let n = p.length as usize;
            // SAFETY: R2, the caller's promise; `to` has room for all pieces.
            unsafe { bytes::copy(to[at..at + n].as_mut_ptr(), core::ptr::with_exposed_provenance(p.address as usize), n) };
            at += n;
        }
    };
    if length <= 64 {
        let mut bytes = [0; 64];
        copy(&mut bytes);
        return Data::Inline(bytes, length as u8);
    }
    let mut bytes = vec![0; length].into_boxed_slice();
    copy(&mut bytes);
    Data::Owned(bytes)
}
