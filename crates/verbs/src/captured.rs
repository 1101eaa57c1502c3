// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a capture knows of queue pairs (`capture.rs`): the numbers of packets of each request, and
//! whether it has left.

use crate::name::QPS_MAX;
use crate::qp::{Qp, Send};
use crate::types::{Gid, QpKind};
use bellwire_trace::address::gid_words;
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

impl Pair {
    pub(crate) fn new(qp: &Qp) -> Self {
        Self { life: qp.life, next: qp.attributes.send_number % NUMBERS, requests: VecDeque::new(), told: None }
    }

    /// Of a queue pair that has had requests, whose packets nobody counted: those that are not
    /// complete are not told of, and the next one's packets are numbered from its own number on.
    pub(crate) fn on_its_way(qp: &Qp) -> Self {
        let number = |n: usize| qp.first.wrapping_add(n as u32) % NUMBERS;
        let requests = (0..qp.sends.len()).map(|n| Request { psn: number(n), has_left: true, is_local: true });
        Self { next: number(qp.sends.len()), requests: requests.collect(), ..Self::new(qp) }
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

impl Captured {
    /// A message of connection management leaves, by that link.
    pub(crate) fn tell_management(&self, link: u32, (from, to): (&Gid, &Gid), message: &[u8]) {
        let ([from, from_low], [to, to_low]) = (gid_words(*from), gid_words(*to));
        here::note_more(Kind::Management, link, [from, from_low], &[to, to_low]);
        here::note_bytes(Kind::ManagementBytes, link, 0, 0, message);
    }

    /// A queue pair is gone; the next of its number begins anew.
    pub(crate) fn forget(&mut self, number: u32) {
        self.pairs.remove(&number);
        self.waiting.remove(&number);
    }
}

pub(crate) fn tell_left(number: u32, request: &Request) {
    if !request.is_local {
        here::note(Kind::RequestLeft, number, [request.psn.into(), 0]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qp::QpInit;
    use crate::types::Opcode;

    fn qp(kind: QpKind, send_number: u32) -> Qp {
        let init = QpInit { kind, domain: 1, send_cq: 1, receive_cq: 1, srq: None, caps: crate::qp::Caps::default(), signal_all: false, cookie: 0 };
        let mut qp = Qp::new(0x2000, init);
        qp.attributes.send_number = send_number;
        qp
    }

    #[test]
    fn numbers_of_packets() {
        let send = |opcode, length| Send { opcode, length, ..Send::default() };
        let mut pair = Pair::new(&qp(QpKind::Rc, NUMBERS - 2));
        let mut take = |kind, opcode, length| pair.take_number(kind, &send(opcode, length), 1024);
        // A message without bytes is a packet; a read takes the numbers of its answer; they go on
        // from the beginning.
        assert_eq!(take(QpKind::Rc, Opcode::Send, 0), NUMBERS - 2);
        assert_eq!(take(QpKind::Rc, Opcode::Read, 2049), NUMBERS - 1);
        assert_eq!(take(QpKind::Rc, Opcode::FetchAdd, 8), 2);
        assert_eq!(take(QpKind::Ud, Opcode::Send, 4000), 3);
        assert_eq!(take(QpKind::Rc, Opcode::Write, 1024), 4);
        assert_eq!(take(QpKind::Rc, Opcode::Write, 1), 5);
    }

    #[test]
    fn requests_leave_once_and_a_queue_pair_that_is_gone_is_forgotten() {
        let mut qp = qp(QpKind::Rc, 5);
        let mut pair = Pair::new(&qp);
        pair.requests.extend((5..8).map(|psn| Request { psn, has_left: false, is_local: false }));
        let mut captured = Captured { snap: 0, pairs: BTreeMap::from([(qp.number, pair)]), waiting: BTreeSet::from([qp.number]) };
        let left = |captured: &Captured| captured.pairs[&0x2000].requests.iter().filter(|request| request.has_left).count();
        qp.left = 2;
        let mut qps = vec![Some(Box::new(qp))];
        captured.look(&qps);
        assert_eq!((left(&captured), captured.waiting.len()), (2, 1));
        qps[0].as_mut().unwrap().left = 3;
        captured.look(&qps);
        assert_eq!((left(&captured), captured.waiting.len()), (3, 0));
        captured.forget(0x2000);
        assert!(captured.pairs.is_empty());
    }
}
