// SPDX-License-Identifier: MIT OR Apache-2.0
//! The machine as the NIC's helper thread drives it. While the program computes, the helper answers
//! peers and sends the requests that wait for company. A program that asks for things does both by
//! its own looks, and the helper stays away.

use bellwire_memory::atomic::Ordering;
use bellwire_via::nic::Machine;
use bellwire_via::wire::Wire;
use bellwire_via::{Duration, Engine, Instant};

use super::core::Core;

/// Steps for each turn of the helper.
const STEPS: u32 = 32;
/// How long requests wait for company while the program computes.
const COMPANY: Duration = Duration(200_000);
/// How long until the helper tries again to send a message that found no room.
const RETRY: Duration = Duration(1_000_000);

impl<W: Wire> Machine<W> for Core {
    fn step(&mut self, engine: &mut Engine<W>, _: Instant) -> bool {
        // A process that leaves moves its traffic itself.
        if self.is_leaving {
            return false;
        }
        let had_packs = !self.packing.is_empty();
        let mut moved = 0;
        while moved < STEPS && Core::step(self, engine) {
            moved += 1;
        }
        if moved > 0 {
            // Relaxed: counted and read under the token. A program that is about to sleep sees the
            // count; one that sleeps is woken.
            self.served.fetch_add(1, Ordering::Relaxed);
            engine.rouse();
        }
        self.is_stuck = !self.packing.is_empty();
        moved > 0 || (had_packs && !self.is_stuck)
    }

    fn has_unsent(&self) -> bool {
        false
    }

    fn is_armed(&self) -> bool {
        false
    }

    fn next_timeout(&self, now: Instant) -> Instant {
        if !self.packing.is_empty() && !self.is_stuck {
            now + COMPANY
        } else if !self.packing.is_empty() || !self.unsent.is_empty() {
            now + RETRY
        } else {
            Instant::NEVER
        }
    }

    fn close(&mut self, engine: &mut Engine<W>) {
        let vis: Vec<_> = self.peers.iter_mut().map(|peer| peer.channel.close()).collect();
        self.mailbox.close(engine, &mut self.acceptor, vis);
    }
}
