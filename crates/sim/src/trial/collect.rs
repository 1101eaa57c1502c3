// SPDX-License-Identifier: MIT OR Apache-2.0
//! What programs find when they look, and whether it may be so.

use super::content::{BLANK, Header, Pattern, WRITE};
use super::end::{Phase, SLOT, SLOTS, WINDOW, Work, place_at};
use super::{Received, Trial};
use bellwire_via::event::AsyncErrorCode;
use bellwire_via::{Completion, Event, Reliability, Status, ViState};

/// Sessions besides those with each node: of a node with itself, of earlier lives, being made.
const SESSIONS_MORE: usize = 80;

impl Trial {
    pub(super) fn collect_node(&mut self, node: usize) -> Result<(), String> {
        if !self.world.lives(node) {
            return Ok(());
        }
        for (c, s) in self.ends_of(node) {
            self.collect(c, s).map_err(|why| format!("channel {c} ({:?}), end {s} at node {node}: {why}", self.channels[c].level))?;
        }
        while let Some(event) = self.world.with(node, |e| e.poll_event()) {
            if let Event::AsyncError(error) = event
                && error.code == AsyncErrorCode::ConnectionLost
                && let Some((c, s)) = self.ends_of(node).into_iter().find(|&(c, s)| Some(self.channels[c].ends[s].vi) == error.vi)
            {
                self.world.note(0x10_57 ^ (c as u64) << 32);
                self.channels[c].ends[s].lost += 1;
            }
        }
        Ok(())
    }

    /// One end looks.
    fn collect(&mut self, c: usize, s: usize) -> Result<(), String> {
        let phase = self.channels[c].ends[s].phase;
        if phase == Phase::Gone || !self.world.lives(self.channels[c].ends[s].node) {
            return Ok(());
        }
        if let Phase::Asking(wait) = phase {
            self.collect_outcome(c, s, wait);
        }
        self.collect_completions(c, s)?;
        let (node, vi) = (self.channels[c].ends[s].node, self.channels[c].ends[s].vi);
        let state = self.world.with(node, |e| e.query_vi(vi)).map_err(|e| format!("the VI is gone: {e:?}"))?.0;
        if state == ViState::Error {
            self.outcome.breaks += 1;
            self.collect_completions(c, s)?;
            let end = &self.channels[c].ends[s];
            if let Some(left) = end.sends.front().map(|p| p.context).or(end.receives.front().map(|p| p.context)) {
                return Err(format!("the connection has broken and request {left} has not come back"));
            }
            return self.disconnect(c, s);
        }
        Ok(())
    }

    fn collect_outcome(&mut self, c: usize, s: usize, wait: Option<bellwire_via::WaitHandle>) {
        let end = &self.channels[c].ends[s];
        let (node, vi) = (end.node, end.vi);
        let connected = match wait {
            Some(wait) => self.world.with(node, |e| match e.poll_wait(wait) {
                Ok(None) => None,
                Ok(Some(request)) => Some(e.accept(request.incoming, vi).is_ok()),
                Err(_) => Some(false),
            }),
            None => self.world.with(node, |e| match e.connect_status(vi) {
                Ok(None) => None,
                Ok(Some(_)) => Some(true),
                Err(_) => Some(false),
            }),
        };
        if let Some(connected) = connected {
            self.world.note((c as u64) << 2 | (s as u64) << 1 | u64::from(connected));
            self.channels[c].ends[s].phase = if connected { Phase::Connected } else { Phase::Idle };
            self.outcome.connections += u64::from(connected);
        }
    }

    /// Takes all completions.
    pub(super) fn collect_completions(&mut self, c: usize, s: usize) -> Result<(), String> {
        let (node, vi) = (self.channels[c].ends[s].node, self.channels[c].ends[s].vi);
        while let Some(done) = self.world.with(node, |e| e.receive_done(vi)).map_err(|e| format!("the VI is gone: {e:?}"))? {
            self.received(c, s, &done)?;
        }
        while let Some(done) = self.world.with(node, |e| e.send_done(vi)).map_err(|e| format!("the VI is gone: {e:?}"))? {
            self.sent(c, s, &done)?;
        }
        Ok(())
    }

    fn note_done(&mut self, c: usize, s: usize, done: &Completion) {
        self.world.note(self.world.now().0);
        self.world.note((c as u64) << 40 | (s as u64) << 32 | u64::from(done.status.bits()));
        self.world.note(done.context << 32 | u64::from(done.length));
    }

    fn received(&mut self, c: usize, s: usize, done: &Completion) -> Result<(), String> {
        self.note_done(c, s, done);
        let end = &mut self.channels[c].ends[s];
        let posted = end.receives.pop_front().ok_or_else(|| format!("a receive that nobody has posted completed: {done:?}"))?;
        end.free_place(1, posted.place);
        if posted.context != done.context || !done.status.contains(Status::DONE) {
            return Err(format!("receive {} was posted first; completed: {done:?}", posted.context));
        }
        if done.status.is_error() {
            return Ok(());
        }
        self.outcome.messages += 1;
        let header = Header::check(&end.memory, place_at(1, posted.place), done.length as usize)?;
        if (header.channel as usize, header.side as usize) != (c, 1 - s) {
            return Err(format!("a message for somebody else: {header:?}"));
        }
        let heard = *end.heard.get_or_insert(header.connection);
        let by = end.connection;
        if heard != header.connection {
            return Err(format!("messages of connection {heard} came before: {header:?}"));
        }
        let in_order = match self.channels[c].level {
            Reliability::Unreliable => header.number >= self.channels[c].ends[s].heard_next,
            _ => header.number == self.channels[c].ends[s].heard_next,
        };
        if !in_order {
            return Err(format!("number {} was expected: {header:?}", self.channels[c].ends[s].heard_next));
        }
        self.channels[c].ends[s].heard_next = header.number + 1;
        let entry = self.ledger.entry(header.connection).or_insert(Received { by, count: 0 });
        if entry.by != by {
            return Err(format!("messages of one connection came to connections {} and {by}: {header:?}", entry.by));
        }
        entry.count = header.number + 1;
        match header.written {
            Some((slot, bytes)) => self.check_written(c, s, &header, slot, bytes),
            None => Ok(()),
        }
    }

    /// The message says that something has been written here.
    fn check_written(&mut self, c: usize, s: usize, header: &Header, slot: usize, bytes: usize) -> Result<(), String> {
        let end = &mut self.channels[c].ends[s];
        if slot >= SLOTS || end.slots[slot] != Some((header.connection, header.number, bytes)) {
            return Err(format!("a write into slot {slot} that was not posted: {header:?}"));
        }
        let at = WINDOW + slot * SLOT;
        if let Some(byte) = Pattern::new(header.connection, header.number | WRITE).differs(&end.memory, at, 0, bytes) {
            return Err(format!("byte {byte} of an RDMA write of {bytes} is not there when the message after it is: {header:?}"));
        }
        end.memory.fill(at, bytes, BLANK);
        end.slots[slot] = None;
        Ok(())
    }

    /// Where no write is outstanding, nothing has been written; where one is, nothing else has.
    pub(super) fn check_slots(&self, c: usize, s: usize) -> Result<(), String> {
        let end = &self.channels[c].ends[s];
        for (slot, outstanding) in end.slots.iter().enumerate() {
            let at = WINDOW + slot * SLOT;
            let expected = outstanding.map(|(connection, number, bytes)| (Pattern::new(connection, number | WRITE), bytes));
            let is_fine = |(i, byte): (usize, u8)| byte == BLANK || expected.as_ref().is_some_and(|(pattern, bytes)| i < *bytes && byte == pattern.byte(i));
            let wrong = (0..SLOT).find(|i| !is_fine((*i, end.memory.byte(at + i))));
            if let Some(byte) = wrong {
                return Err(format!("byte {byte} of slot {slot} has been written by nobody who may; outstanding: {outstanding:?}"));
            }
        }
        Ok(())
    }

    fn sent(&mut self, c: usize, s: usize, done: &Completion) -> Result<(), String> {
        self.note_done(c, s, done);
        let end = &mut self.channels[c].ends[s];
        let posted = end.sends.pop_front().ok_or_else(|| format!("a request that nobody has posted completed: {done:?}"))?;
        end.free_place(0, posted.place);
        if posted.context != done.context || !done.status.contains(Status::DONE) {
            return Err(format!("request {} was posted first; completed: {done:?}", posted.context));
        }
        if done.status.is_error() {
            return Ok(());
        }
        match posted.what {
            Work::Send { number } => self.check_arrived(c, s, number),
            Work::Write => {
                self.outcome.transfers += 1;
                Ok(())
            }
            Work::Read { from, bytes } => {
                self.outcome.transfers += 1;
                let [end, peer] = [s, 1 - s].map(|s| &self.channels[c].ends[s]);
                let pattern = Pattern::new(peer.library, 0);
                let wrong = (0..bytes).find(|i| end.memory.byte(place_at(0, posted.place) + i) != pattern.byte(from + i));
                // The reader may hear of its success after the crash of who was read.
                let known = self.nodes[peer.node].crashed_at.is_none_or(|at| at < end.asked_at);
                match wrong {
                    Some(byte) if known => Err(format!("byte {byte} of {bytes} read at {from} is wrong")),
                    _ => Ok(()),
                }
            }
        }
    }

    /// At Reliable Reception, what has been sent is there.
    fn check_arrived(&mut self, c: usize, s: usize, number: u64) -> Result<(), String> {
        let (connection, asked_at) = (self.channels[c].ends[s].connection, self.channels[c].ends[s].asked_at);
        let peer = self.channels[c].ends[1 - s].node;
        if self.channels[c].level != Reliability::ReliableReception || self.nodes[peer].crashed_at.is_some_and(|at| at >= asked_at) || !self.world.lives(peer) {
            return Ok(());
        }
        if self.ledger.get(&connection).is_none_or(|r| r.count <= number) {
            self.collect_completions(c, 1 - s)?;
        }
        match self.ledger.get(&connection).is_some_and(|r| r.count > number) {
            true => Ok(()),
            false => Err(format!("message {number} of connection {connection} succeeded and has not arrived")),
        }
    }

    /// Ends a connection, or what is to become one: all that is posted comes back.
    pub(super) fn disconnect(&mut self, c: usize, s: usize) -> Result<(), String> {
        let end = &self.channels[c].ends[s];
        let (node, vi, phase) = (end.node, end.vi, end.phase);
        if phase == Phase::Gone || !self.world.lives(node) {
            return Ok(());
        }
        if let Phase::Asking(Some(wait)) = phase {
            self.world.with(node, |e| e.cancel_wait(wait));
        }
        self.world.with(node, |e| e.disconnect(vi)).map_err(|e| format!("no end to a connection: {e:?}"))?;
        self.collect_completions(c, s)?;
        let end = &mut self.channels[c].ends[s];
        end.phase = Phase::Idle;
        if let Some(left) = end.sends.front().map(|p| p.context).or(end.receives.front().map(|p| p.context)) {
            return Err(format!("after the end of the connection request {left} has not come back"));
        }
        if end.busy != [0; 2] {
            return Err(format!("places are in use without a request: {:?}", end.busy));
        }
        if end.lost > 1 {
            return Err(format!("{} times the loss of one connection", end.lost));
        }
        self.check_slots(c, s)
    }

    /// What transports keep is bounded.
    pub(super) fn check_bounds(&self) -> Result<(), String> {
        for node in 0..self.nodes.len() {
            let Some(engine) = self.world.engine(node) else { continue };
            if engine.wire().port().missed() > 0 {
                return Err(format!("node {node}: the checksum was wrong about {} packets", engine.wire().port().missed()));
            }
            let sessions = engine.wire().transport().sessions();
            let most = 2 * self.nodes.len() + SESSIONS_MORE;
            if sessions > most || engine.usage().links > most {
                return Err(format!("node {node} has {sessions} sessions and {} links", engine.usage().links));
            }
        }
        Ok(())
    }
}
