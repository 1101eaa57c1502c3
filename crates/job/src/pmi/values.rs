// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values of many processes in one line, for an all-gather: a request and an answer that our server
//! alone knows. With a request for each value a job of `n` processes makes `n * n` of them; so it
//! makes `n`, or a few times that where the values are long, and the server puts each line together
//! once for all.
//!
//! The values stand one behind the other with commas between, and [`ABSENT`] for a process that has
//! put none.

use std::collections::BTreeMap;

use super::line::LINE_MAX_BYTES;

/// Longest value for clients that know [`super::VALUE_MAX_KEY`]: it fits a line beside the other
/// words.
pub(super) const VALUE_MAX_BYTES: usize = LINE_MAX_BYTES - 512;
/// In place of a value that is not there.
const ABSENT: &str = "-";
/// Of a line, for the values: what one of the longest takes.
const ROOM_BYTES: usize = VALUE_MAX_BYTES;
const _: () = assert!(ROOM_BYTES + 256 < LINE_MAX_BYTES);

/// The key on the wire of a piece of a process's block: within 48 characters.
pub(super) fn wire_key(rank: u32, key: &str, piece: usize) -> String {
    format!("{rank}.{piece}.{key}")
}

/// Values from some process on, as many as a line holds, and how many those are. None if the first
/// one cannot stand in such a line.
fn join<'a>(values: impl Iterator<Item = Option<&'a str>>) -> (String, u32) {
    let (mut text, mut count) = (String::new(), 0);
    for value in values {
        let value = value.unwrap_or(ABSENT);
        let is_plain = !value.contains(',') && !value.is_empty();
        if !is_plain || (count != 0 && text.len() + 1 + value.len() > ROOM_BYTES) {
            break;
        }
        if count != 0 {
            text.push(',');
        }
        text.push_str(value);
        count += 1;
    }
    (text, count)
}

/// The values of such a text.
pub(super) fn split(text: &str) -> impl Iterator<Item = Option<&str>> {
    text.split(',').map(|value| (value != ABSENT).then_some(value))
}

/// The lines for one key, each put together once.
#[derive(Debug, Default)]
pub(super) struct Lines {
    key: String,
    /// By the first process whose value is in it; each begins where the one before ends, so that
    /// together they are as long as the values. With the process behind the last one.
    lines: BTreeMap<u32, (String, u32)>,
}

impl Lines {
    /// The values of processes from `from` on, of `size`, out of what was put; and how many they
    /// are.
    pub(super) fn of(&mut self, store: &BTreeMap<String, String>, key: &str, from: u32, size: u32) -> (String, u32) {
        if self.key != key {
            (self.key, self.lines) = (key.to_owned(), BTreeMap::new());
        }
        if let Some((text, count)) = self.lines.get(&from) {
            return (text.clone(), *count);
        }
        let mut is_whole = true;
        let (text, count) = join((from..size).map(|rank| {
            let value = store.get(&wire_key(rank, key, 0)).map(String::as_str);
            is_whole &= value.is_some();
            value
        }));
        // Present values stay as they are; absent ones may come.
        if is_whole && (from == 0 || self.lines.last_key_value().is_some_and(|(at, (_, count))| at + count == from)) {
            self.lines.insert(from, (text.clone(), count));
        }
        (text, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn stored(values: &[Option<String>]) -> BTreeMap<String, String> {
        values.iter().zip(0..).filter_map(|(value, rank)| Some((wire_key(rank, "k", 0), value.clone()?))).collect()
    }

    /// All values, by as many lines as it takes.
    fn all(lines: &mut Lines, store: &BTreeMap<String, String>, size: u32) -> Vec<Option<String>> {
        let mut found = Vec::new();
        while (found.len() as u32) < size {
            let (text, count) = lines.of(store, "k", found.len() as u32, size);
            assert!(text.len() <= ROOM_BYTES && split(&text).count() == count as usize);
            found.extend(split(&text).map(|value| value.map(str::to_owned)));
        }
        found
    }

    #[test]
    fn long_values_take_several_lines_and_are_kept_once() {
        let values: Vec<_> = (0..9).map(|i| Some(format!("{i}").repeat(20_000 + 30_000 * (i % 3)))).collect();
        let (store, mut lines) = (stored(&values), Lines::default());
        assert_eq!(all(&mut lines, &store, 9), values);
        assert!((4..9).contains(&lines.lines.len()), "{}", lines.lines.len());
        let kept: usize = lines.lines.values().map(|(text, _)| text.len()).sum();
        // Asked from anywhere: nothing more is kept.
        (0..9).for_each(|from| drop(lines.of(&store, "k", from, 9)));
        assert_eq!(kept, lines.lines.values().map(|(text, _)| text.len()).sum::<usize>());
        lines.of(&store, "other", 0, 9);
        assert!(lines.lines.is_empty());
    }

    #[test]
    fn what_comes_later_is_seen() {
        let mut lines = Lines::default();
        assert_eq!(lines.of(&stored(&[None, Some("1".into())]), "k", 0, 2), ("-,1".into(), 2));
        assert_eq!(lines.of(&stored(&[Some("0".into()), Some("1".into())]), "k", 0, 2), ("0,1".into(), 2));
    }

    #[test]
    fn a_value_of_others_is_left_out() {
        let values = [Some("a".to_owned()), Some("b,c".to_owned()), Some("d".to_owned())];
        let mut lines = Lines::default();
        assert_eq!(lines.of(&stored(&values), "k", 0, 3), ("a".into(), 1));
        assert_eq!(lines.of(&stored(&values), "k", 1, 3), (String::new(), 0));
    }

    proptest! {
        #[test]
        fn what_was_put_is_found(values in proptest::collection::vec(proptest::option::of("[0-9]\\.[A-Za-z_-]{0,40}"), 1..40)) {
            let mut lines = Lines::default();
            for _ in 0..2 {
                prop_assert_eq!(all(&mut lines, &stored(&values), values.len() as u32), values.clone());
            }
        }
    }
}
