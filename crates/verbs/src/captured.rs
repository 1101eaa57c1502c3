// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a capture knows of queue pairs (`capture.rs`): the numbers of packets of each request, and
//! whether it has left.

use crate::name::QPS_MAX;
use crate::qp::{Qp, Send};
use crate::types::{Gid, QpKind};
use bellwire_trace::{Kind, here};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Numbers of packets have 24 bits.
const NUMBERS: u32 = 1 << 24;
/// What a capture knows of a device.
#[derive(Debug)]
pub(crate) struct Captured {
    /// Most bytes of a request that are told.
    pub snap: usize,
    pub pairs: BTreeMap<u32, Pair>,
    /// Queue pairs with requests that have not left.
    pub waiting: BTreeSet<u32>,
}

/// What a capture knows of a queue pair.
#[derive(Debug)]
pub(crate) struct Pair {
    pub life: u8,
    /// Number of the next packet.
    pub next: u32,
    /// One for each of the queue pair's `sends`.
    pub requests: VecDeque<Request>,
    pub told: Option<Path>,
}

/// A request that is not complete.
#[derive(Debug)]
pub(crate) struct Request {
    pub psn: u32,
    pub has_left: bool,
    /// It only changes keys of this side.
    pub is_local: bool,
}

/// Where requests go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Path {
    pub peer: u32,
    pub mtu: u32,
    pub to: Gid,
}

/// A GID as two words.
pub(crate) fn words(gid: &Gid) -> [u64; 2] {
    let (high, low) = gid.split_at(8);
    [high, low].map(|half| half.iter().fold(0, |word, byte| word << 8 | u64::from(*byte)))
}

impl Pair {
    pub(crate) fn new(qp: &Qp) -> Self {
        Self { life: qp.life, next: qp.attributes.send_number % NUMBERS, requests: VecDeque::new(), told: None }
    }

    /// The number of the first packet of a request, and the next one's after it.
    pub(crate) fn take_number(&mut self, kind: QpKind, send: &Send, mtu: u32) -> u32 {
        let packets = if kind == QpKind::Ud || send.opcode.is_atomic() { 1 } else { send.length.div_ceil(mtu).max(1) };
        let psn = self.next;
        self.next = (psn + packets) % NUMBERS;
        psn
    }
}

impl Captured {
    /// Tells of requests that have left since the last look.
    pub(crate) fn look(&mut self, qps: &[Option<Box<Qp>>]) {
        let pairs = &mut self.pairs;
        self.waiting.retain(|number| {
            let qp = qps.get(*number as usize & (QPS_MAX - 1)).and_then(Option::as_deref).filter(|qp| qp.number == *number);
            let (Some(qp), Some(pair)) = (qp, pairs.get_mut(number)) else { return false };
            for request in pair.requests.iter_mut().take(qp.left).filter(|request| !request.has_left) {
                request.has_left = true;
                tell_left(*number, request);
            }
            pair.requests.iter().any(|request| !request.has_left)
        });
    }
}

pub(crate) fn tell_left(number: u32, request: &Request) {
    if !request.is_local {
        here::note(Kind::RequestLeft, number, [request.psn.into(), 0]);
    }
}
