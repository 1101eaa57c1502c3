// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls of the layers above queue pairs and virtual interfaces, by what is told of them together.

use std::collections::BTreeMap;

use super::times::Times;
use super::ways::Way;

/// Calls of one kind: to whom they went, and how large they were.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Class {
    /// The connection.
    pub connection: String,
    pub operation: String,
    /// The most bytes of the class; `None`: the call has none.
    pub most: Option<u64>,
}

/// The calls of a class, and how they went.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    pub count: u64,
    pub bytes: u64,
    pub ways: BTreeMap<Way, u64>,
    /// How long the calls took.
    pub calls: Times,
    /// From the call until the program has the completion, or the result.
    pub completions: Times,
    /// Calls that found no room, and were to be made again.
    pub refused: u64,
    pub failed: u64,
}
