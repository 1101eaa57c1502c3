// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the round over VIs that have something to send stands. Its rules are in `schedule.rs`.

use crate::limits::TURN_BYTES_DEFAULT;
use crate::wire::LinkId;

/// Where the round stands.
#[derive(Debug)]
pub(crate) struct Round {
    pub(crate) turn_bytes: u32,
    /// The VI that the round begins with.
    pub(crate) cursor: usize,
    /// The VIs that wait for room, by link.
    pub(crate) fronts: Vec<(LinkId, usize)>,
    /// The VIs that waited when the present round began; kept, so that no round allocates.
    pub(crate) waited: Vec<(LinkId, usize)>,
    /// Somebody waits for room: no fast path.
    pub(crate) waits: bool,
    /// The rest of the credit of the VI that sends now.
    pub(crate) budget: u32,
}

impl Default for Round {
    fn default() -> Self {
        Self { turn_bytes: TURN_BYTES_DEFAULT, cursor: 0, fronts: Vec::new(), waited: Vec::new(), waits: false, budget: 0 }
    }
}
