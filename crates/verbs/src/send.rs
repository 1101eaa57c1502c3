// SPDX-License-Identifier: MIT OR Apache-2.0
//! How requests leave: posted, sent packet by packet as there is room.

use crate::connection::ConnectionId;
use crate::core::Core;
use crate::direct::{Done, ShortAccess};
use crate::groups::{GROUP_QP, group_of};
use crate::name::Name;
use crate::qp::{Data, Extra, SendRequest, Usual};
use crate::reason::Reason;
use crate::short::ShortSend;
use crate::struck::Way;
use crate::types::{Access, Error, QpKind, QpState, SendFlags, WcStatus};
use bellwire_peer::Put;
use bellwire_via::Engine;
use bellwire_via::frame::INLINE_BYTES_MAX;
use bellwire_via::wire::Wire;

/// Packets of one queue pair before it is others' turn.
const TURN: u32 = 8;
/// The same of bytes that it reads and writes itself, which take nothing of the connection: more
/// than a queue of usual writes, so that one that had to wait once is empty again. A queue that is
/// always refilled before it is empty keeps each request waiting for a turn.
const DIRECT_TURN: u64 = 16 << 20;
/// How long a datagram waits for a connection to where it goes, ns: there may be nobody.
const DATAGRAM_PATIENCE: u64 = 2_000_000_000;

/// The outcome of an attempt to send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Packet,
    /// A long one, which may be queued in the engine.
    Queued,
    /// It has to wait for what is before it, or nothing is there.
    Held,
    /// There is no room now.
    Stuck,
}

impl Core {
    /// Posts a request.
    ///
    /// # Safety
    /// R2.
    pub(crate) unsafe fn post_send<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, request: &SendRequest<'_>) -> Result<(), Error> {
        // SAFETY: R2, the caller's promise.
        if ShortSend::of(request).is_some_and(|short| unsafe { self.send_short(engine, number, &short) }) {
            return Ok(());
        }
        // SAFETY: R2, the caller's promise.
        if ShortSend::led(request).is_some_and(|(short, lead)| unsafe { self.send_led(engine, number, &short, &lead) }) {
            return Ok(());
        }
        // SAFETY: R2, the caller's promise.
        if ShortAccess::of(request).is_some_and(|short| unsafe { self.access_shortly(engine, number, &short) }) {
            return Ok(());
        }
        // SAFETY: R2, the caller's promise.
        unsafe { self.post_any_send(engine, number, request) }
    }

    /// Posts a request, of whatever kind.
    ///
    /// # Safety
    /// R2.
    unsafe fn post_any_send<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, request: &SendRequest<'_>) -> Result<(), Error> {
        let qp = self.qp(number).ok_or(Error::Invalid)?;
        // SAFETY: R2, the caller's promise.
        let accepted = unsafe { qp.accept(request) };
        let state = qp.state;
        if self.strict.is_some() && accepted.as_ref().is_err_and(|e| *e == Error::NoMemory) {
            self.saw_full(number, request.wr_id);
        }
        let send = accepted?;
        self.posts = self.posts.wrapping_add(1);
        self.qp(number).ok_or(Error::Invalid)?.sends.push_back(send);
        if self.is_witnessed {
            self.witness_post(number);
        }
        match state {
            QpState::Rts => {
                self.pump(engine, number, false);
                self.keep_datagram(number);
            }
            QpState::Err | QpState::Sqe => self.flush_sends(number),
            _ => {}
        }
        Ok(())
    }

    /// A datagram that has not left as it was posted leaves later as it is now. A device reads it
    /// within microseconds, and programs count on that: UCX writes the next message into the memory
    /// of one whose completion it has not seen.
    #[inline]
    fn keep_datagram(&mut self, number: u32) {
        let Some(qp) = self.qps.get_mut(number as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return };
        if qp.init.kind != QpKind::Ud {
            return;
        }
        let domain = qp.init.domain;
        let Some(send) = qp.sends.back_mut().filter(|s| s.data.owned().is_none()) else { return };
        let mut bytes = vec![0; send.length as usize].into_boxed_slice();
        // Memory that may not be read fails in its turn.
        if self.regions.gather(send.data.pieces(), domain, 0, &mut bytes).is_ok() {
            send.data = Data::Owned(bytes);
        }
    }

    /// Sends what a queue pair has to send and what may leave; `is_turn`: it is its turn among
    /// others of the connection.
    #[inline]
    pub(crate) fn pump<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, is_turn: bool) {
        if self.send_packets(engine, number, is_turn) && !is_turn {
            // All by as few system calls as it takes.
            engine.send_queued();
        }
    }

    /// Sends what a queue pair may; whether something may be queued in the engine.
    fn send_packets<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, is_turn: bool) -> bool {
        let (mut packets, mut bytes, mut queued) = (0, 0, false);
        loop {
            let Some(qp) = self.qp(number) else { return queued };
            if qp.left >= qp.may_leave() || qp.pause != 0 || (qp.is_ready && !is_turn) {
                return queued;
            }
            match self.do_here(engine, number) {
                Done::Yes(_) => continue,
                Done::Soon => return queued,
                Done::No => {}
            }
            if self.struck.is_some() || self.is_closed {
                match self.strike(engine, number) {
                    Way::Free => {}
                    Way::Closed => return queued,
                    Way::Ended => continue,
                }
            }
            let Some(id) = self.route(engine, number) else {
                if self.send_to_group(engine, number) {
                    continue;
                }
                return queued;
            };
            let Some(connection) = self.connections.get(id) else { return queued };
            let must_wait = !connection.channel.is_open() || (!is_turn && !connection.is_free()) || packets == TURN || bytes >= DIRECT_TURN;
            let sent = if must_wait {
                Sent::Stuck
            } else {
                match self.do_directly(engine, number, id) {
                    Done::Yes(length) => {
                        bytes += length;
                        continue;
                    }
                    Done::Soon => Sent::Held,
                    Done::No => self.send_packet(engine, number, id),
                }
            };
            match sent {
                Sent::Packet => packets += 1,
                Sent::Queued => (packets, queued) = (packets + 1, true),
                Sent::Held => return queued,
                Sent::Stuck => {
                    self.wait_for_room(number, id);
                    return queued;
                }
            }
        }
    }

    /// Does the next request if it is one that only changes keys of this side: when all before it
    /// are answered, so that none of them finds a key changed.
    #[inline]
    fn do_here<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) -> Done {
        let Some(qp) = self.qp(number) else { return Done::No };
        let Some(send) = qp.sends.get(qp.left).filter(|s| s.opcode.is_local()) else { return Done::No };
        if qp.left != 0 {
            return Done::Soon;
        }
        let (extra, key) = (send.extra, send.immediate);
        let outcome = match extra {
            Extra::Bind(bind) => self.bind(number, &bind),
            _ if self.invalidate(number, key) => Ok(()),
            _ => Err(WcStatus::LocalQpOperation),
        };
        match outcome {
            Ok(()) => {
                if let Some(qp) = self.qp(number) {
                    qp.left = 1;
                }
                self.end_first(number, WcStatus::Success);
                if let Some(qp) = self.qp(number) {
                    // The peer does not count it.
                    qp.first = qp.first.wrapping_sub(1);
                }
                Done::Yes(0)
            }
            Err(status) => {
                self.fail_send(engine, number, 0, status);
                Done::Soon
            }
        }
    }

    /// Has a queue pair go on when its connection can take more.
    fn wait_for_room(&mut self, number: u32, id: ConnectionId) {
        let Some(qp) = self.qp(number) else { return };
        if core::mem::replace(&mut qp.is_ready, true) {
            return;
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.ready.push_back(number);
        }
        self.mark_unsent(id);
    }

    /// The connection for the next request; `None`: there is none, and the request has been
    /// seen to, or it goes to a group.
    fn route<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) -> Option<ConnectionId> {
        let gid = self.name.gid;
        let qp = self.qp(number)?;
        if let Some(id) = qp.connection {
            return Some(id);
        }
        let is_datagram = qp.init.kind == QpKind::Ud;
        let (peer, patience) = match qp.sends.get(qp.left)?.to {
            Some(to) if is_datagram && to.qp == GROUP_QP && group_of(&to).is_some() => return None,
            Some(to) if is_datagram => (Name::of(to.gid.unwrap_or(gid), to.qp), Some(DATAGRAM_PATIENCE)),
            _ => (qp.peer_name(&gid), qp.patience()),
        };
        match self.connection_to(engine, peer, patience) {
            Ok(id) => {
                if let Some(qp) = self.qp(number).filter(|_| !is_datagram) {
                    qp.connection = Some(id);
                }
                Some(id)
            }
            Err(_) if is_datagram => {
                self.drop_datagrams(engine, number, peer);
                None
            }
            Err(error) => {
                let reason = if error == Error::NoMemory { Reason::LocalLimit } else { Reason::NotReachable };
                self.fail_send_because(engine, number, 0, WcStatus::RetryExceeded, reason);
                None
            }
        }
    }

    /// Sends the next packet of a queue pair.
    #[inline]
    fn send_packet<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, id: ConnectionId) -> Sent {
        let Some(qp) = self.qps.get_mut(number as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return Sent::Held };
        qp.usual = Usual::NONE;
        let Some(connection) = self.connections.get_mut(id) else { return Sent::Held };
        let Some(send) = qp.sends.get(qp.left) else { return Sent::Held };
        let fetches = send.opcode.fetches();
        if qp.part == 0 && qp.fetching != 0 && (send.flags.contains(SendFlags::FENCE) || (fetches && qp.fetching >= u32::from(qp.attributes.reads_out.max(1))))
        {
            return Sent::Held;
        }
        let (domain, part) = (qp.init.domain, qp.part as usize);
        let kind = qp.kind_of(send);
        let n = if fetches { 0 } else { connection.part_bytes(engine, kind, send.length as usize - part) };
        let head = qp.head(kind, send, part as u32, n as u32);
        let mut spare = Vec::new();
        let body = match send.data.owned() {
            _ if n == 0 => Ok((core::ptr::null(), 0)),
            Some(bytes) => Ok((bytes[part..].as_ptr(), n)),
            None => match self.regions.contiguous(send.data.pieces(), domain, part, n, Access::empty()) {
                Ok(Some(at)) => Ok((at.cast_const(), n)),
                Ok(None) => {
                    spare.resize(n, 0);
                    self.regions.gather(send.data.pieces(), domain, part, &mut spare).map(|()| (spare.as_ptr(), n))
                }
                Err(denied) => Err(denied),
            },
        };
        let body = match body {
            Ok(body) if !fetches || self.regions.check(send.data.pieces(), domain, Access::LOCAL_WRITE).is_ok() => body,
            // In order: requests before it end first.
            _ if qp.left != 0 => return Sent::Held,
            _ => {
                self.fail_send(engine, number, 0, WcStatus::LocalProtection);
                return Sent::Held;
            }
        };
        // SAFETY: R1, just looked up; or a vector, or the request, which outlive the call.
        let put = unsafe { connection.put(engine, &head, body) };
        if !put.has_begun() {
            return Sent::Stuck;
        }
        qp.told = head.answered;
        qp.part += n as u32;
        if fetches || qp.part == send.length {
            (qp.left, qp.part) = (qp.left + 1, 0);
            qp.fetching += u32::from(fetches);
            if !qp.init.kind.is_reliable() {
                self.end_first(number, WcStatus::Success);
            }
        }
        if put == Put::Kept {
            self.mark_unsent(id);
        }
        if head.len() + n > INLINE_BYTES_MAX { Sent::Queued } else { Sent::Packet }
    }
}
