// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statistics of running processes' NICs: each NIC listens on the abstract UNIX socket
//! `bellwire/stat/<pid>/<nic>` and answers one byte with one JSON text. Used by `bellwire top` and
//! `bellwire info --peer`.
//!
//! The answer comes from another process, so nothing in it is believed: the socket's owner must be
//! the process in its name (the kernel says who it is), sizes and times are bounded, text is made
//! printable, fields that are not known are taken as counters, fields that are missing are zero.

pub mod answer;

use std::fs;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recv, send, socket_with};

use crate::error::Error;
pub use answer::{Cq, Link, Nic, Vi, Waits};

/// How long one NIC may take to answer.
pub const TIME_MAX: Duration = Duration::from_millis(300);
/// Longest answer that is taken, bytes.
pub const ANSWER_BYTES_MAX: usize = 4 << 20;
/// Most NICs that are asked.
pub const NICS_MAX: usize = 1024;
/// Beginning of the sockets' names.
const PREFIX: &str = "bellwire/stat/";

/// A NIC that can be asked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Process, as its socket's name says.
    pub pid: i32,
    /// Number of the NIC in that process.
    pub nic: u32,
    /// Whether the socket keeps message boundaries (`SOCK_SEQPACKET`).
    packets: bool,
}

impl Place {
    fn name(&self) -> String {
        format!("{PREFIX}{}/{}", self.pid, self.nic)
    }
}

/// What this process's first NIC tells of itself; nothing if its library is one that does not.
pub fn own() -> Nic {
    let own = find(Some(std::process::id() as i32));
    own.first().and_then(|place| ask(place, TIME_MAX).ok()).unwrap_or_default()
}

/// NICs that listen, of one process or of all, sorted. Nothing is asked yet.
pub fn find(pid: Option<i32>) -> Vec<Place> {
    listed(&unix_sockets(), pid)
}

/// The text of /proc/net/unix; empty if there is none.
pub(crate) fn unix_sockets() -> String {
    fs::read("/proc/net/unix").map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// Places in the text of /proc/net/unix: `Num RefCount Protocol Flags Type St Inode Path`; an
/// abstract name begins with `@`.
fn listed(table: &str, pid: Option<i32>) -> Vec<Place> {
    let mut places: Vec<Place> = table.lines().filter_map(place).filter(|place| pid.is_none_or(|pid| place.pid == pid)).collect();
    places.sort();
    places.dedup();
    places.truncate(NICS_MAX);
    places
}

fn place(line: &str) -> Option<Place> {
    let mut fields = line.split_whitespace();
    let kind = fields.nth(4)?;
    let path = fields.nth(2)?;
    let mut numbers = path.strip_prefix('@')?.strip_prefix(PREFIX)?.split('/');
    let (pid, nic) = (numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?);
    (numbers.next().is_none() && pid > 0).then_some(Place { pid, nic, packets: kind == "0005" })
}

/// Asks one NIC.
///
/// # Errors
/// If it does not answer in `time`, if the socket belongs to another process than it says, or if
/// the answer makes no sense.
pub fn ask(place: &Place, time: Duration) -> Result<Nic, Error> {
    answer::parse(&exchange(place, time)?)
}

fn exchange(place: &Place, time: Duration) -> Result<Vec<u8>, Error> {
    let deadline = Instant::now() + time;
    let socket = connected(place)?;
    send(&socket, b"?", SendFlags::NOSIGNAL)?;
    receive(place, &socket, deadline)
}

/// A connection to a NIC.
fn connected(place: &Place) -> Result<OwnedFd, Error> {
    let kind = if place.packets { SocketType::SEQPACKET } else { SocketType::STREAM };
    let socket = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    // Does not wait: a full queue of connections is EAGAIN.
    connect(&socket, &SocketAddrUnix::new_abstract_name(place.name().as_bytes())?)?;
    let owner = socket_peercred(&socket)?;
    if owner.pid.as_raw_nonzero().get() != place.pid {
        return Err(Error::failed("the socket belongs to another process than its name says"));
    }
    Ok(socket)
}

/// An answer.
fn receive(place: &Place, socket: &OwnedFd, deadline: Instant) -> Result<Vec<u8>, Error> {
    let mut text = Vec::new();
    let mut part = vec![0; if place.packets { ANSWER_BYTES_MAX } else { 64 << 10 }];
    loop {
        match recv(socket, part.as_mut_slice(), RecvFlags::empty()) {
            Ok((0, _)) => return Ok(text),
            Ok((count, _)) => text.extend_from_slice(&part[..count.min(part.len())]),
            Err(Errno::AGAIN) => await_input(socket, deadline)?,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        if text.len() > ANSWER_BYTES_MAX {
            return Err(Error::failed("the answer is too long"));
        }
        // A packet is whole; of a stream the end shows only by trying.
        if !text.is_empty() && (place.packets || is_whole(&text)) {
            return Ok(text);
        }
    }
}

/// A NIC that is traced for this process; that ends with this value.
#[derive(Debug)]
pub struct Traced(OwnedFd);

impl AsFd for Traced {
    /// It becomes readable when the NIC, or its process, has gone.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Has a NIC traced: its process's threads have files of `bytes` in `folder`, which must belong to
/// its user, with an absolute name. With `capture`, a text as `BELLWIRE_CAPTURE` has it, the NIC is
/// captured.
///
/// # Errors
/// Why its process does not, or as of [`ask`].
pub fn trace(place: &Place, folder: &Path, bytes: u64, capture: Option<&str>, time: Duration) -> Result<Traced, Error> {
    let folder = folder.to_str().ok_or_else(|| Error::failed("the folder's name is no UTF-8"))?;
    let socket = connected(place)?;
    let request = match capture {
        Some(capture) => format!("capture {bytes} {capture} {folder}\n"),
        None => format!("trace {bytes} {folder}\n"),
    };
    send(&socket, request.as_bytes(), SendFlags::NOSIGNAL)?;
    let text = receive(place, &socket, Instant::now() + time)?;
    let answer: serde_json::Value = serde_json::from_slice(&text).map_err(|_| Error::failed("the answer makes no sense"))?;
    match answer.get("error").and_then(serde_json::Value::as_str) {
        Some(why) => Err(Error::failed(crate::error::printable(why))),
        None if answer.get("traced").and_then(serde_json::Value::as_bool) == Some(true) => Ok(Traced(socket)),
        None => Err(Error::failed("its library is one of before there was bellwire trace --pid")),
    }
}

impl Traced {
    /// Ends it, and waits until it has ended.
    pub fn end(self, time: Duration) {
        let deadline = Instant::now() + time;
        if rustix::net::shutdown(&self.0, rustix::net::Shutdown::Write).is_ok() {
            while let Err(Errno::AGAIN | Errno::INTR) = recv(&self.0, &mut [0u8; 64][..], RecvFlags::empty()) {
                if await_input(&self.0, deadline).is_err() {
                    return;
                }
            }
        }
    }
}

fn is_whole(text: &[u8]) -> bool {
    text.trim_ascii_end().last() == Some(&b'}') && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_ok()
}

/// Waits until there is something to read.
pub(crate) fn await_input(socket: impl AsFd, deadline: Instant) -> Result<(), Error> {
    let left = deadline.saturating_duration_since(Instant::now());
    let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&time)) {
        Ok(0) => Err(Error::failed("no answer in time")),
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{accept, bind, listen};
    use std::thread::{JoinHandle, spawn};

    /// A NIC of this process that answers one question with `text`, or takes its time.
    fn server(nic: u32, kind: SocketType, text: Vec<u8>, delay: Duration) -> (Place, JoinHandle<()>) {
        let place = Place { pid: std::process::id() as i32, nic, packets: kind == SocketType::SEQPACKET };
        let listener = socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        bind(&listener, &SocketAddrUnix::new_abstract_name(place.name().as_bytes()).unwrap()).unwrap();
        listen(&listener, 4).unwrap();
        let thread = spawn(move || {
            let client = accept(&listener).unwrap();
            let mut byte = [0];
            let _ = recv(&client, &mut byte, RecvFlags::empty());
            std::thread::sleep(delay);
            for part in text.chunks(if kind == SocketType::STREAM { 7 } else { text.len().max(1) }) {
                if send(&client, part, SendFlags::NOSIGNAL).is_err() {
                    return;
                }
            }
            // The client ends the conversation.
            let _ = recv(&client, &mut byte, RecvFlags::empty());
        });
        (place, thread)
    }

    const TEXT: &str = r#"{"format":1,"pid":5,"mode":"mapped","vis":[{"vi":"0.1","sent":3}]}"#;

    #[test]
    fn both_kinds_of_socket_are_found_and_asked() {
        for (nic, kind) in [(901, SocketType::STREAM), (902, SocketType::SEQPACKET)] {
            let (place, thread) = server(nic, kind, TEXT.into(), Duration::ZERO);
            assert!(find(Some(place.pid)).contains(&place), "{place:?}");
            let answer = ask(&place, Duration::from_secs(5)).unwrap();
            assert_eq!((answer.mode.as_str(), answer.vis[0].sent), ("mapped", 3));
            thread.join().unwrap();
        }
    }

    #[test]
    fn who_does_not_answer_is_not_waited_for() {
        let (place, thread) = server(903, SocketType::STREAM, TEXT.into(), Duration::from_secs(2));
        let start = Instant::now();
        assert!(ask(&place, Duration::from_millis(50)).is_err());
        assert!(start.elapsed() < Duration::from_millis(1900));
        thread.join().unwrap();
        assert!(ask(&Place { nic: 904, ..place }, Duration::from_millis(50)).is_err());
    }

    #[test]
    fn an_endless_answer_ends() {
        let (place, thread) = server(905, SocketType::STREAM, vec![b'['; ANSWER_BYTES_MAX + 9], Duration::ZERO);
        assert!(ask(&place, Duration::from_secs(20)).unwrap_err().to_string().contains("too long"));
        thread.join().unwrap();
    }

    #[test]
    fn a_borrowed_name_is_noticed() {
        let (place, _waits_for_ever) = server(906, SocketType::STREAM, TEXT.into(), Duration::ZERO);
        // The same socket under a name that says another process.
        let listener = socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        let foreign = Place { pid: 1, ..place };
        if std::process::id() != 1 && bind(&listener, &SocketAddrUnix::new_abstract_name(foreign.name().as_bytes()).unwrap()).is_ok() {
            listen(&listener, 4).unwrap();
            assert!(ask(&foreign, Duration::from_millis(50)).unwrap_err().to_string().contains("another process"));
        }
    }

    #[test]
    fn only_names_that_fit_are_listed() {
        let table = "Num RefCount Protocol Flags Type St Inode Path\n\
            0: 2 0 10000 0005 01 1 @bellwire/stat/70/1\n0: 2 0 10000 0001 01 2 @bellwire/stat/8/0\n0: 2 0 10000 0001 01 2 @bellwire/stat/8/0\n\
            0: 2 0 10000 0001 01 3 @bellwire/stat/-8/0\n0: 2 0 10000 0001 01 4 @bellwire/stat/8/0/1\n0: 2 0 10000 0001 01 5 /tmp/bellwire/stat/8/0\n0: 2 0 10000 0001 01 6\n";
        let places = listed(table, None);
        assert_eq!(places, vec![Place { pid: 8, nic: 0, packets: false }, Place { pid: 70, nic: 1, packets: true }]);
        assert_eq!(listed(table, Some(70)).len(), 1);
    }
}
