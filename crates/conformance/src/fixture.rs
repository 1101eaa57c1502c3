// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a wire must give to be put through the suite.

use bellwire_via::wire::Wire;
use bellwire_via::{Duration, Engine};

/// One or two NICs on a wire, and time.
pub trait Fixture {
    /// The wire.
    type W: Wire;

    /// How long a case waits for something that must happen, in the engines' time.
    const PATIENCE: Duration;
    /// How long a case lets pass before it says that something did not happen.
    const QUIET: Duration;
    /// How much more of it a case lets pass while something is under way.
    const BUSY: Duration = Duration::from_millis(1_000);
    /// Turns that pass with it at least, for a thread that the machine keeps waiting.
    const QUIET_TURNS: u64;
    /// The same limit in turns, for time that stands still.
    const TURNS_MAX: u64;

    /// NICs: 1 or 2.
    fn nics(&self) -> usize;
    /// Runs `f` on a NIC's engine, which has been told the time.
    fn with<R>(&mut self, nic: usize, f: impl FnOnce(&mut Engine<Self::W>) -> R) -> R;
    /// Whether a message can lie in the wire's memory until it is given back.
    fn keeps_frames(&self) -> bool {
        false
    }
    /// Whether memory of the engine's allocator is to be reached directly between the sides.
    fn is_direct(&self) -> bool {
        false
    }
    /// Whether a receive descriptor that is posted is known to the peer at once, if it is ever.
    fn publishes_at_once(&self) -> bool {
        true
    }
    /// Whether a NIC lives.
    fn lives(&self, _nic: usize) -> bool {
        true
    }
    /// Whether something that was sent is still under way, as far as the wire knows.
    fn is_busy(&self) -> bool {
        false
    }
    /// Every NIC has a turn, and time goes on.
    fn turn(&mut self);
    /// A NIC dies without a word; `false` if the fixture cannot do that.
    fn crash(&mut self, _nic: usize) -> bool {
        false
    }
}
