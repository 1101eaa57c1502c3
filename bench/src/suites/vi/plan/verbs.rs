// SPDX-License-Identifier: MIT OR Apache-2.0
//! Verbs beside the virtual interfaces of the same engine.

use super::{Builder, From, Which, series as s};
use crate::bench::payload::Touch;
use crate::job::Job;
use crate::samples::{Key, Metric, Series};
use crate::verbs::measure::Operation;

impl Builder<'_> {
    pub(super) fn verbs(&mut self) {
        for &size in self.sizes(&[8, 64, 512, 4 << 10, 64 << 10, 1 << 20], &[8, 4 << 10]) {
            self.beside(Metric::Latency, size, Job::Latency { size, count: 0, touch: Touch::Ends }, s::VERBS, Operation::Send, false);
        }
        self.beside(Metric::WriteLatency, 8, Job::WriteLatency { count: 0 }, s::VERBS, Operation::Write, false);
        for &size in self.sizes(&[8, 64, 512, 4 << 10, 64 << 10], &[8, 4 << 10]) {
            self.beside(Metric::ReadLatency, size, Job::ReadLatency { size, count: 0 }, s::VERBS, Operation::Read, false);
        }
        for &size in self.sizes(&[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20], &[64 << 10, 1 << 20]) {
            let touch = Touch::Ends;
            self.beside(Metric::Bandwidth, size, Job::Bandwidth { size, count: 0, touch, both_ways: false }, s::VERBS, Operation::Send, true);
            self.beside(Metric::WriteBandwidth, size, Job::WriteBandwidth { size, count: 0, touch }, s::VERBS_UNREAD, Operation::Write, true);
            self.beside(Metric::ReadBandwidth, size, Job::ReadBandwidth { size, count: 0 }, s::VERBS_UNREAD, Operation::Read, true);
        }
        for (operation, series) in [(Operation::FetchAdd, s::FETCH_ADD), (Operation::CompareSwap, s::COMPARE_SWAP)] {
            self.of_verbs(Metric::AtomicLatency, 8, series, operation, false);
            self.of_verbs(Metric::AtomicRate, 8, series, operation, true);
        }
    }

    /// The job of a virtual interface, its count filled in, then the same by verbs.
    fn beside(&mut self, metric: Metric, size: usize, mut job: Job, series: Series, operation: Operation, stream: bool) {
        let times = self.times(size, stream);
        if let Job::Latency { count, .. }
        | Job::WriteLatency { count }
        | Job::ReadLatency { count, .. }
        | Job::Bandwidth { count, .. }
        | Job::WriteBandwidth { count, .. }
        | Job::ReadBandwidth { count, .. } = &mut job
        {
            *count = times;
        }
        self.ours(job, vec![(Key::new(metric, s::OURS, size as u64), From::First(0))]);
        self.of_verbs(metric, size, series, operation, stream);
    }

    fn of_verbs(&mut self, metric: Metric, size: usize, series: Series, operation: Operation, stream: bool) {
        let count = self.times(size, stream);
        let keys = vec![(Key::new(metric, series, size as u64), From::First(0))];
        self.ours_by(Which::Peers, Job::Verbs { operation, size, count, stream }, keys);
    }

    fn times(&self, size: usize, stream: bool) -> u64 {
        self.count(if stream { 1.0 } else { 2.0 } * (150.0 + size as f64 * 0.1), 200_000)
    }
}
