// SPDX-License-Identifier: MIT OR Apache-2.0
//! What one round measures, in order: ours, the limits and the peers of the same thing next to each
//! other, so that they meet the same machine.
//!
//! A plan is data; [`crate::run`] carries it out once per round.

pub mod series;
mod step;
mod udp;
mod verbs;
mod ways;

pub use step::{Action, From, Step, Which};
pub use udp::{LOSS_GOAL_SIZE, UDP_BULK_GOAL_SIZES};
pub use ways::WAIT_GOAL_US;

use crate::bench::payload::Touch;
use crate::crowd::Layer;
use crate::job::{Job, Waiting};
use crate::peers::Peers;
use crate::peers::installed::Flavour;
use crate::peers::libfabric::Way;
use crate::peers::ucx::Test;
use crate::samples::{Key, Metric, Series};
use bellwire_via::work_queue::INLINE_SEND_BYTES_MAX;

/// A family of measurements, as selected by `--only`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Group {
    /// Latency and its quantiles.
    Lat,
    /// Bandwidth, one way and both ways.
    Bw,
    /// Message rate.
    Rate,
    /// RDMA write.
    Write,
    /// RDMA read.
    Read,
    /// Registration.
    Reg,
    /// Processor use.
    Cpu,
    /// Many VIs.
    Vis,
    /// User memory beside the engine's, and the limits of both ways to it.
    User,
    /// Guarded mode beside mapped mode.
    Guarded,
    /// Polling, blocking, sleeping.
    Wait,
    /// Several ping-pongs at once.
    Pairs,
    /// Many peers, one of them active, of each layer.
    Peers,
    /// Bandwidth while packets are lost on purpose.
    Loss,
    /// Verbs beside virtual interfaces: `bellwire bench verbs`.
    Verbs,
}

impl Group {
    /// Those over UDP.
    pub const UDP: [Group; 6] = [Group::Lat, Group::Bw, Group::Rate, Group::Write, Group::Wait, Group::Loss];

    /// Those over calls of SISCI.
    pub const SISCI: [Group; 8] = [Group::Lat, Group::Bw, Group::Rate, Group::Write, Group::Read, Group::Cpu, Group::Wait, Group::Pairs];

    /// Those over shared memory.
    pub const ALL: [Group; 13] = [
        Group::Lat,
        Group::Bw,
        Group::Rate,
        Group::Write,
        Group::Read,
        Group::Reg,
        Group::Cpu,
        Group::Vis,
        Group::User,
        Group::Guarded,
        Group::Wait,
        Group::Pairs,
        Group::Peers,
    ];
}

/// What a plan depends on.
#[derive(Debug, Clone)]
pub struct PlanOptions {
    /// Families.
    pub groups: Vec<Group>,
    /// Limits and peers too.
    pub compare: bool,
    /// Fewer sizes, shorter measurements.
    pub quick: bool,
    /// Ours at all.
    pub library: bool,
    /// Polling or blocking.
    pub waiting: Waiting,
    /// Numbers of VIs.
    pub vis: Vec<usize>,
    /// Numbers of ping-pong pairs.
    pub pairs: Vec<usize>,
    /// Numbers of connected peers.
    pub peers: Vec<usize>,
    /// Over UDP instead of shared memory; whether that takes datagrams of the greatest length
    /// uncut.
    pub udp: Option<LongDatagrams>,
}

/// Whether datagrams of the greatest length travel uncut.
pub type LongDatagrams = bool;

impl PlanOptions {
    /// Whether anything is asked for that the MPIs are measured for.
    pub fn wants_mpi(&self) -> bool {
        self.compare && self.udp.is_none() && self.groups.iter().any(|group| matches!(group, Group::Lat | Group::Bw | Group::Rate | Group::User))
    }
}

use series as s;

/// Sizes of two-sided bandwidth that goals are set for.
pub const BULK_GOAL_SIZES: [u64; 3] = [64 << 10, 256 << 10, 1 << 20];

/// Builds the steps of one round.
pub fn build(options: &PlanOptions, peers: &Peers) -> Vec<Step> {
    let mut plan = Builder { options, peers, steps: Vec::new() };
    if let Some(long) = options.udp {
        plan.over_udp(long);
        return plan.steps;
    }
    for group in &options.groups {
        match group {
            Group::Lat => plan.latency(),
            Group::Bw => plan.bandwidth(),
            Group::Rate => plan.rate(),
            Group::Write => plan.write(),
            Group::Read => plan.read(),
            Group::Reg => plan.registration(),
            Group::Cpu => plan.cpu(),
            Group::Vis => plan.vis(),
            Group::User => plan.user(),
            Group::Guarded => plan.guarded(),
            Group::Wait => plan.wait(),
            Group::Pairs => plan.pairs(),
            Group::Peers => plan.peers(),
            Group::Verbs => plan.verbs(),
            Group::Loss => {}
        }
    }
    plan.mpi();
    plan.steps
}

struct Builder<'o> {
    options: &'o PlanOptions,
    peers: &'o Peers,
    steps: Vec<Step>,
}

impl Builder<'_> {
    /// How many repetitions of something that takes `each_ns` fill one measurement.
    fn count(&self, each_ns: f64, most: u64) -> u64 {
        let budget_ns = if self.options.quick { 4e6 } else { 12e6 };
        ((budget_ns / each_ns) as u64).clamp(8, most)
    }

    fn message_ns(&self, size: usize) -> f64 {
        let wake = if self.options.waiting == Waiting::Block { 30_000.0 } else { 0.0 };
        150.0 + wake + size as f64 * 0.1
    }

    fn sizes<'a>(&self, full: &'a [usize], quick: &'a [usize]) -> &'a [usize] {
        if self.options.quick { quick } else { full }
    }

    fn ours(&mut self, job: Job, keys: Vec<(Key, From)>) {
        self.ours_by(Which::Main, job, keys);
    }

    fn ours_by(&mut self, which: Which, job: Job, keys: Vec<(Key, From)>) {
        if self.options.library {
            self.pair(which, job, keys);
        }
    }

    fn limit(&mut self, job: Job, key: Key) {
        if self.options.compare {
            // Of an exchange the mean, since ours and the peers' figures are means.
            let number = usize::from(matches!(job, Job::Exchange { .. }));
            self.pair(Which::Main, job, vec![(key, From::First(number))]);
        }
    }

    fn pair(&mut self, which: Which, job: Job, keys: Vec<(Key, From)>) {
        let label = keys.first().map_or_else(String::new, |(key, _)| label(key));
        self.steps.push(Step { label, action: Action::Pair { which, job, keys } });
    }

    fn ucx(&mut self, test: Test, metric: Metric, series: Series, size: usize, each_ns: f64) {
        if self.options.compare && self.peers.ucx.is_some() {
            let key = Key::new(metric, series, size as u64);
            let count = self.count(each_ns, 1_000_000);
            self.steps.push(Step { label: label(&key), action: Action::Ucx { test, size, count, key } });
        }
    }

    fn libfabric(&mut self, size: usize) {
        for (way, series) in [(Way::Message, s::SHM_MESSAGE), (Way::Tagged, s::SHM_TAGGED)] {
            self.libfabric_over(way, series, size, 400.0 + size as f64 * 0.2);
        }
    }

    fn libfabric_over(&mut self, way: Way, series: Series, size: usize, each_ns: f64) {
        if self.options.compare && self.peers.libfabric.is_some() {
            let count = self.count(each_ns, 200_000);
            let label = label(&Key::new(Metric::Latency, series, size as u64));
            self.steps.push(Step { label, action: Action::Libfabric { way, size, count, series } });
        }
    }

    fn latency(&mut self) {
        let all: Vec<usize> = (0..=22).map(|power| 1usize << power).chain([56]).collect();
        let mut sizes = self.sizes(&all, &[8, 56, 4 << 10, 64 << 10, 1 << 20]).to_vec();
        sizes.sort_unstable();
        let peer_sizes = self.sizes(&[8, 64, 512, 4 << 10, 64 << 10, 1 << 20], &[8, 4 << 10, 64 << 10]).to_vec();
        for &size in &sizes {
            let key = |series| Key::new(Metric::Latency, series, size as u64);
            let count = self.count(2.0 * self.message_ns(size), 200_000);
            if size == 8 || size == 56 {
                let words = if size == 8 { 1 } else { 8 };
                self.limit(Job::Exchange { count: 60_000, words }, key(s::EXCHANGE));
            }
            self.ours(Job::Latency { size, count, touch: Touch::Ends }, vec![(key(s::OURS), From::First(0))]);
            if size > crate::bench::payload::SMALL_MAX {
                self.ours(Job::Latency { size, count, touch: Touch::All }, vec![(key(s::OURS_TOUCHED), From::First(0))]);
            }
            if peer_sizes.contains(&size) {
                let each = 2.0 * self.message_ns(size);
                self.ucx(Test::TagLatency, Metric::Latency, s::UCX_TAG, size, each);
                self.ucx(Test::AmLatency, Metric::Latency, s::UCX_AM, size, each);
                if size <= 64 {
                    self.ucx(Test::UctAmLatency, Metric::Latency, s::UCX_UCT_AM, size, each);
                }
                self.libfabric(size);
                self.loopback(size);
            }
        }
        let keys = [500, 900, 990, 999, 1000].iter().enumerate();
        let keys = keys.map(|(index, &quantile)| (Key::new(Metric::Percentile, s::OURS, quantile), From::First(index))).collect();
        let count = self.count(self.message_ns(8), 100_000);
        self.ours(Job::Percentiles { size: 8, count }, keys);
    }

    fn bandwidth(&mut self) {
        let full: [usize; 8] = [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
        let sizes = self.sizes(&full, &[4 << 10, 64 << 10, 256 << 10, 1 << 20]).to_vec();
        let peer_sizes = self.sizes(&[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20], &[64 << 10, 256 << 10, 1 << 20]).to_vec();
        for &size in &sizes {
            let each = self.message_ns(size) / 2.0;
            let count = self.count(each, 200_000);
            let mut ours = |metric, series, touch, both_ways| {
                let key = Key::new(metric, series, size as u64);
                self.ours(Job::Bandwidth { size, count, touch, both_ways }, vec![(key, From::First(0))]);
            };
            ours(Metric::Bandwidth, s::OURS, Touch::Ends, false);
            ours(Metric::Bandwidth, s::OURS_TOUCHED, Touch::All, false);
            ours(Metric::BothWays, s::OURS, Touch::Ends, true);
            ours(Metric::BothWays, s::OURS_TOUCHED, Touch::All, true);
            if peer_sizes.contains(&size) {
                self.ucx(Test::TagStream, Metric::Bandwidth, s::UCX_TAG, size, each);
                self.ucx(Test::AmStream, Metric::Bandwidth, s::UCX_AM, size, each);
                self.loopback_streams(size);
                // Ping-pongs of the latency part count as bandwidth too, at the sizes that it has.
                let in_latency = self.options.groups.contains(&Group::Lat) && [4 << 10, 64 << 10, 1 << 20].contains(&size);
                if !in_latency || self.options.quick && size == 1 << 20 {
                    self.libfabric(size);
                }
            }
        }
    }

    fn rate(&mut self) {
        for size in [8, 56] {
            let key = |series| Key::new(Metric::Rate, series, size as u64);
            let count = self.count(if self.options.waiting == Waiting::Block { 300.0 } else { 25.0 }, 1_000_000);
            self.limit(Job::Ring { count, words: size / 8 }, key(s::RING));
            self.ours(Job::Rate { size, count }, vec![(key(s::OURS), From::First(0))]);
            if size <= INLINE_SEND_BYTES_MAX {
                self.ours(Job::RateInline { size, count }, vec![(key(s::OURS_INLINE), From::First(0))]);
            }
            self.ucx(Test::TagStream, Metric::Rate, s::UCX_TAG, size, 35.0);
            self.ucx(Test::AmStream, Metric::Rate, s::UCX_AM, size, 55.0);
            self.ucx(Test::UctAmStream, Metric::Rate, s::UCX_UCT_AM, size, 45.0);
        }
    }

    fn write(&mut self) {
        let count = self.count(130.0, 200_000);
        let key = |series| Key::new(Metric::WriteLatency, series, 8);
        self.limit(Job::Exchange { count: 60_000, words: 1 }, key(s::EXCHANGE));
        self.ours(Job::WriteLatency { count }, vec![(key(s::OURS), From::First(0))]);
        self.ucx(Test::PutLatency, Metric::WriteLatency, s::UCX_PUT, 8, 100.0);
        self.ucx(Test::UctPutLatency, Metric::WriteLatency, s::UCX_UCT_PUT, 8, 100.0);
        let full: [usize; 7] = [256, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20];
        for &size in self.sizes(&full, &[4 << 10, 16 << 10, 64 << 10, 1 << 20]) {
            let count = self.count(60.0 + size as f64 * 0.03, 200_000);
            let touched = self.count(150.0 + size as f64 * 0.05, 200_000);
            let key = |series| Key::new(Metric::WriteBandwidth, series, size as u64);
            self.limit(Job::Copy { size, count, touch: Touch::Ends }, key(s::MEMCPY));
            self.ours(Job::WriteBandwidth { size, count, touch: Touch::Ends }, vec![(key(s::OURS), From::First(0))]);
            self.limit(Job::Copy { size, count: touched, touch: Touch::All }, key(s::MEMCPY_TOUCHED));
            self.ours(Job::WriteBandwidth { size, count: touched, touch: Touch::All }, vec![(key(s::OURS_TOUCHED), From::First(0))]);
            if [4 << 10, 64 << 10, 1 << 20].contains(&size) {
                self.ucx(Test::PutStream, Metric::WriteBandwidth, s::UCX_PUT, size, 100.0 + size as f64 * 0.03);
            }
        }
    }

    fn read(&mut self) {
        for &size in self.sizes(&[8, 64, 512, 4 << 10, 64 << 10], &[8, 4 << 10]) {
            let count = self.count(100.0 + size as f64 * 0.05, 200_000);
            let key = Key::new(Metric::ReadLatency, s::OURS, size as u64);
            self.ours(Job::ReadLatency { size, count }, vec![(key, From::First(0))]);
        }
        for &size in self.sizes(&[4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20], &[64 << 10, 1 << 20]) {
            let count = self.count(100.0 + size as f64 * 0.05, 200_000);
            let key = Key::new(Metric::ReadBandwidth, s::OURS, size as u64);
            self.ours(Job::ReadBandwidth { size, count }, vec![(key, From::First(0))]);
        }
    }

    fn registration(&mut self) {
        for &size in self.sizes(&[4 << 10, 64 << 10, 1 << 20, 16 << 20, 64 << 20], &[4 << 10, 1 << 20]) {
            for (engine_memory, series) in [(false, s::OURS_USER), (true, s::OURS_ENGINE)] {
                let keys = vec![
                    (Key::new(Metric::Registration, series, size as u64), From::First(0)),
                    (Key::new(Metric::Deregistration, series, size as u64), From::First(1)),
                ];
                self.ours(Job::Registration { size, count: 64, engine_memory }, keys);
            }
        }
    }

    fn cpu(&mut self) {
        for &size in self.sizes(&[8, 512, 4 << 10, 64 << 10, 1 << 20], &[8, 64 << 10]) {
            for (which, sender, receiver) in [(Which::Main, s::SENDER, s::RECEIVER), (Which::Blocking, s::SENDER_BLOCKING, s::RECEIVER_BLOCKING)] {
                let count = self.count(self.message_ns(size) / 2.0, 200_000);
                let key = |series| Key::new(Metric::Cpu, series, size as u64);
                let keys = vec![(key(sender), From::First(1)), (key(receiver), From::Second(0))];
                self.ours_by(which, Job::Bandwidth { size, count, touch: Touch::Ends, both_ways: false }, keys);
            }
        }
    }

    fn vis(&mut self) {
        for &vis in &self.options.vis {
            let count = self.count(2.0 * self.message_ns(8), 200_000);
            let key = Key::new(Metric::ManyVis, s::OURS, vis as u64);
            self.ours_by(Which::Vis(vis), Job::ScalingLatency { count }, vec![(key, From::First(0))]);
        }
    }

    fn peers(&mut self) {
        for layer in Layer::ALL {
            for &peers in &self.options.peers {
                let count = self.count(300.0, 100_000);
                let key = |metric| Key::new(metric, layer.series(), peers as u64);
                let keys = vec![(key(Metric::PeersLatency), From::First(0)), (key(Metric::PeersRate), From::First(1))];
                self.ours_by(Which::Peers, Job::Peers { layer, peers, count }, keys);
            }
        }
    }

    fn mpi(&mut self) {
        let groups = [(Group::Lat, Metric::Latency), (Group::Bw, Metric::Bandwidth), (Group::User, Metric::Bandwidth), (Group::Rate, Metric::Rate)];
        let metrics: Vec<Metric> = groups.iter().filter(|(group, _)| self.options.groups.contains(group)).map(|(_, metric)| *metric).collect();
        if !self.options.wants_mpi() {
            return;
        }
        let sizes = self.sizes(&[8, 56, 4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20], &[8, 56, 64 << 10, 256 << 10, 1 << 20]).to_vec();
        let installed = [
            (self.peers.mpich.is_some(), Flavour::Mpich, s::MPICH),
            (self.peers.openmpi.is_some(), Flavour::OpenMpi, s::OPEN_MPI),
            (self.peers.intel.is_some(), Flavour::Intel, s::INTEL_MPI),
        ];
        for (here, flavour, series) in installed {
            if here {
                let action = Action::Mpi { flavour, sizes: sizes.clone(), series, metrics: metrics.clone() };
                self.steps.push(Step { label: series.name.to_owned(), action });
            }
        }
    }
}

/// How a step that gives this figure is called.
pub(crate) fn label(key: &Key) -> String {
    let what = key.metric.title().split(':').next().unwrap_or_default();
    format!("{}, {}, {} {}", key.series.name, what, key.metric.row_heading(), key.size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(compare: bool, library: bool) -> PlanOptions {
        PlanOptions {
            groups: Group::ALL.to_vec(),
            compare,
            quick: false,
            library,
            waiting: Waiting::Poll,
            vis: vec![10, 1000],
            pairs: vec![1, 2],
            peers: vec![1, 64],
            udp: None,
        }
    }

    #[test]
    fn without_the_library_only_others_are_measured() {
        let steps = build(&options(true, false), &Peers::default());
        assert!(!steps.is_empty() && steps.iter().all(|step| !step.is_ours()));
    }

    #[test]
    fn without_comparison_only_ours_is_measured() {
        let mut steps = build(&options(false, true), &Peers::default());
        steps.extend(build(&PlanOptions { groups: vec![Group::Verbs], ..options(false, true) }, &Peers::default()));
        steps.extend(build(&PlanOptions { groups: Group::UDP.to_vec(), udp: Some(true), ..options(false, true) }, &Peers::default()));
        assert!(steps.iter().all(Step::is_ours));
        for metric in Metric::ALL.into_iter().filter(|metric| !matches!(metric, Metric::ViMemory | Metric::DatagramsLost)) {
            let measured = |step: &Step| match &step.action {
                Action::Pair { keys, .. } => keys.iter().any(|(key, _)| key.metric == metric),
                Action::Pairs { key, .. } => key.metric == metric,
                _ => false,
            };
            assert!(steps.iter().any(measured), "{metric:?}");
        }
    }

    #[test]
    fn selection_is_obeyed() {
        let mut only = options(false, true);
        only.groups = vec![Group::Rate];
        let steps = build(&only, &Peers::default());
        assert_eq!(steps.len(), 3);
    }
}
