// SPDX-License-Identifier: MIT OR Apache-2.0
//! How long the helper delays answers to peers.

/// How long answers are held back that a request of the program may take along, ns.
pub(crate) const LINGER: u64 = 50_000;

/// Whether the helper delays answers. A program that posts a request for each that comes (a
/// ping-pong) takes them along: its peer finds them in one look, together with the request that it
/// waits for. Told at once, they would be all that this look finds. Answers of a program that has
/// posted nothing since the last delay are not delayed.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// Requests that the program had posted when the last delay gained nothing.
    in_vain: u64,
    /// The same when answers began to be held back, and the time.
    held: Option<(u64, u64)>,
}

impl Patience {
    pub(crate) fn lasts(&mut self, posts: u64, now: u64) -> bool {
        if let Some((held, since)) = self.held.filter(|(held, _)| *held == posts)
            && now.saturating_sub(since) >= LINGER
        {
            self.in_vain = held;
        }
        posts != self.in_vain
    }

    pub(crate) fn note(&mut self, posts: u64, owes: bool, now: u64) {
        self.held = if owes { self.held.filter(|(held, _)| *held == posts).or(Some((posts, now))) } else { None };
    }

    /// Until when answers are held back.
    pub(crate) fn until(&self) -> Option<u64> {
        self.held.map(|(_, since)| since + LINGER)
    }
}
