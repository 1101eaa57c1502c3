// SPDX-License-Identifier: MIT OR Apache-2.0
//! The calls of a process that is traced, noted. Whether it is, is asked when a bundle is made.

use crate::types::code;
use bellwire_am::{EndpointId, Error, Operation};
use bellwire_trace::{Kind, here};

/// A request, or a get.
pub(crate) struct Asked {
    pub endpoint: EndpointId,
    pub index: u32,
    pub handler: u8,
    pub bytes: usize,
    pub operation: Operation,
}

/// What a call came to.
fn word(outcome: &Result<(), Error>) -> u64 {
    u64::from(code(*outcome).unsigned_abs())
}

impl Asked {
    /// Makes the call and notes it.
    #[cold]
    #[inline(never)]
    pub(crate) fn noted(&self, call: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
        let endpoint = self.endpoint.raw();
        here::note_more(Kind::AmCall, endpoint, [self.index.into(), self.bytes as u64], &[self.operation as u64, self.handler.into()]);
        let outcome = call();
        here::note(Kind::AmCallEnd, endpoint, [word(&outcome), 0]);
        outcome
    }
}

/// Makes a reply and notes it.
#[cold]
#[inline(never)]
pub(crate) fn reply((operation, handler, bytes): (Operation, u8, usize), call: impl FnOnce() -> Result<(), Error>) -> Result<(), Error> {
    here::note_more(Kind::AmReply, 0, [handler.into(), bytes as u64], &[operation as u64]);
    let outcome = call();
    here::note(Kind::AmReplyEnd, 0, [word(&outcome), 0]);
    outcome
}

/// Runs a handler and notes it, of layers that do not tell of them.
pub(crate) fn handler(endpoint: EndpointId, index: u8, run: impl FnOnce()) {
    let endpoint = endpoint.raw();
    here::note(Kind::AmHandler, endpoint, [index.into(), 0]);
    run();
    here::note(Kind::AmHandlerEnd, endpoint, [0; 2]);
}
