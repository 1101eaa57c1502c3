// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion status and control bits of a descriptor, with the values of the VIA specification.

bitflags::bitflags! {
    /// `CS.Status`: the outcome of a descriptor.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Status: u32 {
        /// Completed, with or without error.
        const DONE = 0x1;
        /// The descriptor is malformed.
        const FORMAT_ERROR = 0x2;
        /// A local segment is not covered by a region with the VI's tag.
        const PROTECTION_ERROR = 0x4;
        /// Too long: for the receive descriptor, or for the maximum transfer size.
        const LENGTH_ERROR = 0x8;
        /// Partly done when the connection broke.
        const PARTIAL_ERROR = 0x10;
        /// Not done: the queue was flushed.
        const FLUSHED = 0x20;
        /// The wire failed.
        const TRANSPORT_ERROR = 0x40;
        /// The remote address, handle or right was refused.
        const RDMA_PROTECTION_ERROR = 0x80;
        /// The peer had a bad or no receive descriptor.
        const REMOTE_DESCRIPTOR_ERROR = 0x100;
        /// Receive, by a send of the peer.
        const OP_RECEIVE = 0x1_0000;
        /// RDMA write.
        const OP_RDMA_WRITE = 0x2_0000;
        /// Receive, by an RDMA write with immediate data of the peer.
        const OP_REMOTE_RDMA_WRITE = 0x3_0000;
        /// RDMA read.
        const OP_RDMA_READ = 0x4_0000;
        /// Immediate data is valid.
        const IMMEDIATE = 0x8_0000;
    }
}

impl Status {
    /// All error bits.
    pub const ERRORS: Self = Self::from_bits_retain(0x1fe);

    /// Whether any error bit is set.
    #[inline]
    pub const fn is_error(self) -> bool {
        self.bits() & Self::ERRORS.bits() != 0
    }
}

/// What a send-side request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Operation {
    /// Send to the peer's next receive descriptor.
    Send = 0,
    /// Write the peer's memory.
    RdmaWrite = 1,
    /// Read the peer's memory.
    RdmaRead = 2,
}

impl Operation {
    /// The operation's bits in a send-side status.
    #[inline]
    pub const fn status(self) -> Status {
        match self {
            Self::Send => Status::empty(),
            Self::RdmaWrite => Status::OP_RDMA_WRITE,
            Self::RdmaRead => Status::OP_RDMA_READ,
        }
    }
}

bitflags::bitflags! {
    /// How a request is to be done.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub struct WorkFlags: u8 {
        /// Carries 32 bits of immediate data.
        const IMMEDIATE = 0x1;
        /// Not before all earlier RDMA reads of the VI are done (VIA's queue fence).
        const FENCE = 0x2;
        /// No completion when it succeeds.
        const UNSIGNALED = 0x4;
        /// The data was copied at post.
        const INLINE = 0x8;
    }
}
