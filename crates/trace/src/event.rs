// SPDX-License-Identifier: MIT OR Apache-2.0
//! An event in slots of four words.
//!
//! ```text
//!  first slot      stamp, bit 63 clear | kind, further slots << 16, object << 32 | two fields
//!  further slots   bit 63, their number in the event | three words
//! ```
//!
//! The oldest events of a log are overwritten slot by slot, so a reader may begin in the middle of
//! one: it passes over slots whose first word has bit 63 set.

use crate::kinds::Kind;
use bellwire_memory::event_log::BATCH_MAX;

pub use bellwire_memory::event_log::Slot;

const FURTHER: u64 = 1 << 63;
/// Words that a further slot carries.
const WORDS_EACH: usize = 3;
/// Most words beside the two of the first slot.
pub const REST_MAX: usize = (BATCH_MAX - 1) * WORDS_EACH;
/// Most bytes of text.
pub const TEXT_MAX: usize = REST_MAX * 8;
/// Most bytes of an event that carries some (`here::note_bytes`), behind the number of them.
pub const BYTES_EACH: usize = (REST_MAX - 1) * 8;

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// When, in the ticks of [`crate::stamp`].
    pub stamp: u64,
    /// What.
    pub kind: Kind,
    /// To what: a number that its layer gives it.
    pub object: u32,
    /// The fields, of which the last may be zeros that nobody wrote.
    pub words: Vec<u64>,
}

impl Event {
    /// A field; 0 if it is missing.
    pub fn word(&self, at: usize) -> u64 {
        self.words.get(at).copied().unwrap_or(0)
    }

    /// The bytes behind the first three fields, of which the third is their number.
    pub fn bytes(&self) -> impl Iterator<Item = u8> + '_ {
        let count = usize::try_from(self.word(2)).unwrap_or(usize::MAX);
        self.words.iter().skip(3).flat_map(|w| w.to_le_bytes()).take(count)
    }

    /// The text behind the first two fields, made printable.
    pub fn text(&self) -> String {
        let bytes: Vec<u8> = self.words.iter().skip(2).flat_map(|w| w.to_le_bytes()).take_while(|b| *b != 0).collect();
        printable(&bytes)
    }
}

/// Text that another process wrote, for a terminal.
pub(crate) fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

/// An event that is about to be written: what its slots are.
#[derive(Clone, Copy, Debug)]
pub struct Draft<'a> {
    /// When.
    pub stamp: u64,
    /// What.
    pub kind: Kind,
    /// To what.
    pub object: u32,
    /// The first fields.
    pub fields: [u64; 2],
    /// More of them; no more than [`REST_MAX`] count.
    pub rest: &'a [u64],
}

impl Draft<'_> {
    /// How many slots it has.
    #[inline(always)]
    pub fn count(&self) -> usize {
        1 + self.rest.len().min(REST_MAX).div_ceil(WORDS_EACH)
    }

    /// The slot of an index.
    #[inline(always)]
    pub fn slot(&self, n: usize) -> Slot {
        let Some(further) = n.checked_sub(1) else {
            let head = self.kind as u64 | ((self.count() - 1) as u64) << 16 | u64::from(self.object) << 32;
            return [self.stamp & !FURTHER, head, self.fields[0], self.fields[1]];
        };
        let rest = self.rest.get(WORDS_EACH * further..).unwrap_or_default();
        let words = match *rest {
            [a, b, c, ..] => [a, b, c],
            [a, b] => [a, b, 0],
            [a] => [a, 0, 0],
            [] => [0; WORDS_EACH],
        };
        [FURTHER | further as u64, words[0], words[1], words[2]]
    }
}

/// A text as words, no more than `N`: whole characters, as many as fit; and how many words it
/// takes.
#[inline]
pub fn text_words<const N: usize>(text: &str) -> ([u64; N], usize) {
    let mut end = text.len().min(8 * N);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let (whole, rest) = text.as_bytes()[..end].as_chunks::<8>();
    let mut words = [0; N];
    for (word, bytes) in words.iter_mut().zip(whole) {
        *word = u64::from_le_bytes(*bytes);
    }
    if let Some(last) = words.get_mut(whole.len()) {
        *last = rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    (words, end.div_ceil(8))
}

/// The events of `slots`, which another process wrote: slots that make no sense
/// are counted, not believed.
pub fn decode(slots: &[Slot]) -> (Vec<Event>, u64) {
    let (mut events, mut senseless, mut at) = (Vec::new(), 0, 0);
    // The end of an event whose beginning is overwritten.
    while at < slots.len() && slots[at][0] & FURTHER != 0 {
        at += 1;
    }
    while at < slots.len() {
        let [stamp, head, a, b] = slots[at];
        let further = (head >> 16) as u16 as usize;
        let rest = slots.get(at + 1..at + 1 + further);
        let is_whole = |rest: &[Slot]| rest.iter().enumerate().all(|(n, slot)| slot[0] == FURTHER | n as u64);
        let Some((rest, kind)) = rest.filter(|rest| stamp & FURTHER == 0 && is_whole(rest)).zip(Kind::from_number(head as u16)) else {
            senseless += 1;
            at += 1;
            continue;
        };
        let words = [a, b].into_iter().chain(rest.iter().flat_map(|slot| slot[1..].iter().copied())).collect();
        events.push(Event { stamp, kind, object: (head >> 32) as u32, words });
        at += 1 + further;
    }
    (events, senseless)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arbitrary_event() -> impl Strategy<Value = (u64, usize, u32, [u64; 2], Vec<u64>)> {
        (any::<u64>(), 0..Kind::ALL.len(), any::<u32>(), any::<[u64; 2]>(), proptest::collection::vec(any::<u64>(), 0..=REST_MAX))
    }

    proptest! {
        #[test]
        fn there_and_back(events in proptest::collection::vec(arbitrary_event(), 0..20), cut in 0usize..8) {
            let mut slots: Vec<Slot> = Vec::new();
            let mut begins = Vec::new();
            for (stamp, kind, object, fields, rest) in &events {
                let draft = Draft { stamp: *stamp, kind: Kind::ALL[*kind], object: *object, fields: *fields, rest };
                begins.push(slots.len());
                slots.extend((0..draft.count()).map(|n| draft.slot(n)));
            }
            // A reader that begins in the middle gets the events that begin there or later.
            let cut = cut.min(slots.len());
            let (decoded, senseless) = decode(&slots[cut..]);
            prop_assert_eq!(senseless, 0);
            let expected: Vec<_> = events.iter().zip(&begins).filter(|(_, begin)| **begin >= cut).map(|(e, _)| e).collect();
            prop_assert_eq!(decoded.len(), expected.len());
            for (event, (stamp, kind, object, fields, rest)) in decoded.iter().zip(expected) {
                prop_assert_eq!((event.stamp, event.kind, event.object), (stamp & !FURTHER, Kind::ALL[*kind], *object));
                prop_assert_eq!(&event.words[..2], fields);
                prop_assert_eq!(&event.words[2..2 + rest.len()], &rest[..]);
            }
        }

        /// Whatever is in a file.
        #[test]
        fn anything(slots in proptest::collection::vec(any::<Slot>(), 0..64)) {
            let (events, senseless) = decode(&slots);
            prop_assert!(events.len() as u64 + senseless <= slots.len() as u64);
        }
    }

    #[test]
    fn texts() {
        let whole =
            |text: &str| Event { stamp: 0, kind: Kind::LinkUp, object: 0, words: [0, 0].into_iter().chain(text_words::<REST_MAX>(text).0).collect() }.text();
        for text in ["", "a", "12345678", "über allem"] {
            assert_eq!(whole(text), text);
        }
        assert_eq!(whole(&"ü".repeat(TEXT_MAX)), "ü".repeat(TEXT_MAX / 2));
        assert_eq!(whole("a\nb"), "a?b");
    }
}
