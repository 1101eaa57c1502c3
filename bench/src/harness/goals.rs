// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the library has set itself to reach, as ratios of figures taken in one run.

mod contend;
mod gas;
mod layers;
mod mpi;
mod side;
mod stack;
mod udp;

pub use contend::evaluate_contention;
pub use gas::evaluate_gas;
pub use layers::evaluate_layers;
pub use mpi::evaluate_mpi;
pub use stack::evaluate_stack;

use serde::Serialize;
use side::Side;

use crate::canary::Mode;
use crate::plan::{BULK_GOAL_SIZES, WAIT_GOAL_US, series as s};
use crate::samples::{Key, Kind, Metric, Samples, Series};

/// How much slower a peer may be beside many idle ones.
const PEERS_FACTOR: f64 = 1.1;

/// The direction of a goal.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Bound {
    /// The ratio is to be at most this.
    AtMost(f64),
    /// The ratio is to be at least this.
    AtLeast(f64),
}

impl Bound {
    fn is_met(self, ratio: f64) -> bool {
        match self {
            Bound::AtMost(limit) => ratio <= limit,
            Bound::AtLeast(limit) => ratio >= limit,
        }
    }
}

/// One goal and how it stands.
#[derive(Debug, Clone, Serialize)]
pub struct Goal {
    /// What is compared.
    pub what: String,
    /// Unit of the two figures.
    pub unit: &'static str,
    /// Our figure.
    pub ours: Option<f64>,
    /// The figure it is compared with.
    pub other: Option<f64>,
    /// Whose that is.
    pub other_name: String,
    /// Ours divided by the other.
    pub ratio: Option<f64>,
    /// What the ratio is to be; nothing for a figure that is only stated.
    pub bound: Bound,
    /// Whether it is; nothing without both figures, or if they are not comparable.
    pub met: Option<bool>,
    /// The mode of the machine in which both were compared; nothing if they were not.
    pub mode: Option<Mode>,
    /// Whether one of the figures has no near sample, so that the ratio says little.
    pub far: bool,
}

impl Goal {
    fn new(what: String, unit: &'static str, ours: Option<Side>, other: Option<Side>, bound: Bound) -> Self {
        let compared = ours.as_ref().zip(other.as_ref()).and_then(|(ours, other)| ours.compare(other));
        let ratio = compared.filter(|compared| compared.other > 0.0).map(|compared| compared.ours / compared.other);
        let quoted = |side: &Option<Side>| side.as_ref().map(Side::quoted);
        Goal {
            what,
            unit,
            ours: compared.map(|compared| compared.ours).or_else(|| quoted(&ours)),
            other: compared.map(|compared| compared.other).or_else(|| quoted(&other)),
            other_name: other.as_ref().map_or_else(String::new, |side| side.name().to_owned()),
            ratio,
            bound,
            met: ratio.map(|ratio| bound.is_met(ratio)),
            mode: compared.and_then(|compared| compared.mode),
            far: ours.iter().chain(&other).any(Side::is_far),
        }
    }

    /// Whether both sides were measured.
    pub fn has_both(&self) -> bool {
        self.ours.is_some() && self.other.is_some()
    }
}

/// All goals, of UDP or of shared memory, for which at least one side was measured.
pub fn evaluate(samples: &Samples, udp: bool) -> Vec<Goal> {
    let table = Table { samples };
    let mut goals = Vec::new();
    if udp {
        table.over_udp(&mut goals);
    } else {
        table.latency(&mut goals);
        table.rate(&mut goals);
        table.bulk(&mut goals);
        table.scaling(&mut goals);
        table.user_memory(&mut goals);
        table.waiting(&mut goals);
        table.pairs(&mut goals);
        table.peers(&mut goals);
    }
    goals.retain(|goal| goal.ours.is_some() || goal.other.is_some());
    goals
}

struct Table<'s> {
    samples: &'s Samples,
}

impl Table<'_> {
    fn side(&self, metric: Metric, series: Series, size: u64) -> Option<Side> {
        Side::measured(series.name, self.samples.of(&Key::new(metric, series, size))?, self.samples.best.ns())
    }

    /// The peer that is best beside `ours`, of those that `wanted` accepts. A peer that has near
    /// samples, as ours has, comes before one that has none.
    fn best_peer(&self, ours: Option<&Side>, metric: Metric, size: u64, wanted: impl Fn(Kind) -> bool) -> Option<Side> {
        let candidates = self.samples.series_of(metric).into_iter().filter(|series| wanted(series.kind));
        let rank = |side: Side| {
            let compared = ours.and_then(|ours| ours.compare(&side));
            let likeness = match compared.map(|compared| compared.mode) {
                Some(Some(Mode::Far)) => 1,
                Some(_) => 2,
                None => 0,
            };
            let value = compared.map_or_else(|| side.quoted(), |compared| compared.other / compared.ours);
            (likeness, if metric.less_is_better() { -value } else { value }, side)
        };
        let measured = candidates.filter_map(|series| self.side(metric, series, size)).map(rank);
        measured.max_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))).map(|(_, _, side)| side)
    }

    fn latency(&self, goals: &mut Vec<Goal>) {
        let ours = self.side(Metric::Latency, s::OURS, 8);
        let others = [(s::EXCHANGE, 1.6), (s::UCX_TAG, 0.8), (s::SHM_MESSAGE, 0.8), (s::UCX_UCT_AM, 1.0)];
        for (series, limit) in others {
            let what = format!("latency 8 B / {}", series.name);
            goals.push(Goal::new(what, "ns", ours.clone(), self.side(Metric::Latency, series, 8), Bound::AtMost(limit)));
        }
        let ours = self.side(Metric::WriteLatency, s::OURS, 8);
        for (series, limit) in [(s::EXCHANGE, 1.3), (s::UCX_PUT, 1.1)] {
            let what = format!("RDMA write 8 B, polled / {}", series.name);
            goals.push(Goal::new(what, "ns", ours.clone(), self.side(Metric::WriteLatency, series, 8), Bound::AtMost(limit)));
        }
    }

    fn rate(&self, goals: &mut Vec<Goal>) {
        for (series, size, how, least) in [(s::OURS, 8, "", 1.3), (s::OURS, 56, "", 1.2), (s::OURS_INLINE, 8, " without descriptors", 1.3)] {
            let ours = self.side(Metric::Rate, series, size);
            let best = self.best_peer(ours.as_ref(), Metric::Rate, size, |kind| matches!(kind, Kind::Peer { .. }));
            goals.push(Goal::new(format!("message rate {size} B{how} / best peer"), "msg/s", ours, best, Bound::AtLeast(least)));
        }
    }

    fn bulk(&self, goals: &mut Vec<Goal>) {
        let writes = [(4 << 10, 0.6), (16 << 10, 0.8), (64 << 10, 0.9), (256 << 10, 0.9), (1 << 20, 0.9)];
        for (size, least) in writes {
            let ours = self.side(Metric::WriteBandwidth, s::OURS, size);
            let memcpy = self.side(Metric::WriteBandwidth, s::MEMCPY, size);
            let what = format!("RDMA write {} / memcpy", super::report::size_text(size));
            goals.push(Goal::new(what, "GB/s", ours, memcpy, Bound::AtLeast(least)));
        }
        for size in BULK_GOAL_SIZES {
            let ours = self.side(Metric::Bandwidth, s::OURS, size);
            let size_text = super::report::size_text(size);
            let any = self.best_peer(ours.as_ref(), Metric::Bandwidth, size, |kind| matches!(kind, Kind::Peer { .. }));
            let what = format!("two-sided {size_text} / best peer");
            goals.push(Goal::new(what, "GB/s", ours.clone(), any, Bound::AtLeast(1.3)));
            let cma = self.best_peer(ours.as_ref(), Metric::Bandwidth, size, |kind| kind == Kind::Peer { cma: true });
            let what = format!("two-sided {size_text} / best peer by CMA");
            goals.push(Goal::new(what, "GB/s", ours, cma, Bound::AtLeast(2.5)));
        }
    }

    fn user_memory(&self, goals: &mut Vec<Goal>) {
        for size in BULK_GOAL_SIZES {
            let ours = self.side(Metric::Bandwidth, s::OURS_USER, size);
            for (series, least) in [(s::ATTACH, 0.95), (s::INTEL_MPI, 0.9)] {
                let what = format!("user memory, two-sided {} / {}", super::report::size_text(size), series.name);
                goals.push(Goal::new(what, "GB/s", ours.clone(), self.side(Metric::Bandwidth, series, size), Bound::AtLeast(least)));
            }
        }
        // In guarded mode user memory always bounces.
        let (ours, bounced) = (self.side(Metric::Bandwidth, s::OURS_USER, 4096), self.side(Metric::Bandwidth, s::GUARDED_USER, 4096));
        goals.push(Goal::new("user memory, two-sided 4 KiB / bounced".to_owned(), "GB/s", ours, bounced, Bound::AtLeast(1.0)));
    }

    fn waiting(&self, goals: &mut Vec<Goal>) {
        let bare = self.side(Metric::Waiting, s::EVENTFD, WAIT_GOAL_US);
        for series in [s::BLOCKING, s::SLEEPING] {
            let ours = self.side(Metric::Waiting, series, WAIT_GOAL_US);
            goals.push(Goal::new(format!("wake-up, {} / {}", series.name, s::EVENTFD.name), "ns", ours, bare.clone(), Bound::AtMost(1.2)));
        }
    }

    fn pairs(&self, goals: &mut Vec<Goal>) {
        for series in [s::BLOCKING, s::POLLING] {
            let few = self.side(Metric::Pairs, series, 2).map(|side| side.named("2 pairs"));
            let what = format!("8 ping-pong pairs / 2, {}", series.name);
            goals.push(Goal::new(what, "msg/s", self.side(Metric::Pairs, series, 8), few, Bound::AtLeast(0.5)));
        }
    }

    fn peers(&self, goals: &mut Vec<Goal>) {
        for (metric, name, unit, bound) in [
            (Metric::PeersLatency, "latency", "ns", Bound::AtMost(PEERS_FACTOR)),
            (Metric::PeersRate, "message rate", "msg/s", Bound::AtLeast(1.0 / PEERS_FACTOR)),
        ] {
            let sizes = self.samples.sizes_of(metric);
            let Some((&few, more)) = sizes.split_first() else { continue };
            for series in self.samples.series_of(metric) {
                let other = self.side(metric, series, few).map(|side| side.named(format!("with {few}")));
                for &many in more {
                    let what = format!("{name} with {many} peers, {}", series.name);
                    goals.push(Goal::new(what, unit, self.side(metric, series, many), other.clone(), bound));
                }
            }
        }
    }

    fn scaling(&self, goals: &mut Vec<Goal>) {
        let sizes = self.samples.sizes_of(Metric::ManyVis);
        if let (Some(&few), Some(&many)) = (sizes.first(), sizes.last())
            && few < many
        {
            let ours = self.side(Metric::ManyVis, s::OURS, many);
            let other = self.side(Metric::ManyVis, s::OURS, few).map(|side| side.named(format!("{few} VIs")));
            goals.push(Goal::new(format!("latency with {many} VIs / with {few}"), "ns", ours, other, Bound::AtMost(1.1)));
        }
        if let Some(&many) = self.samples.sizes_of(Metric::ViMemory).last() {
            let (ours, limit) = (self.side(Metric::ViMemory, s::OURS, many), Side::one(16.0 * 1024.0, "16 KiB"));
            goals.push(Goal::new(format!("memory per idle VI of {many}"), "bytes", ours, Some(limit), Bound::AtMost(1.0)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::Canary;
    use crate::samples::Sample;

    fn evaluate_shm(samples: &Samples) -> Vec<Goal> {
        evaluate(samples, false)
    }

    #[test]
    fn ratios_and_bounds() {
        let goals = evaluate_shm(&Samples::made_up(&[
            (Metric::Latency, s::OURS, 8, 75.0),
            (Metric::Latency, s::EXCHANGE, 8, 50.0),
            (Metric::Latency, s::UCX_UCT_AM, 8, 70.0),
            (Metric::Rate, s::OURS, 8, 40e6),
            (Metric::Rate, s::UCX_TAG, 8, 20e6),
            (Metric::Rate, s::MPICH, 8, 25e6),
            (Metric::Rate, s::RING, 8, 90e6),
        ]));
        let find = |what: &str| goals.iter().find(|goal| goal.what == what).unwrap();
        assert_eq!((find("latency 8 B / exchange").ratio, find("latency 8 B / exchange").met), (Some(1.5), Some(true)));
        assert_eq!(find("latency 8 B / UCX uct am").met, Some(false));
        assert_eq!(find("latency 8 B / UCX tag").met, None);
        let rate = find("message rate 8 B / best peer");
        assert_eq!((rate.other_name.as_str(), rate.ratio, rate.met), ("MPICH", Some(1.6), Some(true)));
        assert!(!goals.iter().any(|goal| goal.what.starts_with("two-sided")));
    }

    #[test]
    fn near_is_not_compared_with_far() {
        let mut samples = Samples::made_up(&[
            (Metric::Latency, s::OURS, 8, 100.0),
            (Metric::Rate, s::OURS, 8, 40e6),
            (Metric::Rate, s::UCX_TAG, 8, 20e6),
            (Metric::WriteLatency, s::UCX_PUT, 8, 90.0),
        ]);
        let far = Canary { before_ns: 50.0, after_ns: 300.0 };
        let mut add = |metric, series, value| samples.add(Key::new(metric, series, 8), Sample { round: 2, value, canary: far });
        add(Metric::Latency, s::EXCHANGE, 400.0);
        // A peer that was better while the machine was slow is not the best beside our near figure.
        add(Metric::Rate, s::MPICH, 35e6);
        add(Metric::WriteLatency, s::OURS, 300.0);
        add(Metric::WriteLatency, s::UCX_PUT, 400.0);
        let goals = evaluate_shm(&samples);
        let find = |what: &str| goals.iter().find(|goal| goal.what == what).unwrap();
        let latency = find("latency 8 B / exchange");
        assert!((latency.ours, latency.other, latency.ratio, latency.met) == (Some(100.0), Some(400.0), None, None) && latency.far && latency.has_both());
        let rate = find("message rate 8 B / best peer");
        assert_eq!((rate.other_name.as_str(), rate.met, rate.mode, rate.far), ("UCX tag", Some(true), Some(Mode::Near), false));
        let write = find("RDMA write 8 B, polled / UCX put");
        assert_eq!((write.other, write.ratio, write.mode, write.far), (Some(400.0), Some(0.75), Some(Mode::Far), true));
    }

    #[test]
    fn user_memory_waiting_and_pairs() {
        let goals = evaluate_shm(&Samples::made_up(&[
            (Metric::Bandwidth, s::OURS_USER, 64 << 10, 19.0),
            (Metric::Bandwidth, s::ATTACH, 64 << 10, 20.0),
            (Metric::Bandwidth, s::OURS_USER, 4096, 9.0),
            (Metric::Bandwidth, s::GUARDED_USER, 4096, 10.0),
            (Metric::Waiting, s::SLEEPING, WAIT_GOAL_US, 5500.0),
            (Metric::Waiting, s::EVENTFD, WAIT_GOAL_US, 5000.0),
            (Metric::Pairs, s::BLOCKING, 2, 8e6),
            (Metric::Pairs, s::BLOCKING, 8, 3e6),
        ]));
        let met = |what: &str| goals.iter().find(|goal| goal.what.contains(what)).and_then(|goal| goal.met);
        assert_eq!(met("64 KiB / process_vm_readv"), Some(true));
        assert_eq!(
            (met("bounced"), met("sleeping at once / bare eventfd"), met("pairs / 2, blocking"), met("pairs / 2, polling")),
            (Some(false), Some(true), Some(false), None)
        );
    }

    #[test]
    fn many_peers_are_compared_with_few() {
        let goals = evaluate_shm(&Samples::made_up(&[
            (Metric::PeersLatency, s::VI, 1, 100.0),
            (Metric::PeersLatency, s::VI, 16, 109.0),
            (Metric::PeersLatency, s::VI, 64, 111.0),
            (Metric::PeersRate, s::VERBS, 1, 10e6),
            (Metric::PeersRate, s::VERBS, 64, 9e6),
        ]));
        assert_eq!(goals.iter().map(|goal| goal.met).collect::<Vec<_>>(), [Some(true), Some(false), Some(false)]);
    }

    #[test]
    fn memory_and_scaling() {
        let goals = evaluate_shm(&Samples::made_up(&[
            (Metric::ManyVis, s::OURS, 10, 100.0),
            (Metric::ManyVis, s::OURS, 1000, 112.0),
            (Metric::ViMemory, s::OURS, 1000, 4096.0),
        ]));
        assert_eq!(goals.iter().map(|goal| goal.met).collect::<Vec<_>>(), vec![Some(false), Some(true)]);
    }
}
