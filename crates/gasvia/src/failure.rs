// SPDX-License-Identifier: MIT OR Apache-2.0
//! Failures.

use std::ffi::c_int;

/// How a place was used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Access {
    /// A read or get.
    Get = 1,
    /// A write or put.
    Put,
    /// A store.
    Store,
}

impl Access {
    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Some(match bits {
            1 => Self::Get,
            2 => Self::Put,
            3 => Self::Store,
            _ => return None,
        })
    }
}

/// Why a request cannot be made, or has not been done.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failure {
    /// The connection to a process has ended, and why.
    Gone {
        /// Which.
        process: u32,
        /// For people; may be empty.
        why: String,
    },
    /// A process could not be connected to.
    Unreachable {
        /// Which.
        process: u32,
        /// For people.
        why: String,
    },
    /// A process has sent what cannot be.
    Misbehaved(u32),
    /// A place of a process cannot be used.
    Refused {
        /// Whose.
        process: u32,
        /// How it was to be used.
        access: Access,
        /// Why not, as that process's [`Memory`](crate::Memory) says.
        why: u8,
        /// Where.
        address: u64,
        /// Bytes.
        bytes: u64,
    },
    /// A call of the library: its name, and what it returned.
    Library(&'static str, c_int),
}

/// Why a call that waits has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop<E> {
    /// That.
    Failure(Failure),
    /// Its caller wanted it to.
    Beside(E),
}
