// SPDX-License-Identifier: MIT OR Apache-2.0
//! A plan of faults on purpose, and how far it is; the decisions about a request.

use crate::name::host_of;
use crate::types::Gid;
use bellwire_faults::{Fates, FaultPlan, RequestFaults, Timetable};
use bellwire_via::Instant;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A plan, and how far it is.
#[derive(Debug)]
pub(crate) struct Struck {
    pub plan: FaultPlan,
    pub own: String,
    /// The plan's times count from here, ns.
    pub opened: u64,
    pub links: BTreeMap<Gid, RequestFaults>,
    /// Queue pairs made.
    pub pairs: u64,
    pub ports: Timetable,
    /// Outages of the port that are not over.
    pub down: u32,
    /// Ends the process.
    pub die: fn(),
}

/// The decisions about a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    pub verdict: Verdict,
    /// So often it still finds no receive.
    pub unready: u16,
}

/// The end that the plan has for a request. It comes when the requests before it have ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is not judged yet.
    #[default]
    None,
    /// It leaves.
    Leaves,
    /// Nobody will answer.
    Lost,
    /// The queue pair fails.
    Breaks,
}

fn text(gid: &Gid) -> String {
    <[u8; 4]>::try_from(host_of(gid)).map_or(IpAddr::from(*gid), IpAddr::from).to_string()
}

impl Struck {
    pub(crate) fn new(plan: FaultPlan, own: &Gid, opened: u64, die: fn()) -> Self {
        let ports = plan.port_timetable();
        Self { plan, own: text(own), opened, links: BTreeMap::new(), pairs: 0, ports, down: 0, die }
    }

    /// The fates of the next queue pair's requests.
    pub(crate) fn next_pair(&mut self) -> Fates {
        self.pairs += 1;
        Fates::new(&self.plan, self.pairs - 1)
    }

    /// When the port goes down or up next, by the device's clock.
    pub(crate) fn next_change(&self) -> Option<u64> {
        let at = self.ports.next_change();
        (at != Instant::NEVER).then(|| at.0.saturating_add(self.opened))
    }

    pub(crate) fn link(&mut self, to: Gid) -> RequestFaults {
        let (plan, own) = (&self.plan, &self.own);
        *self.links.entry(to).or_insert_with(|| plan.link(own, &text(&to)).requests)
    }
}
