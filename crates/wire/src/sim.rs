// SPDX-License-Identifier: MIT OR Apache-2.0
//! A network in memory, in virtual time: the wire of tests, models and the simulator.
//!
//! ```text
//!   World ──steps──> Engine<SimWire> ──frames──> SimNetwork ──frames, later──> Engine<SimWire>
//! ```
//!
//! - `network.rs`: NICs, links, what is under way, and when it arrives. No clock: time is what
//!   [`SimNetwork::advance_to`] was told last.
//! - `port.rs`: [`SimWire`], one NIC's view of the network.
//!
//! The engine's `World` (`crates/via/src/world.rs`) steps many engines and moves time to where
//! something happens next.
//!
//! Invariants
//! - S1: what happens is a function of the configuration, its seed and the calls: no clock, thread,
//!   address or hash order takes part.
//! - S2: a link delivers what `send` took, once, in order, or it goes down and says so at both
//!   ends.
//! - S3: no frame arrives before its link's latency and the transmission of all before it have
//!   passed.

mod network;
mod port;

pub use network::{SimNetwork, SimStatistics};
pub use port::SimWire;

use crate::time::Duration;

/// What a network is like.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Seed of the jitter.
    pub seed: u64,
    /// Time that the first bit of a frame travels.
    pub latency: Duration,
    /// Most time that is added to it, drawn for each frame; order is kept.
    pub jitter: Duration,
    /// Bandwidth of one direction of a link, bits per second; 0 for no limit.
    pub bits_per_second: u64,
    /// Frames of one direction that are under way or not yet consumed; more find no room.
    pub queue_frames_max: usize,
    /// Payload bytes of a frame.
    pub payload_bytes_max: usize,
    /// Time until the others notice that a NIC has died.
    pub death_latency: Duration,
    /// Time that a turn of the engines takes.
    pub turn: Duration,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            seed: 1,
            latency: Duration(1_000),
            jitter: Duration(0),
            bits_per_second: 100_000_000_000,
            queue_frames_max: 128,
            payload_bytes_max: 1024,
            death_latency: Duration::from_micros(50),
            turn: Duration(200),
        }
    }
}

#[cfg(test)]
mod tests;
