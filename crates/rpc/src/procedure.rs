// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names and types of procedures, which caller and server have in common.

use crate::codec::{Codec, signature};
use core::marker::PhantomData;

/// Longest name of a procedure, bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// A procedure's name and types, in a place that both sides see:
/// `const ADD: Procedure<[u32; 2], u32> = Procedure::new("add", 1);`
///
/// Names travel in full when a caller first uses them at a peer, so no two can be confused; of the
/// types a hash is compared. The version is for changes of meaning that types do not show.
#[derive(Debug)]
pub struct Procedure<A, R> {
    name: &'static str,
    signature: Signature,
    types: PhantomData<fn(A) -> R>,
}

impl<A: Codec, R: Codec> Procedure<A, R> {
    /// A procedure that takes `A` and gives `R`.
    pub const fn new(name: &'static str, version: u32) -> Self {
        let types = signature(b"->", &[A::SIGNATURE, R::SIGNATURE, version as u64]);
        Self { name, signature: Signature(types), types: PhantomData }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Its types and version.
    pub fn signature(&self) -> Signature {
        self.signature
    }
}

/// Types and version of a procedure, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature(pub u64);
