// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupt flags of a segment: places in it at which stores of other processes interrupt the
//! owner. The maps through which they store are in `flag_map.rs`.
//!
//! A store to a *conditional* flag is no store: the owner adds one to the flag's word, and is
//! interrupted if that was 0 (`memory::flag_word`). Another flag is interrupted by each store that
//! touches its word; the bytes are stored before.

use crate::error::Error;
use crate::memory::Memory;
use crate::message::Stored;
use bellwire_memory::flag_word::FlagWord;
use core::ops::Range;
use std::sync::Weak;

/// An interrupt of a flag.
pub(crate) trait Triggered: Send + Sync {
    /// A store interrupts. Called with locks of the segment held: it takes none of them.
    fn triggered(&self);
}

/// A flag.
struct Flag {
    offset: usize,
    is_conditional: bool,
    interrupt: Weak<dyn Triggered>,
}

/// The flags of a segment.
#[derive(Default)]
pub(crate) struct Flags(Vec<Flag>);

/// The word of a flag.
///
/// # Errors
/// [`Error::OutOfRange`]; [`Error::OffsetAlignment`].
pub(crate) fn word(memory: &Memory, offset: usize) -> Result<FlagWord<'_>, Error> {
    FlagWord::at(memory.part(offset, FlagWord::BYTES)?, 0).map_err(|_| Error::OffsetAlignment)
}

impl Flags {
    pub fn add(&mut self, offset: usize, is_conditional: bool, interrupt: Weak<dyn Triggered>) {
        self.0.retain(|flag| flag.interrupt.strong_count() > 0);
        self.0.push(Flag { offset, is_conditional, interrupt });
    }

    /// Another process has stored, as it says.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::OffsetAlignment`]: it cannot have stored there.
    pub fn stored(&self, memory: &Memory, stored: &Stored) -> Result<(), Error> {
        match stored {
            Stored::Flag(offset) => {
                let offset = usize::try_from(*offset).map_err(|_| Error::OutOfRange)?;
                if word(memory, offset)?.trigger() {
                    self.interrupt(true, &(offset..offset + FlagWord::BYTES));
                }
            }
            Stored::Bytes(range) => {
                let convert = |end: u64| usize::try_from(end).map_err(|_| Error::OutOfRange);
                let range = convert(range.start)?..convert(range.end)?;
                memory.part(range.start, range.end.checked_sub(range.start).ok_or(Error::OutOfRange)?)?;
                self.interrupt(false, &range);
            }
        }
        Ok(())
    }

    fn interrupt(&self, conditional: bool, range: &Range<usize>) {
        let is_in = |flag: &&Flag| flag.is_conditional == conditional && flag.offset < range.end && range.start < flag.offset + FlagWord::BYTES;
        self.0.iter().filter(is_in).filter_map(|flag| flag.interrupt.upgrade()).for_each(|interrupt| interrupt.triggered());
    }
}
