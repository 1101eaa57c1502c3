// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of all processes, from their pipes to the launcher's two streams.
//!
//! The pipes are in an epoll set of their own, which is taken out of the loop's as long as a
//! stream's reader is slow: the processes wait then, and everything else goes on.

use std::io::{self, IsTerminal};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll;
use rustix::io::Errno;

use crate::lines::Merger;
use crate::sink::Sink;

/// At a terminal an unfinished line is shown after so long.
const SHOW_AFTER: Duration = Duration::from_millis(200);

/// Standard output, or standard error.
#[derive(Debug)]
struct Stream {
    merger: Merger,
    sink: Sink,
    pipes: Vec<Option<OwnedFd>>,
    is_terminal: bool,
    /// When to show what is unfinished.
    show_at: Option<Instant>,
}

/// Both streams.
#[derive(Debug)]
pub(crate) struct Outputs {
    streams: [Stream; 2],
    set: OwnedFd,
}

impl Outputs {
    pub(crate) fn open(size: usize, label: bool) -> io::Result<Self> {
        let stream = |sink, is_terminal| Stream { merger: Merger::new(size, label), sink, pipes: Vec::new(), is_terminal, show_at: None };
        let streams = [stream(Sink::open(io::stdout())?, io::stdout().is_terminal()), stream(Sink::open(io::stderr())?, io::stderr().is_terminal())];
        Ok(Self { streams, set: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// The pipes of the next process, if there are any.
    pub(crate) fn add(&mut self, pipes: [Option<OwnedFd>; 2]) -> io::Result<()> {
        for (which, pipe) in pipes.into_iter().enumerate() {
            let rank = self.streams[which].pipes.len();
            if let Some(pipe) = &pipe {
                epoll::add(&self.set, pipe, epoll::EventData::new_u64((rank * 2 + which) as u64), epoll::EventFlags::IN)?;
            }
            self.streams[which].pipes.push(pipe);
        }
        Ok(())
    }

    /// Readable when a pipe is.
    pub(crate) fn bell(&self) -> &OwnedFd {
        &self.set
    }

    /// Readable when a slow reader may have become faster, or has gone.
    pub(crate) fn sink_bells(&self) -> [&OwnedFd; 2] {
        [self.streams[0].sink.bell(), self.streams[1].sink.bell()]
    }

    /// Whether pipes are to be read now.
    pub(crate) fn has_room(&self) -> bool {
        !self.streams.iter().any(|stream| stream.sink.is_full())
    }

    /// Whether all pipes have been closed.
    pub(crate) fn is_over(&self) -> bool {
        self.streams.iter().all(|stream| stream.pipes.iter().all(Option::is_none))
    }

    /// Reads from pipes that have something, once each.
    pub(crate) fn turn(&mut self, now: Instant) {
        let mut events = [epoll::Event { flags: epoll::EventFlags::empty(), data: epoll::EventData::new_u64(0) }; 64];
        let at_once = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
        let ready = epoll::wait(&self.set, &mut events[..], Some(&at_once)).unwrap_or(0);
        for event in &events[..ready] {
            let data = usize::try_from(event.data.u64()).unwrap_or(0);
            self.streams[data % 2].read(data / 2, now);
        }
    }

    /// The sinks have rung: closes the pipes that nobody reads any more, so that their writers
    /// learn of it.
    pub(crate) fn check_sinks(&mut self) {
        for stream in &mut self.streams {
            stream.sink.hush();
            if stream.sink.has_failed() {
                stream.pipes.iter_mut().for_each(|pipe| *pipe = None);
            }
        }
    }

    /// Whether the reader of a stream has gone.
    pub(crate) fn has_failed(&self) -> bool {
        self.streams.iter().any(|stream| stream.sink.has_failed())
    }

    /// Shows unfinished lines whose time has come.
    pub(crate) fn show(&mut self, now: Instant) {
        for stream in self.streams.iter_mut().filter(|stream| stream.show_at.is_some_and(|at| now >= at)) {
            stream.show_at = None;
            let mut out = Vec::new();
            (0..stream.pipes.len()).for_each(|rank| stream.merger.show(rank, &mut out));
            stream.sink.push(out);
        }
    }

    /// When to call [`Outputs::show`].
    pub(crate) fn deadline(&self) -> Option<Instant> {
        self.streams.iter().filter_map(|stream| stream.show_at).min()
    }

    /// Says something of the launcher's own, after what has been read.
    pub(crate) fn say(&self, text: &str) {
        self.streams[1].sink.push(format!("bellwire: {text}\n").into_bytes());
    }

    /// Gives up on pipes that are still open: the parts of their last lines that came are written.
    pub(crate) fn close(&mut self) {
        for stream in &mut self.streams {
            let mut out = Vec::new();
            for rank in 0..stream.pipes.len() {
                if stream.pipes[rank].take().is_some() {
                    stream.merger.end(rank, &mut out);
                }
            }
            stream.sink.push(out);
        }
    }
}

impl Stream {
    fn read(&mut self, rank: usize, now: Instant) {
        let mut bytes = [0; 64 * 1024];
        let Some(pipe) = &self.pipes[rank] else { return };
        let mut out = Vec::new();
        match rustix::io::read(pipe, &mut bytes) {
            Ok(read) if read > 0 => self.merger.push(rank, &bytes[..read], &mut out),
            Err(Errno::AGAIN | Errno::INTR) => return,
            _ => {
                self.pipes[rank] = None;
                self.merger.end(rank, &mut out);
            }
        }
        self.sink.push(out);
        if self.is_terminal && self.show_at.is_none() && self.merger.has_partial(rank) {
            self.show_at = Some(now + SHOW_AFTER);
        }
    }
}
