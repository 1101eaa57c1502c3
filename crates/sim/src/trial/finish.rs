// SPDX-License-Identifier: MIT OR Apache-2.0
//! The end of a trial: the faults are over; all must work again, complete, and leave nothing
//! behind.

use super::Trial;
use super::end::Phase;
use bellwire_time::Duration;
use bellwire_via::MemHandle;

/// Time in which all channels are connected after the faults: that of finding out that a peer is
/// gone (12 s), of a handshake that was under way (5 s), and a few times that of asking.
const RECOVERY: Duration = Duration::from_secs(40);
/// Time in which what is posted then has arrived.
const DELIVERY: Duration = Duration::from_secs(20);
/// Time in which what was said last has been acknowledged.
const CLOSING: Duration = Duration::from_secs(1);
/// Messages that each end sends at the end.
const LAST_MESSAGES: u64 = 3;

impl Trial {
    pub(super) fn finish(&mut self) -> Result<(), String> {
        self.check_bounds()?;
        self.world.fabric_mut().heal();
        self.reconnect()?;
        self.deliver_all()?;
        self.end_all()?;
        self.leave_nothing()
    }

    /// T5: idle programs ask; after a while none is idle.
    fn reconnect(&mut self) -> Result<(), String> {
        let deadline = self.deadline(RECOVERY);
        loop {
            let alone = |c: &super::Channel| c.ends.iter().any(|e| e.phase != Phase::Connected);
            let Some(c) = self.channels.iter().position(alone) else { return Ok(()) };
            if self.world.now() > deadline {
                let phases = [0, 1].map(|s| (self.channels[c].ends[s].node, self.channels[c].ends[s].phase));
                return Err(format!("channel {c} is not connected {} s after the faults: {phases:?}", RECOVERY.0 / 1_000_000_000));
            }
            self.ask_all();
            self.let_pass(Duration::from_millis(20))?;
        }
    }

    /// Messages sent now arrive, on all existing connections.
    fn deliver_all(&mut self) -> Result<(), String> {
        let deadline = self.deadline(DELIVERY);
        let mut left = vec![[LAST_MESSAGES; 2]; self.channels.len()];
        loop {
            // A message that was under way when the faults ended may still break a connection, for
            // want of a receive: then all begins anew.
            self.ask_all();
            for (c, s) in (0..left.len()).flat_map(|c| [(c, 0), (c, 1)]) {
                self.post_receive(c, 1 - s)?;
                if self.channels[c].ends[s].phase != Phase::Connected {
                    left[c] = [LAST_MESSAGES; 2];
                }
                // At the unreliable level nobody knows what was lost.
                let room = self.room_at_peer(c, s) || !self.channels[c].level.is_reliable();
                if left[c][s] > 0 && room && self.post_message(c, s, None)? {
                    left[c][s] -= 1;
                }
            }
            self.let_pass(Duration::from_millis(10))?;
            let open = (0..left.len()).flat_map(|c| [(c, 0), (c, 1)]).find(|&(c, s)| left[c][s] > 0 || !self.is_through(c, s));
            let Some((c, s)) = open else { return Ok(()) };
            if self.world.now() > deadline {
                let end = &self.channels[c].ends[s];
                let got = self.ledger.get(&end.connection).map_or(0, |r| r.count);
                return Err(format!(
                    "channel {c} ({:?}), end {s}: {} messages sent, {got} arrived, {:?} are open",
                    self.channels[c].level, end.sent, end.sends
                ));
            }
        }
    }

    /// Whether all that an end has sent has completed, and has arrived where that is promised.
    fn is_through(&self, c: usize, s: usize) -> bool {
        let end = &self.channels[c].ends[s];
        let got = self.ledger.get(&end.connection).map_or(0, |r| r.count);
        end.sends.is_empty() && (got == end.sent || !self.channels[c].level.is_reliable())
    }

    fn end_all(&mut self) -> Result<(), String> {
        for (c, s) in (0..self.channels.len()).flat_map(|c| [(c, 0), (c, 1)]) {
            self.disconnect(c, s)?;
        }
        // The other ends hear of it.
        self.let_pass(Duration::from_secs(2))?;
        for (c, s) in (0..self.channels.len()).flat_map(|c| [(c, 0), (c, 1)]) {
            self.disconnect(c, s)?;
        }
        Ok(())
    }

    /// T6: all objects can be destroyed, nothing is kept, and nothing is under way for ever.
    fn leave_nothing(&mut self) -> Result<(), String> {
        for (c, s) in (0..self.channels.len()).flat_map(|c| [(c, 0), (c, 1)]) {
            let end = &self.channels[c].ends[s];
            let (node, vi, address, region) = (end.node, end.vi, end.memory.address(), end.region);
            let destroyed = self.world.with(node, |e| {
                e.destroy_vi(vi)?;
                e.deregister(address, MemHandle::from_raw(region))
            });
            destroyed.map_err(|e| format!("channel {c}, end {s}: not destroyed: {e:?}"))?;
            self.channels[c].ends[s].phase = Phase::Gone;
        }
        for node in 0..self.nodes.len() {
            let Some(ptag) = self.nodes[node].ptag else { continue };
            self.world.with(node, |e| e.destroy_ptag(ptag)).map_err(|e| format!("node {node}: a tag is in use: {e:?}"))?;
            let engine = self.world.engine(node).ok_or("a node is dead after the end of all faults")?;
            let (usage, ready) = (engine.usage(), engine.ready_vis());
            if usage.vis != 0 || usage.regions != 0 || usage.registered_bytes != 0 || ready != 0 {
                return Err(format!("node {node} is left with {usage:?}, {ready} VIs ready"));
            }
        }
        self.let_pass(CLOSING)?;
        for node in 0..self.nodes.len() {
            let Some(engine) = self.world.engine(node) else { continue };
            let links = engine.wire().links();
            for info in links.into_iter().filter_map(|link| engine.wire().path(link)) {
                if info.outstanding != 0 || info.kept != 0 {
                    return Err(format!("node {node} keeps packets: {info:?}"));
                }
            }
            if engine.wire().transport().sessions() > 2 * self.nodes.len() || engine.wire().port().stalled() != 0 {
                return Err(format!("node {node} is left with {} sessions", engine.wire().transport().sessions()));
            }
        }
        let fabric = self.world.fabric();
        let s = fabric.statistics();
        if s.sent + s.duplicated != s.delivered + s.dropped_in_all() + fabric.in_flight() {
            return Err(format!("packets are not conserved: {s:?}"));
        }
        Ok(())
    }
}
