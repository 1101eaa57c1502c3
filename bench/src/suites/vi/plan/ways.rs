// SPDX-License-Identifier: MIT OR Apache-2.0
//! The part of a plan that is about ways: which memory, which mode, how to wait, how many at once.

use super::{Action, BULK_GOAL_SIZES, Builder, From, Step, Which, label, series as s};
use crate::bench::payload::Touch;
use crate::job::{Job, Waiting};
use crate::samples::{Key, Metric, Series};

/// How long each side computes before it answers, microseconds: less than a wait spins, and so much
/// more that it sleeps.
const WAITS_US: [u64; 2] = [10, WAIT_GOAL_US];
/// The wait that the goal is about.
pub const WAIT_GOAL_US: u64 = 200;
/// What a wake-up takes, roughly.
const WAKE_NS: u64 = 20_000;

impl Builder<'_> {
    /// The four bulk jobs at one size, as `in_user_memory` or in the engine's.
    fn bulk(&mut self, which: Which, size: usize, user: bool, series: Series, metrics: &[Metric]) {
        let stream = self.count(100.0 + size as f64 * 0.1, 100_000);
        for &metric in metrics {
            let job = match metric {
                Metric::Latency => Job::Latency { size, count: self.count(2.0 * self.message_ns(size), 100_000), touch: Touch::Ends },
                Metric::Bandwidth => Job::Bandwidth { size, count: stream, touch: Touch::Ends, both_ways: false },
                Metric::WriteBandwidth => Job::WriteBandwidth { size, count: stream, touch: Touch::Ends },
                Metric::ReadLatency => Job::ReadLatency { size, count: stream },
                Metric::ReadBandwidth => Job::ReadBandwidth { size, count: stream },
                _ => continue,
            };
            let job = if user { Job::InUserMemory(Box::new(job)) } else { job };
            self.ours_by(which, job, vec![(Key::new(metric, series, size as u64), From::First(0))]);
        }
    }

    pub(super) fn user(&mut self) {
        const SMALL: [Metric; 2] = [Metric::Latency, Metric::ReadLatency];
        const BULK: [Metric; 4] = [Metric::Latency, Metric::Bandwidth, Metric::WriteBandwidth, Metric::ReadBandwidth];
        self.bulk(Which::Main, 8, true, s::OURS_USER, &SMALL);
        for &size in self.sizes(&[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20], &[4 << 10, 64 << 10, 1 << 20]) {
            let key = |series| Key::new(Metric::Bandwidth, series, size as u64);
            let count = self.count(300.0 + size as f64 * 0.05, 100_000);
            self.limit(Job::Attach { size, count }, key(s::ATTACH));
            self.limit(Job::Bounce { size, count }, key(s::BOUNCE));
            self.bulk(Which::Main, size, true, s::OURS_USER, &BULK);
            if size == 4 << 10 || BULK_GOAL_SIZES.contains(&(size as u64)) {
                self.bulk(Which::Guarded, size, true, s::GUARDED_USER, &[Metric::Bandwidth]);
            }
        }
    }

    pub(super) fn guarded(&mut self) {
        const BULK: [Metric; 4] = [Metric::Latency, Metric::Bandwidth, Metric::WriteBandwidth, Metric::ReadBandwidth];
        self.bulk(Which::Guarded, 8, false, s::GUARDED, &[Metric::Latency, Metric::ReadLatency]);
        let count = self.count(25.0, 1_000_000);
        self.ours_by(Which::Guarded, Job::Rate { size: 8, count }, vec![(Key::new(Metric::Rate, s::GUARDED, 8), From::First(0))]);
        for &size in self.sizes(&[4 << 10, 64 << 10, 1 << 20], &[4 << 10, 64 << 10]) {
            self.bulk(Which::Guarded, size, false, s::GUARDED, &BULK);
        }
    }

    pub(super) fn wait(&mut self) {
        for pause_us in WAITS_US {
            let key = |series| Key::new(Metric::Waiting, series, pause_us);
            let count = self.count(2.0 * (1000 * pause_us + WAKE_NS) as f64, 2000);
            self.limit(Job::Eventfd { count, pause_us }, key(s::EVENTFD));
            self.limit(Job::Futex { count, pause_us }, key(s::FUTEX));
            for (which, series) in [(Which::Polling, s::POLLING), (Which::Blocking, s::BLOCKING), (Which::Sleeping, s::SLEEPING)] {
                self.ours_by(which, Job::Wake { count, pause_us }, vec![(key(series), From::First(0))]);
            }
        }
    }

    pub(super) fn pairs(&mut self) {
        if !self.options.library {
            return;
        }
        let millis = if self.options.quick { 100 } else { 250 };
        for &pairs in &self.options.pairs {
            for (waiting, series) in [(Waiting::Poll, s::POLLING), (Waiting::Block, s::BLOCKING)] {
                let key = Key::new(Metric::Pairs, series, pairs as u64);
                self.steps.push(Step { label: label(&key), action: Action::Pairs { pairs, waiting, millis, key } });
            }
        }
    }
}
