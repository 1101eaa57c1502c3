// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs of a trial: what they do next, drawn from the seed.

use super::Trial;
use super::content::{HEADER, Header, LIBRARY, Pattern, WRITE};
use super::end::{LIBRARY_AT, LIBRARY_BYTES, PLACE, Phase, Posted, SLOT, SLOTS, WINDOW, Work, place_at};
use crate::{Happened, NodeId};
use bellwire_time::{Duration, Instant};
use bellwire_via::{MemAttributes, NetAddress, Operation, ReceiveRequest, Segment, SendRequest, ViAttributes};

/// Most that a connection is asked for at a time.
const ASKING: Duration = Duration::from_millis(400);

impl Trial {
    /// A node has been started: its programs make what they need.
    pub(super) fn begin_node(&mut self, node: usize) -> Result<(), String> {
        if !self.world.lives(node) {
            return Ok(());
        }
        let ptag = self.world.with(node, |e| e.create_ptag()).map_err(|e| format!("no tag: {e:?}"))?;
        self.nodes[node].ptag = Some(ptag);
        let life = self.world.life(node);
        for (c, s) in self.ends_of(node) {
            let (level, rnr_wait) = (self.channels[c].level, self.channels[c].rnr_wait);
            let end = &mut self.channels[c].ends[s];
            end.begin();
            end.library = LIBRARY | life << 32 | (c as u64) << 1 | s as u64;
            Pattern::new(end.library, 0).put(&end.memory, LIBRARY_AT, 0, LIBRARY_BYTES);
            let rights = MemAttributes { ptag: Some(ptag), rdma_write: true, rdma_read: true };
            let attributes =
                ViAttributes { reliability: level, ptag: Some(ptag), rdma_write: true, rdma_read: level.is_reliable(), rnr_wait, ..ViAttributes::default() };
            let made = self.world.with(node, |e| Ok((end.memory.register(e, &rights)?, e.create_vi(&attributes, None, None, None)?)));
            let (region, vi) = made.map_err(|e: bellwire_via::Error| format!("no memory or VI: {e:?}"))?;
            let end = &mut self.channels[c].ends[s];
            (end.region, end.vi) = (region.raw(), vi);
        }
        Ok(())
    }

    pub(super) fn ends_of(&self, node: usize) -> Vec<(usize, usize)> {
        let all = (0..self.channels.len()).flat_map(|c| [(c, 0), (c, 1)]);
        all.filter(|&(c, s)| self.channels[c].ends[s].node == node).collect()
    }

    /// Lets time pass with all that happens in it.
    pub(super) fn let_pass(&mut self, time: Duration) -> Result<(), String> {
        let until = self.world.now() + time;
        loop {
            match self.world.step(until) {
                Happened::Turn(node) => self.collect_node(node)?,
                Happened::Crashed(node) => {
                    self.outcome.crashes += 1;
                    self.nodes[node].crashed_at = Some(self.world.now());
                    for (c, s) in self.ends_of(node) {
                        self.channels[c].ends[s].phase = Phase::Gone;
                    }
                }
                Happened::Restarted(node) => self.begin_node(node)?,
                Happened::Limit | Happened::Quiet => return Ok(()),
            }
        }
    }

    /// One thing that some program, or somebody with a plug in his hand, does.
    pub(super) fn operate(&mut self) -> Result<(), String> {
        self.check_bounds()?;
        let (c, s) = (self.random.below(self.channels.len() as u64) as usize, self.random.below(2) as usize);
        match self.random.below(100) {
            0 => self.crash(),
            1 => self.cut(),
            2..6 => self.mend(),
            6 => return self.disconnect(c, s),
            7..20 => self.ask_all(),
            20..35 => return self.post_receive(c, s),
            35..45 => return self.post_write(c, s),
            45..55 => return self.post_read(c, s),
            _ => return self.post_burst(c, s),
        }
        Ok(())
    }

    /// Somebody pulls a plug; [`mend`](Self::mend) puts it in again.
    fn crash(&mut self) {
        let node = NodeId(self.random.below(self.nodes.len() as u64) as u32);
        if !self.unplugged.contains(&node) {
            self.unplugged.push(node);
            self.world.fabric_mut().crash(node);
        }
    }

    fn cut(&mut self) {
        let mut sides = [Vec::new(), Vec::new()];
        for node in 0..self.nodes.len() as u32 {
            sides[self.random.below(2) as usize].push(NodeId(node));
        }
        let both = self.random.below(2) == 0;
        if self.cuts < 2 {
            self.cuts += 1;
            self.world.fabric_mut().cut(&sides[0], &sides[1], both);
        }
    }

    fn mend(&mut self) {
        self.cuts = 0;
        let mut fabric = self.world.fabric_mut();
        fabric.mend();
        self.unplugged.drain(..).for_each(|node| fabric.restart(node));
    }

    fn addresses(&self, c: usize, s: usize) -> (NetAddress, NetAddress) {
        let at = |side: usize| self.world.address(self.channels[c].ends[side].node, &[c as u8, side as u8]);
        (at(s), at(1 - s))
    }

    /// All ends that are idle look for their other ends.
    pub(super) fn ask_all(&mut self) {
        for (c, s) in (0..self.channels.len()).flat_map(|c| [(c, 0), (c, 1)]) {
            if self.channels[c].ends[s].phase == Phase::Idle {
                self.ask(c, s);
            }
        }
    }

    fn ask(&mut self, c: usize, s: usize) {
        let (local, remote) = self.addresses(c, s);
        let served = self.channels[c].served;
        let (now, connection) = (self.world.now(), self.next_connection);
        let end = &mut self.channels[c].ends[s];
        let (node, vi) = (end.node, end.vi);
        end.blank();
        (end.connection, end.asked_at, end.sent, end.heard, end.heard_next, end.lost) = (connection, now, 0, None, 0, 0);
        self.next_connection += 1;
        let deadline = self.world.after(node, Duration(self.random.within(ASKING.0 / 8, ASKING.0)));
        for _ in 0..2 {
            let _ = self.post_receive(c, s);
        }
        let wait = self.world.with(node, |e| match (served, s) {
            (true, 1) => e.connect_wait(&local, deadline).map(Some),
            (true, _) => e.connect_request(vi, &local, &remote, deadline).map(|()| None),
            (false, _) => e.peer_request(vi, &local, &remote, deadline).map(|()| None),
        });
        if let Ok(wait) = wait {
            self.channels[c].ends[s].phase = Phase::Asking(wait);
        }
    }

    /// Receives may be posted before there is a connection.
    pub(super) fn post_receive(&mut self, c: usize, s: usize) -> Result<(), String> {
        let context = self.next_context;
        let end = &mut self.channels[c].ends[s];
        if end.phase == Phase::Gone {
            return Ok(());
        }
        let Some(place) = end.take_place(1) else { return Ok(()) };
        let (node, vi, at) = (end.node, end.vi, place_at(1, place));
        let first = HEADER + place * 100;
        let segments = [end.segment(at, first), end.segment(at + first, PLACE - first)];
        end.receives.push_back(Posted { context, place, what: () });
        self.next_context += 1;
        let request = ReceiveRequest { segments: &segments, context, ..ReceiveRequest::default() };
        self.world.with(node, |e| e.post_receive(vi, &request)).map_err(|e| format!("a receive is not taken: {e:?}"))
    }

    /// Receives of the peer that no message sent so far will take.
    pub(super) fn room_at_peer(&self, c: usize, s: usize) -> bool {
        let [end, peer] = [s, 1 - s].map(|s| &self.channels[c].ends[s]);
        let received = self.ledger.get(&end.connection).map_or(0, |r| r.count);
        peer.phase == Phase::Gone || end.sent.saturating_sub(received) < peer.receives.len() as u64
    }

    fn post_burst(&mut self, c: usize, s: usize) -> Result<(), String> {
        for _ in 0..self.random.within(1, 5) {
            // At the other levels a message that finds no receive is lost, or ends the connection:
            // that must be seldom.
            if self.room_at_peer(c, s) || self.channels[c].rnr_wait || self.random.below(50) == 0 {
                self.post_message(c, s, None)?;
            }
            if self.random.below(2) == 0 {
                self.post_receive(c, 1 - s)?;
            }
        }
        Ok(())
    }

    fn length(&mut self) -> usize {
        let most = match self.random.below(10) {
            0..6 => 200,
            6..9 => 2_000,
            _ => PLACE as u64,
        };
        self.random.within(HEADER as u64, most) as usize
    }

    /// Posts a message; whether there was a place for it.
    pub(super) fn post_message(&mut self, c: usize, s: usize, written: Option<(usize, usize)>) -> Result<bool, String> {
        let length = self.length();
        let cut = self.random.below(length as u64 + 1) as usize;
        let end = &mut self.channels[c].ends[s];
        if end.phase != Phase::Connected {
            return Ok(false);
        }
        let Some(place) = end.take_place(0) else { return Ok(false) };
        let at = place_at(0, place);
        let number = end.sent;
        end.sent += 1;
        Header { channel: c as u32, side: s as u32, connection: end.connection, number, length: length as u64, written }.put(&end.memory, at);
        let whole = [end.segment(at, length)];
        let parts = [end.segment(at, cut), end.segment(at + cut, length - cut)];
        let segments: &[Segment] = if cut.is_multiple_of(2) { &whole } else { &parts };
        self.post(c, s, place, Work::Send { number }, &SendRequest { segments, ..SendRequest::default() })?;
        Ok(true)
    }

    fn post(&mut self, c: usize, s: usize, place: usize, what: Work, request: &SendRequest<'_>) -> Result<(), String> {
        let context = self.next_context;
        self.next_context += 1;
        let end = &mut self.channels[c].ends[s];
        end.sends.push_back(Posted { context, place, what });
        let (node, vi) = (end.node, end.vi);
        let request = SendRequest { context, ..*request };
        self.world.with(node, |e| e.post_send(vi, &request)).map_err(|e| format!("a request is not taken: {e:?}"))
    }

    /// Writes into a slot of the peer, and a message after it that says so.
    fn post_write(&mut self, c: usize, s: usize) -> Result<(), String> {
        let slot = self.random.below(SLOTS as u64) as usize;
        let bytes = self.random.within(1, SLOT as u64) as usize;
        let peer = &self.channels[c].ends[1 - s];
        let free = peer.phase == Phase::Connected && peer.slots[slot].is_none();
        let end = &self.channels[c].ends[s];
        if !free || end.phase != Phase::Connected || end.busy[0].count_zeros() < 6 || !(self.room_at_peer(c, s) || self.channels[c].rnr_wait) {
            return Ok(());
        }
        let (to, handle) = (self.channels[c].ends[1 - s].memory.address() + (WINDOW + slot * SLOT) as u64, self.channels[c].ends[1 - s].region);
        let end = &mut self.channels[c].ends[s];
        let Some(place) = end.take_place(0) else { return Ok(()) };
        let (connection, number) = (end.connection, end.sent);
        Pattern::new(connection, number | WRITE).put(&end.memory, place_at(0, place), 0, bytes);
        let segments = [end.segment(place_at(0, place), bytes)];
        self.channels[c].ends[1 - s].slots[slot] = Some((connection, number, bytes));
        let request = SendRequest { operation: Operation::RdmaWrite, segments: &segments, remote_address: to, remote_handle: handle, ..SendRequest::default() };
        self.post(c, s, place, Work::Write, &request)?;
        self.post_message(c, s, Some((slot, bytes))).map(drop)
    }

    fn post_read(&mut self, c: usize, s: usize) -> Result<(), String> {
        let bytes = self.random.within(1, LIBRARY_BYTES as u64) as usize;
        let from = self.random.below((LIBRARY_BYTES - bytes) as u64 + 1) as usize;
        let peer = &self.channels[c].ends[1 - s];
        let (to, handle, alive) = (peer.memory.address() + (LIBRARY_AT + from) as u64, peer.region, peer.phase != Phase::Gone);
        let level = self.channels[c].level;
        let end = &mut self.channels[c].ends[s];
        if end.phase != Phase::Connected || !level.is_reliable() || !alive {
            return Ok(());
        }
        let Some(place) = end.take_place(0) else { return Ok(()) };
        let segments = [end.segment(place_at(0, place), bytes)];
        let request = SendRequest { operation: Operation::RdmaRead, segments: &segments, remote_address: to, remote_handle: handle, ..SendRequest::default() };
        self.post(c, s, place, Work::Read { from, bytes }, &request)
    }

    /// When the world is later than this, it has taken too long.
    pub(super) fn deadline(&self, time: Duration) -> Instant {
        self.world.now() + time
    }
}
