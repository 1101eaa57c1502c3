// SPDX-License-Identifier: MIT OR Apache-2.0
//! What can go wrong while measuring. Errors are text for people: a failed measurement is reported beside the others, never hidden.

use std::fmt;

use serde::Serialize;

/// Why a measurement has no figure.
#[derive(Debug, Clone, PartialEq, Eq)]

pub enum Error {
    /// The library, the machine or a peer does not offer what this measurement needs; not a failure.
    Unsupported(String),
    /// The measurement was tried and went wrong.
    Failed(String),
}

impl Error {
    /// A failure, described.
    pub fn failed(text: impl Into<String>) -> Self {
        Error::Failed(text.into())
    }

    /// Something that is not offered here, described.
    pub fn unsupported(text: impl Into<String>) -> Self {
        Error::Unsupported(text.into())
    }

    /// The same error with what was being done in front of it.
    pub fn within(self, what: &str) -> Self {
        match self {
            Error::Unsupported(text) => Error::Unsupported(format!("{what}: {text}")),
            Error::Failed(text) => Error::Failed(format!("{what}: {text}")),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Unsupported(text) => write!(f, "not available: {text}"),
            Error::Failed(text) => f.write_str(text),
        }
    }
}

impl std::error::Error for Error {}

impl From<std::io::Error> for Error {
    fn from(error: std::io::Error) -> Self {
        Error::Failed(error.to_string())
    }
}

impl From<rustix::io::Errno> for Error {
    fn from(error: rustix::io::Errno) -> Self {
        Error::Failed(std::io::Error::from(error).to_string())
    }
}

impl From<String> for Error {
    fn from(text: String) -> Self {
        Error::Failed(text)
    }
}

/// A document as JSON text for machines, with a line's end.
///
/// # Errors
/// If a figure cannot be written, which would be a programming error.
pub fn json_text(document: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string_pretty(document).map(|text| text + "\n").map_err(|error| Error::failed(error.to_string()))
}

/// Without control characters: a value may come from another process.
pub fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
