// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: where the time of a message goes, for a measuring program that asks with its own
//! [`Probe`]. A trace compares instead, and needs none of this.
//!
//! The calls of a message's way are generic over who watches, by the steps `S` of their layer.
//! Programs call them with [`Off`], of whose marks no code is left.

/// A watcher that hears of each step.
pub trait Probe<S> {
    /// Whether somebody listens. If not, the compiler sees no mark, and weighs the functions around
    /// it as if there was none.
    const IS_ON: bool = true;

    /// This step is over now.
    fn mark(stage: S);
}

/// Nobody.
#[derive(Clone, Copy, Debug)]
pub enum Off {}

impl<S> Probe<S> for Off {
    const IS_ON: bool = false;

    #[inline(always)]
    fn mark(_: S) {}
}
