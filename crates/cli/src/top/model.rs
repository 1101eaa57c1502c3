// SPDX-License-Identifier: MIT OR Apache-2.0
//! From counters to rates: what was there at the last look, and what has been added since.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use bellwire_inspect::agent;
use bellwire_inspect::stat::answer::{WAIT_CLASSES, percentile};
use bellwire_inspect::stat::{self, Nic, Vi, Waits};
use serde::Serialize;

use crate::explain::sample::{Requests, sample};

/// The time that all answers of one look may take together.
const LOOK_MAX: Duration = Duration::from_secs(2);

/// Per second, since the last look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Rates {
    pub sent: f64,
    pub sent_bytes: f64,
    pub received: f64,
    pub received_bytes: f64,
    #[serde(flatten)]
    pub waits: WaitRates,
}

/// Waits since the last look, per second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct WaitRates {
    /// Waits that ended.
    pub waits: f64,
    /// Of these, those that slept.
    pub waits_slept: f64,
    /// Seconds of waiting: more than 1 if several threads wait.
    pub waited: f64,
    /// Nanoseconds that half of the waits that ended did not exceed, and 99 of 100 did not.
    pub wait_p50_ns: Option<u64>,
    /// See `wait_p50_ns`.
    pub wait_p99_ns: Option<u64>,
    /// The waits that ended, by classes of their times.
    #[serde(skip)]
    pub times: [u64; WAIT_CLASSES],
}

impl WaitRates {
    fn between(old: &Waits, new: &Waits, seconds: f64) -> Self {
        WaitRates {
            waits: rate(old.waits, new.waits, seconds),
            waits_slept: rate(old.waits_slept, new.waits_slept, seconds),
            waited: rate(old.waited_us, new.waited_us, seconds) / 1e6,
            ..WaitRates::default()
        }
        .with_times(core::array::from_fn(|class| new.wait_times[class].saturating_sub(old.wait_times[class])))
    }

    fn with_times(self, times: [u64; WAIT_CLASSES]) -> Self {
        WaitRates { wait_p50_ns: percentile(&times, 50), wait_p99_ns: percentile(&times, 99), times, ..self }
    }
}

/// A counter that went back belongs to another thing of the same name.
fn rate(old: u64, new: u64, seconds: f64) -> f64 {
    if seconds > 0.0 { new.saturating_sub(old) as f64 / seconds } else { 0.0 }
}

impl Rates {
    /// Messages a second in both directions.
    pub fn messages(&self) -> f64 {
        self.sent + self.received
    }

    /// Bytes a second in both directions.
    pub fn bytes(&self) -> f64 {
        self.sent_bytes + self.received_bytes
    }

    fn between(old: &Vi, new: &Vi, seconds: f64) -> Self {
        Rates {
            sent: rate(old.sent, new.sent, seconds),
            sent_bytes: rate(old.sent_bytes, new.sent_bytes, seconds),
            received: rate(old.received, new.received, seconds),
            received_bytes: rate(old.received_bytes, new.received_bytes, seconds),
            waits: WaitRates::between(&old.waits, &new.waits, seconds),
        }
    }

    fn add(&mut self, other: &Rates) {
        self.sent += other.sent;
        self.sent_bytes += other.sent_bytes;
        self.received += other.received;
        self.received_bytes += other.received_bytes;
        self.waits.waits += other.waits.waits;
        self.waits.waits_slept += other.waits.waits_slept;
        self.waits.waited += other.waits.waited;
        self.waits = self.waits.with_times(core::array::from_fn(|class| self.waits.times[class].saturating_add(other.waits.times[class])));
    }
}

/// One NIC with its rates.
#[derive(Debug, Clone, Serialize)]
pub struct NicRow {
    /// What it said.
    pub nic: Nic,
    /// Of all its VIs together.
    pub rates: Rates,
    /// Of each of its VIs, in their order.
    pub vi_rates: Vec<Rates>,
    /// Of the waits for each of its completion queues, in their order.
    pub cq_rates: Vec<WaitRates>,
    /// Times a second that it went to sleep and was woken, if it counts that.
    pub sleeps: f64,
}

/// One look.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Snapshot {
    /// NICs that answered.
    pub nics: Vec<NicRow>,
    /// NICs that did not, with the reason.
    pub silent: Vec<String>,
    /// The host's agents that answered.
    pub agents: Vec<AgentRow>,
    /// Requests that were seen in a moment, if they were asked for.
    pub requests: Vec<Requests>,
    /// Seconds since the look before; 0 at the first.
    pub seconds: f64,
}

impl Snapshot {
    /// With the requests of a moment, of one process or of all.
    pub fn with_requests(mut self, pid: Option<i32>) -> Self {
        let sampled = sample(pid);
        self.requests = sampled.requests;
        self.silent.extend(sampled.silent);
        self
    }
}

/// One agent with its rates.
#[derive(Debug, Clone, Default, Serialize)]
pub struct AgentRow {
    /// What it said.
    pub agent: agent::Status,
    /// Packets a second that its endpoints sent.
    pub packets: f64,
    /// Endpoints a second that wanted a frame and had none.
    pub faults: f64,
    /// Endpoints a second that were loaded.
    pub loads: f64,
}

/// What the last look saw.
#[derive(Debug, Default)]
pub struct Model {
    last: HashMap<(i32, u32), (Nic, Instant)>,
    agents: HashMap<String, (agent::Status, Instant)>,
}

impl Model {
    /// Whether the last look saw no NIC.
    pub fn is_empty(&self) -> bool {
        self.last.is_empty()
    }

    /// Asks every NIC, of one process or of all.
    pub fn look(&mut self, pid: Option<i32>) -> Snapshot {
        let start = Instant::now();
        let mut snapshot = Snapshot::default();
        let mut seen = HashMap::new();
        for place in stat::find(pid) {
            // Many silent NICs together must not make the view stand still.
            let time = stat::TIME_MAX.min(LOOK_MAX.saturating_sub(start.elapsed())).max(Duration::from_millis(1));
            match stat::ask(&place, time) {
                Ok(mut nic) => {
                    // Whatever it says of itself: its socket's owner is known.
                    (nic.pid, nic.nic) = (place.pid as u64, u64::from(place.nic));
                    let now = Instant::now();
                    let old = self.last.get(&(place.pid, place.nic));
                    let row = row(nic.clone(), old.map(|(old, then)| (old, now.duration_since(*then).as_secs_f64())));
                    snapshot.seconds = snapshot.seconds.max(old.map_or(0.0, |(_, then)| now.duration_since(*then).as_secs_f64()));
                    snapshot.nics.push(row);
                    seen.insert((place.pid, place.nic), (nic, now));
                }
                Err(error) => snapshot.silent.push(format!("process {}, NIC {}: {error}", place.pid, place.nic)),
            }
        }
        self.last = seen;
        // Of one process it is not wanted.
        if pid.is_none() {
            self.look_at_agents(&mut snapshot);
        }
        snapshot
    }

    /// Asks the agents that are root's or this user's own.
    fn look_at_agents(&mut self, snapshot: &mut Snapshot) {
        for address in agent::find() {
            let Ok(status) = agent::status(Some(address)) else { continue };
            let now = Instant::now();
            let row = match self.agents.get(&status.address) {
                None => AgentRow { agent: status.clone(), ..AgentRow::default() },
                Some((old, then)) => {
                    let seconds = now.duration_since(*then).as_secs_f64();
                    let rate = |count: fn(&agent::Status) -> u64| rate(count(old), count(&status), seconds);
                    AgentRow { packets: rate(|s| s.packets), faults: rate(|s| s.faults), loads: rate(|s| s.loads), agent: status.clone() }
                }
            };
            self.agents.insert(status.address.clone(), (status, now));
            snapshot.agents.push(row);
        }
    }
}

fn row(nic: Nic, old: Option<(&Nic, f64)>) -> NicRow {
    let mut total = Rates::default();
    let mut vi_rates = Vec::with_capacity(nic.vis.len());
    let known: HashMap<&str, &Vi> = old.map(|(old, _)| old.vis.iter().map(|vi| (vi.vi.as_str(), vi)).collect()).unwrap_or_default();
    let seconds = old.map_or(0.0, |(_, seconds)| seconds);
    // Of a VI that is new since the last look, everything it has done was done since then.
    let nothing = Vi::default();
    for vi in &nic.vis {
        let rates = if old.is_some() { Rates::between(known.get(vi.vi.as_str()).unwrap_or(&&nothing), vi, seconds) } else { Rates::default() };
        total.add(&rates);
        vi_rates.push(rates);
    }
    let idle = Waits::default();
    let known: HashMap<&str, &Waits> = old.map(|(old, _)| old.cqs.iter().map(|cq| (cq.cq.as_str(), &cq.waits)).collect()).unwrap_or_default();
    let cq_rate = |cq: &stat::Cq| old.map_or(WaitRates::default(), |_| WaitRates::between(known.get(cq.cq.as_str()).unwrap_or(&&idle), &cq.waits, seconds));
    let cq_rates = nic.cqs.iter().map(cq_rate).collect();
    let counter = |nic: &Nic| nic.others.get("sleeps").copied().unwrap_or(0);
    let sleeps = old.filter(|_| seconds > 0.0).map_or(0.0, |(old, seconds)| counter(&nic).saturating_sub(counter(old)) as f64 / seconds);
    NicRow { nic, rates: total, vi_rates, cq_rates, sleeps }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic(vis: &[(&str, u64, u64)]) -> Nic {
        let vi = |&(name, sent, sent_bytes): &(&str, u64, u64)| Vi { vi: name.to_owned(), sent, sent_bytes, ..Vi::default() };
        Nic { vis: vis.iter().map(vi).collect(), ..Nic::default() }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let (old, new) = (nic(&[("0.1", 100, 800)]), nic(&[("0.1", 300, 2400), ("0.2", 50, 400)]));
        let row = row(new, Some((&old, 2.0)));
        assert_eq!((row.vi_rates[0].sent, row.vi_rates[0].sent_bytes, row.vi_rates[1].sent), (100.0, 800.0, 25.0));
        assert_eq!((row.rates.messages(), row.rates.bytes()), (125.0, 1000.0));
    }

    #[test]
    fn waits_of_vis_and_queues() {
        let with = |waits: u64, waited_us| {
            let mut wait_times = [0; WAIT_CLASSES];
            (wait_times[2], wait_times[9]) = (waits - 1, 1);
            let waits = Waits { waits, waits_slept: waits / 2, waited_us, waiting: 1, wait_times };
            Nic {
                vis: vec![Vi { vi: "0.1".to_owned(), waits, ..Vi::default() }],
                cqs: vec![stat::Cq { cq: "0.1".to_owned(), waits, ..stat::Cq::default() }],
                ..Nic::default()
            }
        };
        let row = row(with(30, 3_000_000), Some((&with(10, 2_000_000), 2.0)));
        let mut times = [0; WAIT_CLASSES];
        times[2] = 20;
        let expected = WaitRates { waits: 10.0, waits_slept: 5.0, waited: 0.5, wait_p50_ns: Some(1024), wait_p99_ns: Some(1024), times };
        assert_eq!((row.vi_rates[0].waits, row.rates.waits, row.cq_rates[0]), (expected, expected, expected));
    }

    #[test]
    fn the_first_look_has_no_rates_and_nothing_runs_backwards() {
        assert_eq!(row(nic(&[("0.1", 100, 800)]), None).rates, Rates::default());
        assert_eq!(row(nic(&[("0.1", 1, 8)]), Some((&nic(&[("0.1", 100, 800)]), 1.0))).rates, Rates::default());
    }
}
