// SPDX-License-Identifier: MIT OR Apache-2.0
//! After warm-up, messages of up to 4 KiB allocate nothing: a counting allocator around everything this process does.

use bellwire_memory::atomic::{AtomicU64, Ordering};
use bellwire_via::nic::NicConfig;
use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::{MemAttributes, NetAddress, Nic, Operation, ReceiveRequest, Segment, SendRequest, ViAttributes, ViHandle};
use std::alloc::{GlobalAlloc, Layout, System};
use std::time::Duration;

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

struct Pair {
    nic: Nic,
    from: ViHandle,
    to: ViHandle,
    base: u64,
    handle: u32,
}

fn connected(mode: ProtectionMode) -> Pair {
    let nic = Nic::open(NicConfig { mode, ..NicConfig::from_env().unwrap() }).unwrap();
    let tag = nic.with(|e| e.create_ptag()).unwrap();
    let attributes = ViAttributes { ptag: Some(tag), rdma_write: true, rdma_read: true, ..ViAttributes::default() };
    let (from, to) = nic.with(|e| (e.create_vi(&attributes, None, None, None).unwrap(), e.create_vi(&attributes, None, None, None).unwrap()));
    let base = nic.with(|e| e.allocate(1 << 20)).unwrap().expose_provenance() as u64;
    let rights = MemAttributes { ptag: Some(tag), rdma_write: true, rdma_read: true };
    let handle = nic.with(|e| e.register(base, 1 << 20, &rights)).unwrap().raw();
    let name = NetAddress::new(&[127, 0, 0, 1], format!("alloc{}{mode:?}", std::process::id()).as_bytes()).unwrap();
    std::thread::scope(|s| {
        s.spawn(|| {
            let request = nic.connect_wait(&name, Some(Duration::from_secs(20))).unwrap();
            nic.with(|e| e.accept(request.incoming, to)).unwrap();
        });
        nic.connect_request(from, &name, &name, Some(Duration::from_secs(20))).unwrap();
    });
    Pair { nic, from, to, base, handle }
}

/// One message of `length` bytes, an RDMA write and a read, all completed.
fn round(p: &Pair, length: u32) {
    let segment = |offset: u64, length| [Segment { address: p.base + offset, length, handle: p.handle }];
    p.nic.post_receive(p.to, &ReceiveRequest { segments: &segment(0, 4096), ..ReceiveRequest::default() }).unwrap();
    for operation in [Operation::Send, Operation::RdmaWrite, Operation::RdmaRead] {
        let request =
            SendRequest { operation, segments: &segment(8192, length), remote_address: p.base + 16384, remote_handle: p.handle, ..SendRequest::default() };
        p.nic.post_send(p.from, &request).unwrap();
        let done = loop {
            if let Some(done) = p.nic.send_done(p.from).unwrap() {
                break done;
            }
        };
        assert!(!done.status.is_error(), "{:?}", done.status);
    }
    let done = loop {
        if let Some(done) = p.nic.receive_done(p.to).unwrap() {
            break done;
        }
    };
    assert_eq!((done.length, done.status.is_error()), (length, false));
}

#[test]
fn small_messages_allocate_nothing() {
    for mode in [ProtectionMode::Mapped, ProtectionMode::Guarded] {
        let pair = connected(mode);
        let sizes = [0, 1, 8, 48, 49, 56, 57, 1000, 2048, 4096];
        for _ in 0..2000 {
            sizes.iter().for_each(|n| round(&pair, *n));
        }
        // Relaxed: a count; the only other thread, the helper, sleeps.
        let before = ALLOCATIONS.load(Ordering::Relaxed);
        for _ in 0..2000 {
            sizes.iter().for_each(|n| round(&pair, *n));
        }
        let after = ALLOCATIONS.load(Ordering::Relaxed);
        assert_eq!(after - before, 0, "{mode:?}: allocations in {} messages", 6000 * sizes.len());
        // The counter counts.
        drop(std::hint::black_box(Box::new(5)));
        assert!(ALLOCATIONS.load(Ordering::Relaxed) > after);
    }
}
