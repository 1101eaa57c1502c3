// SPDX-License-Identifier: MIT OR Apache-2.0
//! Requests of peers: carried out, or refused.

use crate::arrive::Packet;
use crate::connection::{ANSWERS_MAX, ReadJob};
use crate::core::Core;
use crate::header::{Code, Head, INVALIDATE, Kind, PART, UNREADY};
use crate::memory::Regions;
use crate::qp::{Arriving, MESSAGE_MAX, Receiving};
use crate::queue::{Receive, receive_flags, route_header};
use crate::reason::Reason;
use crate::types::{Access, AsyncKind, Completion, Gid, QpKind, QpState, WcFlags, WcOpcode, WcStatus};
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

/// Requests done that a peer is told of at once.
pub(crate) const TELL_AFTER: u32 = 16;
/// Bytes in front of a datagram.
const ROUTE_BYTES: usize = 40;

impl Core {
    /// A request of a peer.
    pub(crate) fn request<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) {
        let number = p.head.to;
        let is_first = p.head.offset == 0;
        if !self.is_from_peer(p) || !self.qp(number).is_some_and(|q| q.takes_requests() && !q.is_past(p.head)) {
            if is_first {
                self.refuse(engine, p, Code::Nobody, 0);
            }
            return;
        }
        let Some(qp) = self.qp(number) else { return };
        let kind = qp.init.kind;
        let is_reliable = qp.init.kind.is_reliable();
        let (answered, state, knows_us) = (p.head.answered, qp.state, p.head.echo == qp.life);
        let before = core::mem::replace(&mut qp.peer_life, p.head.life);
        if is_reliable && before != 0 && before != p.head.life {
            // The peer has begun anew: the first packets were sent before that, which nothing
            // showed.
            let from = qp.attributes.receive_number & 0xff_ffff;
            (qp.expected, qp.told, qp.came) = (from, from, 0);
            self.drop_arriving(number);
        }
        // Of XRC, requests go one way only, and name a receive queue there (`xrc.rs`).
        if kind == QpKind::Rc && knows_us && matches!(state, QpState::Rts | QpState::Sqd) {
            self.answered(number, answered);
            // Requests that waited for that go on.
            self.pump(engine, number, false);
        }
        let Some(qp) = self.qp(number) else { return };
        if !is_reliable && is_first && qp.expected != p.head.number {
            // The message before it is lost, with the part of it that had come.
            qp.expected = p.head.number;
            self.drop_arriving(number);
        }
        let Some(qp) = self.qp(number) else { return };
        // After a refusal the rest of what had left is dropped, until the refused request comes
        // again from its beginning.
        let is_next = p.head.number == qp.expected && (is_first || p.head.offset == qp.came);
        if !is_next || p.total() > MESSAGE_MAX {
            return;
        }
        qp.came = p.head.offset.wrapping_add(p.payload.1 as u32);
        (qp.came_by, qp.known_by) = (Some(p.from), Some(p.from));
        if state == QpState::Rtr && !core::mem::replace(&mut qp.established, true) {
            self.event(number, AsyncKind::Established);
        }
        match p.head.kind {
            Kind::Send => self.send_arrived(engine, p),
            Kind::Write => self.write_arrived(engine, p),
            Kind::Read if is_reliable => self.read_asked(engine, p),
            Kind::Atomic if is_reliable => self.atomic_asked(engine, p),
            _ => {}
        }
    }

    /// What the sender of a request may reach here.
    #[inline]
    fn receiving(&mut self, p: &Packet<'_>) -> Option<Receiving> {
        let number = p.head.to;
        let qp = self.qp(number)?;
        let (domain, access) = (qp.init.domain, qp.attributes.access);
        if qp.init.kind == QpKind::XrcReceive {
            let domain = self.named_srq(p)?.queue.domain;
            return Some(Receiving { number, domain, access });
        }
        Some(Receiving { number, domain, access })
    }

    /// The receive for a message that begins; `None`: there is none, and the sender has been told.
    fn begin<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) -> Option<Receive> {
        let number = p.head.to;
        let kind = self.qp(number)?.init.kind;
        let is_unready = p.head.flags & UNREADY != 0 && kind.is_reliable();
        let is_xrc = kind == QpKind::XrcReceive;
        if is_xrc && self.named_srq(p).is_none() {
            self.deny(engine, p, Code::Invalid);
            return None;
        }
        let receive = match is_xrc {
            _ if is_unready => None,
            true => self.take_named_receive(p),
            false => self.take_receive(number),
        };
        if receive.is_none() {
            if self.strict.is_some() && !is_unready {
                self.saw_no_receive(p);
            }
            let qp = self.qp(number)?;
            let (timer, is_reliable) = (qp.attributes.rnr_timer, qp.init.kind.is_reliable());
            if is_reliable {
                qp.came = 0;
                self.refuse(engine, p, Code::NotReady, timer);
            } else {
                self.done(engine, p);
            }
        }
        receive
    }

    fn send_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) {
        let number = p.head.to;
        if p.head.offset == 0 {
            if self.qp(number).is_some_and(|q| q.arriving.is_some()) {
                self.drop_arriving(number);
            }
            let Some(receive) = self.begin(engine, p) else { return };
            if p.total() > receive.pieces.len() {
                return self.receive_failed(engine, p, &receive, WcStatus::LocalLength, Code::Invalid);
            }
            let Some(qp) = self.qp(number) else { return };
            qp.arriving = Some(Arriving { receive: Some(receive), total: p.total() as u32, got: 0 });
        }
        let Some(qp) = self.qp(number) else { return };
        let Some(mut arriving) = qp.arriving.take() else { return };
        let fits = p.head.offset == arriving.got && u64::from(arriving.got) + p.payload.1 as u64 <= u64::from(arriving.total);
        let Some(receive) = arriving.receive.take() else { return };
        if !fits {
            // No peer of ours sends so: its receive is for another message.
            return self.give_back(number, receive);
        }
        // SAFETY: the payload is readable.
        if unsafe { self.regions.scatter(receive.pieces.get(), receive.domain, arriving.got as usize, p.payload.0, p.payload.1) }.is_err() {
            return self.receive_failed(engine, p, &receive, WcStatus::LocalProtection, Code::Operation);
        }
        if self.strict.is_some() {
            self.saw_scatter(receive.pieces.get(), receive.domain);
        }
        arriving.got += p.payload.1 as u32;
        if arriving.got != arriving.total {
            arriving.receive = Some(receive);
            if let Some(qp) = self.qp(number) {
                qp.arriving = Some(arriving);
            }
            return;
        }
        if p.head.flags & INVALIDATE != 0 && !self.invalidate(number, p.head.immediate) {
            return self.receive_failed(engine, p, &receive, WcStatus::LocalProtection, Code::Access);
        }
        self.received(p, &receive, WcOpcode::Receive, arriving.total);
        self.done(engine, p);
    }

    /// A receive has been used up, well.
    fn received(&mut self, p: &Packet<'_>, receive: &Receive, opcode: WcOpcode, length: u32) {
        let cq = self.receive_cq(p.head.to, receive);
        let invalidates = p.head.flags & INVALIDATE != 0;
        let mut flags = receive_flags(p.immediate().is_some(), p.head.kind == Kind::Datagram);
        flags.set(WcFlags::WITH_INVALIDATED, invalidates);
        let completion = Completion {
            reason: Reason::None,
            opcode,
            byte_len: length,
            immediate: if invalidates { p.head.immediate } else { p.immediate().unwrap_or(0) },
            source: p.head.from,
            flags,
            ..Completion::of_receive(receive.wr_id, p.head.to, WcStatus::Success)
        };
        self.complete(cq, completion, p.is_solicited());
    }

    /// A message cannot be taken into its receive: both sides fail.
    #[cold]
    fn receive_failed<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>, receive: &Receive, status: WcStatus, code: Code) {
        if self.strict.is_some() {
            self.saw_receive_failure(p.head.to, receive, status);
        }
        let Some(qp) = self.qp(p.head.to) else { return };
        let is_reliable = qp.init.kind.is_reliable();
        let cq = self.receive_cq(p.head.to, receive);
        self.complete(cq, Completion::of_receive(receive.wr_id, p.head.to, status), false);
        if is_reliable {
            self.refuse(engine, p, code, 0);
        }
        self.enter_error(engine, p.head.to);
    }

    fn write_arrived<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) {
        let n = p.payload.1;
        let (key, length) = p.head.key_and_length();
        let Some(receiving) = self.receiving(p) else { return self.deny(engine, p, Code::Invalid) };
        let total = p.total();
        if u64::from(length) != total || u64::from(p.head.offset) + n as u64 > total {
            return self.deny(engine, p, Code::Invalid);
        }
        if n != 0 {
            let offset = p.head.offset as usize;
            let reached = self.reach(&receiving, key, p.head.words[0], total, Access::REMOTE_WRITE);
            // SAFETY: R1, just looked up for all of the message, within which this packet lies; the
            // payload is readable.
            let Some(to) = reached.filter(|to| unsafe { to.write(offset, p.payload) }.is_ok()) else {
                return self.deny_access(engine, p, Access::REMOTE_WRITE);
            };
            if self.strict.is_some() {
                let start = to.address() + offset;
                self.saw_write(&(start..start + n));
            }
        }
        if u64::from(p.head.offset) + n as u64 != total {
            return;
        }
        if p.immediate().is_some() {
            let Some(receive) = self.begin(engine, p) else { return };
            self.received(p, &receive, WcOpcode::ReceiveWrite, length);
        }
        self.done(engine, p);
        self.offer(engine, p, key);
    }

    /// Tells the peer how to reach memory of this key itself, if it can.
    #[inline]
    fn offer<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>, key: u32) {
        if let Some((to, head)) = self.grant(p.from, p.head.to, key) {
            self.answer(engine, to, head);
        }
    }

    fn read_asked<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) {
        let (key, length) = p.head.key_and_length();
        let Some(receiving) = self.receiving(p) else { return self.deny(engine, p, Code::Invalid) };
        if u64::from(length) > MESSAGE_MAX {
            return self.deny(engine, p, Code::Invalid);
        }
        let Some(from) = self.reach_to_read(&receiving, key, p.head.words[0], u64::from(length)) else {
            return self.deny_access(engine, p, Access::REMOTE_READ);
        };
        let mut head = Head::new(Kind::ReadData, p.head.from, p.head.to);
        (head.number, head.echo, head.flags, head.total) = (p.head.number, p.head.life, PART, length);
        let job = ReadJob { head, key: from.key, domain: receiving.domain, address: from.address, access: from.access, length, at: 0 };
        let Some(connection) = self.connections.get_mut(p.from) else { return };
        connection.reads.push_back(job);
        if connection.reads.len() > ANSWERS_MAX {
            return self.broken(engine, p.from);
        }
        self.done(engine, p);
        self.offer(engine, p, key);
        self.leave(engine, p.from);
    }

    fn atomic_asked<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) {
        let (key, compares) = p.head.key_and_length();
        let Some(receiving) = self.receiving(p) else { return self.deny(engine, p, Code::Invalid) };
        let reached = self.reach(&receiving, key, p.head.words[0], 8, Access::REMOTE_ATOMIC);
        let Some(at) = reached.and_then(|r| r.word().ok()) else { return self.deny_access(engine, p, Access::REMOTE_ATOMIC) };
        if !at.addr().is_multiple_of(8) {
            return self.deny(engine, p, Code::Invalid);
        }
        // SAFETY: R1, just looked up; aligned.
        let found = unsafe { Regions::change(at, p.head.words[2], (compares != 0).then_some(p.head.words[3])) };
        if self.strict.is_some() {
            self.saw_write(&(at.addr()..at.addr() + 8));
        }
        let mut head = Head::new(Kind::AtomicData, p.head.from, p.head.to);
        (head.number, head.echo, head.words[0]) = (p.head.number, p.head.life, found);
        self.done(engine, p);
        self.answer(engine, p.from, head);
        self.offer(engine, p, key);
    }

    /// The next request is done: its sender is told, soon.
    #[inline]
    fn done<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>) {
        let Some(qp) = self.qp(p.head.to) else { return };
        qp.expected = qp.expected.wrapping_add(1);
        if !qp.init.kind.is_reliable() {
            return;
        }
        if qp.expected.wrapping_sub(qp.told) >= TELL_AFTER {
            self.tell(engine, p.head.to);
        } else if !core::mem::replace(&mut qp.is_owing, true) {
            self.owing.push(p.head.to);
        }
    }

    /// A request for memory that it may not have.
    #[cold]
    fn deny_access<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>, needs: Access) {
        if self.strict.is_some() {
            self.saw_denial(p, needs);
        }
        self.deny(engine, p, Code::Access);
    }

    /// A request that may not be: it is refused, and the queue pair fails.
    #[cold]
    fn deny<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>, code: Code) {
        if self.qp(p.head.to).is_some_and(|q| !q.init.kind.is_reliable()) {
            // Nobody hears of it; it is dropped.
            if let Some(qp) = self.qp(p.head.to) {
                qp.expected = p.head.number.wrapping_add(1);
            }
            return;
        }
        self.refuse(engine, p, code, 0);
        self.event(p.head.to, if code == Code::Access { AsyncKind::QpAccessError } else { AsyncKind::QpRequestError });
        self.enter_error(engine, p.head.to);
    }

    pub(crate) fn datagram(&mut self, p: &Packet<'_>) {
        let own = self.name.gid;
        if let Some(sender) = self.connections.get(p.from).map(|c| c.peer.gid) {
            self.take_datagram(p, &sender, &own);
        }
    }

    /// A datagram of a process of `sender`, to `own`: this device or a group.
    pub(crate) fn take_datagram(&mut self, p: &Packet<'_>, sender: &Gid, own: &Gid) {
        let number = p.head.to;
        let takes = |q: &mut crate::qp::Qp| q.init.kind == QpKind::Ud && q.takes_requests() && q.attributes.qkey == p.head.number;
        if !self.qp(number).is_some_and(takes) || p.head.flags & PART != 0 {
            return;
        }
        let Some(receive) = self.take_receive(number) else {
            if self.strict.is_some() {
                self.saw_no_receive(p);
            }
            return;
        };
        let total = p.payload.1 + ROUTE_BYTES;
        let route = route_header(sender, own, p.payload.1);
        // SAFETY: the header is ours, the payload is readable.
        let placed = total as u64 <= receive.pieces.len()
            && unsafe {
                self.regions.scatter(receive.pieces.get(), receive.domain, 0, route.as_ptr(), ROUTE_BYTES).is_ok()
                    && self.regions.scatter(receive.pieces.get(), receive.domain, ROUTE_BYTES, p.payload.0, p.payload.1).is_ok()
            };
        if self.strict.is_some() && placed {
            self.saw_scatter(receive.pieces.get(), receive.domain);
        }
        if placed {
            return self.received(p, &receive, WcOpcode::Receive, total as u32);
        }
        let status = if total as u64 > receive.pieces.len() { WcStatus::LocalLength } else { WcStatus::LocalProtection };
        if self.strict.is_some() {
            self.saw_receive_failure(number, &receive, status);
            self.saw_route_room(number, receive.wr_id, receive.pieces.len(), p.payload.1 as u64);
        }
        let Some(cq) = self.qp(number).map(|q| q.init.receive_cq) else { return };
        self.complete(cq, Completion::of_receive(receive.wr_id, number, status), false);
        // Datagrams reach no memory of ours: nothing was granted.
        self.stop(number);
    }
}
