// SPDX-License-Identifier: MIT OR Apache-2.0
//! A capture (`BELLWIRE_CAPTURE`; decision 46): each request is told of with its bytes when it is
//! posted, then when it leaves, when it is refused and leaves again, and when it is complete, with
//! the bytes that came back. `bellwire capture` makes packets of these events.
//!
//! All is told by the side that posts. The other one takes no part in what is done in mapped
//! memory, and may not be captured.

use crate::captured::{Captured, Pair, Path, Request, tell_left};
use crate::core::Core;
use crate::memory::Regions;
use crate::name::QPS_MAX;
use crate::qp::Send;
use crate::types::{Sge, WcStatus};
use bellwire_trace::address::gid_words;
use bellwire_trace::{Kind, here};
use std::collections::BTreeSet;

/// Bytes copied at a time.
const BLOCK: usize = 1 << 16;

/// Tells the bytes of pieces; of memory that may not be read, none.
fn tell_pieces(regions: &Regions, (pieces, domain): (&[Sge], u32), length: usize, mut tell: impl FnMut(usize, &[u8])) {
    let mut room = vec![0; length.min(BLOCK)];
    for at in (0..length).step_by(BLOCK) {
        let block = &mut room[..(length - at).min(BLOCK)];
        if regions.gather(pieces, domain, at, block).is_err() {
            return;
        }
        tell(at, block);
    }
}

impl Core {
    /// From now on requests are captured, and the first `snap` bytes of each. Queue pairs that have
    /// requests already go on with the number of the next request.
    pub(crate) fn be_captured(&mut self, snap: usize) {
        let used = self.qps.iter().flatten().filter(|qp| !qp.sends.is_empty() || qp.first != qp.attributes.send_number);
        let pairs = used.map(|qp| (qp.number, Pair::on_its_way(qp))).collect();
        self.captured = Some(Box::new(Captured { snap, pairs, waiting: BTreeSet::new() }));
        self.is_witnessed = true;
    }

    /// A request has just been posted.
    #[cold]
    pub(crate) fn capture_post(&mut self, number: u32) {
        let own = self.name.gid;
        let Some(qp) = self.qps.get(number as usize & (QPS_MAX - 1)).and_then(Option::as_deref) else { return };
        let (Some(captured), Some(send)) = (&mut self.captured, qp.sends.back()) else { return };
        captured.waiting.insert(number);
        let pair = captured.pairs.entry(number).or_insert_with(|| Pair::new(qp));
        if pair.life != qp.life {
            *pair = Pair::new(qp);
        }
        if send.opcode.is_local() {
            pair.requests.push_back(Request { psn: pair.next, has_left: false, is_local: true });
            return;
        }
        let kind = qp.init.kind;
        let path = Path { peer: qp.attributes.peer, mtu: 128 << qp.attributes.mtu.clamp(1, 5), to: qp.attributes.gid.unwrap_or(own) };
        if pair.told != Some(path) {
            pair.told = Some(path);
            let ([gid, gid_low], [to, to_low]) = (gid_words(own), gid_words(path.to));
            here::note_more(Kind::Path, number, [kind as u64, path.mtu.into()], &[path.peer.into(), gid, gid_low, to, to_low]);
        }
        let psn = pair.take_number(kind, send, path.mtu);
        pair.requests.push_back(Request { psn, has_left: false, is_local: false });
        let (to_qp, qkey, [to, to_low]) = match &send.to {
            Some(to) => (to.qp, to.qkey, gid_words(to.gid.unwrap_or(own))),
            None => (0, 0, [0; 2]),
        };
        let rest = [
            send.opcode as u64,
            send.flags.bits().into(),
            send.wr_id,
            send.address,
            send.key.into(),
            send.immediate.into(),
            send.operands[0],
            send.operands[1],
            to_qp.into(),
            qkey.into(),
            to,
            to_low,
        ];
        here::note_more(Kind::Request, number, [psn.into(), send.length.into()], &rest);
        if send.opcode.fetches() {
            return;
        }
        let tell = |at: usize, bytes: &[u8]| here::note_bytes(Kind::RequestBytes, number, psn.into(), at as u64, bytes);
        let length = (send.length as usize).min(captured.snap);
        match send.data.owned() {
            Some(bytes) => tell(0, &bytes[..length.min(bytes.len())]),
            None => tell_pieces(&self.regions, (send.data.pieces(), qp.init.domain), length, tell),
        }
    }

    /// Of the requests that had begun to leave, so many, that at `index` was refused, with a timer
    /// if there is a peer. It leaves again with those behind it.
    #[cold]
    pub(crate) fn capture_refusal(&mut self, number: u32, begun: usize, index: usize, timer: Option<u8>) {
        let Some(captured) = &mut self.captured else { return };
        let Some(pair) = captured.pairs.get_mut(&number) else { return };
        for request in pair.requests.iter().take(begun).filter(|request| !request.has_left) {
            // Since the last look.
            tell_left(number, request);
        }
        if let Some(request) = pair.requests.get(index) {
            here::note_more(Kind::RequestRefused, number, [request.psn.into(), timer.unwrap_or(0).into()], &[u64::from(timer.is_none())]);
        }
        for (at, request) in pair.requests.iter_mut().enumerate() {
            request.has_left = at < index.min(begun);
        }
        captured.waiting.insert(number);
    }

    /// The first request of a queue pair ends, and is no longer in its queue.
    #[cold]
    pub(crate) fn capture_end(&mut self, number: u32, send: &Send, status: WcStatus) {
        let Some(captured) = &mut self.captured else { return };
        let Some(request) = captured.pairs.get_mut(&number).and_then(|pair| pair.requests.pop_front()).filter(|request| !request.is_local) else { return };
        let Some(qp) = self.qps.get(number as usize & (QPS_MAX - 1)).and_then(Option::as_deref) else { return };
        // A request that is answered has left.
        let is_answered = matches!(status, WcStatus::Success | WcStatus::RemoteInvalid | WcStatus::RemoteAccess | WcStatus::RemoteOperation);
        if is_answered && !request.has_left {
            tell_left(number, &request);
        }
        if status == WcStatus::Success && send.opcode.fetches() {
            let (pieces, snap) = ((send.data.pieces(), qp.init.domain), (send.length as usize).min(captured.snap));
            tell_pieces(&self.regions, pieces, snap, |at, bytes| here::note_bytes(Kind::AnswerBytes, number, request.psn.into(), at as u64, bytes));
        }
        here::note(Kind::Answered, number, [request.psn.into(), status as u64]);
    }
}
