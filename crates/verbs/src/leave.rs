// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets that wait to leave: answers first, then queue pairs and bytes that peers read, by turns.

use crate::arrive::Packet;
use crate::connection::{ANSWERS_MAX, ConnectionId, ReadJob};
use crate::core::Core;
use crate::header::{AGAIN, Code, Head, Kind};
use crate::memory::{Bytes, Denied, copy_out};
use crate::types::Access;
use bellwire_via::Engine;
use bellwire_via::wire::Wire;

/// Packets with bytes that were read that leave in a turn.
const READS_PER_TURN: u32 = 8;

impl Core {
    /// Tells the peer of a queue pair what was done.
    pub(crate) fn tell<W: Wire>(&mut self, engine: &mut Engine<W>, number: u32) {
        let Some(qp) = self.usual_qp(number) else { return };
        let Some(to) = qp.came_by.filter(|_| qp.told != qp.expected) else { return };
        qp.told = qp.expected;
        let mut head = Head::new(Kind::Ack, qp.attributes.peer, number);
        (head.answered, head.echo) = (qp.expected, qp.peer_life);
        self.answer(engine, to, head);
    }

    /// Tells all who have not been told.
    #[inline(never)]
    pub(crate) fn tell_owed<W: Wire>(&mut self, engine: &mut Engine<W>) {
        // One after the other, from the end: the list keeps its memory.
        while let Some(number) = self.owing.pop() {
            if let Some(qp) = self.usual_qp(number) {
                qp.is_owing = false;
                self.tell(engine, number);
            }
        }
    }

    #[cold]
    pub(crate) fn refuse<W: Wire>(&mut self, engine: &mut Engine<W>, p: &Packet<'_>, code: Code, timer: u8) {
        let mut head = Head::new(Kind::Refusal, p.head.from, p.head.to);
        (head.number, head.echo, head.words[0]) = (p.head.number, p.head.life, code as u64 | u64::from(timer) << 32);
        head.flags = p.head.flags & AGAIN;
        // Behind what the same queue pair has asked to read before: that is done, and is not to be
        // flushed.
        let pair = (p.head.from, p.head.to);
        if let Some(connection) = self.connections.get_mut(p.from).filter(|c| c.reads.iter().any(|r| (r.head.to, r.head.from) == pair)) {
            connection.reads.push_back(ReadJob { head, key: 0, domain: 0, address: 0, access: Access::empty(), length: 0, at: 0 });
            if connection.reads.len() > ANSWERS_MAX {
                self.broken(engine, p.from);
            }
            return;
        }
        self.answer(engine, p.from, head);
    }

    /// Has an answer leave, in order.
    pub(crate) fn answer<W: Wire>(&mut self, engine: &mut Engine<W>, to: ConnectionId, head: Head) {
        let Some(connection) = self.connections.get_mut(to) else { return };
        connection.answers.push_back(head);
        if connection.answers.len() > ANSWERS_MAX {
            // It asks and asks, and takes no answer.
            return self.broken(engine, to);
        }
        if !connection.put_answers(engine) {
            self.mark_unsent(to);
        }
    }

    pub(crate) fn mark_unsent(&mut self, id: ConnectionId) {
        if let Some(connection) = self.connections.get_mut(id) {
            self.unsent.mark(&mut connection.channel, id);
        }
    }

    /// Sends what waits, of all connections.
    pub(crate) fn leave_all<W: Wire>(&mut self, engine: &mut Engine<W>) {
        for id in self.unsent.take() {
            if let Some(connection) = self.connections.get_mut(id) {
                connection.channel.seen();
                self.leave(engine, id);
            }
        }
    }

    /// Sends what can leave of a connection: answers, then queue pairs and reads by turns; notes
    /// what has to wait on.
    pub(crate) fn leave<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        let Some(connection) = self.connections.get_mut(id).filter(|c| c.channel.is_open()) else { return };
        if connection.put_answers(engine) {
            for _ in 0..connection.ready.len() {
                let Some(number) = self.connections.get_mut(id).and_then(|c| c.ready.pop_front()) else { break };
                if let Some(qp) = self.qp(number) {
                    qp.is_ready = false;
                    self.pump(engine, number, true);
                }
            }
            self.serve_reads(engine, id);
        }
        engine.send_queued();
        if self.connections.get(id).is_some_and(crate::connection::Connection::has_unsent) {
            self.mark_unsent(id);
        }
    }

    /// Sends bytes that the peer reads.
    fn serve_reads<W: Wire>(&mut self, engine: &mut Engine<W>, id: ConnectionId) {
        for _ in 0..READS_PER_TURN {
            let Some(connection) = self.connections.get_mut(id) else { return };
            let Some(rest) = connection.reads.front().map(|job| job.length - job.at) else { return };
            let n = connection.part_bytes(engine, Kind::ReadData, rest as usize) as u32;
            let Some(job) = connection.reads.front_mut() else { return };
            let mut spare = Vec::new();
            let found: Result<_, Denied> = match n {
                0 => Ok(core::ptr::null_mut()),
                _ => {
                    let at = job.address + u64::from(job.at);
                    self.regions.bytes(job.key, job.domain, at, u64::from(n), job.access).and_then(|bytes| match bytes {
                        Bytes::Here(here) => Ok(here),
                        // Copied first.
                        Bytes::OnDemand(from) => {
                            spare.resize(n as usize, 0);
                            // SAFETY: the vector has room.
                            unsafe { copy_out(from, spare.as_mut_ptr(), n as usize) }?;
                            Ok(spare.as_mut_ptr())
                        }
                    })
                }
            };
            let mut head = job.head;
            head.offset = job.at;
            let Ok(from) = found else {
                // Withdrawn meanwhile.
                let mut refusal = Head::new(Kind::Refusal, head.to, head.from);
                (refusal.number, refusal.echo, refusal.words[0]) = (head.number, head.echo, Code::Access as u64);
                connection.reads.pop_front();
                self.answer(engine, id, refusal);
                continue;
            };
            job.at += n;
            let is_last = job.at == job.length;
            // SAFETY: R1, just looked up; or `spare`.
            if !unsafe { connection.put(engine, &head, (from.cast_const(), n as usize)) }.has_begun() {
                if let Some(job) = connection.reads.front_mut() {
                    job.at -= n;
                }
                return;
            }
            if is_last {
                connection.reads.pop_front();
            }
        }
    }
}
