// SPDX-License-Identifier: MIT OR Apache-2.0
//! After the first calls, a call with small arguments and a small result allocates nothing, on
//! either side.

mod common;

use bellwire_rpc::{Node, Procedure};
use common::device;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: the system's allocator, with a count beside it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, bytes: usize) -> *mut u8 {
        let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's.
        unsafe { System.realloc(at, layout, bytes) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const ADD: Procedure<[u64; 2], u64> = Procedure::new("add", 1);

#[test]
fn small_calls_allocate_nothing() {
    let (server, client) = (Node::on(&device()).unwrap(), Node::on(&device()).unwrap());
    server.serve(&ADD, |[a, b], _| Ok(a + b)).unwrap();
    let peer = client.connect(&server.address()).unwrap();
    let calls = |count: u64| {
        for i in 0..count {
            let call = client.start(peer, &ADD, &[i, 1], None).unwrap();
            while !call.is_done() {
                server.poll().unwrap();
                client.poll().unwrap();
            }
            assert_eq!(call.wait(), Ok(i + 1));
        }
    };
    calls(1000);
    let before = ALLOCATIONS.get();
    calls(10_000);
    assert_eq!(ALLOCATIONS.get() - before, 0);
}
