// SPDX-License-Identifier: MIT OR Apache-2.0
//! How requests leave, and how they end: posted, sent packet by packet, answered or refused, completed in order.

use crate::connection::{ConnectionId, Put};
use crate::core::Core;
use crate::direct::Done;
use crate::header::{Code, Head, IMMEDIATE, Kind, LAST, PACKET_BYTES, PART, SOLICITED};
use crate::name::Name;
use crate::qp::{DATAGRAM_MAX, Data, MESSAGE_MAX, Qp, Send, SendRequest, rnr_time};
use crate::queue::Pieces;
use crate::types::{Access, AsyncKind, Completion, Error, Opcode, QpKind, QpState, SendFlags, WcStatus};
use bellwire_memory::bytes;
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

/// Packets of one queue pair before it is others' turn.
const TURN: u32 = 8;
/// How often a peer is asked again that is not there, ns.
const ABSENT_PAUSE: u64 = 2_000_000;

/// How long a datagram waits for a connection to where it goes, ns: there may be nobody.
const DATAGRAM_PATIENCE: u64 = 2_000_000_000;

/// What became of an attempt to send a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    Packet,
    /// It has to wait for what is before it, or nothing is there.
    Held,
    /// There is no room now.
    Stuck,
}

impl Core {
    /// Posts a request.
    #[inline]
    pub(crate) fn post_send<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, request: &SendRequest<'_>) -> Result<(), Error> {
        let qp = self.qp(number).ok_or(Error::Invalid)?;
        let send = qp.accept(request)?;
        qp.sends.push_back(send);
        match qp.state {
            QpState::Rts => self.pump(engine, number, false),
            QpState::Err | QpState::Sqe => self.flush_sends(number),
            _ => {}
        }
        Ok(())
    }

    /// Sends what a queue pair has to send and what may leave; `is_turn`: it is its turn among others of the connection.
    pub(crate) fn pump<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, is_turn: bool) {
        let mut packets = 0;
        loop {
            let Some(qp) = self.qp(number) else { return };
            if qp.state != QpState::Rts || qp.left == qp.sends.len() || qp.pause != 0 || (qp.is_ready && !is_turn) {
                return;
            }
            let Some(id) = self.route(engine, number) else { return };
            let Some(connection) = self.connections.get(id) else { return };
            let must_wait = !connection.open || (!is_turn && !connection.is_free()) || packets == TURN;
            let sent = if must_wait {
                Sent::Stuck
            } else {
                match self.do_directly(engine, number, id) {
                    Done::Yes => Sent::Packet,
                    Done::Soon => Sent::Held,
                    Done::No => self.send_packet(engine, number, id),
                }
            };
            match sent {
                Sent::Packet => packets += 1,
                Sent::Held => return,
                Sent::Stuck => return self.wait_for_room(number, id),
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

    /// The connection for the next request; `None`: there is none, and the request has been seen to.
    fn route<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) -> Option<ConnectionId> {
        let gid = self.name.gid;
        let qp = self.qp(number)?;
        if let Some(id) = qp.connection {
            return Some(id);
        }
        let is_datagram = qp.init.kind == QpKind::Ud;
        let (peer, patience) = match qp.sends.get(qp.left)?.to {
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
            Err(_) => {
                self.fail_send(number, 0, WcStatus::RetryExceeded);
                None
            }
        }
    }

    /// Sends the next packet of a queue pair.
    #[inline]
    fn send_packet<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, id: ConnectionId) -> Sent {
        let Some(qp) = self.qps.get_mut(number as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return Sent::Held };
        let Some(connection) = self.connections.get_mut(id) else { return Sent::Held };
        let Some(send) = qp.sends.get(qp.left) else { return Sent::Held };
        let fetches = send.opcode.fetches();
        if qp.part == 0 && qp.fetching != 0 && (send.flags.contains(SendFlags::FENCE) || (fetches && qp.fetching >= u32::from(qp.attributes.reads_out.max(1))))
        {
            return Sent::Held;
        }
        let (domain, part) = (qp.init.domain, qp.part as usize);
        let n = if fetches { 0 } else { (send.length as usize - part).min(PACKET_BYTES) };
        let head = qp.head(send, part as u32, n as u32);
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
            // In order: what is before it ends first.
            _ if qp.left != 0 => return Sent::Held,
            _ => {
                self.fail_send(number, 0, WcStatus::LocalProtection);
                return Sent::Held;
            }
        };
        // SAFETY: R1, just looked up; or a vector, or the request, which outlive the call.
        match unsafe { connection.put(engine, &head, body) } {
            Put::All => {}
            Put::Stuck | Put::Broken => return Sent::Stuck,
        }
        qp.told = head.answered;
        qp.part += n as u32;
        if fetches || qp.part == send.length {
            (qp.left, qp.part) = (qp.left + 1, 0);
            qp.fetching += u32::from(fetches);
            if qp.init.kind != QpKind::Rc {
                self.end_first(number, WcStatus::Success);
            }
        }
        Sent::Packet
    }

    /// All requests below that number are done.
    pub(crate) fn answered(&mut self, number: u32, below: u32) {
        let Some(qp) = self.qp(number) else { return };
        let n = below.wrapping_sub(qp.first) as usize;
        if n == 0 || n > qp.left {
            return;
        }
        for send in qp.sends.range_mut(..n).filter(|s| !s.opcode.fetches()) {
            send.done = true;
        }
        qp.rnr_left = qp.attributes.rnr_retries;
        qp.absent_since = 0;
        self.end_done(number);
    }

    /// Completes the requests at the front that are done.
    pub(crate) fn end_done(&mut self, number: u32) {
        while self.qp(number).is_some_and(|q| q.left != 0 && q.sends.front().is_some_and(|s| s.done)) {
            self.end_first(number, WcStatus::Success);
        }
    }

    pub(crate) fn end_first(&mut self, number: u32, status: WcStatus) {
        let Some(qp) = self.qp(number) else { return };
        let Some(send) = qp.sends.pop_front() else { return };
        qp.first = qp.first.wrapping_add(1);
        qp.left = qp.left.saturating_sub(1);
        if qp.is_told(&send, status) {
            let (cq, completion) = (qp.init.send_cq, qp.completion(&send, status));
            self.complete(cq, completion, false);
        }
    }

    /// The request at `index` has failed: those before it that are not done are flushed with the rest, and the queue pair with them.
    #[cold]
    pub(crate) fn fail_send(&mut self, number: u32, index: usize, status: WcStatus) {
        self.end_done(number);
        let Some(qp) = self.qp(number) else { return };
        let is_reliable = qp.init.kind == QpKind::Rc;
        for _ in 0..index.min(qp.sends.len()) {
            self.end_first(number, WcStatus::Flushed);
        }
        self.end_first(number, status);
        if is_reliable {
            self.enter_error(number);
        } else if let Some(qp) = self.qp(number) {
            qp.state = QpState::Sqe;
            self.flush_sends(number);
        }
    }

    /// Everything in the send queue ends undone.
    pub(crate) fn flush_sends(&mut self, number: u32) {
        self.end_done(number);
        while self.qp(number).is_some_and(|q| !q.sends.is_empty()) {
            self.end_first(number, WcStatus::Flushed);
        }
        if let Some(qp) = self.qp(number) {
            (qp.left, qp.part, qp.fetching, qp.pause) = (0, 0, 0, 0);
        }
    }

    /// Everything in the receive queue ends undone.
    pub(crate) fn flush_receives(&mut self, number: u32) {
        let Some(qp) = self.qp(number) else { return };
        let cq = qp.init.receive_cq;
        let arriving = qp.arriving.take().and_then(|a| a.receive);
        let posted = core::mem::take(&mut qp.receives.posted);
        for receive in arriving.into_iter().chain(posted) {
            self.complete(cq, Completion::of_receive(receive.wr_id, number, WcStatus::Flushed), false);
        }
    }

    /// The queue pair fails: nothing is taken or sent any more.
    #[cold]
    pub(crate) fn enter_error(&mut self, number: u32) {
        let Some(qp) = self.qp(number) else { return };
        let was = core::mem::replace(&mut qp.state, QpState::Err);
        let is_shared = qp.init.srq.is_some();
        self.flush_sends(number);
        self.flush_receives(number);
        if is_shared && was != QpState::Err {
            self.event(number, AsyncKind::LastWqe);
        }
    }

    /// The request of that number was not taken.
    #[cold]
    pub(crate) fn refused<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head) {
        let now = self.now;
        let (Some(code), timer) = (Code::from_bits(head.words[0] as u32), (head.words[0] >> 32) as u8) else { return };
        self.answered(head.to, head.number);
        let Some(qp) = self.qp(head.to) else { return };
        let index = head.number.wrapping_sub(qp.first) as usize;
        if index > qp.left || (index == qp.left && qp.part == 0) || qp.state == QpState::Err {
            return;
        }
        let pause = match code {
            Code::NotReady => {
                if qp.attributes.rnr_retries != 7 {
                    if qp.rnr_left == 0 {
                        return self.fail_send(head.to, index, WcStatus::RnrExceeded);
                    }
                    qp.rnr_left -= 1;
                }
                rnr_time(timer)
            }
            Code::Nobody => {
                if qp.absent_since == 0 {
                    qp.absent_since = now;
                }
                let absent = now.saturating_sub(qp.absent_since);
                if qp.patience().is_some_and(|p| absent >= p) {
                    return self.fail_send(head.to, index, WcStatus::RetryExceeded);
                }
                qp.patience().map_or(ABSENT_PAUSE, |p| ABSENT_PAUSE.min(p - absent))
            }
            Code::Access => return self.fail_send(head.to, index, WcStatus::RemoteAccess),
            Code::Invalid => return self.fail_send(head.to, index, WcStatus::RemoteInvalid),
            Code::Operation => return self.fail_send(head.to, index, WcStatus::RemoteOperation),
        };
        qp.go_back(index);
        qp.pause = now + pause;
        let at = qp.pause;
        self.timers.insert((at, head.to));
        self.timeouts(engine);
    }

    /// Goes on where a pause is over.
    pub(crate) fn timeouts<W: Wire>(&mut self, engine: &mut Engine<W>) {
        while let Some((at, number)) = self.timers.first().copied().filter(|(at, _)| *at <= self.now) {
            self.timers.remove(&(at, number));
            if let Some(qp) = self.qp(number).filter(|q| q.pause == at) {
                qp.pause = 0;
                if qp.is_deserted {
                    self.fail_send(number, 0, WcStatus::RetryExceeded);
                }
                self.pump(engine, number, false);
            }
        }
    }

    /// Bytes that we have asked to read.
    pub(crate) fn read_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head, payload: (*const u8, usize)) {
        let Some((index, send)) = self.fetching(head, |o| o == Opcode::Read) else { return };
        if head.offset != send.fetched || payload.1 > (send.length - send.fetched) as usize {
            return;
        }
        send.fetched += payload.1 as u32;
        let (length, at) = (send.length, head.offset as usize);
        let Some(qp) = self.qps.get_mut(head.to as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return };
        let pieces = qp.sends[index].data.pieces();
        // SAFETY: the payload is readable.
        if unsafe { self.regions.scatter(pieces, qp.init.domain, at, payload.0, payload.1) }.is_err() {
            return self.fail_send(head.to, index, WcStatus::LocalProtection);
        }
        if at + payload.1 == length as usize {
            self.has_fetched(engine, head.to, index);
        }
    }

    /// What an atomic of ours found.
    pub(crate) fn atomic_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, head: &Head) {
        let Some((index, _)) = self.fetching(head, Opcode::is_atomic) else { return };
        let Some(qp) = self.qps.get_mut(head.to as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut) else { return };
        let value = head.words[0].to_ne_bytes();
        // SAFETY: eight bytes of ours.
        if unsafe { self.regions.scatter(qp.sends[index].data.pieces(), qp.init.domain, 0, value.as_ptr(), 8) }.is_err() {
            return self.fail_send(head.to, index, WcStatus::LocalProtection);
        }
        self.has_fetched(engine, head.to, index);
    }

    /// The request that an answer is for.
    fn fetching(&mut self, head: &Head, fits: impl Fn(Opcode) -> bool) -> Option<(usize, &mut Send)> {
        let qp = self.qp(head.to)?;
        let index = head.number.wrapping_sub(qp.first) as usize;
        if index >= qp.left {
            return None;
        }
        let send = &mut qp.sends[index];
        (fits(send.opcode) && !send.done).then_some((index, send))
    }

    fn has_fetched<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, index: usize) {
        let Some(qp) = self.qp(number) else { return };
        qp.sends[index].done = true;
        qp.fetching = qp.fetching.saturating_sub(1);
        self.end_done(number);
        self.pump(engine, number, false);
    }

    /// What is for somebody who is not there is lost, as on a wire.
    #[cold]
    pub(crate) fn drop_datagrams<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32, peer: Name) {
        let gid = self.name.gid;
        loop {
            let Some(qp) = self.qp(number) else { return };
            let Some(first) = qp.sends.front() else { return };
            let goes_there = first.to.is_none_or(|to| Name::of(to.gid.unwrap_or(gid), to.qp) == peer);
            if !goes_there {
                break;
            }
            qp.part = 0;
            self.end_first(number, WcStatus::Success);
        }
        self.pump(engine, number, false);
    }
}

impl Qp {
    /// Checks a request, and copies what is inline.
    #[inline]
    fn accept(&self, r: &SendRequest<'_>) -> Result<Send, Error> {
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
            QpKind::Uc => !r.opcode.fetches(),
            QpKind::Ud => matches!(r.opcode, Opcode::Send | Opcode::SendImm) && r.to.is_some() && length <= DATAGRAM_MAX,
        };
        if !service_does || r.pieces.len() > caps.send_pieces as usize || length > MESSAGE_MAX || (r.opcode.is_atomic() && length != 8) {
            return Err(Error::Invalid);
        }
        let is_inline = r.flags.contains(SendFlags::INLINE) && !r.opcode.fetches();
        if is_inline && length > u64::from(caps.inline) {
            return Err(Error::Invalid);
        }
        let data = if is_inline { inline(r.pieces, length as usize) } else { Data::Pieces(pieces) };
        Ok(Send {
            wr_id: r.wr_id,
            opcode: r.opcode,
            flags: r.flags,
            immediate: r.immediate,
            length: length as u32,
            address: r.address,
            key: r.key,
            operands: r.operands,
            data,
            to: r.to,
            fetched: 0,
            done: false,
        })
    }

    /// The head of the packet with `n` bytes from `part` on.
    #[inline]
    fn head(&self, send: &Send, part: u32, n: u32) -> Head {
        let (kind, to) = match (send.to, send.opcode) {
            (Some(to), _) if self.init.kind == QpKind::Ud => (Kind::Datagram, to.qp),
            (_, Opcode::Send | Opcode::SendImm) => (Kind::Send, self.attributes.peer),
            (_, Opcode::Write | Opcode::WriteImm) => (Kind::Write, self.attributes.peer),
            (_, Opcode::Read) => (Kind::Read, self.attributes.peer),
            (_, Opcode::CompareSwap | Opcode::FetchAdd) => (Kind::Atomic, self.attributes.peer),
        };
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
        head.answered = self.expected;
        head.immediate = send.immediate;
        if send.opcode.has_immediate() {
            head.flags |= IMMEDIATE;
        }
        if send.flags.contains(SendFlags::SOLICITED) {
            head.flags |= SOLICITED;
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
fn inline(pieces: &[crate::types::Sge], length: usize) -> Data {
    let copy = |to: &mut [u8]| {
        let mut at = 0;
        for p in pieces {
            let n = p.length as usize;
            // SAFETY: the program's memory, readable during the call as it promised; `to` has room for all pieces.
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
