// SPDX-License-Identifier: MIT OR Apache-2.0
//! After warm-up, messages allocate nothing, over shared memory and over UDP: a counting allocator
//! around everything this process does.

mod nic_common;

use bellwire_memory::atomic::{AtomicU64, Ordering};
use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::{Operation, SendRequest};
use nic_common::*;
use std::alloc::{GlobalAlloc, Layout, System};

struct Counting;
static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: a count.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        // Relaxed: a count.
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.realloc(p, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One message of `length` bytes, an RDMA write and a read from `a` to `b`, all completed.
fn round(a: &End<'_>, b: &End<'_>, length: usize) {
    if length == STREAM {
        return stream(a, b);
    }
    b.post_receive(0, AREA / 4);
    for operation in [Operation::Send, Operation::RdmaWrite, Operation::RdmaRead] {
        let segments = [a.segment(AREA / 4, length)];
        let (remote_address, remote_handle) = (b.base + (AREA / 2) as u64, b.memory.raw());
        a.nic.post_send(a.vi, &SendRequest { operation, segments: &segments, remote_address, remote_handle, ..SendRequest::default() }).unwrap();
        let (mut sent, mut received) = (None, None);
        while sent.is_none() || (received.is_none() && operation == Operation::Send) {
            sent = sent.or(a.nic.send_done(a.vi).unwrap());
            received = received.or(b.nic.receive_done(b.vi).unwrap());
        }
        assert!(sent.is_some_and(|done| !done.status.is_error()), "{sent:?}");
        assert!(received.is_none_or(|done| done.length as usize == length && !done.status.is_error()), "{received:?}");
    }
}

/// Stands for many small messages in a row, which share packets.
const STREAM: usize = usize::MAX;

fn stream(a: &End<'_>, b: &End<'_>) {
    const MESSAGES: usize = 300;
    (0..MESSAGES).for_each(|i| b.post_receive(64 * i, 64));
    (0..MESSAGES).for_each(|i| a.post_send(AREA / 4 + 64 * i, i % 64));
    let (mut sent, mut received) = (0, 0);
    while sent < MESSAGES || received < MESSAGES {
        sent += usize::from(a.nic.send_done(a.vi).unwrap().is_some());
        received += usize::from(b.nic.receive_done(b.vi).unwrap().is_some());
    }
}

/// Pools may grow until they hold what was ever under way at once, which over UDP depends on the
/// kernel: so one of a few passes has to do without.
fn assert_none(what: &str, a: &End<'_>, b: &End<'_>, sizes: &[usize], rounds: usize) {
    let pass = || {
        // Relaxed: a count; the only other threads, the helpers, sleep.
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        (0..rounds).for_each(|_| sizes.iter().for_each(|n| round(a, b, *n)));
        ALLOCATIONS.load(Ordering::Relaxed) - before
    };
    pass();
    let counts: Vec<u64> = (0..4).map(|_| pass()).collect();
    assert!(counts.contains(&0), "{what}: allocations in {} messages, pass by pass: {counts:?}", 3 * rounds * sizes.len());
    // The counter counts.
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    drop(std::hint::black_box(Box::new(5)));
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > before);
}

/// One test for all, since they share the counter.
#[test]
fn messages_allocate_nothing() {
    let small = [0, 1, 8, 48, 49, 56, 57, 1000, 2048, 4096];
    for mode in [ProtectionMode::Mapped, ProtectionMode::Guarded] {
        let nic = open(mode);
        let (a, b) = pair(&nic, &nic, None);
        assert_none(&format!("{mode:?}"), &a, &b, &small, 2000);
    }
    let (one, two) = (open_udp(1, ""), open_udp(2, ""));
    let (b, a) = join_udp(&two, &one, (2, 1));
    assert_none("UDP", &a, &b, &small, 300);
    assert_none("UDP, streams", &a, &b, &[STREAM], 100);
    // Many packets, joined by the kernel as it likes.
    assert_none("UDP, bulk", &a, &b, &[20_000, 100_000, AREA / 4], 100);
}
