// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one round measures over UDP: the library, bare sockets over the same way, and other
//! libraries over TCP and UDP.

use super::{Builder, From, Group, LongDatagrams, Which, series as s};
use crate::bench::payload::Touch;
use crate::job::{Job, Socket};
use crate::limits::net::datagram::DATAGRAM_MAX;
use crate::limits::net::datagrams::ETHERNET;
use crate::peers::libfabric::Way;
use crate::peers::ucx::Test;
use crate::samples::{Key, Metric, Series};

/// Sizes of RDMA writes that a goal is set for.
pub const UDP_BULK_GOAL_SIZES: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];
/// Size of the writes of which a part is lost.
pub const LOSS_GOAL_SIZE: u64 = 1 << 20;
/// Microseconds that each side computes before it answers, where waking is measured.
const PAUSE_US: u64 = super::WAIT_GOAL_US;
/// What waking costs, roughly.
const WAKE_NS: f64 = 30_000.0;

/// How many times as long streams over TCP are measured: its window opens first.
const TCP_LONGER: u64 = 4;

/// How long a message is under way, roughly.
fn each_ns(size: usize) -> f64 {
    4000.0 + size as f64 * 0.5
}

impl Builder<'_> {
    pub(super) fn over_udp(&mut self, long: LongDatagrams) {
        for group in &self.options.groups {
            match group {
                Group::Lat => self.udp_latency(),
                Group::Bw => self.udp_bandwidth(long),
                Group::Rate => self.udp_rate(),
                Group::Write => self.udp_write(long),
                Group::Wait => self.udp_waiting(),
                Group::Loss => self.udp_loss(),
                _ => {}
            }
        }
    }

    fn socket(&mut self, kind: Socket, metric: Metric, size: usize, blocking: bool, pause_us: u64) {
        let series = match kind {
            Socket::Udp => s::UDP,
            Socket::Tcp => s::TCP,
        };
        let wake = if blocking { WAKE_NS } else { 0.0 };
        let count = self.count(2.0 * (each_ns(size) + wake + pause_us as f64 * 1e3), 100_000);
        let row = if metric == Metric::Waiting { pause_us } else { size as u64 };
        self.limit(Job::Socket { kind, size, count, blocking, pause_us }, Key::new(metric, series, row));
    }

    /// The bare streams beside messages of `size` bytes.
    fn streams(&mut self, metric: Metric, size: usize, long: LongDatagrams) {
        if !self.options.compare {
            return;
        }
        let count = self.count(size as f64 * 0.3, 1_000_000);
        let mut lengths = vec![(ETHERNET, s::UDP_BULK)];
        if long && size >= DATAGRAM_MAX {
            lengths.push((DATAGRAM_MAX, s::UDP_LONG));
        }
        for (datagram, series) in lengths {
            let keys = vec![(Key::new(metric, series, size as u64), From::Second(0)), (Key::new(Metric::DatagramsLost, series, size as u64), From::Second(1))];
            self.pair(Which::Main, Job::DatagramStream { size, count, datagram }, keys);
        }
        self.pair(Which::Main, Job::ByteStream { size, count: TCP_LONGER * count }, vec![(Key::new(metric, s::TCP, size as u64), From::Second(0))]);
    }

    /// Bare sockets over loopback, beside shared memory: messages there and back.
    pub(super) fn loopback(&mut self, size: usize) {
        if size <= DATAGRAM_MAX {
            self.socket(Socket::Udp, Metric::Latency, size, false, 0);
        }
        self.socket(Socket::Tcp, Metric::Latency, size, false, 0);
    }

    /// The same one way.
    pub(super) fn loopback_streams(&mut self, size: usize) {
        let count = self.count(size as f64 * 0.3, 1_000_000);
        let bandwidth = |series| Key::new(Metric::Bandwidth, series, size as u64);
        if self.options.compare {
            let datagrams = Job::DatagramStream { size, count, datagram: DATAGRAM_MAX };
            self.pair(Which::Main, datagrams, vec![(bandwidth(s::UDP_LONG), From::Second(0))]);
            self.pair(Which::Main, Job::ByteStream { size, count: TCP_LONGER * count }, vec![(bandwidth(s::TCP), From::Second(0))]);
        }
    }

    /// Ping-pongs of libfabric; the large ones count as bandwidth, too.
    fn fabrics(&mut self, size: usize) {
        self.libfabric_over(Way::Tcp, s::FABRIC_TCP, size, 2.0 * each_ns(size));
        // It resends by slow timers, so large messages take their time.
        self.libfabric_over(Way::UdpRxd, s::FABRIC_RXD, size, 2.0 * (each_ns(size) + size as f64 * 3.0));
    }

    fn udp_latency(&mut self) {
        let all: Vec<usize> = (0..=20).map(|power| 1usize << power).chain([56]).collect();
        let mut sizes = self.sizes(&all, &[8, 4 << 10, 64 << 10]).to_vec();
        sizes.sort_unstable();
        let peers = self.sizes(&[8, 512, 4 << 10, 64 << 10, 1 << 20], &[8, 64 << 10]).to_vec();
        for &size in &sizes {
            let count = self.count(2.0 * each_ns(size), 100_000);
            let key = |series| Key::new(Metric::Latency, series, size as u64);
            // Beyond an Ethernet frame a datagram is cut, which no protocol would let happen.
            if [8, 56, 512, 1024].contains(&size) {
                self.socket(Socket::Udp, Metric::Latency, size, false, 0);
            }
            self.ours(Job::Latency { size, count, touch: Touch::Ends }, vec![(key(s::OURS), From::First(0))]);
            if peers.contains(&size) {
                self.socket(Socket::Tcp, Metric::Latency, size, false, 0);
                self.ucx(Test::TagLatency, Metric::Latency, s::UCX_TCP, size, 2.0 * each_ns(size));
                self.fabrics(size);
            }
        }
        let keys = [500, 900, 990, 999, 1000].iter().enumerate();
        let keys = keys.map(|(index, &quantile)| (Key::new(Metric::Percentile, s::OURS, quantile), From::First(index))).collect();
        let count = self.count(each_ns(8), 20_000);
        self.ours(Job::Percentiles { size: 8, count }, keys);
    }

    fn udp_bandwidth(&mut self, long: LongDatagrams) {
        let full = [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
        for &size in self.sizes(&full, &[4 << 10, 64 << 10]) {
            let each = 500.0 + size as f64 * 0.5;
            let count = self.count(each, 100_000);
            let key = Key::new(Metric::Bandwidth, s::OURS, size as u64);
            self.ours(Job::Bandwidth { size, count, touch: Touch::Ends, both_ways: false }, vec![(key, From::First(0))]);
            if [4 << 10, 64 << 10, 1 << 20].contains(&size) {
                self.streams(Metric::Bandwidth, size, long);
                self.ucx(Test::TagStream, Metric::Bandwidth, s::UCX_TCP, size, each / TCP_LONGER as f64);
            }
        }
    }

    fn udp_rate(&mut self) {
        for size in [8, 56] {
            let count = self.count(500.0, 1_000_000);
            self.ours(Job::Rate { size, count }, vec![(Key::new(Metric::Rate, s::OURS, size as u64), From::First(0))]);
            let key = Key::new(Metric::Rate, s::UDP_BULK, size as u64);
            if self.options.compare {
                self.pair(Which::Main, Job::DatagramStream { size, count: 4 * count, datagram: size }, vec![(key, From::Second(2))]);
            }
            self.ucx(Test::TagStream, Metric::Rate, s::UCX_TCP, size, 3000.0);
        }
    }

    fn write_bandwidth(&mut self, which: Which, metric: Metric, series: Series, size: usize) {
        let count = self.count(500.0 + size as f64 * 0.5, 100_000);
        self.ours_by(which, Job::WriteBandwidth { size, count, touch: Touch::Ends }, vec![(Key::new(metric, series, size as u64), From::First(0))]);
    }

    fn udp_write(&mut self, long: LongDatagrams) {
        let count = self.count(2.0 * each_ns(8), 100_000);
        self.socket(Socket::Udp, Metric::WriteLatency, 8, false, 0);
        self.ours(Job::WriteLatency { count }, vec![(Key::new(Metric::WriteLatency, s::OURS, 8), From::First(0))]);
        self.ucx(Test::PutLatency, Metric::WriteLatency, s::UCX_TCP, 8, 2.0 * each_ns(8));
        let full = [1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20];
        for &size in self.sizes(&full, &[64 << 10, 1 << 20]) {
            self.write_bandwidth(Which::Main, Metric::WriteBandwidth, s::OURS, size);
            if size >= 4 << 10 {
                self.streams(Metric::WriteBandwidth, size, long);
                self.ucx(Test::PutStream, Metric::WriteBandwidth, s::UCX_TCP, size, (500.0 + size as f64 * 0.5) / TCP_LONGER as f64);
            }
        }
    }

    fn udp_waiting(&mut self) {
        let ways = [(Which::Blocking, s::BLOCKING), (Which::Sleeping, s::SLEEPING)];
        for &size in self.sizes(&[8, 1 << 10, 64 << 10], &[8]) {
            for kind in [Socket::Udp, Socket::Tcp] {
                if kind == Socket::Tcp || size <= ETHERNET {
                    self.socket(kind, Metric::Blocking, size, true, 0);
                }
            }
            let count = self.count(2.0 * (each_ns(size) + WAKE_NS), 10_000);
            for (which, series) in ways {
                let key = Key::new(Metric::Blocking, series, size as u64);
                self.ours_by(which, Job::Latency { size, count, touch: Touch::Ends }, vec![(key, From::First(0))]);
            }
        }
        // Each side computes for so long that the other really sleeps.
        self.socket(Socket::Udp, Metric::Waiting, 8, true, PAUSE_US);
        let count = self.count(2.0 * (WAKE_NS + PAUSE_US as f64 * 1e3), 2000);
        for (which, series) in ways {
            let job = Job::Wake { count, pause_us: PAUSE_US };
            self.ours_by(which, job, vec![(Key::new(Metric::Waiting, series, PAUSE_US), From::First(0))]);
        }
    }

    fn udp_loss(&mut self) {
        for &size in self.sizes(&[64 << 10, 1 << 20], &[1 << 20]) {
            self.write_bandwidth(Which::Main, Metric::Loss, s::OURS, size);
            self.write_bandwidth(Which::Lossy, Metric::Loss, s::LOSSY, size);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Waiting;
    use crate::peers::Peers;
    use crate::plan::{Action, PlanOptions, Step, build};

    fn options(quick: bool, library: bool) -> PlanOptions {
        PlanOptions {
            groups: Group::UDP.to_vec(),
            compare: true,
            quick,
            library,
            waiting: Waiting::Poll,
            vis: vec![],
            pairs: vec![],
            peers: vec![],
            udp: Some(false),
        }
    }

    #[test]
    fn nothing_of_shared_memory_is_compared_with() {
        let steps = build(&options(false, true), &Peers::default());
        let socket = |step: &Step| match &step.action {
            Action::Pair { job, .. } => step.is_ours() || matches!(job, Job::Socket { .. } | Job::DatagramStream { .. } | Job::ByteStream { .. }),
            _ => false,
        };
        assert!(steps.iter().all(socket));
        assert!(build(&options(true, false), &Peers::default()).iter().all(|step| !step.is_ours()));
    }

    #[test]
    fn each_goal_has_both_sides_in_every_plan() {
        for quick in [true, false] {
            let steps = build(&options(quick, true), &Peers::default());
            let keys: Vec<Key> =
                steps.iter().flat_map(|step| if let Action::Pair { keys, .. } = &step.action { keys.clone() } else { vec![] }).map(|(key, _)| key).collect();
            let has = |metric, series, size| keys.contains(&Key::new(metric, series, size));
            for series in [s::OURS, s::UDP] {
                assert!(has(Metric::Latency, series, 8));
            }
            for series in [s::BLOCKING, s::SLEEPING, s::UDP] {
                assert!(has(Metric::Blocking, series, 8) && has(Metric::Waiting, series, PAUSE_US));
            }
            assert!(UDP_BULK_GOAL_SIZES.iter().any(|&size| has(Metric::WriteBandwidth, s::OURS, size) && has(Metric::WriteBandwidth, s::UDP_BULK, size)));
            assert!(has(Metric::Loss, s::OURS, LOSS_GOAL_SIZE) && has(Metric::Loss, s::LOSSY, LOSS_GOAL_SIZE));
        }
    }
}
