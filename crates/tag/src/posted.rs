// SPDX-License-Identifier: MIT OR Apache-2.0
//! Receives that are posted, and messages that nobody has asked for yet.

use crate::completion::{Completion, Notes};
use crate::connection::{ConnectionId, MultiId};
use crate::gather::{Gather, Piece, Place};
use crate::lent::Lent;

/// What an unexpected message costs beside its payload, about.
pub(crate) const ENVELOPE_BYTES: usize = 128;

bitflags::bitflags! {
    /// How to receive.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ReceiveFlags: u8 {
        /// Its success is not to be told.
        const SILENT = 1;
        /// The buffer is for several messages.
        const MULTI = 2;
    }
}

/// A receive that is posted.
#[derive(Debug)]
pub struct Receive {
    /// The program's name for it.
    pub context: usize,
    pub(crate) to: Place,
    pub(crate) flags: ReceiveFlags,
    pub(crate) multi: Option<MultiId>,
    /// Bytes of a multi-receive buffer that are taken.
    pub(crate) used: usize,
}

impl Receive {
    pub(crate) fn is_silent(&self) -> bool {
        self.flags.contains(ReceiveFlags::SILENT)
    }

    #[inline]
    pub(crate) fn notes(&self, tagged: bool) -> Notes {
        Notes::RECEIVE | if tagged { Notes::TAGGED } else { Notes::MESSAGE }
    }
}

/// What the program wants to receive.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Tagged messages, or those without.
    pub tagged: bool,
    /// From whom, as the program calls it; `None`: from anybody.
    pub source: Option<u64>,
    /// With which tag.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Where to. Invariant G1: writable until it is complete.
    pub to: Gather,
    /// The program's name for it.
    pub context: usize,
    /// How.
    pub flags: ReceiveFlags,
}

/// A receive of one piece for one message.
#[derive(Clone, Copy, Debug)]
pub struct WantOne {
    /// Tagged messages, or those without.
    pub tagged: bool,
    /// From whom, as the program calls it; `None`: from anybody.
    pub source: Option<u64>,
    /// With which tag.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
    /// Where to. Invariant G1: writable until it is complete.
    pub to: Piece,
    /// The program's name for it.
    pub context: usize,
    /// Its success is not to be told.
    pub silent: bool,
}

impl From<&WantOne> for Want {
    fn from(w: &WantOne) -> Self {
        let flags = if w.silent { ReceiveFlags::SILENT } else { ReceiveFlags::empty() };
        let (tagged, source, tag, ignore) = (w.tagged, w.source, w.tag, w.ignore);
        Self { tagged, source, tag, ignore, to: w.to.into(), context: w.context, flags }
    }
}

/// What a look at the unexpected messages is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// To know.
    Look,
    /// To set the message aside for a later receive with the same context.
    Claim,
    /// To drop it.
    Discard,
}

/// A receive that has found its message: where it goes.
#[derive(Debug)]
pub struct Matched {
    pub(crate) to: Gather,
    pub(crate) completion: Completion,
    pub(crate) multi: Option<MultiId>,
}

/// A message that nobody has asked for yet.
#[derive(Debug)]
pub(crate) struct Message {
    pub data: Option<u64>,
    pub body: Held,
}

/// Where it is.
#[derive(Debug)]
pub(crate) enum Held {
    /// Here; and who is to hear that it is matched.
    Here { payload: Box<[u8]>, answer: Option<(ConnectionId, u32)> },
    /// At its sender.
    Announced(Announced),
}

impl Message {
    pub(crate) fn len(&self) -> usize {
        match &self.body {
            Held::Here { payload, .. } => payload.len(),
            Held::Announced(announced) => announced.length,
        }
    }

    /// What it counts of what may be held unexpected.
    pub(crate) fn bytes_held(&self) -> usize {
        if let Held::Here { payload, .. } = &self.body { payload.len() + ENVELOPE_BYTES } else { 0 }
    }
}

/// A long message as its sender announced it.
#[derive(Debug)]
pub(crate) struct Announced {
    pub connection: ConnectionId,
    pub operation: u32,
    pub length: usize,
    /// The sender is to hear when all of it is here.
    pub answer: bool,
    /// Where it lies there, if it may be pulled.
    pub lent: Option<Box<Lent>>,
}
