// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which way large requests from and to memory that cannot be mapped take on a link: through the
//! rings, copied by both cores, or by cross-memory attach, copied once by the side that wants the
//! data. Which is faster depends on the machine, the kernel, and on what the other process does
//! just now; so both are timed.
//!
//! The first requests go both ways; then the faster way is taken, and now and then the other is
//! tried again. Used by `transmit.rs` and `lent.rs`, one [`Chooser`] a link.

use crate::wire::Attach;

/// Requests below this are not worth a system call on either side when nobody has asked for attach.
pub(crate) const ATTACH_BYTES_MIN_AUTO: u32 = 128 * 1024;
/// The same where attach is to be used whenever possible.
pub(crate) const ATTACH_BYTES_MIN_ALWAYS: u32 = 4096;
/// Most bytes that are pulled at once: bounds how long a turn of the engine takes.
pub const PULL_BYTES_MAX: u32 = 128 * 1024;
/// Requests shorter than this say little about speed: much of them fits into the rings.
pub const TIMED_BYTES_MIN: u32 = 512 * 1024;
/// Timed requests of each way at first.
const TRIES: u32 = 2;
/// Times as long as the other way took is too long to be tried again at once.
const FAR: f32 = 4.0;
/// One request in so many takes the slower way, to see whether it still is.
const TRY_AGAIN: u32 = 128;
/// Weight of the newest time.
const WEIGHT: f32 = 0.25;

/// Requests shorter than this never go by attach.
pub(crate) fn bytes_min(mode: Attach) -> u32 {
    match mode {
        Attach::Never => u32::MAX,
        Attach::Auto => ATTACH_BYTES_MIN_AUTO,
        Attach::Always => ATTACH_BYTES_MIN_ALWAYS,
    }
}

/// The requests for which one of the two ways is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Sends and RDMA writes: the peer pulls.
    Push = 0,
    /// RDMA reads: we pull.
    Read = 1,
    /// Long messages of layers that send by copy: the receiver chooses, and pulls.
    Message = 2,
}

#[derive(Clone, Copy, Debug, Default)]
struct Times {
    /// Nanoseconds per KiB, by way (rings, attach); meaningless before the first sample.
    mean: [f32; 2],
    samples: [u32; 2],
    chosen: u32,
}

/// Chooses, and learns.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chooser {
    times: [Times; 3],
}

impl Chooser {
    /// Whether a request of `length` bytes is to go by attach.
    pub fn attach(&mut self, mode: Attach, kind: Kind, length: u32) -> bool {
        length >= bytes_min(mode) && (mode == Attach::Always || self.times[kind as usize].attach(length))
    }

    /// A request took `ns`; 0: unknown.
    pub fn record(&mut self, kind: Kind, attached: bool, length: u32, ns: u64) {
        if ns == 0 || length < TIMED_BYTES_MIN {
            return;
        }
        let t = &mut self.times[kind as usize];
        let way = usize::from(attached);
        let new = ns as f32 / (length as f32 / 1024.0);
        t.mean[way] = match t.samples[way] {
            0 => new,
            // Others that run make a request slower, never faster: the best of the first counts.
            n if n < TRIES => new.min(t.mean[way]),
            _ => t.mean[way] + (new - t.mean[way]) * WEIGHT,
        };
        t.samples[way] = t.samples[way].saturating_add(1);
    }
}

impl Times {
    fn attach(&mut self, length: u32) -> bool {
        if length >= TIMED_BYTES_MIN {
            // The first ones by turns, the rings first: they need nothing that might fail. Rings
            // that took far longer are not tried a second time: such a machine is crowded.
            for sample in 0..TRIES {
                for way in [0, 1] {
                    let is_slow = sample != 0 && way == 0 && self.mean[0] > FAR * self.mean[1];
                    if self.samples[way] <= sample && !is_slow {
                        return way == 1;
                    }
                }
            }
            self.chosen = self.chosen.wrapping_add(1);
            if self.chosen.is_multiple_of(TRY_AGAIN) {
                return self.mean[0] <= self.mean[1];
            }
        }
        self.samples[1] != 0 && self.samples[0] != 0 && self.mean[1] < self.mean[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `n` requests on a machine where the two ways take these times, and gives how many went
    /// by attach.
    fn run(c: &mut Chooser, n: u32, rings: u64, attach: u64) -> u32 {
        let length = 1 << 20;
        (0..n)
            .map(|_| {
                let attached = c.attach(Attach::Auto, Kind::Push, length);
                c.record(Kind::Push, attached, length, if attached { attach } else { rings });
                u32::from(attached)
            })
            .sum()
    }

    #[test]
    fn takes_the_faster_way_and_notices_a_change() {
        let mut c = Chooser::default();
        assert!(run(&mut c, 1000, 20_000, 90_000) < 20);
        assert!(run(&mut c, 3000, 200_000, 90_000) > 2500);
        assert!(run(&mut c, 3000, 20_000, 90_000) < 500);
        assert!(!c.attach(Attach::Auto, Kind::Push, ATTACH_BYTES_MIN_AUTO - 1));
    }

    #[test]
    fn rings_that_are_far_slower_are_tried_once() {
        for (rings, attach, expected) in [(400_000, 90_000, 9), (90_000, 400_000, 2), (90_000, 300_000, 2), (300_000, 90_000, 8)] {
            assert_eq!(run(&mut Chooser::default(), 10, rings, attach), expected);
        }
        // One bad sample of attach does not decide.
        let (mut c, length) = (Chooser::default(), 1 << 20);
        for ns in [90_000, 900_000, 90_000, 30_000] {
            let attached = c.attach(Attach::Auto, Kind::Message, length);
            c.record(Kind::Message, attached, length, ns);
        }
        assert!(c.attach(Attach::Auto, Kind::Message, length));
    }

    #[test]
    fn modes_and_no_clock() {
        let mut c = Chooser::default();
        assert!(!c.attach(Attach::Never, Kind::Read, 1 << 30));
        assert!(c.attach(Attach::Always, Kind::Read, ATTACH_BYTES_MIN_ALWAYS));
        for _ in 0..100 {
            assert!(!c.attach(Attach::Auto, Kind::Read, 1 << 20), "without a clock nothing is known to be faster");
            c.record(Kind::Read, false, 1 << 20, 0);
        }
    }
}
