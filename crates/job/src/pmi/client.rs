// SPDX-License-Identifier: MIT OR Apache-2.0
//! The process's end of PMI-1.
//!
//! Invariant P1: the descriptor's number comes from the environment, where the launcher has put it
//! for this process; it is taken once, marked close-on-exec (so that children of the program do not
//! speak on it, and a second copy of this code sees that it came too late), and owned from then on.
//!
//! One request is under way at a time; a barrier is a request whose answer may be long in coming.

use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::{Errno, FdFlags, fcntl_getfd, fcntl_setfd};
use rustix::net::SendFlags;

use super::line::{Line, LineBuffer};
use super::values::{VALUE_MAX_BYTES, split, wire_key};
use super::{GET_ALL_KEY, VALUE_MAX_KEY};
use crate::error::Error;
use crate::mapping;
use crate::text::{self, BLOCK_MAX_BYTES};

/// A line that every launcher takes whole: older ones have buffers of 1024 bytes.
const PLAIN_LINE_MAX_BYTES: usize = 1000;
/// Shorter values are not worth the rounds; a launcher that offers less is refused.
const VALUE_MIN_BYTES: usize = 32;
const GET_EXPECTED: &str = "cmd=get_result rc=.. value=..";
const GET_WHAT: &str = "its answer to get";

/// The descriptor, for the one who speaks and for the one who ends the job meanwhile.
#[derive(Debug)]
pub(crate) struct Wire {
    fd: OwnedFd,
    /// Held while a line is written, so that lines do not mix.
    writing: Mutex<()>,
}

/// A connection to a launcher.
#[derive(Debug)]
pub(crate) struct Client {
    wire: Arc<Wire>,
    lines: LineBuffer,
    timeout: Duration,
    rank: u32,
    /// The launcher's name for what the job has put.
    name: String,
    /// Longest value, characters.
    value_max: usize,
    /// Our server is at the other end, which gives the values of all processes at once.
    gives_all: bool,
    /// Inside a barrier.
    in_barrier: bool,
}

impl Wire {
    fn take(number: RawFd) -> Result<Self, Error> {
        let closed = |errno: Errno| {
            Error::Environment(format!(
                "PMI_FD is {number}, which is no descriptor here ({errno}): something between the launcher and this program has closed it, or the job has been left already"
            ))
        };
        if number < 0 {
            return Err(closed(Errno::BADF));
        }
        // SAFETY: P1: the number is only asked about here, and the next line finds out whether it
        // is a descriptor at all.
        let borrowed = unsafe { BorrowedFd::borrow_raw(number) };
        let flags = fcntl_getfd(borrowed).map_err(closed)?;
        // The launcher cannot have set it: the descriptor has come through an exec.
        if flags.contains(FdFlags::CLOEXEC) {
            return Err(Error::JoinedBefore);
        }
        fcntl_setfd(borrowed, flags | FdFlags::CLOEXEC).map_err(closed)?;
        let status = fcntl_getfl(borrowed).map_err(closed)?;
        fcntl_setfl(borrowed, status | OFlags::NONBLOCK).map_err(closed)?;
        // SAFETY: P1: it is open, was inherited for this, and the mark set above keeps everybody
        // else from taking it.
        let fd = unsafe { OwnedFd::from_raw_fd(number) };
        Ok(Self { fd, writing: Mutex::new(()) })
    }

    /// Writes a whole line, which has its newline.
    fn say(&self, line: &str, timeout: Duration) -> Result<(), Error> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = Instant::now() + timeout;
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            // A launcher that has gone is an error, not a signal, which a C program would die of.
            match rustix::net::send(&self.fd, rest, SendFlags::NOSIGNAL)
                .or_else(|errno| if errno == Errno::NOTSOCK { rustix::io::write(&self.fd, rest) } else { Err(errno) })
            {
                Ok(written) => rest = &rest[written..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !self.wait(PollFlags::OUT, Some(deadline))? {
                        return Err(Error::Timeout { what: "it to read", after: timeout });
                    }
                }
                Err(Errno::PIPE | Errno::CONNRESET) => return Err(Error::LauncherGone),
                Err(errno) => return Err(Error::os("writing to the launcher")(errno)),
            }
        }
        Ok(())
    }

    /// Waits until the descriptor is ready, or the deadline; whether it is ready.
    fn wait(&self, what: PollFlags, deadline: Option<Instant>) -> Result<bool, Error> {
        loop {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let time = left.map(|left| Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() });
            match poll(&mut [PollFd::new(&self.fd.as_fd(), what)], time.as_ref()) {
                Ok(0) => return Ok(false),
                Ok(_) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Error::os("waiting for the launcher")(errno)),
            }
        }
    }

    /// Asks that the job end. No answer.
    pub(crate) fn abort(&self, code: i32) -> Result<(), Error> {
        self.say(&format!("cmd=abort exitcode={code}\n"), Duration::from_secs(5))
    }
}

impl Client {
    /// Joins the job: says `init` and asks for the limits and the name.
    pub(crate) fn join(number: RawFd, rank: u32, timeout: Duration) -> Result<Self, Error> {
        let wire = Arc::new(Wire::take(number)?);
        let mut client = Self { wire, lines: LineBuffer::default(), timeout, rank, name: String::new(), value_max: 0, gives_all: false, in_barrier: false };
        client.ask("cmd=init pmi_version=1 pmi_subversion=1", "cmd=response_to_init rc=0", "its answer to init", |line| {
            (line.command() == "response_to_init" && line.get("rc") == Some("0")).then_some(())
        })?;
        let (offered, long, gives_all) = client.ask("cmd=get_maxes", "cmd=maxes kvsname_max=.. keylen_max=.. vallen_max=..", "the limits", |line| {
            let offered =
                line.number::<usize>("vallen_max").filter(|_| line.command() == "maxes" && line.number::<usize>("keylen_max").is_some_and(|max| max >= 48))?;
            Some((offered, line.number::<usize>(VALUE_MAX_KEY), line.get(GET_ALL_KEY) == Some("1")))
        })?;
        client.name = client.ask("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=..", "the job's name", |line| {
            line.get("kvsname").filter(|name| line.command() == "my_kvsname" && (1..=256).contains(&name.len())).map(str::to_owned)
        })?;
        let plain = PLAIN_LINE_MAX_BYTES - "cmd=put kvsname= key= value=\n".len() - client.name.len() - 64;
        client.gives_all = gives_all;
        client.value_max = match long {
            Some(long) => long.min(VALUE_MAX_BYTES),
            None => offered.saturating_sub(1).min(plain),
        };
        if client.value_max < VALUE_MIN_BYTES {
            return Err(Error::Refused {
                what: "values of useful length".into(),
                why: format!("it takes {} characters, at least {VALUE_MIN_BYTES} are needed", client.value_max),
            });
        }
        Ok(client)
    }

    /// The launcher's name for the job.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// For ending the job from any thread.
    pub(crate) fn wire(&self) -> Arc<Wire> {
        Arc::clone(&self.wire)
    }

    /// The launcher's mapping of processes to hosts, if it gives one.
    pub(crate) fn mapping(&mut self) -> Result<Option<String>, Error> {
        self.get_value(mapping::KEY)
    }

    /// Puts a block, in as many values as it takes.
    pub(crate) fn put(&mut self, key: &str, block: &[u8]) -> Result<(), Error> {
        let text = text::encode(block);
        // ASCII: pieces may end anywhere.
        for (piece, value) in text.as_bytes().chunks(self.value_max).enumerate() {
            let value = String::from_utf8_lossy(value);
            let request = format!("cmd=put kvsname={} key={} value={value}", self.name, wire_key(self.rank, key, piece));
            let refused = self.ask(&request, "cmd=put_result rc=..", "its answer to put", |line| {
                let rc = line.number::<i32>("rc").filter(|_| line.command() == "put_result")?;
                Some((rc != 0).then(|| line.get("msg").unwrap_or("without a reason").to_owned()))
            })?;
            if let Some(why) = refused {
                return Err(Error::Refused { what: format!("a block under \"{key}\""), why });
            }
        }
        Ok(())
    }

    /// The block of a process; `None` if it has put none.
    pub(crate) fn get(&mut self, rank: u32, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let first = self.get_value(&wire_key(rank, key, 0))?;
        first.map(|first| self.get_rest(rank, key, first)).transpose()
    }

    /// The blocks of all processes under a key, in order. Our server gives many in one answer;
    /// others are asked for one after the other.
    pub(crate) fn get_all(&mut self, size: u32, key: &str) -> Result<Vec<Option<Vec<u8>>>, Error> {
        let mut blocks = Vec::with_capacity(size as usize);
        while (blocks.len() as u32) < size {
            let from = blocks.len() as u32;
            let mut firsts = if self.gives_all { self.get_values(from, size, key)? } else { Vec::new() };
            if firsts.is_empty() {
                firsts.push(self.get_value(&wire_key(from, key, 0))?);
            }
            for (rank, first) in (from..).zip(firsts) {
                blocks.push(first.map(|first| self.get_rest(rank, key, first)).transpose()?);
            }
        }
        Ok(blocks)
    }

    /// The first pieces of the blocks of processes from `from` on, as many as the server gives at
    /// once; none, if the next is one that it cannot give so.
    fn get_values(&mut self, from: u32, size: u32, key: &str) -> Result<Vec<Option<String>>, Error> {
        let request = format!("cmd=bellwire_get_all kvsname={} key={key} from={from}", self.name);
        self.ask(&request, "cmd=bellwire_values rc=0 count=.. values=..", "its answer to bellwire_get_all", |line| {
            let count =
                line.number::<u32>("count").filter(|count| line.command() == "bellwire_values" && line.get("rc") == Some("0") && *count <= size - from)?;
            if count == 0 {
                return Some(Vec::new());
            }
            let values: Vec<_> = split(line.get("values")?).map(|value| value.map(str::to_owned)).collect();
            (values.len() == count as usize).then_some(values)
        })
    }

    /// The block that begins with this piece.
    fn get_rest(&mut self, rank: u32, key: &str, first: String) -> Result<Vec<u8>, Error> {
        const EXPECTED: &str = "value=LENGTH.BASE64, as rank and key were put";
        let mut text = first;
        let length = text::length(&text, BLOCK_MAX_BYTES).ok_or_else(|| Error::protocol(EXPECTED, text.as_bytes()))?;
        let mut piece = 1;
        while text.len() < length {
            let before = text.len();
            let Some(more) = self.get_value(&wire_key(rank, key, piece))? else { return Err(Error::protocol(EXPECTED, b"nothing, for a later piece")) };
            text.push_str(&more);
            if text.len() == before {
                return Err(Error::protocol(EXPECTED, b"an empty piece"));
            }
            piece += 1;
        }
        text::decode(&text).ok_or_else(|| Error::protocol(EXPECTED, text.as_bytes()))
    }

    fn get_value(&mut self, key: &str) -> Result<Option<String>, Error> {
        self.wire.say(&self.get_request(key), self.timeout)?;
        self.hear(GET_EXPECTED, GET_WHAT, got)
    }

    fn get_request(&self, key: &str) -> String {
        format!("cmd=get kvsname={} key={key}\n", self.name)
    }

    /// Goes into the barrier, without waiting for the others.
    pub(crate) fn barrier_start(&mut self) -> Result<(), Error> {
        self.wire.say("cmd=barrier_in\n", self.timeout)?;
        self.in_barrier = true;
        Ok(())
    }

    /// Whether all have come to the barrier; waits for them until `deadline`, or for ever.
    pub(crate) fn barrier_done(&mut self, deadline: Option<Instant>) -> Result<bool, Error> {
        if !self.in_barrier {
            return Ok(true);
        }
        let Some(line) = self.read_line(deadline)? else { return Ok(false) };
        check(&line, "cmd=barrier_out", |line| (line.command() == "barrier_out" && line.number::<i32>("rc").unwrap_or(0) == 0).then_some(()))?;
        self.in_barrier = false;
        Ok(true)
    }

    /// Leaves the job.
    pub(crate) fn finalize(&mut self) -> Result<(), Error> {
        self.ask("cmd=finalize", "cmd=finalize_ack", "its answer to finalize", |line| (line.command() == "finalize_ack").then_some(()))
    }

    /// Says a line and reads the answer, which `read` understands or does not.
    fn ask<T>(&mut self, request: &str, expected: &'static str, what: &'static str, read: impl FnOnce(&Line<'_>) -> Option<T>) -> Result<T, Error> {
        self.wire.say(&format!("{request}\n"), self.timeout)?;
        self.hear(expected, what, read)
    }

    /// Reads an answer, which `read` understands or does not.
    fn hear<T>(&mut self, expected: &'static str, what: &'static str, read: impl FnOnce(&Line<'_>) -> Option<T>) -> Result<T, Error> {
        match self.read_line(Some(Instant::now() + self.timeout))? {
            Some(line) => check(&line, expected, read),
            None => Err(Error::Timeout { what, after: self.timeout }),
        }
    }

    /// The next line, or `None` at the deadline.
    fn read_line(&mut self, deadline: Option<Instant>) -> Result<Option<Vec<u8>>, Error> {
        let mut bytes = [0; 16 * 1024];
        loop {
            if let Some(line) = self.lines.next_line().map_err(|_| Error::protocol("a line of at most 96 KiB", b"more, without a newline"))? {
                return Ok(Some(line));
            }
            match rustix::io::read(&self.wire.fd, &mut bytes) {
                Ok(0) | Err(Errno::CONNRESET) => return Err(Error::LauncherGone),
                Ok(read) => self.lines.push(&bytes[..read]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if !self.wire.wait(PollFlags::IN, deadline)? {
                        return Ok(None);
                    }
                }
                Err(errno) => return Err(Error::os("reading from the launcher")(errno)),
            }
        }
    }
}

/// The value that was asked for, or that there is none.
fn got(line: &Line<'_>) -> Option<Option<String>> {
    let rc = line.number::<i32>("rc").filter(|_| line.command() == "get_result")?;
    if rc == 0 { line.get("value").map(|value| Some(value.to_owned())) } else { Some(None) }
}

fn check<T>(line: &[u8], expected: &'static str, read: impl FnOnce(&Line<'_>) -> Option<T>) -> Result<T, Error> {
    Line::parse(line).ok().as_ref().and_then(read).ok_or_else(|| Error::protocol(expected, line))
}

#[cfg(test)]
mod tests;
