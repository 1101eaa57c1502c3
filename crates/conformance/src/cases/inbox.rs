// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts that layers with messages of their own use: inboxes, sends by copy, RDMA write with
//! trailer.

use crate::stage::{Memory, Pair, Stage, pattern, refused, remote};
use crate::{Fixture, Port};
use bellwire_via::inbox::LineWords;
use bellwire_via::{Error, InboxHandle, Notice, Operation, Pieces, Reliability, Segment, SendRequest, Taken, ViState, WorkFlags};
use std::panic::{AssertUnwindSafe, catch_unwind};

const LENGTHS: [usize; 9] = [1, 8, 55, 56, 57, 200, 4_096, 40_000, 65_000];
const CONTEXT: u64 = 77;

/// A pair whose second VI has an inbox for so many messages.
fn pair_with_inbox<F: Fixture>(s: &mut Stage<F>, limit: u32) -> (Pair, InboxHandle) {
    let (na, nb) = (s.side(0), s.side(1));
    let (tag_a, tag_b) = (s.ptag(na), s.ptag(nb));
    let level = Reliability::ReliableDelivery;
    let a = s.vi(na, &Stage::<F>::attributes(level, Some(tag_a)));
    let b = s.vi(nb, &Stage::<F>::attributes(level, Some(tag_b)));
    let inbox = s.fixture.with(nb, |e| e.create_inbox()).expect("an inbox");
    s.fixture.with(nb, |e| e.set_inbox(b.vi, inbox, limit, CONTEXT)).expect("idle");
    s.connect(a, b);
    (Pair { a, b, tag_a: Some(tag_a), tag_b: Some(tag_b), reliability: level }, inbox)
}

/// What an inbox has, messages as bytes.
fn take<F: Fixture>(s: &mut Stage<F>, nic: usize, inbox: InboxHandle) -> Option<Result<Vec<u8>, Notice>> {
    s.fixture.with(nic, |e| {
        let mut line: LineWords = [0; 7];
        match e.take(inbox, &mut line)? {
            Taken::Line(context, length) => {
                assert_eq!(context, CONTEXT);
                Some(Ok(line.iter().flat_map(|w| w.to_ne_bytes()).take(length as usize).collect()))
            }
            Taken::Kept(context, kept) => {
                assert_eq!(context, CONTEXT);
                // SAFETY: the engine lives, it is not released yet; its peer is this test, which
                // does not write meanwhile.
                let data = unsafe { core::slice::from_raw_parts(kept.as_ptr(), kept.len()) }.to_vec();
                e.release(kept);
                Some(Ok(data))
            }
            Taken::Waited(context, data) => {
                assert_eq!(context, CONTEXT);
                let copy = data.clone();
                e.recycle(inbox, data);
                Some(Ok(copy))
            }
            Taken::Notice(context, _, notice) => {
                assert_eq!(context, CONTEXT);
                Some(Err(notice))
            }
        }
    })
}

fn message<F: Fixture>(s: &mut Stage<F>, nic: usize, inbox: InboxHandle) -> Vec<u8> {
    s.wait("a message", |s| match take(s, nic, inbox) {
        Some(Ok(data)) => Some(data),
        Some(Err(Notice::Connected(_) | Notice::Accepted(..))) | None => None,
        Some(Err(Notice::Broken(cause))) => panic!("the connection broke: {cause}"),
    })
}

fn send_copied<F: Fixture>(s: &mut Stage<F>, a: Port, data: &[u8]) {
    let cut = data.len() / 3;
    let pieces = Pieces { head: (data.as_ptr(), cut), body: (data[cut..].as_ptr(), data.len() - cut) };
    let mut sent = 0;
    s.until("room", |s| {
        // SAFETY: U2: `data` outlives the call.
        sent = s.fixture.with(a.nic, |e| unsafe { e.send_copied(a.vi, &pieces, sent) }).expect("connected");
        sent == data.len()
    });
}

/// Messages of all lengths reach an inbox whole, once and in order, whether somebody waits for them
/// or they wait.
pub fn inbox_takes_messages_in_order<F: Fixture>(s: &mut Stage<F>) {
    let (Pair { a, b, .. }, inbox) = pair_with_inbox(s, 64);
    for round in 0..3u32 {
        for (i, length) in LENGTHS.into_iter().enumerate() {
            send_copied(s, a, &pattern(round * 10 + i as u32, length));
            if round == 1 {
                s.settle();
            }
            if round == 2 {
                let got = message(s, b.nic, inbox);
                assert!(got == pattern(20 + i as u32, length), "{length} bytes at once");
            }
        }
        if round < 2 {
            for (i, length) in LENGTHS.into_iter().enumerate() {
                let got = message(s, b.nic, inbox);
                assert!(got == pattern(round * 10 + i as u32, length), "{length} bytes, round {round}");
            }
        }
    }
    s.settle();
    assert_eq!(take(s, b.nic, inbox), None);
    s.no_errors(a);
    s.no_errors(b);
}

/// A frame that is kept stays as it is, and what comes behind it is taken meanwhile.
pub fn what_is_kept_does_not_stop_others<F: Fixture>(s: &mut Stage<F>) {
    let (Pair { a, b, .. }, inbox) = pair_with_inbox(s, 64);
    let _accepted = s.wait("a notice", |s| take(s, b.nic, inbox));
    let first = pattern(1, 4_096);
    send_copied(s, a, &first);
    let mut line: LineWords = [0; 7];
    let taken = s.wait("a message", |s| s.fixture.with(b.nic, |e| e.take(inbox, &mut line)));
    let Taken::Kept(_, kept) = taken else { return assert!(!s.fixture.keeps_frames(), "{taken:?}") };
    for i in 0..400 {
        let next = pattern(i, 500);
        send_copied(s, a, &next);
        assert!(message(s, b.nic, inbox) == next, "message {i}");
    }
    // SAFETY: the engine lives and the message is not released, so it is readable and stays as it
    // is.
    assert!(unsafe { core::slice::from_raw_parts(kept.as_ptr(), kept.len()) } == first, "unchanged");
    // Also when the connection, and with its NIC the link, goes.
    s.part(&[a]);
    s.settle();
    // SAFETY: the engine lives and the message is not released, which keeps it though its link is
    // closed.
    assert!(unsafe { core::slice::from_raw_parts(kept.as_ptr(), kept.len()) } == first, "unchanged");
    s.fixture.with(b.nic, |e| e.release(kept));
}

/// A kept message that is handed to another engine, which may outlive the one that keeps it, is
/// neither read nor given back there.
pub fn what_another_engine_keeps_is_not_touched<F: Fixture>(s: &mut Stage<F>) {
    let (Pair { a, b, .. }, inbox) = pair_with_inbox(s, 64);
    if a.nic == b.nic {
        return;
    }
    let _accepted = s.wait("a notice", |s| take(s, b.nic, inbox));
    for call in 0..2 {
        send_copied(s, a, &pattern(1, 4_096));
        let mut line: LineWords = [0; 7];
        let taken = s.wait("a message", |s| s.fixture.with(b.nic, |e| e.take(inbox, &mut line)));
        let Taken::Kept(context, kept) = taken else { return assert!(!s.fixture.keeps_frames(), "{taken:?}") };
        let elsewhere = s.fixture.with(a.nic, |e| {
            catch_unwind(AssertUnwindSafe(|| match call {
                0 => e.release(kept),
                _ => e.hand::<8>(inbox, &line, Taken::Kept(context, kept), |_, _| ()),
            }))
        });
        assert!(elsewhere.is_err(), "call {call}");
    }
}

/// A peer that sends more than an inbox has room for is cut off; messages that had room are there,
/// then the notice.
pub fn inbox_has_a_limit<F: Fixture>(s: &mut Stage<F>) {
    let (Pair { a, b, .. }, inbox) = pair_with_inbox(s, 4);
    let data = [5u8; 100];
    for _ in 0..5 {
        let pieces = Pieces { head: (data.as_ptr(), 100), body: (data.as_ptr(), 0) };
        // SAFETY: U2: `data` outlives the call. It may be cut off already.
        s.until("room", |s| s.fixture.with(a.nic, |e| unsafe { e.send_copied(a.vi, &pieces, 0) }) != Ok(0));
    }
    s.until("the end", |s| s.state(a) == ViState::Error && s.state(b) == ViState::Error);
    let mut seen = Vec::new();
    while let Some(found) = take(s, b.nic, inbox) {
        seen.push(found);
    }
    seen.retain(|f| !matches!(f, Err(Notice::Connected(_) | Notice::Accepted(..))));
    assert_eq!(seen.len(), 5, "{seen:?}");
    assert!(seen[..4].iter().all(|f| f.as_deref() == Ok(&data[..])) && matches!(seen[4], Err(Notice::Broken(_))));
}

/// A trailer arrives when all of its write is in memory, in order with other messages; a write that
/// is refused has none.
pub fn write_with_trailer<F: Fixture>(s: &mut Stage<F>) {
    for memory in [Memory::Heap, Memory::Engine] {
        let (Pair { a, b, tag_a, tag_b, .. }, inbox) = pair_with_inbox(s, 64);
        let from = s.buffer(a.nic, memory, 300_000, tag_a);
        let to = s.buffer(b.nic, memory, 300_000, tag_b);
        for (i, length) in [1usize, 56, 5_000, 300_000].into_iter().enumerate() {
            let data = pattern(i as u32, length);
            from.write(0, &data);
            to.fill(0);
            let trailer = [i as u8; 48];
            let (remote_address, remote_handle) = remote(&to, 0);
            let segments = [from.segment(0, length)];
            let request = SendRequest {
                operation: bellwire_via::Operation::RdmaWrite,
                segments: &segments,
                remote_address,
                remote_handle,
                context: 9,
                ..SendRequest::default()
            };
            s.fixture.with(a.nic, |e| e.post_write_with_trailer(a.vi, &request, &trailer)).expect("posted");
            assert!(message(s, b.nic, inbox) == trailer);
            assert!(to.read(0, length) == data, "{length} bytes are there with the trailer");
            s.sent(a, 9);
            refused(s.fixture.with(a.nic, |e| e.post_write_with_trailer(a.vi, &request, &[0; 49])), Error::InvalidParameter);
            refused(s.fixture.with(a.nic, |e| e.post_write_with_trailer(a.vi, &request, &[])), Error::InvalidParameter);
        }
        // Half of it behind the region, which is whole pages.
        let (remote_address, remote_handle) = remote(&to, 300_000_usize.next_multiple_of(4096) - 50);
        let segments = [from.segment(0, 100)];
        let request =
            SendRequest { operation: bellwire_via::Operation::RdmaWrite, segments: &segments, remote_address, remote_handle, ..SendRequest::default() };
        s.fixture.with(a.nic, |e| e.post_write_with_trailer(a.vi, &request, &[1; 8])).expect("posted");
        let last = s.wait("the notice", |s| take(s, b.nic, inbox));
        assert!(matches!(last, Err(Notice::Broken(_))), "no trailer of a write that was refused");
    }
}

fn write_telling<F: Fixture>(s: &mut Stage<F>, a: Port, segment: Segment, (remote_address, remote_handle): (u64, u32), immediate: u32) {
    let segments = [segment];
    let (operation, flags) = (Operation::RdmaWrite, WorkFlags::IMMEDIATE);
    let request = SendRequest { operation, segments: &segments, remote_address, remote_handle, flags, immediate, context: 9, ..SendRequest::default() };
    s.fixture.with(a.nic, |e| e.post_send(a.vi, &request)).expect("posted");
}

/// The immediate data of a write is a message of four bytes: it comes when all of the write is in
/// memory, in order with other messages, and counts for the limit; a write that is refused has
/// none.
pub fn immediate_data_of_a_write_is_a_message<F: Fixture>(s: &mut Stage<F>) {
    for memory in [Memory::Heap, Memory::Engine] {
        let (Pair { a, b, tag_a, tag_b, .. }, inbox) = pair_with_inbox(s, 4);
        let from = s.buffer(a.nic, memory, 300_000, tag_a);
        let to = s.buffer(b.nic, memory, 300_000, tag_b);
        for (i, length) in [0usize, 1, 56, 5_000, 300_000].into_iter().enumerate() {
            let data = pattern(i as u32, length);
            from.write(0, &data);
            to.fill(0);
            let number = 0xf1f2_f300 + i as u32;
            send_copied(s, a, &[1; 60]);
            write_telling(s, a, from.segment(0, length), remote(&to, 0), number);
            send_copied(s, a, &[2; 8]);
            s.settle();
            assert_eq!(message(s, b.nic, inbox), [1; 60]);
            assert_eq!(message(s, b.nic, inbox), number.to_le_bytes());
            assert!(to.read(0, length) == data, "{length} bytes are there with the message");
            assert_eq!(message(s, b.nic, inbox), [2; 8]);
            s.sent(a, 9);
        }
        // Half of it behind the region, which is whole pages.
        write_telling(s, a, from.segment(0, 100), remote(&to, 300_000_usize.next_multiple_of(4096) - 50), 7);
        let last = s.wait("the notice", |s| take(s, b.nic, inbox));
        assert!(matches!(last, Err(Notice::Broken(_))), "nothing tells of a write that was refused");
    }
    let (Pair { a, b, tag_a, tag_b, .. }, inbox) = pair_with_inbox(s, 4);
    let (from, to) = (s.buffer(a.nic, Memory::Heap, 64, tag_a), s.buffer(b.nic, Memory::Heap, 64, tag_b));
    (0..5).for_each(|i| write_telling(s, a, from.segment(0, 8), remote(&to, 0), i));
    s.until("the end", |s| s.state(a) == ViState::Error && s.state(b) == ViState::Error);
    let seen: Vec<_> = core::iter::from_fn(|| take(s, b.nic, inbox)).filter_map(Result::ok).collect();
    assert_eq!(seen, (0..4u32).map(|i| i.to_le_bytes().to_vec()).collect::<Vec<_>>());
}
