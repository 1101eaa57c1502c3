// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps whose stores interrupt the owner (`flags.rs`), as far as the owner has flags there.
//!
//! Pages are protected from stores, and the first store to each is heard of (`auto_flush.rs`). Some
//! 50 to 100 us later the page is protected again, and the owner is told. So each store is told of,
//! and stores to the same word within that time are told of once.
//!
//! | stores are | within a host the program sees | between hosts |
//! |---|---|---|
//! | triggers of conditional flags | a board | a board |
//! | data | the segment | a board, whose bytes are with the message |
//!
//! A board of triggers holds a pattern; a word that differs from it was stored to. So is the word
//! that the page fault names, whatever was stored. A board of data has a twin, as a shadow has.
//!
//! Invariant M1: `touched` is locked while pages are protected and looked at, and while a page that
//! is noted there is released. So a page that is not protected is noted, and a store to one that is
//! waits for its note.
//!
//! A thread that was released may be slow to store, so that its page is protected again before, and
//! it waits a second time. A word of which only the fault is known is therefore told of when some
//! rounds have heard of no other fault there; of a thread that is slower still it is told twice.

use crate::auto_flush::{AutoFlush, Round, Stores};
use crate::error::Error;
use crate::library::Library;
use crate::memory::Memory;
use crate::message::{DATA_MAX, Stored};
use crate::remote::RemoteSegment;
use crate::shadow::protect;
use crate::thread;
use bellwire_memory::bytes::SharedBytes;
use bellwire_memory::flag_word::FlagWord;
use bellwire_memory::refresh::refresh_down;
use bellwire_memory::region::Access;
use bellwire_memory::view::{At, View};
use bellwire_memory::write_watch::WriteWatch;
use core::mem::take;
use core::ops::Range;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

/// What the words of a board of triggers hold.
const UNTOUCHED: [u8; FlagWord::BYTES] = 0x5EED_F1A6_u32.to_ne_bytes();
/// Rounds, of growing length, until a fault is told of that has changed nothing: about 1 ms.
const UNSURE_ROUNDS: u32 = 4;
/// Stores that wait for an owner which takes none; later ones are lost, and the next flush says so.
const WAITING_MAX: usize = 1 << 14;

/// Memory of this process that the program sees in place of the segment.
struct Board {
    memory: Memory,
    /// Where the map begins in it: as in its page as at the owner.
    inside: usize,
}

#[derive(Default)]
struct State {
    pages: Range<u64>,
    /// What the board held when it was last looked at.
    twin: Vec<u8>,
    waiting: VecDeque<(Stored, Vec<u8>)>,
    /// Words that are as they were although stores to them were let through, and rounds since.
    unsure: BTreeMap<usize, u32>,
    is_failed: bool,
    is_over: bool,
}

/// See the module.
pub(crate) struct FlagMap {
    pub segment: Arc<RemoteSegment>,
    library: &'static Library,
    auto_flush: Arc<AutoFlush>,
    triggers: bool,
    board: Option<Board>,
    offset: usize,
    len: usize,
    state: Mutex<State>,
    /// Where stores were heard of since the last look: from the begin of the pages.
    touched: Mutex<Vec<usize>>,
    /// To the thread that tells an owner of another host: behind the stores through other maps.
    teller: OnceLock<Sender<()>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FlagMap {
    /// A map of a part of a segment, and the program's view of it; `triggers` conditional flags.
    ///
    /// # Errors
    /// [`Error::NotSupported`] if stores cannot be heard of here; [`Error::TransferFailed`];
    /// [`Error::NoSpace`]; those of a view.
    pub fn new(
        library: &'static Library,
        segment: Arc<RemoteSegment>,
        (offset, len): (usize, usize),
        triggers: bool,
        at: At,
    ) -> Result<(Arc<Self>, View), Error> {
        let auto_flush = library.auto_flush()?;
        let is_far = segment.memory().is_none();
        let (mut board, mut twin) = (None, Vec::new());
        if triggers || is_far {
            let inside = offset % rustix::param::page_size();
            let memory = Memory::create(inside + len)?;
            twin = UNTOUCHED.iter().copied().cycle().take(len).collect();
            if triggers {
                memory.part(inside, len)?.copy_in(0, &twin)?;
            } else {
                segment.transfer(memory.part(inside, len)?, offset, true)?;
                memory.part(inside, len)?.copy_out(0, &mut twin)?;
            }
            board = Some(Board { memory, inside });
        }
        let view = match (&board, segment.memory()) {
            (Some(board), _) => View::map(board.memory.fd(), board.inside, len, Access::ReadWrite, at)?,
            (None, Some(memory)) => View::map(memory.fd(), offset, len, Access::ReadWrite, at)?,
            (None, None) => return Err(Error::System),
        };
        let state = Mutex::new(State { pages: view.pages(), twin, ..State::default() });
        let (touched, teller) = (Mutex::default(), OnceLock::new());
        let map = Arc::new(Self { segment, library, auto_flush, triggers, board, offset, len, state, touched, teller });
        if is_far {
            map.start_to_tell()?;
        }
        let stores = Arc::clone(&map) as Arc<dyn Stores>;
        if !map.auto_flush.follow_pages(&stores, view.pages()) {
            return Err(Error::NotSupported);
        }
        library.add_interrupting_stores(Arc::downgrade(&stores));
        Ok((map, view))
    }

    fn start_to_tell(self: &Arc<Self>) -> Result<(), Error> {
        let (sender, receiver) = channel();
        let (map, library) = (Arc::downgrade(self), self.library);
        thread::spawn(c"bellwire-flags", move || {
            while receiver.recv().is_ok() && map.strong_count() > 0 {
                // This map among them, behind those of data.
                library.flush_stores();
            }
        })?;
        let _ = self.teller.set(sender);
        Ok(())
    }

    /// The begin of the map in its first page.
    fn inside(&self) -> usize {
        self.offset % rustix::param::page_size()
    }

    fn bytes(&self) -> Option<Result<SharedBytes<'_>, Error>> {
        self.board.as_ref().map(|board| board.memory.part(board.inside, self.len))
    }

    /// Looks at pages that were stored to, and notes what the owner is to be told.
    /// If it is for `all`, the program's own thread has stored what it was let store.
    fn collect(&self, state: &mut State, all: bool) -> Result<(), Error> {
        // M1
        let mut touched = locked(&self.touched);
        let places = take(&mut *touched);
        if (places.is_empty() && state.unsure.is_empty()) || state.is_over {
            return Ok(());
        }
        let size = rustix::param::page_size();
        let pages: Vec<usize> = places.iter().map(|at| at / size).collect::<BTreeSet<_>>().into_iter().collect();
        if let Some(watch) = self.auto_flush.watch() {
            protect(watch, &state.pages, &pages);
        }
        let mut runs = Vec::new();
        for page in pages {
            let begin = (page * size).saturating_sub(self.inside()).min(self.len);
            let end = ((page + 1) * size - self.inside()).min(self.len);
            match self.bytes() {
                None => runs.push(begin..end),
                Some(bytes) => refresh_down(bytes?.part(begin, end - begin)?, &mut state.twin[begin..end], |run| runs.push(begin + run.start..begin + run.end)),
            }
        }
        // A store may leave its word as it was.
        let touched = places.iter().filter_map(|at| at.checked_sub(self.inside()).filter(|at| *at < self.len));
        let touched: BTreeSet<_> = touched.map(|at| at / FlagWord::BYTES * FlagWord::BYTES).collect();
        let was_unsure = take(&mut state.unsure);
        for word in touched.iter().chain(was_unsure.keys()).copied().collect::<BTreeSet<_>>() {
            let end = (word + FlagWord::BYTES).min(self.len);
            if runs.iter().any(|run| run.start < end && word < run.end) {
                continue;
            }
            let rounds = if touched.contains(&word) { 0 } else { was_unsure.get(&word).map_or(0, |n| n + 1) };
            if all || rounds == UNSURE_ROUNDS {
                runs.push(word..end);
            } else {
                state.unsure.insert(word, rounds);
            }
        }
        runs.sort_unstable_by_key(|run| run.start);
        if self.triggers { self.note_triggers(state, &runs) } else { self.note_data(state, runs) }
    }

    fn note_triggers(&self, state: &mut State, runs: &[Range<usize>]) -> Result<(), Error> {
        let words = runs.iter().flat_map(|run| (run.start / FlagWord::BYTES..run.end.div_ceil(FlagWord::BYTES)).map(|n| n * FlagWord::BYTES));
        for word in words.collect::<BTreeSet<_>>() {
            let end = (word + FlagWord::BYTES).min(self.len);
            let untouched = &UNTOUCHED[..end - word];
            if let Some(bytes) = self.bytes() {
                bytes?.copy_in(word, untouched)?;
                state.twin[word..end].copy_from_slice(untouched);
            }
            // The end of a map may have no room for a flag.
            if end - word == FlagWord::BYTES {
                Self::note(state, Stored::Flag((self.offset + word) as u64), Vec::new());
            }
        }
        Ok(())
    }

    fn note_data(&self, state: &mut State, runs: Vec<Range<usize>>) -> Result<(), Error> {
        let pieces = runs.into_iter().flat_map(|run| {
            let end = run.end;
            run.step_by(DATA_MAX).map(move |at| at..end.min(at + DATA_MAX))
        });
        for piece in pieces {
            let bytes = if self.board.is_some() { state.twin[piece.clone()].to_vec() } else { Vec::new() };
            Self::note(state, Stored::Bytes((self.offset + piece.start) as u64..(self.offset + piece.end) as u64), bytes);
        }
        Ok(())
    }

    fn note(state: &mut State, stored: Stored, bytes: Vec<u8>) {
        if state.waiting.len() < WAITING_MAX {
            state.waiting.push_back((stored, bytes));
        } else {
            state.is_failed = true;
        }
    }

    /// Tells the owner; whether it was told of any.
    fn tell(&self, state: &mut State, waits: bool) -> bool {
        let mut has_told = false;
        while let Some((stored, bytes)) = state.waiting.front() {
            match self.segment.tell_stored(stored, bytes, waits) {
                Ok(()) => drop(state.waiting.pop_front()),
                Err(Error::WouldBlock) => break,
                Err(_) => {
                    state.waiting.clear();
                    state.is_failed = true;
                }
            }
            has_told = true;
        }
        has_told
    }

    /// The program's flush: behind the stores through other maps.
    ///
    /// # Errors
    /// [`Error::TransferFailed`].
    pub fn flush_all(&self) -> Result<(), Error> {
        self.library.flush_stores();
        if take(&mut locked(&self.state).is_failed) { Err(Error::TransferFailed) } else { Ok(()) }
    }

    /// The map is about to be gone.
    pub fn close(&self) {
        let _ = self.flush_all();
        locked(&self.state).is_over = true;
    }
}

impl Stores for FlagMap {
    fn flush(&self) -> Result<(), Error> {
        let mut state = locked(&self.state);
        let collected = self.collect(&mut state, true);
        self.tell(&mut state, true);
        collected
    }

    /// Nothing is fetched: a board shows what was stored to it.
    fn fetch(&self) -> Result<(), Error> {
        self.flush()
    }

    fn round(&self, _: Option<&WriteWatch>) -> Round {
        let mut state = match self.state.try_lock() {
            Ok(state) => state,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return Round::Quiet,
        };
        if state.is_over || self.collect(&mut state, false).is_err() {
            return Round::Idle;
        }
        if let Some(teller) = self.teller.get() {
            if !state.waiting.is_empty() {
                let _ = teller.send(());
            }
            return if state.unsure.is_empty() { Round::Idle } else { Round::Quiet };
        }
        let moved = self.tell(&mut state, false);
        match state.waiting.is_empty() && state.unsure.is_empty() {
            true => Round::Idle,
            false if moved => Round::Moved,
            false => Round::Quiet,
        }
    }

    fn is_watched(&self, _: Range<u64>) {}

    fn is_touched(&self, at: usize, release: &dyn Fn()) {
        // M1
        let mut touched = locked(&self.touched);
        touched.push(at);
        release();
    }

    fn has_touched(&self) -> bool {
        !locked(&self.touched).is_empty()
    }
}
