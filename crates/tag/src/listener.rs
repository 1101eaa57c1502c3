// SPDX-License-Identifier: MIT OR Apache-2.0
//! The user of an endpoint, as it hears the users of others.

use crate::completion::Failure;
use crate::name::Name;

/// The conclusion from the words of a peer's user, or from its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Nothing,
    /// The program calls it by this number from now on; and there is nothing more to say to the
    /// other one, through which it was found.
    Known(u64, Option<Name>),
    /// The program does not know it any more, and gets back the receives that it has posted.
    Over,
}

/// Hears what the users of other endpoints say ([`Endpoint::say`](crate::Endpoint::say)), and how
/// the connections on which they say it stand. It is asked while the endpoint is locked, by the
/// program's thread or by the NIC's helper: it must not call the endpoint.
pub trait Listener: Send {
    /// The user of another endpoint has said something. The words are another process's: anything.
    fn said(&mut self, from: Name, words: &[u8]) -> Verdict;

    /// The connection to this peer is there, and what has waited for it to be said is said.
    fn reached(&mut self, peer: Name);

    /// There is no connection to this peer any more, or none could be made.
    fn lost(&mut self, peer: Name, failure: Failure) -> Verdict;
}
