// SPDX-License-Identifier: MIT OR Apache-2.0
//! A mode that reports what programs do against the rules of the interface, which often goes well
//! here and not on other devices (decision 27). Nothing else changes, but that all goes by packets,
//! so that each access is seen.
//!
//! Two faults cannot be seen and are not reported: memory that is *read* before its completion, and
//! memory that the program frees.

use crate::arrive::Packet;
use crate::core::Core;
use crate::memory::Regions;
use crate::qp::{Qp, Send};
use crate::queue::Receive;
use crate::rule::{Report, Reporter, Rule};
use crate::types::{Access, Completion, Sge, WcOpcode, WcStatus};
use crate::watch::{Seal, Strict, Watch};
use bellwire_memory::bytes;
use std::collections::BTreeMap;
use std::ops::Range;

/// Reports of one rule and queue pair; more are counted.
const REPORTS_MAX: u64 = 4;
/// How long a reliable sender may find no receive before that is reported, ns: less is flow
/// control.
const PATIENCE: u64 = 100_000_000;
/// Bytes in front of a datagram.
const ROUTE_BYTES: u64 = 40;

/// A digest of memory that the program may be writing.
fn digest(lies: &[Range<usize>]) -> u64 {
    let mut chunk = [0u64; 512];
    let mut sum = 0x9e37_79b9_7f4a_7c15_u64;
    for range in lies {
        for at in range.clone().step_by(size_of_val(&chunk)) {
            let n = (range.end - at).min(size_of_val(&chunk));
            chunk[n / 8..].fill(0);
            // SAFETY: R1, of a registration that is listed; copied, since others may write it.
            unsafe { bytes::copy(chunk.as_mut_ptr().cast(), core::ptr::with_exposed_provenance(at), n) };
            for word in &chunk[..n.div_ceil(8)] {
                sum = (sum ^ word).wrapping_mul(0xff51_afd7_ed55_8ccd).rotate_left(29);
            }
        }
    }
    sum
}

impl Regions {
    /// Where pieces lie, if all may be used.
    fn lies(&self, pieces: &[Sge], domain: u32) -> Option<Vec<Range<usize>>> {
        let place = |p: &Sge| self.find(p.key, domain, p.address, u64::from(p.length), Access::empty()).ok().map(|at| at.addr()..at.addr() + p.length as usize);
        pieces.iter().filter(|p| p.length != 0).map(place).collect()
    }

    /// Why memory may not be used so, if it may not.
    fn why_not(&self, key: u32, domain: u32, address: u64, length: u64, access: Access) -> Option<String> {
        let Some(region) = self.get(key) else { return Some(format!("key {key:#x} is no registration's, or it has ended")) };
        if region.domain != domain {
            return Some(format!("key {key:#x} is of another protection domain than the queue pair (or shared receive queue)"));
        }
        if !region.access.contains(access) {
            return Some(format!("key {key:#x} was registered with {:?}, and {:?} is needed", region.access, access));
        }
        let (start, end) = (region.iova, region.iova.wrapping_add(region.length));
        self.find(key, domain, address, length, access)
            .is_err()
            .then(|| format!("{length} bytes at {address:#x} are not within key {key:#x}, which is {} bytes from {start:#x} to {end:#x}", region.length))
    }

    fn why_none(&self, pieces: &[Sge], domain: u32, access: Access) -> Option<String> {
        pieces.iter().filter(|p| p.length != 0).find_map(|p| self.why_not(p.key, domain, p.address, u64::from(p.length), access))
    }
}

impl Core {
    /// From now on what is against the rules is reported.
    pub(crate) fn be_strict(&mut self, reporter: Reporter) {
        self.strict = Some(Box::new(Strict { reporter, seen: BTreeMap::new() }));
        self.is_witnessed = true;
    }

    /// Reports what `what` says, if it says something.
    #[cold]
    pub(crate) fn report(&mut self, rule: Rule, qp: u32, request: Option<u64>, what: impl FnOnce(&Self) -> Option<String>) {
        if self.strict.is_none() {
            return;
        }
        let Some(what) = what(self) else { return };
        let Some(strict) = &mut self.strict else { return };
        let seen = strict.seen.entry((rule, qp)).or_insert(0);
        *seen += 1;
        if *seen <= REPORTS_MAX {
            (strict.reporter)(&Report { rule, qp, request, what });
        }
    }

    /// Says how many were not reported.
    pub(crate) fn report_rest(&mut self) {
        let Some(strict) = &mut self.strict else { return };
        for ((rule, qp), seen) in &mut strict.seen {
            if *seen > REPORTS_MAX {
                let what = format!("the same {} times more", *seen - REPORTS_MAX);
                (strict.reporter)(&Report { rule: *rule, qp: *qp, request: None, what });
                *seen = REPORTS_MAX;
            }
        }
    }

    fn watch(&mut self, number: u32) -> Option<(&mut Watch, &Regions)> {
        let qp = self.qps.get_mut(number as usize & (crate::name::QPS_MAX - 1)).and_then(Option::as_deref_mut)?;
        Some((qp.watch.get_or_insert_with(Box::default), &self.regions))
    }

    /// A send has just been posted.
    #[cold]
    pub(crate) fn saw_post(&mut self, number: u32) {
        let Some(qp) = self.qp(number) else { return };
        let (places, domain) = (u64::from(qp.init.caps.sends), qp.init.domain);
        let Some(send) = qp.sends.back() else { return };
        let (id, watched) = (send.wr_id, !send.opcode.fetches() && send.data.owned().is_none());
        let pieces: Vec<Sge> = send.data.pieces().to_vec();
        let Some((watch, regions)) = self.watch(number) else { return };
        let lies = watched.then(|| regions.lies(&pieces, domain)).flatten();
        watch.seals.push_back(lies.map(|lies| Seal { digest: digest(&lies), lies }));
        watch.posted += 1;
        let held = watch.posted - watch.freed;
        if held > places {
            let untold = watch.told.is_empty();
            self.report(Rule::QueueFull, number, Some(id), |_| {
                let why = if untold { "none of them gave a completion" } else { "their completions were not polled" };
                Some(format!("{held} requests are in a send queue of {places}: {why}; another device refuses this one, or stops"))
            });
        }
    }

    /// A post was refused since the queue is full: a program may count on that, but not if no
    /// completion will say when there is room.
    #[cold]
    pub(crate) fn saw_full(&mut self, number: u32, id: u64) {
        let Some(qp) = self.qp(number) else { return };
        if !qp.sends.iter().any(|s| qp.is_told(s, WcStatus::Success)) {
            self.report(Rule::QueueFull, number, Some(id), |_| {
                Some("it was refused: the send queue is full, and no request in it gives a completion".to_owned())
            });
        }
    }

    /// The first send of a queue pair ends.
    #[cold]
    pub(crate) fn saw_end(&mut self, number: u32, send: &Send, status: WcStatus, is_told: bool) {
        let Some((watch, _)) = self.watch(number) else { return };
        let seal = watch.seals.pop_front().flatten();
        if is_told {
            watch.told.push_back(watch.ended);
        }
        watch.ended += 1;
        let has_changed = status == WcStatus::Success && seal.is_some_and(|s| digest(&s.lies) != s.digest);
        if has_changed {
            self.report(Rule::InUse, number, Some(send.wr_id), |_| Some(format!("its {} bytes were changed between post and completion", send.length)));
        }
    }

    /// So many completions at most are polled.
    #[cold]
    pub(crate) fn saw_polls(&mut self, cq: u32, most: usize) {
        let Ok(queue) = self.cq(cq) else { return };
        let sends: Vec<u32> =
            queue.entries.iter().take(most).filter(|c| !matches!(c.opcode, WcOpcode::Receive | WcOpcode::ReceiveWrite)).map(|c| c.qp).collect();
        for number in sends {
            let Some((watch, _)) = self.watch(number) else { continue };
            if let Some(which) = watch.told.pop_front() {
                watch.freed = which + 1;
            }
        }
    }

    /// The program waits for an event, and so many completions are left in a queue that it has
    /// armed.
    pub(crate) fn saw_left(&mut self, first: &Completion, count: usize) {
        self.report(Rule::Left, first.qp, None, |_| {
            Some(format!("an event is waited for while the armed queue holds completions ({count}), of which a device would not tell"))
        });
    }

    /// Memory was written for a peer: messages sent from there change without the program's doing.
    #[cold]
    pub(crate) fn saw_write(&mut self, written: &Range<usize>) {
        for watch in self.qps.iter_mut().flatten().filter_map(|q| q.watch.as_mut()) {
            for seal in &mut watch.seals {
                let overlaps = |s: &Seal| s.lies.iter().any(|a| a.start < written.end && written.start < a.end);
                if seal.as_ref().is_some_and(overlaps) {
                    *seal = None;
                }
            }
        }
    }

    /// The same for pieces of a request.
    #[cold]
    pub(crate) fn saw_scatter(&mut self, pieces: &[Sge], domain: u32) {
        if let Some(lies) = self.regions.lies(pieces, domain) {
            lies.iter().for_each(|written| self.saw_write(written));
        }
    }

    /// The same for what came back for a send.
    #[cold]
    pub(crate) fn saw_answer(&mut self, number: u32, index: usize) {
        let Some(qp) = self.qp(number) else { return };
        let domain = qp.init.domain;
        let pieces = qp.sends.get(index).map(|s| s.data.pieces().to_vec()).unwrap_or_default();
        self.saw_scatter(&pieces, domain);
    }

    /// A message found no receive.
    #[cold]
    pub(crate) fn saw_no_receive(&mut self, p: &Packet<'_>) {
        let (number, from, now) = (p.head.to, p.head.from, self.time());
        let Some(qp) = self.qp(number) else { return };
        let (is_reliable, shared) = (qp.init.kind.is_reliable(), qp.init.srq.is_some());
        let queue = if shared { "its shared receive queue" } else { "its receive queue" };
        if !is_reliable {
            return self.report(Rule::NoReceive, number, None, |_| Some(format!("a message of queue pair {from:#x} is lost: {queue} is empty")));
        }
        let Some((watch, _)) = self.watch(number) else { return };
        let since = match watch.refused {
            Some((of, since)) if of == p.head.number => since,
            _ => now,
        };
        // Once for a message.
        let is_late = since != u64::MAX && now.saturating_sub(since) >= PATIENCE;
        watch.refused = Some((p.head.number, if is_late { u64::MAX } else { since }));
        if is_late {
            self.report(Rule::NoReceive, number, None, |_| {
                Some(format!("a message of queue pair {from:#x} has waited for {} ms: {queue} is empty", now.saturating_sub(since) / 1_000_000))
            });
        }
    }

    /// A request of the program fails.
    #[cold]
    pub(crate) fn saw_failure(&mut self, number: u32, index: usize, status: WcStatus) {
        let Some(qp) = self.qp(number) else { return };
        let domain = qp.init.domain;
        let Some(send) = qp.sends.get(index) else { return };
        let (id, key, address, length) = (send.wr_id, send.key, send.address, send.length);
        let (pieces, local) = (send.data.pieces().to_vec(), if send.opcode.fetches() { Access::LOCAL_WRITE } else { Access::empty() });
        match status {
            WcStatus::LocalProtection => self.report(Rule::Key, number, Some(id), |core| core.regions.why_none(&pieces, domain, local)),
            WcStatus::RemoteAccess => self.report(Rule::Key, number, Some(id), |_| {
                Some(format!("the peer denied {length} bytes at {address:#x} by key {key:#x}; its own report says why"))
            }),
            WcStatus::RnrExceeded => {
                self.report(Rule::NoReceive, number, Some(id), |_| Some("the peer had no receive posted, as often as it was asked".to_owned()))
            }
            _ => {}
        }
    }

    /// A receive could not take a message.
    #[cold]
    pub(crate) fn saw_receive_failure(&mut self, number: u32, receive: &Receive, status: WcStatus) {
        if status == WcStatus::LocalProtection {
            self.report(Rule::Key, number, Some(receive.wr_id), |core| core.regions.why_none(receive.pieces.get(), receive.domain, Access::LOCAL_WRITE));
        }
    }

    /// A peer is denied access.
    #[cold]
    pub(crate) fn saw_denial(&mut self, p: &Packet<'_>, needs: Access) {
        let (key, length) = p.head.key_and_length();
        let length = if needs == Access::REMOTE_ATOMIC { 8 } else { u64::from(length) };
        let Some(qp) = self.qp(p.head.to) else { return };
        let (domain, allowed, from) = (qp.init.domain, qp.attributes.access, p.head.from);
        self.report(Rule::Key, p.head.to, None, |core| {
            let why = if allowed.contains(needs) {
                core.regions.why_not(key, domain, p.head.words[0], length, needs)?
            } else {
                format!("the queue pair was set up with {allowed:?}, and {needs:?} is needed")
            };
            Some(format!("queue pair {from:#x} was denied access: {why}"))
        });
    }

    /// A receive for datagrams is posted, or was too short for one of so many bytes.
    #[cold]
    pub(crate) fn saw_route_room(&mut self, number: u32, id: u64, room: u64, message: u64) {
        if room < message + ROUTE_BYTES && room >= message {
            self.report(Rule::RouteRoom, number, Some(id), |_| {
                Some(if message == 0 {
                    format!("a receive of {room} bytes takes no datagram")
                } else {
                    format!("a receive of {room} bytes is too short for a datagram of {message}")
                })
            });
        }
    }

    /// A registration ends.
    #[cold]
    pub(crate) fn saw_end_of_region(&mut self, key: u32) {
        let uses = |pieces: &[Sge]| pieces.iter().any(|p| p.key == key && p.length != 0);
        let used = |q: &Qp| {
            let send = q.sends.iter().find(|s| !s.done && uses(s.data.pieces())).map(|s| (q.number, s.wr_id));
            send.or_else(|| q.receives.posted.iter().find(|r| uses(r.pieces.get())).map(|r| (q.number, r.wr_id)))
        };
        let user = self.qps.iter().flatten().find_map(|q| used(q));
        if let Some((number, id)) = user {
            self.report(Rule::InUse, number, Some(id), |_| Some(format!("the registration with key {key:#x}, which it uses, is ended before it is complete")));
        }
    }
}
