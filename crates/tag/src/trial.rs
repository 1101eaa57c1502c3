// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which way lent messages come (`lent.rs`): pulled, or in parts.
//!
//! Which one is faster depends on the machine and on what else runs there. So both are timed on the
//! receiver's side: the time in which at least one lent message was under way, for so many bytes of
//! them. All messages of a [`Trial`] take one way; the engine's chooser says which.

use bellwire_via::TIMED_BYTES_MIN;

/// A trial ends after so many bytes, even if a message is always under way.
const TRIAL_BYTES: usize = 64 << 20;

/// The lent messages of a connection, timed together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trial {
    is_chosen: bool,
    pulls: bool,
    /// Messages under way; since when there are any.
    under_way: u32,
    began: u64,
    /// Bytes that have come, and the time that they took.
    bytes: usize,
    ns: u64,
}

impl Trial {
    /// Whether its messages are pulled.
    pub(crate) fn pulls(&self) -> bool {
        self.pulls
    }

    /// A message begins at `now`. Whether it is to be pulled: `choose` says so of a new trial.
    pub(crate) fn begin(&mut self, now: u64, choose: impl FnOnce() -> bool) -> bool {
        if !self.is_chosen {
            (self.is_chosen, self.pulls, self.bytes, self.ns) = (true, choose(), 0, 0);
        }
        if self.under_way == 0 {
            self.began = now;
        }
        self.under_way += 1;
        self.pulls
    }

    /// What has been timed says nothing: the next message begins another trial.
    pub(crate) fn give_up(&mut self) {
        self.is_chosen = false;
    }

    /// A message of `length` bytes has come at `now`. Whether that ends the trial.
    pub(crate) fn end(&mut self, length: usize, now: u64) -> Option<(usize, u64)> {
        self.under_way = self.under_way.saturating_sub(1);
        self.bytes = self.bytes.saturating_add(length);
        if self.under_way != 0 && self.bytes < TRIAL_BYTES {
            return None;
        }
        self.ns = self.ns.saturating_add(now.saturating_sub(self.began));
        self.began = now;
        if !self.is_chosen || self.bytes < TIMED_BYTES_MIN as usize {
            return None;
        }
        self.is_chosen = false;
        Some((self.bytes, self.ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trial_times_messages_together() {
        let mut t = Trial::default();
        let mib = 1 << 20;
        t.begin(100, || true);
        t.begin(150, || true);
        assert_eq!(t.end(mib, 300), None, "one is under way");
        assert_eq!(t.end(mib, 400), Some((2 * mib, 300)));
        // Short ones are gathered until they say something; the time between them is not theirs.
        let mut t = Trial::default();
        for at in [1000, 2000, 3000] {
            t.begin(at, || true);
            assert_eq!(t.end(128 << 10, at + 10), None);
        }
        t.begin(4000, || true);
        assert_eq!(t.end(128 << 10, 4010), Some((512 << 10, 40)));
        // A stream of messages without a pause is cut.
        let mut t = Trial::default();
        t.begin(5, || true);
        t.begin(5, || true);
        assert_eq!(t.end(TRIAL_BYTES, 105), Some((TRIAL_BYTES, 100)));
    }
}
