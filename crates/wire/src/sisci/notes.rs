// SPDX-License-Identifier: MIT OR Apache-2.0
//! Notes to the NIC of threads of the library and of the wire: a list under a lock, and two bells
//! of this process. One tells the NIC's helper that the list has something, the other wakes a
//! sleeper. And the event manager, which looks at words in shared memory for a NIC that sleeps.

use super::outcome::Outcome;
use bellwire_memory::MemoryError;
use bellwire_memory::atomic::{AtomicBool, AtomicU32, Ordering};
use bellwire_memory::event::Bell;
use bellwire_memory::own_thread;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Messages of peers that wait to be read, most; those beyond are lost.
const SAID_MAX: usize = 1 << 12;

/// A note.
#[derive(Debug)]
pub(super) enum Note {
    /// A peer's message.
    Said(Vec<u8>),
    /// A call that took time has an outcome.
    Done(Outcome),
    /// The peer's end of a link is gone; `lost`: its process is.
    LinkEnded { token: u64, lost: bool },
    /// A NIC that was found is gone.
    HubEnded { request: u64 },
}

/// The list and the bells.
#[derive(Debug)]
pub(super) struct Notes {
    list: Mutex<VecDeque<Note>>,
    /// Whether the list may have something.
    pub is_noted: AtomicBool,
    pub control: Bell,
    pub bell: Bell,
}

impl Notes {
    pub fn new() -> Result<Self, MemoryError> {
        Ok(Self { list: Mutex::default(), is_noted: AtomicBool::new(false), control: Bell::create()?, bell: Bell::create()? })
    }

    pub fn add(&self, note: Note) {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        if matches!(note, Note::Said(_)) && list.len() >= SAID_MAX {
            return;
        }
        list.push_back(note);
        // Relaxed: a hint; the list has a lock.
        self.is_noted.store(true, Ordering::Relaxed);
        drop(list);
        let _ = self.control.ring();
    }

    pub fn take(&self) -> VecDeque<Note> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        // Relaxed: see add().
        self.is_noted.store(false, Ordering::Relaxed);
        let _ = self.control.clear();
        std::mem::take(&mut *list)
    }

    /// Wakes the sleeper.
    pub fn wake(&self) {
        let _ = self.bell.ring();
    }
}

/// Looks of the event manager before it begins to sleep between them, and how long it sleeps then.
const LOOKS_AT_ONCE: u32 = 64;
const NAP: Duration = Duration::from_micros(50);

/// A word that a peer counts up, and its last value.
struct Word {
    token: u64,
    word: *const AtomicU32,
    seen: u32,
}

// SAFETY: E1: the word stays mapped while it is listed.
unsafe impl Send for Word {}

#[derive(Default)]
struct Watched {
    words: Vec<Word>,
    is_armed: bool,
    has_ended: bool,
}

#[derive(Default)]
struct Watch {
    watched: Mutex<Watched>,
    changed: Condvar,
}

/// The event manager: a thread that looks at words while the NIC is armed.
///
/// Invariant E1: a word is listed while its link's segment is mapped, and taken off the list, under
/// the lock under which it is looked at, before that.
pub(super) struct Manager {
    watch: Arc<Watch>,
    thread: Option<JoinHandle<()>>,
}

impl core::fmt::Debug for Manager {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("Manager")
    }
}

impl Manager {
    pub fn start(notes: &Arc<Notes>) -> Option<Self> {
        let (watch, notes) = (Arc::new(Watch::default()), Arc::clone(notes));
        let theirs = Arc::clone(&watch);
        let thread = own_thread::spawn(c"bellwire-events", move || manage(&theirs, &notes)).ok()?;
        Some(Self { watch, thread: Some(thread) })
    }

    fn change(&self, f: impl FnOnce(&mut Watched)) {
        f(&mut self.watch.watched.lock().unwrap_or_else(PoisonError::into_inner));
        self.watch.changed.notify_all();
    }

    /// Looks at a word from now on.
    ///
    /// # Safety
    /// E1.
    pub unsafe fn add(&self, token: u64, word: *const AtomicU32) {
        self.change(|w| w.words.push(Word { token, word, seen: 0 }));
    }

    pub fn remove(&self, token: u64) {
        self.change(|w| w.words.retain(|word| word.token != token));
    }

    pub fn arm(&self, is_armed: bool) {
        self.change(|w| w.is_armed = is_armed);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.change(|w| w.has_ended = true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Whether a word has been counted up.
fn is_rung(watched: &mut Watched) -> bool {
    let mut rung = false;
    for w in &mut watched.words {
        // SAFETY: E1. Acquire: what the peer stored before it rang is seen by the sleeper.
        let now = unsafe { (*w.word).load(Ordering::Acquire) };
        rung |= now != std::mem::replace(&mut w.seen, now);
    }
    rung
}

fn manage(watch: &Watch, notes: &Notes) {
    let mut looks = 0;
    loop {
        let mut watched = watch.watched.lock().unwrap_or_else(PoisonError::into_inner);
        while !watched.is_armed && !watched.has_ended {
            watched = watch.changed.wait(watched).unwrap_or_else(PoisonError::into_inner);
            looks = 0;
        }
        if watched.has_ended {
            return;
        }
        if is_rung(&mut watched) {
            looks = 0;
            notes.wake();
        }
        if looks < LOOKS_AT_ONCE {
            drop(watched);
            looks += 1;
            std::thread::yield_now();
        } else {
            drop(watch.changed.wait_timeout(watched, NAP));
        }
    }
}
