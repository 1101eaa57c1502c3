// SPDX-License-Identifier: MIT OR Apache-2.0
//! Settings, with their defaults.

use bellwire_time::Duration;

/// Which resident endpoint makes room. The paper on virtual networks does not say which it takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Policy {
    /// The one that was used least recently.
    #[default]
    LeastRecentlyUsed,
    /// Any of them.
    Random,
    /// The one that has been resident longest.
    LongestResident,
}

/// Settings of a [`Residency`](crate::Residency).
#[derive(Clone, Debug)]
pub struct Config {
    /// Frames for users' endpoints, at least 1. The paper's NIC had seven.
    pub frames: usize,
    /// Remaps (quiescing, unloading, loading) that are under way at once, at least 1. One driver
    /// does one after the other.
    pub remaps_max: usize,
    /// The endpoint that makes room.
    pub policy: Policy,
    /// How long an endpoint keeps its frame at least; each time once to twice this, drawn. Longer
    /// than a round trip and than a refused sender waits before it tries again: otherwise an
    /// endpoint loaded for a message is gone when the message comes again.
    pub stay: Duration,
    /// How long an endpoint may quiesce before another one does so too.
    pub patience: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self { frames: 7, remaps_max: 1, policy: Policy::default(), stay: Duration::from_millis(5), patience: Duration::from_millis(10) }
    }
}

impl Config {
    pub(crate) fn bounded(mut self) -> Self {
        self.frames = self.frames.clamp(1, 1 << 20);
        self.remaps_max = self.remaps_max.clamp(1, self.frames);
        self.patience.0 = self.patience.0.max(1);
        self
    }
}
