// SPDX-License-Identifier: MIT OR Apache-2.0
//! Why a call of the engine failed. Data-path failures are completion statuses (`status.rs`), not
//! errors.

use crate::wire::LinkFailure;
use core::fmt;

/// The reason for which a call was refused. Each has one VIPL return code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Error {
    /// Caller: a handle, address, length or attribute is not valid.
    InvalidParameter,
    /// Local limit: out of a resource, or the object is in use.
    Resource,
    /// The deadline passed.
    Timeout,
    /// Peer: it refused the connection.
    Rejected,
    /// Caller or peer: reliability levels do not agree or are not supported.
    InvalidReliability,
    /// Caller or peer: maximum transfer sizes do not agree or are not supported.
    InvalidMtu,
    /// Caller: no such protection tag.
    InvalidPtag,
    /// Caller: RDMA read is not possible with these attributes.
    InvalidRdmaRead,
    /// Caller: the object is not in a state that allows this.
    InvalidState,
    /// Peer: nobody waits for this address and discriminator.
    NoMatch,
    /// A process of another user of this host waits there, which this one does not allow.
    NotAllowedHere,
    /// The process that waits there is another user's, and does not allow this one.
    NotAllowedThere,
    /// No way to that host.
    NotReachable,
    /// The two sides do not have the keys that belong together: one of the reasons that
    /// [`LinkFailure::is_of_keys`](crate::wire::LinkFailure::is_of_keys) names.
    Key(LinkFailure),
    /// This engine does not do that.
    NotSupported,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::InvalidParameter => "a handle, address, length or attribute is not valid",
            Self::Resource => "out of a resource, or the object is still in use",
            Self::Timeout => "the deadline passed",
            Self::Rejected => "the peer refused the connection",
            Self::InvalidReliability => "reliability levels do not agree or are not supported",
            Self::InvalidMtu => "maximum transfer sizes do not agree or are not supported",
            Self::InvalidPtag => "no such protection tag",
            Self::InvalidRdmaRead => "RDMA read needs a reliable level",
            Self::InvalidState => "not in a state that allows this",
            Self::NoMatch => "nobody waits for this address and discriminator",
            Self::NotAllowedHere => "another user's process waits there: name that user in BELLWIRE_ALLOW of this process, or several users wait",
            Self::NotAllowedThere => "another user's process waits there: name this user in BELLWIRE_ALLOW of that process, or give both UDP",
            Self::NotReachable => "no way to that host",
            Self::Key(failure) => failure.text(),
            Self::NotSupported => "not supported",
        })
    }
}

impl std::error::Error for Error {}
