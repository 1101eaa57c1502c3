// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: where the time of a get by packets goes, for a measuring program that asks with its own
//! [`Probe`] (`bellwire gas --only steps`), in the manner of those of Active Messages.
//!
//! The calls of a get's way are generic over who watches. Programs call them with [`Off`], of whose
//! probes no code is left. A probe marks the instant at which a step of the way is over: once for
//! each get and its answer, and not by looks that find nothing.

use crate::error::Error;
use crate::process::Process;

/// A step that is over, in the order in which a process passes them: the first four in the process
/// that asks, the others in the one that is asked and then in the one that asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// The NIC's token is held, and with it the machine.
    Entered,
    /// The peer is found, there is room for an answer, and a credit.
    Allowed,
    /// The request is put together.
    Built,
    /// It has left.
    Sent,
    /// A message is found.
    Found,
    /// Its head is read and checked, its credits are back.
    Parsed,
    /// What it asks for is read and put together; or, of an answer, in its place.
    Handled,
    /// The answer has left.
    Left,
}

impl Stage {
    /// How many there are.
    pub const COUNT: usize = Self::Left as usize + 1;
}

/// A watcher that hears of each step.
pub trait Probe {
    /// This step is over now.
    fn mark(stage: Stage);
}

/// Nobody.
#[derive(Clone, Copy, Debug)]
pub enum Off {}

impl Probe for Off {
    #[inline(always)]
    fn mark(_: Stage) {}
}

/// The calls with a probe; else as those without. Of places that are mapped here, and where all
/// memory is, nothing is marked.
impl Process {
    /// As [`sync`](Self::sync).
    ///
    /// # Errors
    /// As there.
    pub fn sync_probed<P: Probe>(&self) -> Result<(), Error> {
        self.net.as_ref().map_or(Ok(()), |net| net.sync_probed::<P>())
    }

    /// Answers another process until it has got from here `gets` times in all. Nothing to do if its
    /// memory is mapped here.
    ///
    /// # Errors
    /// As for [`sync`](Self::sync).
    pub fn answer_probed<P: Probe>(&self, process: u32, gets: u32) -> Result<(), Error> {
        self.net.as_ref().map_or(Ok(()), |net| net.answer_probed::<P>(process, gets))
    }
}
