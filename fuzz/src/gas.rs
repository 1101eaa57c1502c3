// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of a peer into a process with global memory by packets, between calls of its program: heads of all kinds with words that fit and that do not, packs, payloads of all lengths, answers that nobody waits for.
//!
//! A peer may write the whole memory of a process: that is what global memory is. So the window lies between pages that nobody may touch, and the peer names places in both, at zero, and where no memory can be.
//!
//! Asserted beside what sanitizers see: memory that the program gets bytes into changes only where it asked for them, and not at all once the job has ended; nothing is asked of a peer after that; no more is counted
//! as stored than was sent; who is gone is noticed.

use crate::input::Input;
use crate::program;
use crate::scripted::{Scripted, link, wire};
use crate::talk;
use bellwire_gas::machine::{Machine, VERSION};
use bellwire_gas::set_functions;
use bellwire_via::wire::{LinkFailure, WireEvent};
use bellwire_via::{Engine, Instant};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

const STEPS_MAX: usize = 300;
const PAGE: usize = 4096;
/// Memory that the peer reaches, and words that the program gets bytes into.
const REACH: usize = 2 * PAGE;
const LOCAL_WORDS: usize = 4096;
/// A block and its length: what a round between two brings.
const ROUND_BYTES_MAX: usize = 1028;
const CANARY: u64 = 0xc5c5_c5c5_c5c5_c5c5;

/// The window: pages between two that nobody may touch.
struct Window(*mut u8);

impl Window {
    fn new() -> Self {
        let length = REACH + 2 * PAGE;
        // SAFETY: new memory, where there was none.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), length, ProtFlags::empty(), MapFlags::PRIVATE) }.expect("memory");
        // SAFETY: within it.
        unsafe { mprotect(at.byte_add(PAGE), REACH, MprotectFlags::READ | MprotectFlags::WRITE) }.expect("memory");
        Self(at.cast())
    }

    fn start(&self) -> u64 {
        self.0.expose_provenance() as u64 + PAGE as u64
    }

    /// A place that the peer names.
    fn place(&self, input: &mut Input<'_>) -> u64 {
        match input.u8() % 8 {
            0 | 1 => self.start() + (input.number() & !7) % REACH as u64,
            2..=4 => self.start() + input.number() % (REACH as u64 + 64),
            5 => self.start() - 1 - u64::from(input.u8()),
            6 => u64::from(input.u16()) % 4096,
            _ => 1 << 62 | input.number() & 0xffff_ffff,
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: made so; nobody uses it any more.
        unsafe { munmap(self.0.cast(), REACH + 2 * PAGE) }.expect("ours");
    }
}

/// Bytes that the stores of a pack carry, as far as they are whole.
fn stored_by(mut pack: &[u8]) -> u64 {
    let mut stored = 0;
    while let Some((word, rest)) = pack.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let (kind, n) = (word & 15, word >> 4 & 4095);
        let Some(rest) = rest.get(if kind == 1 { 0 } else { n.next_multiple_of(8) as usize }..) else { break };
        stored += if kind == 3 { n } else { 0 };
        pack = rest;
    }
    stored
}

/// A function of the program that peers call: writes a byte.
extern "C" fn touch(place: *mut u8, argument: i64) -> i64 {
    // SAFETY: a place that is checked.
    unsafe { place.write_volatile(argument as u8) };
    argument
}

struct Stage {
    engine: Engine<Scripted>,
    machine: Machine,
    window: Window,
    /// What the program gets bytes into, how much of it is used up, and how it was when the job ended.
    local: Vec<u64>,
    used: usize,
    granted: Vec<bool>,
    ended: Option<Vec<u64>>,
    id: u32,
    /// Bytes that the peer has stored, if it may; rounds begun by the program.
    said: u64,
    rounds: u64,
}

impl Stage {
    fn new() -> Self {
        // SAFETY: the function takes any place of the stage.
        unsafe { set_functions(&[touch]) };
        let mut engine = Engine::new(Scripted::new(), 1);
        engine.set_now(Instant(1));
        engine.progress();
        let window = Window::new();
        // SAFETY: G1: mapped as long as the stage lives.
        let machine = unsafe { Machine::new(&mut engine, (window.start(), window.start() + REACH as u64)) }.expect("room");
        let local = vec![CANARY; LOCAL_WORDS];
        let mut stage = Self { engine, machine, window, local, used: 0, granted: vec![false; LOCAL_WORDS * 8], ended: None, id: 0, said: 0, rounds: 0 };
        stage.connect(1);
        assert!(stage.machine.peer().0 && stage.id != 0, "not connected");
        stage
    }

    fn connect(&mut self, try_: u32) {
        let (to, from) = Machine::addresses().expect("addresses");
        talk::connect(&mut self.engine, try_, VERSION, &from, &to);
        self.turns();
        if try_ == 1 {
            self.id = talk::accepted(&self.engine);
        }
    }

    fn turns(&mut self) {
        talk::turns(|| self.machine.poll(&mut self.engine) | self.engine.progress());
    }

    /// Requests as in a pack.
    fn pack(&mut self, input: &mut Input<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        for _ in 0..input.u8() % 40 {
            let form = input.u8();
            let kind = if form & 0xf0 == 0xf0 { u64::from(form & 15) } else { u64::from(1 + form % 3) };
            let n = if form & 0xc0 == 0x80 { u64::from(input.u16()) & 4095 } else { u64::from(input.u8() % 65) };
            let address = self.window.place(input) & ((1 << 48) - 1);
            bytes.extend((kind | n << 4 | address << 16).to_le_bytes());
            if kind != 1 {
                bytes.extend((0..n.next_multiple_of(8)).map(|i| i as u8));
            }
        }
        if input.u8() % 8 == 7 {
            bytes.truncate(bytes.len().saturating_sub(usize::from(input.u8())));
        }
        bytes
    }

    /// A message of the peer's.
    fn peer_says(&mut self, input: &mut Input<'_>) {
        let (kind, form) = (1 + input.u8() % 13, input.u8());
        let address = self.window.place(input);
        let mut what = 0;
        // As in `header.rs`.
        let mut words = match kind {
            1 | 5 => vec![address, input.number()],
            2 | 3 => vec![address],
            4 => {
                what = u64::from(input.u8() % 4) | [8, 4, 8, u64::from(input.u8())][usize::from(input.u8() % 4)] << 8;
                vec![address, input.number(), input.number()]
            }
            6 => {
                what = u64::from(input.u8() & 1);
                vec![self.rounds.wrapping_add(u64::from(input.u8() % 3)), u64::from(input.u8() / 128)]
            }
            8 => vec![input.number(), input.number()],
            9 => vec![address, u64::from(input.u8() % 3), input.number()],
            12 => {
                what = u64::from(input.u16());
                vec![address, input.number()]
            }
            _ => Vec::new(),
        };
        if form & 64 != 0 {
            what = u64::from(input.u16());
        }
        let flags = u64::from(if form & 32 == 0 { form & 1 } else { input.u8() });
        let taken = if form & 2 == 0 { u64::from(self.machine.counts().0) } else { input.number() & 0xffff_ffff };
        words.insert(0, u64::from(kind) | flags << 8 | what << 16 | taken << 32);
        let n = if form & 4 == 0 { usize::from(input.u8()) & !7 } else { usize::from(input.u16()) % 5000 };
        let payload = match kind {
            10 => self.pack(input),
            2 | 3 | 6 | 11 => (0..n).map(|i| i as u8).collect(),
            _ if form & 24 == 24 => vec![0; n],
            _ => Vec::new(),
        };
        if form & 24 == 8 && input.u8() & 1 == 0 {
            words.pop();
        }
        self.said += match kind {
            3 => payload.len() as u64,
            10 => stored_by(&payload),
            _ => 0,
        };
        talk::say(&mut self.engine, self.id, &words, &payload);
    }

    /// Memory that the program gets bytes into, of its own for each request.
    fn local(&mut self, bytes: usize) -> Option<*mut u8> {
        let (at, words) = (self.used, bytes.div_ceil(8) + 1);
        if at + words > LOCAL_WORDS {
            return None;
        }
        self.used += words;
        self.granted[8 * at..8 * at + bytes].fill(true);
        Some(self.local[at..].as_mut_ptr().cast())
    }

    /// A call of the program.
    fn program_asks(&mut self, input: &mut Input<'_>) {
        let (what, address, n) = (input.u8(), input.number(), usize::from(input.u8()));
        let n = if what & 64 == 0 { n % 65 } else { n * 16 };
        let has_ended = self.machine.trouble().is_some();
        let asked = match what % 8 {
            0..=2 => self.local(n).map(|to| {
                // SAFETY: memory of the stage, which ends with the machine.
                unsafe { self.machine.get(&mut self.engine, address, to, n) }
            }),
            3 | 4 => Some(self.machine.send(&mut self.engine, what & 128 != 0, address, &vec![1; n])),
            5 => self.local(8).map(|to| {
                // SAFETY: memory of the stage, which ends with the machine; aligned.
                unsafe { self.machine.add(&mut self.engine, address, 1, to.cast()) }
            }),
            6 => Some(self.machine.round(&mut self.engine, &vec![2; n], what & 128 == 0)),
            _ => Some(self.machine.flush(&mut self.engine, what & 128 == 0)),
        };
        assert!(!has_ended || asked.is_none_or(|asked| asked.is_err()), "asked after the end");
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        match what % 16 {
            0..=8 => self.peer_says(input),
            9..=12 => self.program_asks(input),
            13 => wire(&mut self.engine).room = if what & 128 == 0 { u32::from(input.u8()) } else { u32::MAX },
            14 => {
                let rounded = self.machine.rounded();
                assert!(rounded.as_ref().is_none_or(|data| data.len() <= ROUND_BYTES_MAX), "more than a process has to say");
                self.rounds += u64::from(rounded.is_some());
            }
            _ if what & 128 == 0 => program::pass_time(&mut self.engine, input),
            _ => self.connect(2),
        }
    }

    fn check(&mut self) {
        assert!(self.machine.stored() <= self.said, "more is stored than was sent");
        if self.ended.is_none() && self.machine.trouble().is_some() {
            self.ended = Some(self.local.clone());
        }
    }

    /// The peer is gone.
    fn finish(mut self) {
        wire(&mut self.engine).events.push_back(WireEvent::LinkDown { link: link(), reason: LinkFailure::PeerDied });
        (0..20).for_each(|_| self.turns());
        let (is_open, has_left) = self.machine.peer();
        assert!(!is_open && (has_left || self.machine.trouble().is_some()), "nobody has noticed");
        // Requests that have not left before the peer said good-bye are not done.
        assert!(!self.machine.counts().2 || self.machine.flush(&mut self.engine, false).is_err(), "lost without a word");
        if let Some(ended) = &self.ended {
            assert!(*ended == self.local, "written after the end");
        }
        let bytes = self.local.iter().flat_map(|word| word.to_ne_bytes());
        assert!(bytes.zip(&self.granted).all(|(byte, is_granted)| *is_granted || byte == CANARY as u8), "memory was written that nobody gave");
    }
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut stage = Stage::new();
    input.drive(STEPS_MAX, |input| {
        stage.step(input);
        stage.turns();
        stage.check();
    });
    stage.finish();
}
