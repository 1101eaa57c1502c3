// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which pages of a map of another host's segment the program can load from (`loads=`). The others
//! are hidden: a thread that touches one waits until it has been fetched.
//!
//! ```text
//!  hidden --- wanted ---> fetched: shown --- the age, or another fetch ---> hidden
//! ```
//!
//! A fetch hides all pages that were shown before. So a load that follows a load of something new
//! shows what the owner had stored before that: the page with the data is fetched after the page
//! with the flag. Pages that several threads want at the same time have no such order. No page is
//! fetched before it is wanted, for it would be older than the pages that are loaded before it.
//!
//! This is the state alone; it is told the time. `shadow.rs` carries out its steps.

use core::ops::Range;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// The next thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Hide `hide`; fetch each of `fetch`; then show these.
    Fetch { hide: Vec<Range<usize>>, fetch: Vec<Range<usize>> },
    /// Hide these.
    Hide(Vec<Range<usize>>),
    /// Nothing, for so long, or until a page is wanted.
    Sleep(Option<Duration>),
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Fresh {
    age: Duration,
    pages: usize,
    shown: BTreeSet<usize>,
    /// When those that are shown are to be hidden.
    until: Option<Instant>,
    wanted: BTreeSet<usize>,
}

/// Pages as ranges.
fn ranges(pages: &BTreeSet<usize>) -> Vec<Range<usize>> {
    let mut ranges: Vec<Range<usize>> = Vec::new();
    for page in pages {
        match ranges.last_mut() {
            Some(last) if last.end == *page => last.end += 1,
            _ => ranges.push(*page..page + 1),
        }
    }
    ranges
}

impl Fresh {
    /// All of so many pages are hidden.
    pub fn new(pages: usize, age: Duration) -> Self {
        Self { age, pages, shown: BTreeSet::new(), until: None, wanted: BTreeSet::new() }
    }

    /// A thread waits for a page.
    pub fn want(&mut self, page: usize) {
        if page < self.pages {
            self.wanted.insert(page);
        }
    }

    /// Nothing can be fetched any more: shown pages stay.
    pub fn stay(&mut self) {
        self.shown.clear();
        self.until = None;
    }

    /// The next step. When it is [`Step::Fetch`], its pages are shown from `now` on.
    pub fn next(&mut self, now: Instant) -> Step {
        if !self.wanted.is_empty() {
            let hide = ranges(&self.shown);
            self.shown = core::mem::take(&mut self.wanted);
            self.until = Some(now + self.age);
            return Step::Fetch { hide, fetch: ranges(&self.shown) };
        }
        match self.until.map(|until| until.saturating_duration_since(now)) {
            Some(Duration::ZERO) => {
                self.until = None;
                Step::Hide(ranges(&core::mem::take(&mut self.shown)))
            }
            left => Step::Sleep(left),
        }
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "ranges of pages")]
mod tests {
    use super::*;

    const AGE: Duration = Duration::from_millis(1);

    #[test]
    fn nobody_loads_and_nothing_is_done() {
        let (mut fresh, now) = (Fresh::new(4, AGE), Instant::now());
        assert_eq!(fresh.next(now), Step::Sleep(None));
        fresh.want(2);
        assert_eq!(fresh.next(now), Step::Fetch { hide: vec![], fetch: vec![2..3] });
        assert_eq!(fresh.next(now), Step::Sleep(Some(AGE)));
        assert_eq!(fresh.next(now + AGE), Step::Hide(vec![2..3]));
        assert_eq!(fresh.next(now + 100 * AGE), Step::Sleep(None));
    }

    #[test]
    fn a_fetch_hides_what_was_shown() {
        let (mut fresh, now) = (Fresh::new(9, AGE), Instant::now());
        [5, 1, 4, 1, 9, usize::MAX].into_iter().for_each(|page| fresh.want(page));
        assert_eq!(fresh.next(now), Step::Fetch { hide: vec![], fetch: vec![1..2, 4..6] });
        fresh.want(7);
        assert_eq!(fresh.next(now + AGE / 2), Step::Fetch { hide: vec![1..2, 4..6], fetch: vec![7..8] });
        assert_eq!(fresh.next(now + AGE), Step::Sleep(Some(AGE / 2)));
    }

    /// Random loads against a model: a load that need not wait shows a page that was fetched no
    /// longer ago than the age, and not before any other page that was loaded since.
    #[test]
    fn loads_are_fresh_and_in_order() {
        let begin = Instant::now();
        for seed in 0..200u64 {
            let (mut fresh, mut now, mut random) = (Fresh::new(12, AGE), begin, seed);
            let mut fetched = [None; 12];
            let mut newest_loaded = begin;
            for _ in 0..300 {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                now += Duration::from_micros(random >> 33 & 0xff);
                loop {
                    match fresh.next(now) {
                        Step::Hide(pages) => pages.into_iter().flatten().for_each(|page| fetched[page] = None),
                        Step::Fetch { hide, fetch } => {
                            hide.into_iter().flatten().for_each(|page| fetched[page] = None);
                            fetch.into_iter().flatten().for_each(|page| fetched[page] = Some(now));
                        }
                        Step::Sleep(left) => {
                            assert_eq!(left.is_some(), fetched.iter().any(Option::is_some));
                            break;
                        }
                    }
                }
                let page = (random >> 41) as usize % 12;
                match fetched[page] {
                    None => fresh.want(page),
                    Some(then) => {
                        assert!(now - then < AGE);
                        assert!(then >= newest_loaded, "older than what was loaded before");
                        newest_loaded = then;
                    }
                }
            }
        }
    }
}
