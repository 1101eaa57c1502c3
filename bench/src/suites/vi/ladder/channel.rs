// SPDX-License-Identifier: MIT OR Apache-2.0
//! Messages between two processes, in order: the n-th message sent comes into the n-th receive
//! posted. There are no tags. A message may wait at its sender until the receiver has posted its
//! receive, so two processes that both send first must send without waiting.

use std::collections::VecDeque;

use super::Wait;
use super::memory::{Block, Span};
use crate::error::Error;
use crate::patient::Patient;
use std::rc::Rc;

/// A rung between two processes.
pub trait Link {
    /// Memory as this rung wants it for messages.
    ///
    /// # Errors
    /// No memory is left.
    fn memory(&mut self, bytes: usize) -> Result<Rc<Block>, Error>;

    /// Begins to send a message, or goes on with it. `false`: there is no room now. After `true` it
    /// has been handed over; its memory is used until [`sent`](Self::sent) counts it.
    ///
    /// # Errors
    /// The link is broken.
    fn send(&mut self, from: &Span) -> Result<bool, Error>;

    /// Posts a receive. `false`: there are too many.
    ///
    /// # Errors
    /// The link is broken.
    fn post(&mut self, to: &Span) -> Result<bool, Error>;

    /// One look at the network; whether something was there.
    ///
    /// # Errors
    /// The link is broken, or something came that no peer sends.
    fn look(&mut self) -> Result<bool, Error>;

    /// Messages whose memory is no longer used.
    fn sent(&self) -> u64;

    /// Messages that are in the memory of their receives.
    fn received(&self) -> u64;

    /// Sleeps until something may have come.
    ///
    /// # Errors
    /// The link is broken.
    fn sleep(&mut self) -> Result<(), Error>;
}

/// A message that was begun without waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Token {
    /// The so-many-th send.
    Send(u64),
    /// The so-many-th receive.
    Receive(u64),
}

/// One end.
pub struct Channel<L> {
    link: L,
    wait: Wait,
    sends: VecDeque<Span>,
    receives: VecDeque<Span>,
    begun: u64,
    posted: u64,
    patient: Patient,
}

impl<L: Link> Channel<L> {
    /// On a link that nothing has gone over.
    pub fn new(link: L, wait: Wait) -> Self {
        Self { link, wait, sends: VecDeque::new(), receives: VecDeque::new(), begun: 0, posted: 0, patient: Patient::default() }
    }

    /// The link, for a test to look at.
    #[cfg(test)]
    pub fn into_link(self) -> L {
        self.link
    }

    /// See [`Link::memory`].
    ///
    /// # Errors
    /// See there.
    pub fn memory(&mut self, bytes: usize) -> Result<Span, Error> {
        self.link.memory(bytes).map(|block| block.whole())
    }

    /// Begins to send. The bytes must not change until that is done.
    ///
    /// # Errors
    /// The link is broken.
    #[inline]
    pub fn begin_send(&mut self, from: &Span) -> Result<Token, Error> {
        if !self.sends.is_empty() || !self.link.send(from)? {
            self.sends.push_back(from.clone());
        }
        self.begun += 1;
        Ok(Token::Send(self.begun))
    }

    /// Begins to receive.
    ///
    /// # Errors
    /// The link is broken.
    #[inline]
    pub fn begin_receive(&mut self, to: &Span) -> Result<Token, Error> {
        if !self.receives.is_empty() || !self.link.post(to)? {
            self.receives.push_back(to.clone());
        }
        self.posted += 1;
        Ok(Token::Receive(self.posted))
    }

    /// Moves what can be moved; whether something was.
    ///
    /// # Errors
    /// The link is broken.
    #[inline]
    pub fn progress(&mut self) -> Result<bool, Error> {
        let found = self.link.look()?;
        while let Some(to) = self.receives.front() {
            if !self.link.post(to)? {
                break;
            }
            self.receives.pop_front();
        }
        while let Some(from) = self.sends.front() {
            if !self.link.send(from)? {
                break;
            }
            self.sends.pop_front();
        }
        Ok(found)
    }

    /// Whether it is done.
    #[inline]
    pub fn is_done(&self, token: Token) -> bool {
        match token {
            Token::Send(number) => self.link.sent() >= number,
            Token::Receive(number) => self.link.received() >= number,
        }
    }

    /// Waits until it is done.
    ///
    /// # Errors
    /// The link is broken, or the other process does nothing for long.
    #[inline]
    pub fn wait(&mut self, token: Token) -> Result<(), Error> {
        while !self.is_done(token) {
            if self.progress()? {
                self.patient = Patient::default();
            } else if self.wait == Wait::Sleep && matches!(token, Token::Receive(_)) && self.sends.is_empty() {
                self.link.sleep()?;
                self.patient.tick()?;
            } else {
                self.patient.tick()?;
            }
        }
        Ok(())
    }

    /// Sends, and waits until the memory is free.
    ///
    /// # Errors
    /// As of [`wait`](Self::wait).
    #[inline]
    pub fn send(&mut self, from: &Span) -> Result<(), Error> {
        let token = self.begin_send(from)?;
        self.wait(token)
    }
}
