// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of the PMI-1 server: bytes to lines and back. What is said is decided by [`bellwire_job::pmi::server`].

use std::os::unix::net::UnixStream;

use bellwire_job::pmi::line::LineBuffer;
use bellwire_job::pmi::server::{Effect, Server};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// Who does not read its answers is not asked for more requests from here on.
const UNREAD_MAX_BYTES: usize = 1 << 20;

#[derive(Debug)]
struct Connection {
    /// `None` once the process has closed it.
    stream: Option<UnixStream>,
    lines: LineBuffer,
    unread: Vec<u8>,
}

/// All connections, and the server behind them.
#[derive(Debug)]
pub(crate) struct Pmi {
    server: Server,
    connections: Vec<Connection>,
}

impl Pmi {
    /// For a job with this name.
    pub(crate) fn new(name: &str, size: u32) -> Self {
        Self { server: Server::new(name, size), connections: Vec::new() }
    }

    /// The connection of the next process.
    pub(crate) fn add(&mut self, stream: UnixStream) {
        self.connections.push(Connection { stream: Some(stream), lines: LineBuffer::default(), unread: Vec::new() });
    }

    /// The stream of a process, if it is open.
    pub(crate) fn stream(&self, rank: usize) -> Option<&UnixStream> {
        self.connections[rank].stream.as_ref()
    }

    /// Whether the stream is to be watched for reading, and for writing.
    pub(crate) fn interest(&self, rank: usize) -> (bool, bool) {
        let unread = self.connections[rank].unread.len();
        (unread < UNREAD_MAX_BYTES, unread > 0)
    }

    /// Moves what can be moved on a connection. Returns what is to be done by others: everything but replies.
    pub(crate) fn turn(&mut self, rank: usize) -> Vec<Effect> {
        let mut effects = Vec::new();
        self.read(rank, &mut effects);
        self.answer(effects)
    }

    /// A process has ended: what it said before is heard first.
    pub(crate) fn ended(&mut self, rank: usize) -> Vec<Effect> {
        let mut effects = Vec::new();
        while self.read(rank, &mut effects) {}
        self.connections[rank].stream = None;
        self.server.handle_gone(rank as u32, &mut effects);
        self.answer(effects)
    }

    /// Keeps replies for who they are for, and sends what can be sent.
    fn answer(&mut self, effects: Vec<Effect>) -> Vec<Effect> {
        let mut others = Vec::new();
        for effect in effects {
            match effect {
                Effect::Reply { rank, line } => {
                    self.connections[rank as usize].unread.extend_from_slice(line.as_bytes());
                    self.write(rank as usize);
                }
                other => others.push(other),
            }
        }
        others
    }

    /// Reads once, unless the process has answers to read first; whether there may be more.
    fn read(&mut self, rank: usize, effects: &mut Vec<Effect>) -> bool {
        let mut bytes = [0; 16 * 1024];
        let connection = &mut self.connections[rank];
        if connection.unread.len() >= UNREAD_MAX_BYTES {
            return false;
        }
        let Some(stream) = &connection.stream else { return false };
        match recv(stream, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET) => {
                connection.stream = None;
                return false;
            }
            Ok((read, _)) => connection.lines.push(&bytes[..read]),
            Err(_) => return false,
        }
        loop {
            match self.connections[rank].lines.next_line() {
                Ok(Some(line)) => self.server.handle_line(rank as u32, &line, effects),
                Ok(None) => return true,
                Err(why) => {
                    self.connections[rank].stream = None;
                    effects.push(Effect::Nonsense { rank: rank as u32, why: format!("{why}, where a line of PMI-1 was expected") });
                    return false;
                }
            }
        }
    }

    /// Sends what a process has not read, as far as it goes.
    pub(crate) fn write(&mut self, rank: usize) {
        let connection = &mut self.connections[rank];
        let Some(stream) = &connection.stream else { return connection.unread.clear() };
        match send(stream, &connection.unread, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => drop(connection.unread.drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Its end is seen elsewhere.
            Err(_) => connection.unread.clear(),
        }
    }
}
