// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probes: where the time of a message goes, for a measuring program that asks with its own
//! [`Probe`] (`bellwire breakdown`).
//!
//! The calls of a message's way are generic over who watches. Programs call them with [`Off`], of
//! whose probes no code is left: as many instructions are executed as if they were not in the
//! source, but for a few that the compiler lays out in another way (`scripts/probes-off.sh`
//! counts). A probe marks the instant at which a step of the way is over; it is passed once by each
//! message that goes the usual way, and not by polls that find nothing, so that looking for
//! messages is as fast with probes as without.

pub use bellwire_trace::probe::{Off, Probe};

/// A step of a message's way that is over, in the order of a request and its reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Stage {
    /// Request: the bundle's lock and the NIC's token are held.
    Entered,
    /// The endpoint, the entry of its table and the connection are found.
    LookedUp,
    /// There is a credit, and nothing waits before this message.
    Allowed,
    /// Bulk: the data is in the peer's segment.
    Written,
    /// The message is put together.
    Built,
    /// It has left: the peer can see it.
    Sent,
    /// It is noted, to be returned if need be, and counted.
    Noted,
    /// Receiver: there is a frame.
    Found,
    /// The message is taken from the wire.
    Taken,
    /// It is parsed and checked.
    Parsed,
    /// Reply: its credits are back.
    Credited,
    /// The endpoint, its tag and the handler are found.
    Chosen,
    /// Nothing is locked any more; the handler runs next.
    Handling,
    /// The handler has returned.
    Handled,
    /// It is back in its place, and the message is done with.
    Finished,
    /// Reply: the bundle's lock and the NIC's token are held.
    ReplyEntered,
    /// The reply is put together.
    ReplyBuilt,
    /// It has left.
    ReplySent,
    /// It is counted.
    ReplyNoted,
}

impl Stage {
    /// How many there are.
    pub const COUNT: usize = Self::ReplyNoted as usize + 1;
}

/// Says that a step is over. With `--cfg bellwire_unprobed` there is nothing in its place, for the
/// comparison with [`Off`].
macro_rules! mark {
    ($probe:ident, $stage:ident) => {{
        #[cfg(not(bellwire_unprobed))]
        if <$probe as crate::probe::Probe<crate::probe::Stage>>::IS_ON {
            $probe::mark(crate::probe::Stage::$stage);
        }
    }};
}
pub(crate) use mark;
