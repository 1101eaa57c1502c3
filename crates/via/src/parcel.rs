// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an inbox holds: messages and notices that wait, and what a VI knows of its inbox. The calls
//! are in `inbox.rs`.

use crate::attributes::NetAddress;
use crate::cause::Cause;
use crate::error::Error;
use crate::handles::{InboxHandle, ViHandle};
use std::collections::VecDeque;

/// What happened to the connection of a VI with an inbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// An attempt ended: the peer's quality of service word, or why not.
    Connected(Result<u64, Error>),
    /// A request was accepted with this VI: the requester's quality of service word and address.
    Accepted(u64, Box<NetAddress>),
    /// The connection broke, and why.
    Broken(Cause),
}

#[derive(Debug)]
pub(crate) enum Parcel {
    Message(ViHandle, Vec<u8>),
    Notice(ViHandle, Notice),
}

impl Parcel {
    pub(crate) fn vi(&self) -> ViHandle {
        match self {
            Self::Message(vi, _) | Self::Notice(vi, _) => *vi,
        }
    }
}

/// An inbox.
#[derive(Debug)]
pub struct Inbox {
    pub(crate) waiting: VecDeque<Parcel>,
    pub(crate) spare: Vec<Vec<u8>>,
    /// Where the next look begins, among the links, and messages taken there in a row.
    pub(crate) cursor: usize,
    pub(crate) taken: u32,
    pub(crate) users: u32,
}

impl Inbox {
    /// An empty one, with room for so many messages. A program that takes messages as they come
    /// never makes the lists longer, so its polls allocate nothing.
    pub(crate) fn with_room(messages: usize) -> Self {
        Self { waiting: VecDeque::with_capacity(messages), spare: Vec::with_capacity(messages), cursor: 0, taken: 0, users: 0 }
    }
}

/// What a VI knows of its inbox.
#[derive(Debug)]
pub(crate) struct InboxEnd {
    pub(crate) inbox: InboxHandle,
    pub(crate) context: u64,
    pub(crate) limit: u32,
    /// Messages in the inbox.
    pub(crate) waiting: u32,
    /// The first pieces of a message, and its length.
    pub(crate) partial: Vec<u8>,
    pub(crate) total: u32,
}
