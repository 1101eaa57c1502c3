// SPDX-License-Identifier: MIT OR Apache-2.0
//! Threads stand for processes, each with a NIC of its own and a piece of memory that the others
//! reach. Then one of them sends what no process sends.

use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::header::{Head, Kind};
use super::peer::State;
use super::*;
use crate::error::{Access, Why};
use bellwire_memory::atomic::AtomicBool;
use bellwire_via::Cause;
use bellwire_via::frame::DisconnectReason;
use bellwire_via::wire::Wire;

/// Memory that peers reach, and what surrounds it, which they must not.
struct Memory([u64; 3 * WORDS]);
const WORDS: usize = 4096;

impl Memory {
    fn new() -> Box<Self> {
        Box::new(Self(std::array::from_fn(|i| i as u64)))
    }

    /// Address of a word of the middle third.
    fn at(&mut self, word: usize) -> u64 {
        self.0.as_mut_ptr().wrapping_add(WORDS + word).expose_provenance() as u64
    }

    fn window(&mut self) -> (Window, Lock) {
        static LOCK: AtomicU32 = AtomicU32::new(0);
        // SAFETY: a static.
        (Window { statics: (self.at(0), self.at(WORDS)), ..Window::default() }, unsafe { Lock::new(&raw const LOCK) })
    }

    fn word(&mut self, word: usize) -> u64 {
        let at: *const u64 = std::ptr::with_exposed_provenance(self.at(word) as usize);
        // SAFETY: a word of the array, which peers may have written.
        unsafe { at.read_volatile() }
    }

    fn is_whole_around(&mut self) -> bool {
        (0..3 * WORDS).filter(|i| !(WORDS..2 * WORDS).contains(i)).all(|i| {
            let at = self.0.as_ptr().wrapping_add(i);
            // SAFETY: a word of the array.
            unsafe { at.read_volatile() == i as u64 }
        })
    }
}

fn config(is_udp: bool) -> NicConfig {
    NicConfig { shm: !is_udp, udp: is_udp.then(Udp::default), ..NicConfig::default() }
}

/// A process's number and its block.
type Block = (usize, Vec<u8>);

/// The launcher's all-gather, among threads.
struct Launcher {
    to: Vec<Sender<Block>>,
    from: Vec<Mutex<Receiver<Block>>>,
}

impl Launcher {
    fn new(size: usize) -> Self {
        let (to, from) = (0..size).map(|_| channel()).map(|(to, from)| (to, Mutex::new(from))).unzip();
        Self { to, from }
    }

    fn gather(&self, rank: u32, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        self.to.iter().for_each(|to| to.send((rank as usize, block.to_vec())).unwrap());
        let mut all = vec![Vec::new(); self.to.len()];
        for _ in 0..all.len() {
            let (from, block) = self.from[rank as usize].lock().unwrap().recv().unwrap();
            all[from] = block;
        }
        Ok(all)
    }
}

/// Runs `body` as each of so many processes.
fn run(size: u32, is_udp: bool, body: impl Fn(u32, &Net, &mut Memory, &dyn Fn(u64) -> Vec<u64>) + Sync) {
    let launcher = Launcher::new(size as usize);
    std::thread::scope(|scope| {
        for rank in 0..size {
            let (launcher, body) = (&launcher, &body);
            scope.spawn(move || {
                let mut memory = Memory::new();
                let net = Net::open((rank, size), config(is_udp), memory.window(), |block| launcher.gather(rank, block)).unwrap();
                let words = |word: u64| {
                    let all = net.gather(Some(&word.to_le_bytes())).unwrap();
                    all.iter().map(|block| u64::from_le_bytes(block.as_slice().try_into().unwrap())).collect()
                };
                body(rank, &net, &mut memory, &words);
                net.leave(0);
            });
        }
    });
}

#[test]
fn every_operation_between_three() {
    for is_udp in [false, true] {
        run(3, is_udp, |rank, net, memory, gather| {
            let bases = gather(memory.at(0));
            let (right, left) = ((rank + 1) % 3, (rank + 2) % 3);
            let there = |word: usize| bases[right as usize] + 8 * word as u64;
            for round in 0..200u64 {
                let value = [round * 10 + u64::from(rank); 1];
                let from: *const u8 = value.as_ptr().cast();
                let mut back = [0u64; 2];
                // SAFETY: arrays of ours, alive until `sync`.
                unsafe {
                    net.write(right, there(0), from, 8).unwrap();
                    net.read(right, there(0), back.as_mut_ptr().cast(), 8).unwrap();
                    net.put(right, there(1), from, 8).unwrap();
                    net.get(right, there(1), back.as_mut_ptr().wrapping_add(1).cast(), 8).unwrap();
                    net.store(right, there(2), from, 8).unwrap();
                }
                net.sync().unwrap();
                assert_eq!(back, [value[0]; 2]);
                net.wait_stored(true, |stored| stored >= 8 * (round + 1)).unwrap();
                assert_eq!(memory.word(2), round * 10 + u64::from(left));
                net.flush().unwrap();
                assert_eq!(gather(round), [round; 3]);
                assert_eq!((memory.word(0), memory.word(1)), (round * 10 + u64::from(left), round * 10 + u64::from(left)));
                let before = net.atomic(right, there(3), (Atomic::Add, 8), (u64::from(rank) + 1, 0)).unwrap();
                assert_eq!(before, WORDS as u64 + 3 + round * (u64::from(rank) + 1));
                net.gather(None).unwrap();
            }
            assert_eq!(memory.word(3), WORDS as u64 + 3 + 200 * (u64::from(left) + 1));
            assert!(memory.is_whole_around());
        });
    }
}

#[test]
fn long_ones_arrive_whole() {
    run(2, true, |rank, net, memory, gather| {
        let bases = gather(memory.at(0));
        if rank == 0 {
            let data: Vec<u64> = (0..WORDS as u64).map(|i| i * i).collect();
            let mut back = vec![0u64; WORDS];
            for _ in 0..20 {
                back.fill(0);
                // SAFETY: vectors of ours.
                unsafe {
                    net.put(1, bases[1], data.as_ptr().cast(), 8 * WORDS).unwrap();
                    net.get(1, bases[1] + 1, back.as_mut_ptr().cast(), 8 * WORDS - 1).unwrap();
                }
                net.sync().unwrap();
                assert_eq!(back[7], 64 << 56, "the second byte of 7 * 7, and the first of 8 * 8");
            }
        }
        // The other one only computes, and is answered for.
        net.gather(None).unwrap();
        assert_eq!(memory.word(WORDS - 1), if rank == 1 { (WORDS as u64 - 1).pow(2) } else { 2 * WORDS as u64 - 1 });
    });
}

#[test]
fn who_computes_is_answered_for() {
    run(2, true, |rank, net, memory, gather| {
        let bases = gather(memory.at(0));
        if rank == 0 {
            let value = 7u64;
            // SAFETY: a word of ours.
            unsafe { net.write(1, bases[1], (&raw const value).cast(), 8).unwrap() };
        } else {
            // No call: somebody else has to take it.
            while memory.word(0) != 7 {
                std::thread::yield_now();
            }
        }
        net.gather(None).unwrap();
    });
}

#[test]
fn short_requests_of_a_burst_share_messages() {
    const COUNT: usize = 2000;
    run(2, true, |rank, net, memory, gather| {
        let bases = gather(memory.at(0));
        if rank == 0 {
            let (from, mut back): (Vec<u64>, _) = ((7..7 + COUNT as u64).collect(), vec![0u64; COUNT]);
            let before = net.core().peers[1].credits.sent();
            for (i, word) in from.iter().enumerate() {
                // SAFETY: vectors of ours.
                unsafe { net.put(1, bases[1] + 8 * i as u64, std::ptr::from_ref(word).cast(), 8).unwrap() };
            }
            for (i, word) in back.iter_mut().enumerate() {
                // SAFETY: C1: vectors of ours, which outlive the sync.
                unsafe { net.get(1, bases[1] + 8 * i as u64, std::ptr::from_mut(word).cast(), 8).unwrap() };
            }
            net.sync().unwrap();
            assert_eq!(back, from, "a get behind a put sees it");
            let sent = net.core().peers[1].credits.sent().wrapping_sub(before);
            assert!(sent < COUNT as u32 / 10, "{sent} messages");
            // One alone waits for nobody, and neither does a short one behind a long one; the next
            // has company, unless the helper has had its time meanwhile: so in some try.
            let store = |words: usize| {
                // SAFETY: C1: vectors of ours.
                unsafe { net.store(1, bases[1], from.as_ptr().cast(), 8 * words).unwrap() };
                net.core().peers[1].credits.sent().wrapping_sub(before)
            };
            let is_so = (0..100).any(|_| {
                net.sync().unwrap();
                let sent = net.core().peers[1].credits.sent().wrapping_sub(before);
                (store(100), store(1), store(1)) == (sent + 1, sent + 2, sent + 2)
            });
            assert!(is_so, "no company in any try");
        }
        net.gather(None).unwrap();
    });
}

#[test]
fn what_waits_for_company_leaves_while_the_program_computes() {
    let has_come = AtomicBool::new(false);
    for is_udp in [false, true] {
        run(2, is_udp, |rank, net, memory, gather| {
            let bases = gather(memory.at(0));
            let mut rounds_that_waited = 0;
            for round in 1..=20u64 {
                if rank == 0 {
                    // Every other time the helper sleeps, and has to be told that there is
                    // something.
                    if round % 2 == 0 {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    for i in 0..50 {
                        // SAFETY: a word of ours.
                        unsafe { net.store(1, bases[1] + 8 * i, (&raw const round).cast(), 8).unwrap() };
                    }
                    // The helper may have been faster.
                    rounds_that_waited += usize::from(!net.core().packing.is_empty());
                    // No call: somebody else has to send them.
                    // SeqCst: a flag of a test.
                    while !has_come.swap(false, Ordering::SeqCst) {
                        std::thread::yield_now();
                    }
                } else {
                    net.wait_stored(true, |stored| stored >= 400 * round).unwrap();
                    assert_eq!(memory.word(49), round);
                    // SeqCst: as above.
                    has_come.store(true, Ordering::SeqCst);
                }
            }
            assert!(rank != 0 || rounds_that_waited > 0);
            net.gather(None).unwrap();
        });
    }
}

/// Puts, stores and gets of all lengths, aligned or not, in any order: as if each were done at
/// once, for one process asks and messages keep their order.
#[test]
fn any_requests_keep_their_order() {
    for seed in 1..=32u64 {
        // Where many are in one place, and where they are as long as several messages.
        let (place, longest, most) = if seed <= 20 { (600, 400, 3000) } else { (8 * WORDS, 32_000, 600) };
        run(2, seed % 2 == 0, |rank, net, memory, gather| {
            let bases = gather(memory.at(0));
            if rank == 0 {
                let mut draw = draws(seed);
                let mut below = |n: usize| draw(n as u64) as usize;
                let (mut expected, mut expectations) = (vec![0u8; place], Vec::new());
                // SAFETY: a vector of ours.
                unsafe { net.write(1, bases[1], expected.as_ptr(), place).unwrap() };
                let mut is_long_out = false;
                for _ in 0..below(most) {
                    let n = 1 + if below(10) == 0 { below(longest) } else { below(bytes_of_a_line()) };
                    // Long gets join others if their length is a multiple of 64.
                    let n = if n > 64 && below(2) == 0 { n.next_multiple_of(64) } else { n };
                    let at = below(place - n);
                    let there = bases[1] + at as u64;
                    match below(20) {
                        0 => net.sync().unwrap(),
                        1 => net.flush().unwrap(),
                        2 => drop(net.is_sync().unwrap()),
                        kind @ 3..12 => {
                            // A long get may see a later put.
                            if std::mem::take(&mut is_long_out) {
                                net.sync().unwrap();
                            }
                            let from: Vec<u8> = (0..n).map(|_| below(256) as u8).collect();
                            expected[at..at + n].copy_from_slice(&from);
                            // SAFETY: a vector of ours.
                            let asked = unsafe { if kind < 8 { net.put(1, there, from.as_ptr(), n) } else { net.store(1, there, from.as_ptr(), n) } };
                            asked.unwrap();
                        }
                        _ => {
                            let mut to = vec![0u8; n];
                            // SAFETY: its memory stays where it is, in `expectations`, until
                            // `sync`.
                            unsafe { if below(9) == 0 { net.read(1, there, to.as_mut_ptr(), n) } else { net.get(1, there, to.as_mut_ptr(), n) } }.unwrap();
                            is_long_out |= n > bytes_of_a_line();
                            expectations.push((to, expected[at..at + n].to_vec()));
                        }
                    }
                }
                net.sync().unwrap();
                assert!(expectations.iter().all(|(found, expected)| std::hint::black_box(found) == expected), "seed {seed}");
            }
            net.gather(None).unwrap();
            assert!(memory.is_whole_around());
        });
    }
}

/// Random numbers below what is asked, by seed: a linear congruential generator's upper bits.
fn draws(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed;
    move |below| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 16) % below
    }
}

fn bytes_of_a_line() -> usize {
    bellwire_memory::bytes::SMALL_MAX
}

#[test]
fn places_that_are_not_there_are_told_and_nothing_is_written() {
    for access in [Access::Get, Access::Put, Access::Store, Access::Atomic] {
        for (offset, length) in [(8 * WORDS as u64, 8), (8 * WORDS as u64 - 4, 8), (u64::MAX - 3, 8)] {
            run(2, false, |rank, net, memory, gather| {
                let mut bases = gather(memory.at(0));
                // Address 0 and its neighbours: nothing is mapped there.
                bases[1] = if offset > 1 << 40 { offset } else { bases[1].wrapping_add(offset) & 0xff8 };
                if rank == 0 {
                    let mut word = [0u8; 8];
                    // SAFETY: an array of ours.
                    let outcome = unsafe {
                        match access {
                            Access::Get => net.read(1, bases[1], word.as_mut_ptr(), length),
                            Access::Put => net.write(1, bases[1], word.as_ptr(), length),
                            Access::Store => net.store(1, bases[1], word.as_ptr(), length).and_then(|()| net.flush()),
                            Access::Atomic => net.atomic(1, bases[1], (Atomic::Swap, 8), (0, 0)).map(drop),
                        }
                    };
                    assert!(
                        matches!(outcome, Err(Error::Trouble(Trouble::Refused { process: 1, access: a, why: Why::NoMemoryThere, .. })) if a == access),
                        "{outcome:?}"
                    );
                    assert!(matches!(net.probe(1, bases[1], 8), Err(Error::Trouble(_))));
                } else {
                    assert!(matches!(net.gather(None), Err(Error::Left(_))));
                    assert!(memory.is_whole_around());
                }
            });
        }
    }
}

#[test]
fn a_process_that_is_gone_is_named() {
    let told = hostile::told_of(|peer, _| {
        let vi = peer.core.peers[0].channel.vi();
        peer.nic.with(|engine| engine.disconnect(vi)).unwrap();
    });
    assert!(matches!(told, Error::Trouble(Trouble::Gone(1, Death::Broken(Cause::Peer(DisconnectReason::Requested))))), "{told:?}");
    // One that leaves in time is none of them.
    run(3, false, |rank, net, _, _| {
        if rank != 2 {
            assert!(matches!(net.gather(None), Err(Error::Left(left)) if left.process != rank && left.status == 0));
        }
    });
}

/// A process without a helper that steps it: its machine does what a test says. It has asked for
/// its connections.
struct Alone {
    nic: Nic,
    core: Core,
}

impl Alone {
    fn new(of: (u32, u32), memory: (Window, Lock), gather: impl FnOnce(&[u8]) -> Vec<Vec<u8>>) -> Self {
        let nic = Nic::open(config(false)).unwrap();
        nic.ignore_errors();
        nic.now();
        let mut core = nic.with(|engine| Core::create(engine, of, memory)).unwrap();
        core.introduce(&gather(&core.name.to_bytes())).unwrap();
        let mut alone = Self { nic, core };
        alone.connect();
        alone
    }

    fn connect(&mut self) {
        self.nic.now();
        self.nic.with(|engine| self.core.connect(engine)).unwrap();
    }

    fn meet(&mut self) {
        while !self.core.is_complete() {
            if self.nic.poll_with(|engine| Ok(Some(self.core.meet(engine)))) == Ok(Some(false)) {
                std::thread::yield_now();
            }
        }
    }

    /// A look, whatever has gone wrong before.
    fn step(&mut self) {
        self.core.trouble = None;
        let _ = self.nic.poll_with(|engine| Ok(Some(self.core.step(engine))));
    }
}

#[test]
fn strangers_are_not_connected() {
    let launcher = Launcher::new(2);
    let is_refused = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (launcher, is_refused) = (&launcher, &is_refused);
        for rank in 0..2 {
            scope.spawn(move || {
                let mut memory = Memory::new();
                let mut process = Alone::new((rank, 2), memory.window(), |block| launcher.gather(rank, block).unwrap());
                if rank == 1 {
                    // One that knows the address, but not who it is to be.
                    let mut stranger = Alone::new((0, 1), memory.window(), |block| vec![block.to_vec()]);
                    let own = name::Name::new(stranger.nic.with(|engine| engine.wire().host_address().to_vec()).as_slice(), [9; 16]).unwrap();
                    stranger.core.names = vec![process.core.names[0], own];
                    stranger.core.peers = (0..2).map(|_| super::peer::Peer::new(State::Connecting)).collect();
                    stranger.core.me = 1;
                    stranger.connect();
                    // The right one gets through, before and after this one was refused.
                    process.meet();
                    while stranger.core.peers[0].state == State::Connecting {
                        let _ = stranger.nic.poll_with(|engine| Ok(Some(stranger.core.step(engine))));
                        stranger.nic.now();
                        std::thread::yield_now();
                    }
                    let death = Death::Unreachable(bellwire_via::Error::Rejected);
                    assert_eq!(stranger.core.peers[0].state, State::Gone(death));
                    assert_eq!(stranger.core.trouble, Some(Trouble::NoConnection(0, death)));
                    // SeqCst: as below.
                    is_refused.store(true, Ordering::SeqCst);
                } else {
                    process.meet();
                    // One that asks later is refused, too.
                    // SeqCst: a flag of a test.
                    while !is_refused.load(Ordering::SeqCst) {
                        let _ = process.nic.poll_with(|engine| Ok(Some(process.core.meet(engine))));
                        std::thread::yield_now();
                    }
                }
                launcher.gather(rank, b"").unwrap();
                assert_eq!(process.core.peers[1 - rank as usize].state, State::Open);
            });
        }
    });
}

mod cost;
mod hostile;
mod killed;
