// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages of two peers into a process with Split-C's operations on VIs, between calls of its
//! program: heads of all kinds with words that fit and that do not, data of all lengths, answers
//! that nobody waits for, acknowledgements twice. The library under it is `vipl.rs`.
//!
//! A model beside it knows the protocol: a message that cannot be ends the job with the name of the
//! peer; else memory changes as it says, and the answer is right. Once the job has ended, no answer
//! is written any more and no request leaves. A connection that ends, ends what the program asks of
//! that peer.

use crate::input::Input;
use crate::vipl::{self, with};
use bellwire_gas::machine;
use bellwire_gasvia::probe::Off;
use bellwire_gasvia::{Core, Failure, Kind, Memory, There, Version};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use std::collections::VecDeque;
use std::sync::Arc;

const STEPS_MAX: usize = 300;
const POLLS_MAX: usize = 2000;
const PAGE: usize = 4096;
/// Memory that peers reach, between pages that nobody may touch; and of the program's own.
const REACH: usize = 2 * PAGE;
const OWN: usize = 8 * PAGE;
const HEAD: usize = 24;
const FRAGMENT: usize = 4096 - HEAD;
const CANARY: u8 = 0xc5;

const GET: u8 = 1;
const GET_BULK: u8 = 2;
const PUT_BULK: u8 = 4;
const STORE: u8 = 5;
const STORE_BULK: u8 = 6;
const FLUSH: u8 = 7;
const GOT: u8 = 8;
const GOT_BULK: u8 = 9;
const DONE: u8 = 10;
const ACK: u8 = 11;
const REFUSED: u8 = 12;

/// Pages between two that nobody may touch.
struct Window(*mut u8);

impl Window {
    fn new() -> Self {
        // SAFETY: new memory, where there was none.
        let at = unsafe { mmap_anonymous(std::ptr::null_mut(), REACH + 2 * PAGE, ProtFlags::empty(), MapFlags::PRIVATE) }.expect("memory");
        // SAFETY: within it.
        unsafe { mprotect(at.byte_add(PAGE), REACH, MprotectFlags::READ | MprotectFlags::WRITE) }.expect("memory");
        Self(at.cast())
    }

    fn start(&self) -> u64 {
        self.0.expose_provenance() as u64 + PAGE as u64
    }

    fn bytes(&self) -> Vec<u8> {
        // SAFETY: so many bytes are there.
        unsafe { std::slice::from_raw_parts(self.0.add(PAGE), REACH) }.to_vec()
    }

    /// A place that a peer names.
    fn place(&self, input: &mut Input<'_>) -> u64 {
        match input.u8() % 8 {
            0..=3 => self.start() + input.number() % REACH as u64,
            4 => self.start() + REACH as u64 - u64::from(input.u8()),
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

/// What the model knows of a VI.
#[derive(Default)]
struct Lane {
    credits: usize,
    /// Requests that are out: where their data goes, and whether they ask for acknowledgements.
    pending: VecDeque<(Option<(usize, usize)>, bool)>,
    stores: usize,
    unacknowledged: u64,
}

/// What the program asks for, until it is done.
#[derive(Clone, Copy)]
enum Ask {
    Get { to: usize },
    Send { kind: Kind, lent: Option<u32> },
    Flush { of_stores: bool },
}

struct Stage<M> {
    core: Core<M>,
    window: Window,
    lanes: Vec<Lane>,
    /// VIs of a peer.
    each: usize,
    /// The window as the model has it, and as much of the program's memory as it is sure of.
    shadow: Vec<u8>,
    own: Vec<u8>,
    expected: Vec<u8>,
    /// Memory used up by gets.
    used: usize,
    ask: Option<(Ask, There, usize, usize)>,
    has_failed: bool,
}

/// A message: head and data.
fn message(kind: u8, what: u16, bytes: u32, address: u64, word: u64, data: &[u8]) -> Vec<u8> {
    let first = u64::from(kind) | u64::from(what) << 16 | u64::from(bytes) << 32;
    [first, address, word].iter().flat_map(|word| word.to_le_bytes()).chain(data.iter().copied()).collect()
}

/// Kind, what, bytes, address, word, data.
type Parts<'a> = (u8, u16, usize, u64, u64, &'a [u8]);

/// The parts of a message, if it can be.
fn parse(message: &[u8]) -> Option<Parts<'_>> {
    let (head, data) = message.split_at_checked(HEAD)?;
    let word = |at: usize| u64::from_le_bytes(head[8 * at..8 * at + 8].try_into().expect("8 bytes"));
    let (kind, bytes) = (head[0], (word(0) >> 32) as usize);
    let has_data = matches!(kind, PUT_BULK | STORE_BULK | GOT_BULK);
    let is_word = matches!(kind, GET | 3 | STORE | GOT);
    let is_well = (GET..=REFUSED).contains(&kind) && head[1] == 0 && data.len() == if has_data { bytes } else { 0 } && (!is_word || bytes <= 8);
    is_well.then_some((kind, (word(0) >> 16) as u16, bytes, word(1), word(2), data))
}

impl<M: Memory> Stage<M> {
    fn new(version: Version, window: Window, memory: M) -> Self {
        let core = Core::new(Arc::new(vipl::open()), version, (0, 3), memory).expect("room");
        let credits: &[usize] = if version == Version::One { &[8] } else { &[64, 8] };
        let lanes = (0..with(|library| library.vis())).map(|vi| Lane { credits: credits[vi % credits.len()], ..Lane::default() });
        let own: Vec<u8> = vec![CANARY; OWN];
        Self {
            core,
            lanes: lanes.collect(),
            each: credits.len(),
            shadow: window.bytes(),
            window,
            expected: own.clone(),
            own,
            used: 0,
            ask: None,
            has_failed: false,
        }
    }

    fn rank(&self, vi: usize) -> u32 {
        1 + (vi / self.each) as u32
    }

    /// Where in the window so many bytes are, if they are all there. No bytes are everywhere.
    fn within(&self, address: u64, bytes: usize) -> Option<std::ops::Range<usize>> {
        if bytes == 0 {
            return Some(0..0);
        }
        let at = usize::try_from(address.checked_sub(self.window.start())?).ok()?;
        let end = at.checked_add(bytes).filter(|end| *end <= REACH)?;
        Some(at..end)
    }

    fn peer_says(&mut self, input: &mut Input<'_>) {
        let vi = usize::from(input.u8()) % self.lanes.len();
        let (form, choice) = (input.u8(), input.u8());
        let lane = &self.lanes[vi];
        // Most messages are those of an honest peer, so that there is something to lie about.
        let lie = if form % 8 < 7 { 0 } else { 1 + input.u8() % 10 };
        let is_last = vi % self.each + 1 == self.each;
        let (mut kind, mut bytes, mut word) = (1 + choice / 4 % 7, usize::from(input.u8()) % 9, input.number());
        if choice % 4 == 3 {
            match lane.pending.front() {
                Some((Some((_, n)), _)) => (kind, bytes) = (if *n <= 8 { GOT } else { GOT_BULK }, *n),
                Some((None, _)) => (kind, bytes, word) = (DONE, 0, if lie == 1 { 1 + word % 3 } else { 0 }),
                None => (kind, bytes, word) = (ACK, 0, if lie == 1 { word } else { word % (lane.stores as u64 + 1) }),
            }
        }
        match lie {
            // Does what a put asks for, and acknowledges stores.
            10 if lane.stores > 0 => (kind, bytes, word) = (DONE, 0, 1),
            2 => kind = choice & 15,
            3 => kind = REFUSED,
            _ => {}
        }
        if matches!(kind, GET_BULK | PUT_BULK | STORE_BULK) && (is_last || lie == 4) {
            bytes = usize::from(input.u16()) % if lie == 4 { 5000 } else { FRAGMENT };
        }
        if lie == 5 {
            bytes = input.number() as usize;
        }
        let has_data = matches!(kind, PUT_BULK | STORE_BULK | GOT_BULK);
        // Torn, or with something behind.
        let length = if lie == 6 { usize::from(input.u16()) % 5000 } else { usize::from(has_data) * bytes.min(5000) };
        let data: Vec<u8> = (0..length).map(|at| at as u8 ^ choice).collect();
        let what = if kind == REFUSED { u16::from(input.u8()) << 8 | u16::from(choice % 5) } else { 0 };
        let mut said = message(kind, what, bytes as u32, self.window.place(input), word, &data);
        match lie {
            7 => said.truncate(usize::from(input.u8())),
            8 => said[1] = choice,
            _ => {}
        }
        let times = match (lie, form % 8) {
            (9, _) => 2,
            // Without waiting for answers; an honest peer has as many out as it has credits.
            (_, 6) => usize::from(input.u8()) % 20,
            _ => 1,
        };
        (0..times).for_each(|_| with(|library| library.deliver(vi, &said)));
    }

    fn program_asks(&mut self, input: &mut Input<'_>) {
        if self.ask.is_some() || self.has_failed {
            return;
        }
        let (what, rank) = (input.u8(), 1 + u32::from(input.u8() % 2));
        let there = There { rank, address: input.number() };
        let bytes = match what >> 6 {
            0 | 1 => 1 + usize::from(what >> 3) % 8,
            2 => 9 + usize::from(input.u8()) * 8,
            _ => usize::from(input.u16()) % (3 * FRAGMENT),
        };
        let ask = match what % 8 {
            0..=2 if self.used + bytes <= OWN => {
                self.used += bytes + 1;
                Ask::Get { to: self.used - bytes - 1 }
            }
            0..=5 => {
                let kind = if what & 1 == 0 { Kind::Put } else { Kind::Store };
                // SAFETY: memory of the stage, which is unlent before it ends.
                Ask::Send { kind, lent: unsafe { self.core.lend(self.own.as_ptr(), bytes) } }
            }
            _ => Ask::Flush { of_stores: what & 8 == 0 },
        };
        self.ask = Some((ask, there, bytes, 0));
        self.go_on();
    }

    /// Tries again, as the layer's station does.
    fn go_on(&mut self) {
        let Some((ask, there, bytes, mut done)) = self.ask else { return };
        let before = done;
        let own = self.own.as_mut_ptr();
        let tried = match ask {
            // SAFETY: memory of the stage, which ends with the core.
            Ask::Get { to } => unsafe { self.core.try_get::<Off>(there, (own.add(to), bytes), &mut done) },
            // SAFETY: memory of the stage, lent until the end of this request.
            Ask::Send { kind, lent } => unsafe { self.core.try_send::<Off>(kind, there, (own, bytes), lent, &mut done) },
            Ask::Flush { of_stores } => self.core.try_flush::<Off>(Some(there.rank), of_stores),
        };
        let mut to = if let Ask::Get { to } = ask { to + before } else { 0 };
        for (vi, said) in with(|library| std::mem::take(&mut library.said)) {
            assert!(!self.has_failed, "a request after the end");
            let (kind, _, n, ..) = parse(&said).expect("a request that can be");
            let place = matches!(kind, GET | GET_BULK).then_some((to, n));
            to += n;
            let lane = &mut self.lanes[vi];
            match kind {
                STORE | STORE_BULK => lane.stores += 1,
                GET..=FLUSH => lane.pending.push_back((place, kind == FLUSH)),
                other => panic!("an answer of kind {other} to nothing"),
            }
            assert!(lane.pending.len() + lane.stores <= lane.credits, "more requests than credits");
        }
        let has_failed = tried.is_err();
        self.ask = match tried {
            Ok(false) => Some((ask, there, bytes, done)),
            // Lent memory has to leave first.
            Ok(true) if matches!(ask, Ask::Send { lent: Some(_), .. }) && self.core.lent() > 0 && self.core.check(there.rank).is_ok() => {
                Some((ask, there, bytes, done))
            }
            _ => {
                if let Ask::Send { lent: Some(handle), .. } = ask {
                    if self.core.lent() > 0 {
                        self.core.end_with(there.rank);
                    }
                    self.core.unlend(self.own.as_ptr(), handle);
                }
                None
            }
        };
        if has_failed {
            assert!(self.core.check(there.rank).is_err(), "an error without a failure");
            self.core.abandon();
            self.has_failed = true;
        }
    }

    /// The answer that a message gets, or the failure that it is.
    fn expect(&mut self, vi: usize, taken: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let misbehaved = Failure::Misbehaved(self.rank(vi));
        let (kind, what, bytes, address, word, data) = parse(taken).ok_or(misbehaved.clone())?;
        let is_last = vi % self.each + 1 == self.each;
        let range = self.within(address, bytes);
        let lane = &mut self.lanes[vi];
        let quarter = (lane.credits / 4) as u64;
        match kind {
            GET_BULK if bytes > FRAGMENT || !is_last => Err(misbehaved),
            GET | GET_BULK => {
                let answer = range.map(|range| &self.shadow[range]);
                Ok(Some(match (kind, answer) {
                    (GET, Some(data)) => message(GOT, 0, bytes as u32, 0, data.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)), &[]),
                    (_, Some(data)) => message(GOT_BULK, 0, bytes as u32, 0, 0, data),
                    (_, None) => vec![REFUSED, 0, 1],
                }))
            }
            3..=STORE_BULK => {
                let word = word.to_le_bytes();
                let data = if data.is_empty() { &word[..bytes.min(8)] } else { data };
                let is_store = matches!(kind, STORE | STORE_BULK);
                let Some(range) = range else {
                    // The kernel may have written a part.
                    self.shadow = self.window.bytes();
                    return Ok(Some(vec![REFUSED, 0, if is_store { 3 } else { 2 }]));
                };
                self.shadow[range].copy_from_slice(data);
                if !is_store {
                    return Ok(Some(message(DONE, 0, 0, 0, 0, &[])));
                }
                lane.unacknowledged += 1;
                Ok((lane.unacknowledged >= quarter).then(|| message(ACK, 0, 0, 0, std::mem::take(&mut lane.unacknowledged), &[])))
            }
            FLUSH => Ok(Some(message(DONE, 0, 0, 0, std::mem::take(&mut lane.unacknowledged), &[]))),
            GOT | GOT_BULK => {
                let Some((Some((to, n)), _)) = lane.pending.pop_front() else { return Err(misbehaved) };
                let word = word.to_le_bytes();
                let data = if kind == GOT { &word[..bytes] } else { data };
                if n != bytes {
                    return Err(misbehaved);
                }
                if !self.has_failed {
                    self.expected[to..to + n].copy_from_slice(data);
                }
                Ok(None)
            }
            DONE => {
                let Some((None, is_flush)) = lane.pending.pop_front() else { return Err(misbehaved) };
                let left = (lane.stores as u64).checked_sub(word).filter(|_| is_flush || word == 0).ok_or(misbehaved)?;
                lane.stores = left as usize;
                Ok(None)
            }
            ACK => {
                lane.stores = (lane.stores as u64).checked_sub(word).ok_or(misbehaved)? as usize;
                Ok(None)
            }
            _ if !(1..=3).contains(&(what as u8)) => Err(misbehaved),
            _ => Err(Failure::Refused { process: self.rank(vi), access: access(what as u8), why: (what >> 8) as u8, address, bytes: bytes as u64 }),
        }
    }

    /// One look, beside the model. `false`: there was nothing.
    fn poll(&mut self) -> bool {
        let had_failed = self.has_failed;
        let found = self.core.poll::<Off>().expect("the library is well");
        let (taken, said) = with(|library| (std::mem::take(&mut library.taken), std::mem::take(&mut library.said)));
        assert!(taken.len() <= 1 && said.len() <= taken.len(), "more than an answer");
        let Some((vi, taken)) = taken.first() else { return found };
        let expected = self.expect(*vi, taken);
        let failure = (1..3).find_map(|rank| match self.core.check(rank) {
            Err(failure) if !matches!(failure, Failure::Gone { .. }) => Some(failure),
            _ => None,
        });
        if had_failed {
            return found;
        }
        match expected {
            Err(expected) => {
                assert_eq!(failure, Some(expected), "{taken:?}");
                self.has_failed = true;
            }
            Ok(answer) => {
                assert_eq!(failure, None, "{taken:?}");
                let has_ended = self.core.check(self.rank(*vi)).is_err();
                match (answer, said.first()) {
                    (Some(wanted), Some((at, got))) => {
                        assert_eq!(at, vi, "an answer on another VI");
                        let is_well = if wanted[0] == REFUSED { got[0] == REFUSED && got[2] == wanted[2] && parse(got).is_some() } else { *got == wanted };
                        assert!(is_well, "{taken:?} is answered by {got:?}, not by {wanted:?}");
                    }
                    (None, None) => {}
                    (Some(_), None) if has_ended => {}
                    (wanted, got) => panic!("{taken:?} is answered by {got:?}, not by {wanted:?}"),
                }
            }
        }
        found
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        let vi = usize::from(what >> 4) % self.lanes.len();
        match what % 16 {
            0..=6 => self.peer_says(input),
            7..=11 => self.program_asks(input),
            12..=14 => with(|library| (0..1 + what / 64).for_each(|_| library.leave(vi))),
            _ if what == 255 => with(|library| library.end(vi)),
            _ => with(|library| (0..library.vis()).for_each(|vi| (0..130).for_each(|_| library.leave(vi)))),
        }
        let mut polls = 0;
        while self.poll() {
            polls += 1;
            assert!(polls < POLLS_MAX, "it never comes to rest");
        }
        self.go_on();
        assert!(self.window.bytes() == self.shadow, "memory that peers reach is not what they have said");
        assert!(self.own == self.expected, "memory was written that nobody gave, or not as it came");
    }

    /// The peers are gone: whatever the program waits for ends.
    fn finish(mut self) {
        with(|library| (0..library.vis()).for_each(|vi| library.end(vi)));
        for _ in 0..POLLS_MAX {
            if !self.poll() {
                break;
            }
        }
        self.go_on();
        assert!(self.ask.is_none(), "it waits for a peer that is gone");
        assert!(self.has_failed || self.core.waits_for().is_none_or(|rank| self.core.check(rank).is_err()), "nobody has noticed");
        drop(self.core);
        vipl::check_empty();
    }
}

fn access(bits: u8) -> bellwire_gasvia::Access {
    [bellwire_gasvia::Access::Get, bellwire_gasvia::Access::Put, bellwire_gasvia::Access::Store][usize::from(bits) - 1]
}

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let version = if input.u8() & 1 == 0 { Version::One } else { Version::Two };
    let window = Window::new();
    // SAFETY: G1: mapped as long as the stage lives.
    let memory = unsafe { machine::memory((window.start(), window.start() + REACH as u64)) };
    let mut stage = Stage::new(version, window, memory);
    input.drive(STEPS_MAX, |input| stage.step(input));
    stage.finish();
}
