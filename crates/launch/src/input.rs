// SPDX-License-Identifier: MIT OR Apache-2.0
//! Standard input for processes that cannot have the launcher's own: at a terminal, whose
//! foreground their process groups are not, or when all are to have it.

use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;

use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::getpgrp;
use rustix::termios::tcgetpgrp;

use crate::plan::Input;

/// Read at once, and kept for the slowest reader.
const PIECE_BYTES: usize = 64 * 1024;

/// The readers of a relayed input.
#[derive(Debug, Default)]
pub(crate) struct Relay {
    /// Of each process that has not closed it: its pipe, and how much of `piece` it has.
    readers: Vec<(usize, OwnedFd, usize)>,
    piece: Vec<u8>,
    is_over: bool,
}

/// What the loop is to wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Want {
    /// More input.
    Read,
    /// A reader of this rank, with room.
    Write(usize),
    /// The terminal: this job is in the background.
    Foreground,
    /// Nothing: it is over.
    Nothing,
}

impl Relay {
    /// The standard input of a process; a pipe from here if it is to be relayed.
    pub(crate) fn stdin(&mut self, input: Input, rank: u32) -> io::Result<Stdio> {
        match input {
            Input::Rank(reader) if reader == rank && !io::stdin().is_terminal() => Ok(Stdio::inherit()),
            Input::Rank(reader) if reader == rank => self.pipe(rank),
            Input::All => self.pipe(rank),
            Input::Rank(_) | Input::None => Ok(Stdio::null()),
        }
    }

    fn pipe(&mut self, rank: u32) -> io::Result<Stdio> {
        let (theirs, ours) = pipe_with(PipeFlags::CLOEXEC)?;
        fcntl_setfl(&ours, OFlags::NONBLOCK)?;
        self.readers.push((rank as usize, ours, 0));
        Ok(Stdio::from(theirs))
    }

    /// The pipe to a process.
    pub(crate) fn reader(&self, rank: usize) -> Option<BorrowedFd<'_>> {
        self.readers.iter().find(|reader| reader.0 == rank).map(|reader| reader.1.as_fd())
    }

    /// A process has ended.
    pub(crate) fn ended(&mut self, rank: usize) {
        self.readers.retain(|reader| reader.0 != rank);
    }

    /// The events to wait for now.
    pub(crate) fn want(&self) -> Want {
        if let Some(behind) = self.readers.iter().find(|reader| reader.2 < self.piece.len()) {
            return Want::Write(behind.0);
        }
        let stdin = io::stdin();
        match self.readers.is_empty() || self.is_over {
            true => Want::Nothing,
            // Reading a terminal from the background would stop the launcher.
            false if stdin.is_terminal() && tcgetpgrp(&stdin).is_ok_and(|group| group != getpgrp()) => Want::Foreground,
            false => Want::Read,
        }
    }

    /// Input is there: one piece of it.
    pub(crate) fn read(&mut self) {
        self.piece.resize(PIECE_BYTES, 0);
        let read = rustix::io::read(io::stdin(), &mut self.piece[..]);
        self.piece.truncate(*read.as_ref().unwrap_or(&0));
        self.readers.iter_mut().for_each(|reader| reader.2 = 0);
        match read {
            Ok(0) => self.close(),
            Ok(_) => self.write(),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.close(),
        }
    }

    /// Writes as much as readers take; a reader that has closed gets no more.
    pub(crate) fn write(&mut self) {
        let piece = &self.piece;
        self.readers.retain_mut(|(_, pipe, done)| {
            while *done < piece.len() {
                match rustix::io::write(&*pipe, &piece[*done..]) {
                    Ok(written) => *done += written,
                    Err(Errno::INTR) => {}
                    Err(Errno::AGAIN) => return true,
                    Err(_) => return false,
                }
            }
            true
        });
    }

    /// The input is over: so it is for the readers.
    fn close(&mut self) {
        self.is_over = true;
        self.readers.clear();
        self.piece.clear();
    }
}
