// SPDX-License-Identifier: MIT OR Apache-2.0
//! The record of a request that is out, and the message that its sender gets if it comes back.

use crate::name::Name;
use bellwire_am::{ARGS_MAX, Error, Operation, Status};

/// Whether a request is one of those that v1 makes of one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cut {
    /// It is not, or it is one of a get behind the first.
    No,
    /// The first one of a get.
    First,
    /// It fetches a part of a reply.
    Fetch,
}

/// A request that is out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    /// Entry of the table, and the name there.
    pub index: u32,
    pub destination: Name,
    /// The tag that it carries.
    pub tag: u64,
    pub operation: Operation,
    pub handler: u8,
    pub arg_count: u8,
    pub args: [i32; ARGS_MAX],
    pub source: usize,
    pub length: usize,
    pub offset: u64,
    pub cut: Cut,
    /// It has come back; the slot waits for the answer.
    pub is_abandoned: bool,
}

impl Record {
    pub(crate) fn new(index: u32, destination: Name, operation: Operation, handler: u8, args: &[i32]) -> Result<Self, Error> {
        if handler == 0 || args.len() > ARGS_MAX {
            return Err(Error::BadArgument);
        }
        let mut copy = [0; ARGS_MAX];
        copy[..args.len()].copy_from_slice(args);
        let arg_count = args.len() as u8;
        Ok(Self { index, destination, tag: 0, operation, handler, arg_count, args: copy, source: 0, length: 0, offset: 0, cut: Cut::No, is_abandoned: false })
    }

    pub(crate) fn returned(&self, end: &End) -> Returned {
        Returned {
            status: end.status,
            has_left: end.has_left,
            why: end.why(),
            operation: self.operation,
            index: self.index,
            destination: self.destination,
            handler: self.handler,
            arg_count: self.arg_count,
            args: self.args,
            source: self.source,
            length: self.length,
            offset: self.offset,
        }
    }
}

/// Why messages of a connection come back.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct End {
    pub status: Status,
    /// The peer has ended the connection on purpose.
    pub has_left: bool,
    /// More for people, or nothing.
    pub text: String,
}

impl End {
    fn why(&self) -> String {
        if self.text.is_empty() { self.status.text().to_owned() } else { format!("{}: {}", self.status.text(), self.text) }
    }
}

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self { status, has_left: false, text: String::new() }
    }
}

/// A message that came back: all of it but the payload of a medium, of which only the place is
/// known.
#[derive(Clone, Debug)]
pub struct Returned {
    /// Why.
    pub status: Status,
    /// The peer has ended the connection on purpose.
    pub has_left: bool,
    /// Why, for people.
    pub why: String,
    /// What it was.
    pub operation: Operation,
    /// Entry of the translation table.
    pub index: u32,
    /// The name there.
    pub destination: Name,
    /// Its handler.
    pub handler: u8,
    /// How many arguments.
    pub arg_count: u8,
    /// Its arguments.
    pub args: [i32; ARGS_MAX],
    /// Address of the payload in the sender's memory, as it was given.
    pub source: usize,
    /// Bytes of payload.
    pub length: usize,
    /// Bulk: the offset in the receiver's segment. Get: the offset in its segment.
    pub offset: u64,
}

/// A connection that has ended, for good.
#[derive(Clone, Copy, Debug)]
pub struct Departed {
    /// The peer.
    pub name: Name,
}

/// Why a receiver says that it has refused a request; it cannot have refused it for other reasons
/// than these.
pub(crate) fn status_from(bits: u8) -> Status {
    match Status::from_bits(bits) {
        status @ (Status::BadTag | Status::BadHandler | Status::BadSegmentOffset | Status::BadLength) => status,
        _ => Status::BadEndpoint,
    }
}
