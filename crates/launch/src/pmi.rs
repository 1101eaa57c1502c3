// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connections of the PMI-1 server: bytes to lines and back. [`bellwire_job::pmi::server`]
//! decides the answers.

use std::os::unix::net::UnixStream;

use bellwire_job::pmi::line::LineBuffer;
use bellwire_job::pmi::server::{Effect, Server};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

/// A process that does not read its answers is not asked for more requests from here on.
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

    /// Moves what can be moved on a connection. Returns what is to be done by others: everything
    /// but replies.
    pub(crate) fn turn(&mut self, rank: usize) -> Vec<Effect> {
        let mut others = Vec::new();
        // Lines left while the process had answers to read go first.
        self.hear(rank, &mut others);
        if self.read(rank) {
            self.hear(rank, &mut others);
        }
        others
    }

    /// A process has ended: what it said before is heard first.
    pub(crate) fn ended(&mut self, rank: usize) -> Vec<Effect> {
        let mut others = Vec::new();
        self.write(rank);
        self.hear(rank, &mut others);
        while self.read(rank) {
            self.hear(rank, &mut others);
        }
        self.connections[rank].stream = None;
        let mut effects = Vec::new();
        self.server.handle_gone(rank as u32, &mut effects);
        self.answer(rank, effects, &mut others);
        others
    }

    /// Reads once, unless the process has answers to read first; whether something came.
    fn read(&mut self, rank: usize) -> bool {
        let mut bytes = [0; 16 * 1024];
        let connection = &mut self.connections[rank];
        let Some(stream) = connection.stream.as_ref().filter(|_| connection.unread.len() < UNREAD_MAX_BYTES) else { return false };
        match recv(stream, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((0, _)) | Err(Errno::CONNRESET) => connection.stream = None,
            Ok((read, _)) => {
                connection.lines.push(&bytes[..read]);
                return true;
            }
            Err(_) => {}
        }
        false
    }

    /// Answers the lines that were read, as long as the process reads its answers: the data kept
    /// for it are bounded by the limit and one answer more.
    fn hear(&mut self, rank: usize, others: &mut Vec<Effect>) {
        let mut is_more = true;
        while is_more && self.connections[rank].unread.len() < UNREAD_MAX_BYTES {
            is_more = self.hear_some(rank, others);
            self.write(rank);
        }
    }

    /// The same without sending; whether lines are left.
    fn hear_some(&mut self, rank: usize, others: &mut Vec<Effect>) -> bool {
        while self.connections[rank].unread.len() < UNREAD_MAX_BYTES {
            match self.connections[rank].lines.next_line() {
                Ok(Some(line)) => {
                    let mut effects = Vec::new();
                    self.server.handle_line(rank as u32, &line, &mut effects);
                    self.answer(rank, effects, others);
                }
                Ok(None) => return false,
                Err(why) => {
                    self.connections[rank].stream = None;
                    others.push(Effect::Nonsense { rank: rank as u32, why: format!("{why}, where a line of PMI-1 was expected") });
                    return false;
                }
            }
        }
        true
    }

    /// Keeps replies for who they are for; those to others than the one who spoke are sent at once.
    fn answer(&mut self, speaker: usize, effects: Vec<Effect>, others: &mut Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::Reply { rank, line } => {
                    self.connections[rank as usize].unread.extend_from_slice(line.as_bytes());
                    if rank as usize != speaker {
                        self.write(rank as usize);
                    }
                }
                other => others.push(other),
            }
        }
    }

    /// Sends what a process has not read, as far as it goes.
    pub(crate) fn write(&mut self, rank: usize) {
        let connection = &mut self.connections[rank];
        let Some(stream) = &connection.stream else { return connection.unread.clear() };
        if connection.unread.is_empty() {
            return;
        }
        match send(stream, &connection.unread, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(sent) => drop(connection.unread.drain(..sent)),
            Err(Errno::AGAIN | Errno::INTR) => {}
            // Its end is seen elsewhere.
            Err(_) => connection.unread.clear(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    /// A process that asks for much and reads nothing cannot fill the launcher's memory, and gets
    /// every answer when it reads.
    #[test]
    fn who_does_not_read_waits() {
        const REQUESTS: usize = 200;
        let value = "x".repeat(50_000);
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut pmi = Pmi::new("j", 1);
        pmi.add(ours);
        theirs.write_all(format!("cmd=init pmi_version=1\ncmd=put kvsname=j key=k value={value}\n").as_bytes()).unwrap();
        theirs.write_all("cmd=get kvsname=j key=k\n".repeat(REQUESTS).as_bytes()).unwrap();
        let (mut left, mut bytes) = (REQUESTS, vec![0; 1 << 20]);
        let mut answers = LineBuffer::default();
        theirs.set_nonblocking(true).unwrap();
        while left > 0 {
            for _ in 0..20 {
                assert!(pmi.turn(0).is_empty());
                assert!(pmi.connections[0].unread.len() < UNREAD_MAX_BYTES + value.len() + 100);
            }
            let read = theirs.read(&mut bytes).unwrap();
            answers.push(&bytes[..read]);
            while let Some(line) = answers.next_line().unwrap() {
                left -= usize::from(line.starts_with(b"cmd=get_result rc=0") && line.ends_with(value.as_bytes()));
            }
            pmi.write(0);
        }
        // It asks again, and goes.
        theirs.write_all("cmd=get kvsname=j key=k\n".repeat(REQUESTS).as_bytes()).unwrap();
        drop(theirs);
        assert!(pmi.ended(0).is_empty() && pmi.connections[0].unread.is_empty());
    }
}
