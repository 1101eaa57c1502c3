// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the live view shows: figures copied under the token, written as JSON without it.
//!
//! Bounded in time and size: so many VIs and links are shown, of the others the number; where there
//! are too many regions to add up, their sum is `null`.

use super::identity::Identity;
use super::state::Shared;
use super::target::Target;
use super::waits::WaitCounters;
use super::{Core, clock};
use crate::attributes::{Reliability, ViState};
use crate::cause::Cause;
use crate::handles::{CqHandle, ViHandle};
use crate::lost_link::{LOST_LINKS_MAX, LostLink};
use crate::vi::{Vi, ViCounters};
use crate::wire::shm::ProtectionMode;
use crate::wire::{LinkId, LinkInfo, Wire};
use bellwire_memory::token::Claim;
use core::fmt::Write;
use core::net::SocketAddr;

/// Version of the text's layout.
const FORMAT: u32 = 1;
/// VIs, links and completion queues shown: with them an answer fits into a socket's buffer.
const VIS_MAX: usize = 256;
const LINKS_MAX: usize = 64;
const CQS_MAX: usize = 64;
/// Waiters looked at: what the others have waited so far is told when they are done.
const WAITERS_MAX: usize = 1024;
/// Regions up to which their lengths are added up.
const REGIONS_MAX: usize = 1 << 14;

/// A moment of the NIC.
pub(super) struct Snapshot<'a> {
    identity: &'a Identity,
    spin_us: u64,
    polls: u32,
    sleeps: u64,
    wakeups: u64,
    wire: &'static str,
    /// Where packets of other hosts arrive.
    udp: Option<SocketAddr>,
    links: Vec<(LinkId, LinkInfo)>,
    links_left_out: usize,
    /// Links that failed last, with the time since then, ms; and how many there were.
    lost: Vec<(LostLink, u64)>,
    links_lost: u64,
    vis: Vec<ViFigures>,
    vis_left_out: usize,
    cqs: Vec<CqFigures>,
    cqs_left_out: usize,
    regions: usize,
    /// Registered and allocated.
    bytes: Option<(u64, u64)>,
}

struct ViFigures {
    handle: ViHandle,
    state: ViState,
    reliability: Reliability,
    /// Of a connected VI.
    link: Option<(LinkId, u32)>,
    cause: Option<Cause>,
    counters: ViCounters,
    waits: WaitCounters,
    /// How many wait for it now.
    waiting: u64,
    posted_sends: u32,
    posted_receives: u32,
}

struct CqFigures {
    handle: CqHandle,
    entries: usize,
    capacity: usize,
    waits: WaitCounters,
    waiting: u64,
}

/// Copies the figures, under the token.
pub(super) fn take(shared: &Shared) -> Snapshot<'_> {
    // Before the token is taken: growing would cost while others wait.
    let (mut links, mut vis, mut cqs) = (Vec::with_capacity(LINKS_MAX), Vec::with_capacity(VIS_MAX), Vec::with_capacity(CQS_MAX));
    let (mut waiting, mut lost) = (Vec::with_capacity(WAITERS_MAX), Vec::with_capacity(LOST_LINKS_MAX));
    let now = clock();
    let core = shared.token.enter(Claim::Visit);
    let Core { engine, waiters, spin, polls, .. } = &*core;
    links.extend(engine.links.iter().take(LINKS_MAX).map(|l| (l.id, engine.wire.link_info(l.id))));
    vis.extend(
        engine
            .vis
            .iter()
            .take(VIS_MAX)
            .map(|(handle, vi)| figures(handle, vi, waiters.counted.of(Target::Send(handle)), |link| engine.wire.link_info(link).peer_pid)),
    );
    cqs.extend(engine.cqs.iter().take(CQS_MAX).map(|(handle, q)| CqFigures {
        handle,
        entries: q.entries.len(),
        capacity: q.capacity,
        waits: waiters.counted.of(Target::Cq(handle)),
        waiting: 0,
    }));
    lost.extend(engine.lost_links().map(|l| (*l, now.since(l.at).0 / 1_000_000)));
    waiting.extend(waiters.waiting(now).take(WAITERS_MAX));
    let regions = engine.regions();
    let bytes = (regions <= REGIONS_MAX).then(|| engine.usage()).map(|u| (u.registered_bytes, u.allocated_bytes));
    let mut snapshot = Snapshot {
        identity: &shared.identity,
        spin_us: spin.max_ns() / 1000,
        polls: *polls,
        sleeps: waiters.sleeps,
        wakeups: waiters.wakeups,
        wire: engine.wire.name(),
        udp: engine.wire.packet().map(|p| p.port().address()),
        links_left_out: engine.links.len() - links.len(),
        lost,
        links_lost: engine.lost_links.count,
        links,
        vis_left_out: engine.vis.len() - vis.len(),
        vis,
        cqs_left_out: engine.cqs.len() - cqs.len(),
        cqs,
        regions,
        bytes,
    };
    drop(core);
    for (target, ns) in waiting {
        snapshot.add_waiting(target, ns);
    }
    snapshot
}

impl Snapshot<'_> {
    /// Adds who waits now, and for how long so far.
    fn add_waiting(&mut self, target: Target, ns: u64) {
        let found = match target {
            Target::Send(vi) | Target::Receive(vi) => self.vis.iter_mut().find(|v| v.handle == vi).map(|v| (&mut v.waits, &mut v.waiting)),
            Target::Cq(cq) => self.cqs.iter_mut().find(|q| q.handle == cq).map(|q| (&mut q.waits, &mut q.waiting)),
            Target::Connect | Target::Inbox => None,
        };
        if let Some((waits, waiting)) = found {
            waits.ns += ns;
            *waiting += 1;
        }
    }
}

fn figures(handle: ViHandle, vi: &Vi, waits: WaitCounters, peer_pid: impl Fn(LinkId) -> u32) -> ViFigures {
    ViFigures {
        handle,
        state: vi.state,
        reliability: vi.attributes.reliability,
        link: (vi.state == ViState::Connected).then(|| (vi.link, peer_pid(vi.link))),
        cause: vi.cause,
        counters: vi.counters,
        waits,
        waiting: 0,
        posted_sends: vi.send.works.tail().wrapping_sub(vi.send.done),
        posted_receives: vi.receive.posted(),
    }
}

/// All counters of a VI by name. The pattern names every field, so that none can be forgotten.
fn counters(counters: &ViCounters) -> [(&'static str, u64); 9] {
    let ViCounters { sent, sent_bytes, received, received_bytes, direct, attached, dropped, receiver_not_ready, errors } = *counters;
    [
        ("sent", sent),
        ("sent_bytes", sent_bytes),
        ("received", received),
        ("received_bytes", received_bytes),
        ("direct", direct),
        ("attached", attached),
        ("dropped", dropped),
        ("receiver_not_ready", receiver_not_ready),
        ("errors", errors),
    ]
}

fn wait_counters(waits: &WaitCounters) -> [(&'static str, u64); 3] {
    let WaitCounters { count, slept, ns, times: _ } = *waits;
    [("waits", count), ("waits_slept", slept), ("waited_us", ns / 1000)]
}

impl Snapshot<'_> {
    /// One line of JSON.
    pub(super) fn to_json(&self) -> String {
        let mut out = String::with_capacity(1024 + 512 * self.vis.len());
        // Writing to a string does not fail.
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> core::fmt::Result {
        let Identity { number, mode, host, program, opened } = self.identity;
        let (pid, uptime_ms) = (std::process::id(), opened.elapsed().as_millis());
        let mode = if *mode == ProtectionMode::Mapped { "mapped" } else { "guarded" };
        write!(out, "{{\"format\":{FORMAT},\"pid\":{pid},\"nic\":{number},\"program\":{},\"mode\":\"{mode}\",\"host\":{}", quoted(program), quoted(host))?;
        let Self { spin_us, polls, sleeps, wakeups, wire, .. } = self;
        write!(out, ",\"wires\":\"{wire}\",\"udp\":")?;
        match self.udp {
            Some(address) => write!(out, "\"{address}\"")?,
            None => out.push_str("null"),
        }
        write!(out, ",\"uptime_ms\":{uptime_ms},\"spin_us\":{spin_us},\"polls\":{polls},\"sleeps\":{sleeps},\"wakeups\":{wakeups},\"links\":[")?;
        for (at, (link, info)) in self.links.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            write_link(out, *link, info)?;
        }
        write!(out, "],\"links_left_out\":{},\"links_lost\":{},\"lost\":[", self.links_left_out, self.links_lost)?;
        for (at, (lost, ago_ms)) in self.lost.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            let LostLink { link, about: LinkInfo { peer_pid, wire, path, .. }, failure, .. } = lost;
            write!(out, "{{\"link\":\"{link:?}\",\"peer_pid\":{peer_pid},\"wire\":\"{wire}\",\"why\":\"{}\",\"ago_ms\":{ago_ms}", failure.text())?;
            match path {
                Some(path) => write!(out, ",\"address\":\"{}\"}}", path.address)?,
                None => out.push('}'),
            }
        }
        out.push_str("],\"vis\":[");
        for (at, vi) in self.vis.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            vi.write(out)?;
        }
        write!(out, "],\"vis_left_out\":{},\"cqs\":[", self.vis_left_out)?;
        for (at, cq) in self.cqs.iter().enumerate() {
            out.push_str(if at == 0 { "" } else { "," });
            cq.write(out)?;
        }
        write!(out, "],\"cqs_left_out\":{},\"regions\":{}", self.cqs_left_out, self.regions)?;
        match self.bytes {
            Some((registered, allocated)) => writeln!(out, ",\"registered_bytes\":{registered},\"allocated_bytes\":{allocated}}}"),
            None => writeln!(out, ",\"registered_bytes\":null,\"allocated_bytes\":null}}"),
        }
    }
}

fn write_link(out: &mut String, link: LinkId, info: &LinkInfo) -> core::fmt::Result {
    let LinkInfo { peer_pid, mapped, loopback, segments_mapped, wire, reason, path, .. } = info;
    write!(out, "{{\"link\":\"{link:?}\",\"peer_pid\":{peer_pid},\"wire\":\"{wire}\",\"why\":\"{}\",\"mapped\":{mapped}", reason.text())?;
    write!(out, ",\"loopback\":{loopback},\"segments_mapped\":{segments_mapped}")?;
    if let Some(path) = path {
        let figures = [
            ("version", path.version.into()),
            ("datagram_bytes", path.datagram as u64),
            ("rtt_ns", path.rtt.0),
            ("rtt_min_ns", path.rtt_min.0),
            ("rtt_deviation_ns", path.rtt_deviation.0),
            ("window", path.window.into()),
            ("in_flight", path.in_flight.into()),
            ("packets_out", path.data_out),
            ("packets_in", path.data_in),
            ("resent", path.retransmitted),
            ("lost", path.lost),
        ];
        write!(out, ",\"address\":\"{}\"", path.address)?;
        for (name, value) in figures {
            write!(out, ",\"{name}\":{value}")?;
        }
    }
    out.push('}');
    Ok(())
}

impl ViFigures {
    fn write(&self, out: &mut String) -> core::fmt::Result {
        write!(out, "{{\"vi\":\"{:?}\",\"state\":\"{}\"", self.handle, state_name(self.state))?;
        match self.link {
            Some((link, peer_pid)) => write!(out, ",\"link\":\"{link:?}\",\"peer_pid\":{peer_pid}")?,
            None => out.push_str(",\"link\":null,\"peer_pid\":null"),
        }
        if let Some(cause) = self.cause {
            write!(out, ",\"broke\":\"{cause}\"")?;
        }
        write!(out, ",\"reliability\":\"{}\"", reliability_name(self.reliability))?;
        for (name, value) in counters(&self.counters).into_iter().chain(wait_counters(&self.waits)) {
            write!(out, ",\"{name}\":{value}")?;
        }
        write_times(out, &self.waits)?;
        write!(out, ",\"waiting\":{},\"posted_sends\":{},\"posted_receives\":{}}}", self.waiting, self.posted_sends, self.posted_receives)
    }
}

impl CqFigures {
    fn write(&self, out: &mut String) -> core::fmt::Result {
        write!(out, "{{\"cq\":\"{:?}\",\"entries\":{},\"capacity\":{}", self.handle, self.entries, self.capacity)?;
        for (name, value) in wait_counters(&self.waits) {
            write!(out, ",\"{name}\":{value}")?;
        }
        write_times(out, &self.waits)?;
        write!(out, ",\"waiting\":{}}}", self.waiting)
    }
}

/// The classes of times up to the last that has any.
fn write_times(out: &mut String, waits: &WaitCounters) -> core::fmt::Result {
    let Some(last) = waits.times.iter().rposition(|count| *count != 0) else { return Ok(()) };
    for (at, count) in waits.times[..=last].iter().enumerate() {
        write!(out, "{}{count}", if at == 0 { ",\"wait_times\":[" } else { "," })?;
    }
    out.push(']');
    Ok(())
}

fn state_name(state: ViState) -> &'static str {
    match state {
        ViState::Idle => "idle",
        ViState::ConnectPending => "connect_pending",
        ViState::Connected => "connected",
        ViState::Error => "error",
    }
}

fn reliability_name(level: Reliability) -> &'static str {
    match level {
        Reliability::Unreliable => "unreliable",
        Reliability::ReliableDelivery => "delivery",
        Reliability::ReliableReception => "reception",
    }
}

/// A JSON string.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' || c == '\u{7f}' => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_quoted() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
        assert_eq!(quoted("über"), "\"über\"");
    }
}
