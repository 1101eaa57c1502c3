// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages that have come for an inbox, for layers whose messages begin with a head of some words:
//! where each message lies, its first words copied, its place given back.
//!
//! A sender may be writing a message that lies in the wire's memory. So a layer parses and checks
//! the copied words, and of the rest copies what it wants.

use crate::engine::Engine;
use crate::handles::{InboxHandle, ViHandle};
use crate::inbox::{LineWords, Taken};
use crate::parcel::Notice;
use crate::user_memory;
use crate::wire::Wire;

/// Something that was taken out of an inbox; with the context of its VI.
#[derive(Debug)]
pub enum Came<'a> {
    /// A message: its first words, copied; where all of it lies, and its bytes.
    Message(u64, &'a [u64], (*const u8, usize)),
    /// Something happened to the VI.
    Notice(u64, ViHandle, Notice),
}

impl<W: Wire> Engine<W> {
    /// Has `handle` see what [`take`](Self::take) has found with `line`, of a longer message the
    /// first `WORDS` words; then its place is free again.
    ///
    /// # Panics
    /// Another engine has kept the message.
    #[inline(always)]
    pub fn hand<const WORDS: usize>(&mut self, inbox: InboxHandle, line: &LineWords, taken: Taken, handle: impl FnOnce(&mut Self, Came<'_>)) {
        match taken {
            Taken::Line(context, length) => handle(self, Came::Message(context, line, (line.as_ptr().cast(), length as usize))),
            Taken::Kept(context, kept) => {
                self.check_kept(&kept);
                let lies = (kept.as_ptr(), kept.len());
                // SAFETY: I3 (inbox.rs): this engine keeps it, just checked.
                let words = unsafe { first_words::<WORDS>(lies) };
                handle(self, Came::Message(context, &words, lies));
                self.release(kept);
            }
            Taken::Waited(context, data) => {
                let lies = (data.as_ptr(), data.len());
                // SAFETY: the vector's own bytes.
                let words = unsafe { first_words::<WORDS>(lies) };
                handle(self, Came::Message(context, &words, lies));
                self.recycle(inbox, data);
            }
            Taken::Notice(context, vi, notice) => handle(self, Came::Notice(context, vi, notice)),
        }
    }

    /// Ends the VIs of which an inbox tells that has not been looked at: they were accepted for its
    /// owner, who goes.
    pub fn end_unseen(&mut self, inbox: InboxHandle) {
        while self.inbox_has(inbox) {
            if let Some(Taken::Notice(_, vi, _)) = self.take(inbox, &mut [0; 7]) {
                self.end_vi(vi);
            }
        }
    }
}

/// The first words of a message, or all of it and zeros.
///
/// # Safety
/// It is readable where it lies.
#[inline]
unsafe fn first_words<const WORDS: usize>(lies: (*const u8, usize)) -> [u64; WORDS] {
    let mut words = [0u64; WORDS];
    // SAFETY: the caller's; there is room for as many words.
    unsafe { user_memory::copy(words.as_mut_ptr().cast(), lies.0, lies.1.min(size_of_val(&words))) };
    words
}
