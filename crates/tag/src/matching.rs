// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tag matching as a machine: which message goes to which receive. No memory, no wire; `R` is what
//! a receive is, `M` what is known of a message.
//!
//! Rules: a message goes to the oldest posted receive that it fits; a receive gets the oldest
//! message that fits it. So of one sender, messages that fit the same receives are matched in the
//! order sent. A message that was claimed is for its claimant alone.

use std::collections::VecDeque;

/// What a message says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// Who sent it.
    pub source: u32,
    /// Its tag.
    pub tag: u64,
}

/// What a receive takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// From whom; `None`: from anybody.
    pub source: Option<u32>,
    /// With which tag.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
}

impl Pattern {
    /// Whether a message fits.
    #[inline]
    pub fn fits(&self, e: Envelope) -> bool {
        (self.tag ^ e.tag) & !self.ignore == 0 && self.source.is_none_or(|s| s == e.source)
    }
}

/// The queues.
#[derive(Debug)]
pub struct Matcher<R, M> {
    posted: VecDeque<(Pattern, R)>,
    unexpected: VecDeque<(Envelope, M)>,
    claimed: Vec<(u64, Envelope, M)>,
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self { posted: VecDeque::new(), unexpected: VecDeque::new(), claimed: Vec::new() }
    }
}

impl<R, M> Matcher<R, M> {
    /// The oldest receive, if a message goes to it.
    #[inline(always)]
    pub fn first_for(&self, e: Envelope) -> Option<&R> {
        self.posted.front().filter(|(p, _)| p.fits(e)).map(|(_, r)| r)
    }

    /// Drops the oldest receive.
    #[inline(always)]
    pub fn drop_first(&mut self) {
        self.posted.pop_front();
    }

    /// Whether messages wait that nobody has claimed.
    #[inline(always)]
    pub fn has_messages(&self) -> bool {
        !self.unexpected.is_empty()
    }

    /// The place of the receive that a message goes to.
    #[inline]
    pub fn find_receive(&self, e: Envelope) -> Option<usize> {
        self.posted.iter().position(|(p, _)| p.fits(e))
    }

    /// A receive by its place.
    pub fn receive_mut(&mut self, at: usize) -> Option<&mut R> {
        self.posted.get_mut(at).map(|(_, r)| r)
    }

    /// Takes a receive off its place.
    #[inline]
    pub fn take_receive(&mut self, at: usize) -> Option<R> {
        let (_, r) = if at == 0 { self.posted.pop_front() } else { self.posted.remove(at) }?;
        Some(r)
    }

    /// Posts a receive for which [`take_message`](Self::take_message) found nothing.
    #[inline]
    pub fn post(&mut self, pattern: Pattern, receive: R) {
        debug_assert!(self.peek(pattern).is_none(), "a message waits for it");
        self.posted.push_back((pattern, receive));
    }

    /// Keeps a message for which there is no receive.
    pub fn keep(&mut self, e: Envelope, message: M) {
        debug_assert!(self.find_receive(e).is_none(), "a receive waits for it");
        self.unexpected.push_back((e, message));
    }

    /// The oldest unexpected message that fits.
    pub fn peek(&self, pattern: Pattern) -> Option<(Envelope, &M)> {
        self.unexpected.iter().find(|(e, _)| pattern.fits(*e)).map(|(e, m)| (*e, m))
    }

    /// Takes the oldest unexpected message that fits.
    #[inline]
    pub fn take_message(&mut self, pattern: Pattern) -> Option<(Envelope, M)> {
        if self.unexpected.is_empty() {
            return None;
        }
        let at = self.unexpected.iter().position(|(e, _)| pattern.fits(*e))?;
        self.unexpected.remove(at)
    }

    /// From the place `from` on, takes the oldest unexpected message for which `receive` gives
    /// something; and its place.
    pub fn take_message_for<T>(&mut self, from: usize, mut receive: impl FnMut(Envelope) -> Option<T>) -> Option<(usize, Envelope, M, T)> {
        let (at, taker) = self.unexpected.iter().enumerate().skip(from).find_map(|(at, (e, _))| Some((at, receive(*e)?)))?;
        let (e, m) = self.unexpected.remove(at)?;
        Some((at, e, m, taker))
    }

    /// Sets the oldest unexpected message that fits aside for whoever names `claim`. `false`: there
    /// is none.
    pub fn claim(&mut self, pattern: Pattern, claim: u64) -> bool {
        let Some((e, m)) = self.take_message(pattern) else { return false };
        self.claimed.push((claim, e, m));
        true
    }

    /// Takes a message that was set aside.
    pub fn take_claimed(&mut self, claim: u64) -> Option<(Envelope, M)> {
        let at = self.claimed.iter().position(|(c, ..)| *c == claim)?;
        let (_, e, m) = self.claimed.remove(at);
        Some((e, m))
    }

    /// A message set aside, as it is.
    pub fn claimed(&self, claim: u64) -> Option<(Envelope, &M)> {
        self.claimed.iter().find(|(c, ..)| *c == claim).map(|(_, e, m)| (*e, m))
    }

    /// Takes the oldest receive that `which` names, unmatched.
    pub fn cancel(&mut self, which: impl Fn(&R) -> bool) -> Option<R> {
        let at = self.posted.iter().position(|(_, r)| which(r))?;
        self.take_receive(at)
    }

    /// Takes all receives that are for one sender alone.
    pub fn take_receives_of(&mut self, source: u32) -> Vec<R> {
        let (of, rest) = core::mem::take(&mut self.posted).into_iter().partition(|(p, _)| p.source == Some(source));
        self.posted = rest;
        VecDeque::into_iter(of).map(|(_, r)| r).collect()
    }

    /// Drops unexpected messages, those set aside too, that `which` names; those are given to
    /// `gone`.
    pub fn drop_messages(&mut self, which: impl Fn(&M) -> bool, mut gone: impl FnMut(M)) {
        let (dropped, kept) = core::mem::take(&mut self.unexpected).into_iter().partition(|(_, m)| which(m));
        self.unexpected = kept;
        VecDeque::into_iter(dropped).for_each(|(_, m)| gone(m));
        let (dropped, kept) = core::mem::take(&mut self.claimed).into_iter().partition(|(.., m)| which(m));
        self.claimed = kept;
        Vec::into_iter(dropped).for_each(|(.., m)| gone(m));
    }

    /// Receives posted, and messages that wait.
    pub fn len(&self) -> (usize, usize) {
        (self.posted.len(), self.unexpected.len() + self.claimed.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The rules once more, as plainly as possible: all that ever happened, in order, with what has
    /// become of it.
    #[derive(Default)]
    struct Model {
        receives: Vec<(Pattern, u32, bool)>,
        messages: Vec<(Envelope, u32, bool)>,
    }

    #[derive(Clone, Debug)]
    enum Step {
        Arrive(Envelope),
        Post(Pattern),
        Peek(Pattern),
        Claim(Pattern),
        Cancel(u32),
    }

    fn envelope() -> impl Strategy<Value = Envelope> {
        (0u32..3, 0u64..4).prop_map(|(source, tag)| Envelope { source, tag })
    }

    fn pattern() -> impl Strategy<Value = Pattern> {
        (proptest::option::of(0u32..3), 0u64..4, 0u64..4).prop_map(|(source, tag, ignore)| Pattern { source, tag, ignore })
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => envelope().prop_map(Step::Arrive),
            4 => pattern().prop_map(Step::Post),
            1 => pattern().prop_map(Step::Peek),
            1 => pattern().prop_map(Step::Claim),
            1 => (0u32..40).prop_map(Step::Cancel),
        ]
    }

    impl Model {
        fn oldest_message(&mut self, p: Pattern) -> Option<&mut (Envelope, u32, bool)> {
            self.messages.iter_mut().find(|(e, _, gone)| !gone && p.fits(*e))
        }

        fn take_message(&mut self, p: Pattern) -> Option<u32> {
            self.oldest_message(p).map(|m| {
                m.2 = true;
                m.1
            })
        }
    }

    proptest! {
        #[test]
        fn as_the_rules_say(steps in proptest::collection::vec(step(), 0..80)) {
            let (mut machine, mut model) = (Matcher::<u32, u32>::default(), Model::default());
            for (number, step) in steps.into_iter().enumerate() {
                let number = number as u32;
                match step {
                    Step::Arrive(e) => {
                        let first = machine.first_for(e).copied();
                        let found = if first.is_some() {
                            machine.drop_first();
                            first
                        } else {
                            machine.find_receive(e).and_then(|at| machine.take_receive(at))
                        };
                        let expected = model.receives.iter_mut().find(|(p, _, gone)| !gone && p.fits(e)).map(|r| { r.2 = true; r.1 });
                        prop_assert_eq!(found, expected);
                        if found.is_none() {
                            machine.keep(e, number);
                            model.messages.push((e, number, false));
                        }
                    }
                    Step::Post(p) => {
                        let found = machine.take_message(p).map(|(_, m)| m);
                        prop_assert_eq!(found, model.take_message(p));
                        if found.is_none() {
                            machine.post(p, number);
                            model.receives.push((p, number, false));
                        }
                    }
                    Step::Peek(p) => prop_assert_eq!(machine.peek(p).map(|(_, m)| *m), model.oldest_message(p).map(|m| m.1)),
                    Step::Claim(p) => {
                        let expected = model.take_message(p);
                        prop_assert_eq!(machine.claim(p, u64::from(number)), expected.is_some());
                        // Nobody else gets it; its claimant does, later on.
                        if number.is_multiple_of(2) {
                            prop_assert_eq!(machine.take_claimed(u64::from(number)).map(|(_, m)| m), expected);
                        }
                    }
                    Step::Cancel(which) => {
                        let expected = model.receives.iter_mut().find(|(_, r, gone)| !gone && *r == which).map(|r| { r.2 = true; r.1 });
                        prop_assert_eq!(machine.cancel(|r| *r == which), expected);
                    }
                }
            }
            let left = model.receives.iter().filter(|r| !r.2).count();
            prop_assert_eq!(machine.len().0, left);
        }
    }
}
