// SPDX-License-Identifier: MIT OR Apache-2.0
//! The error codes of the SISCI specification.

use bellwire_memory::MemoryError;
use core::ffi::CStr;
use rustix::io::Errno;

macro_rules! errors {
    ($($name:ident = $code:literal, $symbol:literal, $text:literal;)*) => {
        /// Why a call failed. The value is that of `sisci_error.h`.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u32)]
        pub enum Error {
            $(#[doc = $text] $name = 0x4000_0000 | $code,)*
        }

        impl Error {
            /// All of them.
            pub const ALL: &[Error] = &[$(Error::$name,)*];

            /// The name in `sisci_error.h`, without `SCI_ERR_`.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $symbol,)* }
            }

            fn text(self) -> &'static CStr {
                match self { $(Self::$name => {
                    match CStr::from_bytes_with_nul(concat!("SCI_ERR_", $symbol, ": ", $text, "\0").as_bytes()) {
                        Ok(text) => text,
                        Err(_) => c"",
                    }
                })* }
            }
        }
    };
}

errors! {
    Busy = 0x900, "BUSY", "the object is in use; remove what uses it first";
    FlagNotImplemented = 0x901, "FLAG_NOT_IMPLEMENTED", "the flag is legal, but this library does not have what it asks for";
    IllegalFlag = 0x902, "ILLEGAL_FLAG", "a flag that this call does not have";
    NoSpace = 0x904, "NOSPC", "out of memory, descriptors or threads";
    ApiNoSpace = 0x905, "API_NOSPC", "out of handles";
    HardwareNoSpace = 0x906, "HW_NOSPC", "out of adapter resources";
    NotImplemented = 0x907, "NOT_IMPLEMENTED", "this library does not have the call";
    IllegalAdapter = 0x908, "ILLEGAL_ADAPTERNO", "the adapter number is out of range";
    NoSuchAdapter = 0x909, "NO_SUCH_ADAPTERNO", "there is no such adapter; the only one is 0";
    Timeout = 0x90A, "TIMEOUT", "the time is over";
    OutOfRange = 0x90B, "OUT_OF_RANGE", "offset and size lie outside the segment or the map";
    NoSuchSegment = 0x90C, "NO_SUCH_SEGMENT", "the node has no segment of this id";
    IllegalNodeId = 0x90D, "ILLEGAL_NODEID", "the node id is out of range";
    ConnectionRefused = 0x90E, "CONNECTION_REFUSED", "the owner refuses: not available, or of another user";
    SegmentNotConnected = 0x90F, "SEGMENT_NOT_CONNECTED", "the segment is not connected";
    SizeAlignment = 0x910, "SIZE_ALIGNMENT", "the size is not aligned as needed";
    OffsetAlignment = 0x911, "OFFSET_ALIGNMENT", "the offset is not aligned as needed";
    IllegalParameter = 0x912, "ILLEGAL_PARAMETER", "a handle that names nothing, a NULL pointer, or a value that means nothing";
    MaxEntries = 0x913, "MAX_ENTRIES", "the queue holds as many transfers as it can";
    SegmentNotPrepared = 0x914, "SEGMENT_NOT_PREPARED", "prepare the segment for the adapter first";
    IllegalAddress = 0x915, "ILLEGAL_ADDRESS", "the address is taken, or no memory of the program";
    IllegalOperation = 0x916, "ILLEGAL_OPERATION", "not in this state of the object";
    IllegalQuery = 0x917, "ILLEGAL_QUERY", "there is no such query";
    SegmentIdUsed = 0x918, "SEGMENTID_USED", "another segment of this node has the id";
    System = 0x919, "SYSTEM", "the operating system refuses";
    Cancelled = 0x91A, "CANCELLED", "the object was removed, or its callback has taken the event";
    NotConnected = 0x91B, "NOT_CONNECTED", "the connection is closed";
    NotAvailable = 0x91C, "NOT_AVAILABLE", "not available";
    InconsistentVersions = 0x91D, "INCONSISTENT_VERSIONS", "the peer has another version of this library";
    Race = 0x91E, "COND_INT_RACE_PROBLEM", "the flag was triggered since it was last looked at; look at what it tells of, then try again";
    Overflow = 0x91F, "OVERFLOW", "the data is longer than the buffer, or the count than its word";
    NotInitialized = 0x920, "NOT_INITIALIZED", "call SCIInitialize first, also in a forked child";
    Access = 0x921, "ACCESS", "access is not permitted";
    NotSupported = 0x922, "NOT_SUPPORTED", "needs hardware that is emulated nowhere here";
    Deprecated = 0x923, "DEPRECATED", "the call is no longer supported";
    WouldBlock = 0x924, "EWOULD_BLOCK", "the owner has not taken the data interrupts before; try again";
    NoSuchInterrupt = 0x925, "NO_SUCH_INTNO", "the node has no interrupt of this number";
    InterruptUsed = 0x926, "INTNO_USED", "another interrupt of this node has the number";
    NoSuchNodeId = 0xA00, "NO_SUCH_NODEID", "no address is known for the node; see BELLWIRE_SISCI_NODES";
    NodeNotResponding = 0xA02, "NODE_NOT_RESPONDING", "the node does not answer";
    NoRemoteLinkAccess = 0xA04, "NO_REMOTE_LINK_ACCESS", "the node cannot be reached";
    NoLinkAccess = 0xA05, "NO_LINK_ACCESS", "this host has no network";
    TransferFailed = 0xA06, "TRANSFER_FAILED", "the peer was lost during the transfer";
}

impl Error {
    /// The value of `sisci_error.h`.
    pub fn code(self) -> u32 {
        self as u32
    }

    /// A sentence for a code; any number has one.
    pub fn describe(code: u32) -> &'static CStr {
        if code == 0 {
            return c"SCI_ERR_OK: all is well";
        }
        Self::ALL.iter().find(|e| e.code() == code).map_or(c"not an error code of SISCI", |e| e.text())
    }
}

impl core::fmt::Display for Error {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(&self.text().to_string_lossy())
    }
}

impl std::error::Error for Error {}

impl From<MemoryError> for Error {
    fn from(error: MemoryError) -> Self {
        match error {
            MemoryError::NoMemory { .. } | MemoryError::Os { errno: Errno::NOMEM | Errno::MFILE | Errno::NFILE | Errno::FBIG, .. } => Self::NoSpace,
            MemoryError::OutOfBounds { .. } => Self::OutOfRange,
            MemoryError::BadLength { .. } => Self::SizeAlignment,
            MemoryError::ReadOnly => Self::Access,
            MemoryError::Os { errno: Errno::EXIST | Errno::INVAL | Errno::FAULT, .. } => Self::IllegalAddress,
            MemoryError::Os { errno: Errno::ACCESS | Errno::PERM, .. } => Self::Access,
            MemoryError::PeerClosed => Self::NotConnected,
            _ => Self::System,
        }
    }
}

impl From<bellwire_via::Error> for Error {
    fn from(error: bellwire_via::Error) -> Self {
        use bellwire_via::Error as Via;
        match error {
            Via::Resource => Self::NoSpace,
            Via::Timeout => Self::Timeout,
            Via::Rejected => Self::ConnectionRefused,
            Via::NoMatch => Self::NoSuchSegment,
            Via::NotReachable | Via::Key(_) => Self::NoRemoteLinkAccess,
            _ => Self::System,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_code_has_a_text_of_its_own() {
        for error in Error::ALL {
            let text = Error::describe(error.code()).to_str().unwrap();
            assert!(text.starts_with(&format!("SCI_ERR_{}: ", error.name())), "{text}");
            assert_eq!(error.code() & 0xFFFF_0000, 0x4000_0000);
        }
        assert!(Error::describe(0).to_bytes().starts_with(b"SCI_ERR_OK"));
        assert_eq!(Error::describe(1), Error::describe(u32::MAX));
    }
}
