// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC is closed: what it has sent arrives first. Called by `HostWire::take_leave`, which knows
//! how to sleep meanwhile.
//!
//! Only what the transport has taken counts, that is what has completed at Reliable Delivery:
//! requests that have not are ended with the engine. Packets that peers still send are taken and
//! dropped, so that two NICs that are closed at once do not wait for each other.

use super::{PacketPort, PacketWire};
use crate::Wire as _;
use crate::time::{Duration, Instant};

/// With everything acknowledged, the peers' answers to the end itself are waited for so long:
/// without it they are told by their hosts, or find out.
const ANSWERS: Duration = Duration::from_millis(100);

impl<P: PacketPort> PacketWire<P> {
    /// Ends all sessions: nothing more can be sent, and what was sent goes on being sent until it
    /// is acknowledged or the transport's `close_time` is over.
    pub(crate) fn begin_farewell(&mut self) {
        let now = self.port.now();
        for session in self.by_session.keys() {
            let _ = self.transport.close(now, *session);
        }
        self.transmit(now);
    }

    /// Takes what has come and sends what is due. When to call again at the latest; `None`: it is
    /// done.
    pub(crate) fn farewell_turn(&mut self, settled: &mut Option<Instant>) -> Option<Instant> {
        self.look();
        while let Some(session) = self.transport.next_delivery() {
            while self.transport.poll_deliver(session).is_some() {}
        }
        let now = self.port.now();
        self.transmit(now);
        if self.by_session.is_empty() {
            return None;
        }
        if self.has_outstanding() {
            return Some(self.next_timeout());
        }
        let until = *settled.get_or_insert(now) + ANSWERS;
        (now < until).then(|| self.next_timeout().min(until))
    }
}
