// SPDX-License-Identifier: MIT OR Apache-2.0
//! In steady state, sending, transmitting, receiving, delivering and acknowledging allocate
//! nothing: a counting allocator around this thread.

use bellwire_proto::seal::Keys;
use bellwire_proto::{Buffer, Config, Event, Instant, NicId, Sent, SessionId, Transport};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    ALLOCATIONS.with(|c| c.set(c.get() + 1));
}

// SAFETY: hands everything on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(p, layout) }
    }
    unsafe fn realloc(&self, p: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's.
        unsafe { System.realloc(p, layout, new) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Bytes of the pool, to which they go back, and how many are the datagram's.
struct Datagram(Option<Box<[u8; 2048]>>, usize, Pool);

type Pool = Rc<RefCell<Vec<Box<[u8; 2048]>>>>;

impl Drop for Datagram {
    fn drop(&mut self) {
        self.2.borrow_mut().extend(self.0.take());
    }
}

impl AsRef<[u8]> for Datagram {
    fn as_ref(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |bytes| &bytes[..self.1])
    }
}

impl AsMut<[u8]> for Datagram {
    fn as_mut(&mut self) -> &mut [u8] {
        self.0.as_mut().map_or(&mut [], |bytes| &mut bytes[..self.1])
    }
}

impl Buffer for Datagram {
    fn truncate(&mut self, length: usize) {
        self.1 = length;
    }
}

struct Pair {
    transports: [Transport<Datagram>; 2],
    sessions: [Option<SessionId>; 2],
    pool: Pool,
    moved: Vec<Datagram>,
    now: Instant,
    turn: usize,
    delivered: u64,
}

fn address(which: usize) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, which as u8], 1))
}

impl Pair {
    /// Everything that `from` has to send; every 50th packet is lost if `lossy`.
    fn carry(&mut self, from: usize, lossy: bool) {
        self.transports[from].handle_timeout(self.now);
        while let Some(t) = self.transports[from].poll_transmit(self.now) {
            for packet in t.bytes.chunks(t.segment.unwrap_or(t.bytes.len())) {
                self.turn += 1;
                if lossy && self.turn.is_multiple_of(50) {
                    continue;
                }
                let mut bytes = self.pool.borrow_mut().pop().expect("enough");
                bytes[..packet.len()].copy_from_slice(packet);
                self.moved.push(Datagram(Some(bytes), packet.len(), Rc::clone(&self.pool)));
            }
        }
        for packet in self.moved.drain(..) {
            self.transports[1 - from].handle_packet(self.now, address(from), packet);
        }
        while let Some(s) = self.transports[1 - from].next_delivery() {
            while let Some(d) = self.transports[1 - from].poll_deliver(s) {
                self.delivered += d.frames().count() as u64;
            }
        }
    }

    fn turn(&mut self, lossy: bool) {
        self.now = Instant(self.now.0 + 30_000);
        for which in 0..2 {
            let Some(session) = self.sessions[which] else { continue };
            for n in 0..20u32 {
                let length = if n % 2 == 0 { 8 } else { 1000 };
                let sent = self.transports[which].send(self.now, session, n % 3, &[1, 2], length, |b| {
                    b.fill(3);
                    true
                });
                assert!(matches!(sent, Sent::Yes | Sent::NoRoom));
            }
        }
        self.carry(0, lossy);
        self.carry(1, lossy);
        for which in 0..2 {
            while let Some(event) = self.transports[which].poll_event() {
                if let Event::Up { session, .. } = event {
                    self.sessions[which] = Some(session);
                }
            }
        }
    }
}

#[test]
fn steady_state_allocates_nothing() {
    for (lossy, keyed) in [(false, false), (true, false), (false, true), (true, true)] {
        let keys = keyed.then(|| Arc::new(Keys::shared([1; 32])));
        let config = |which: u8| Config { nic: NicId([which; 16]), boot: 1, datagram_max: 1400, keys: keys.clone(), ..Config::default() };
        let transports = [Transport::new(config(1), 1), Transport::new(config(2), 2)];
        let pool = Rc::new(RefCell::new((0..4096).map(|_| Box::new([0; 2048])).collect()));
        let mut pair = Pair { transports, sessions: [None; 2], pool, moved: Vec::with_capacity(4096), now: Instant(1), turn: 0, delivered: 0 };
        pair.transports[0].connect(pair.now, address(1), 0).unwrap();
        (0..3000).for_each(|_| pair.turn(lossy));
        let (before, delivered) = (ALLOCATIONS.with(Cell::get), pair.delivered);
        (0..3000).for_each(|_| pair.turn(lossy));
        assert_eq!(ALLOCATIONS.with(Cell::get) - before, 0);
        assert!(pair.delivered - delivered > 50_000);
        assert_eq!(pair.transports[0].statistics().retransmitted > 100, lossy);
    }
}
