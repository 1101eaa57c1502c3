// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which mapping, and how many credits: what the environment says.

use crate::head::{HEAD_BYTES_MAX, Kind, MESSAGE_BYTES_MAX};

/// A mapping of Active Messages to VIs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mapping {
    /// Three VIs for a pair of endpoints, by size; all by send and receive.
    V1,
    /// One VI; all by RDMA write with immediate data, into memory that the sender manages.
    V2,
    /// One VI, send and receive for messages, RDMA write for bulk data.
    V3,
}

/// A VI of a pair of endpoints: requests that may be out, and bytes of the longest message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Shape {
    pub credits: usize,
    pub bytes: usize,
    /// Longest messages that the ring has room for; 0: there is no ring, but buffers.
    pub longest: usize,
}

impl Shape {
    fn buffers(credits: usize, bytes: usize) -> Self {
        Self { credits, bytes, longest: 0 }
    }
}

/// Requests that may be out to each endpoint, if the environment says nothing.
pub const CREDITS_DEFAULT: u16 = 8;
/// Most of them.
pub const CREDITS_MAX: u16 = 256;

impl Mapping {
    /// The VIs of a pair of endpoints with so many credits: in v1 for short messages, mediums and
    /// bulk, the more credits the shorter. In v2 the memory of so many of the longest messages is
    /// for more of those that are shorter.
    pub(crate) fn shapes(self, credits: u32) -> Vec<Shape> {
        let credits = credits as usize;
        match self {
            Self::V1 => vec![
                Shape::buffers(4 * credits, HEAD_BYTES_MAX),
                Shape::buffers(credits, MESSAGE_BYTES_MAX),
                Shape::buffers(credits.div_ceil(4), MESSAGE_BYTES_MAX),
            ],
            Self::V2 => vec![Shape { credits: 4 * credits, bytes: MESSAGE_BYTES_MAX, longest: credits }],
            Self::V3 => vec![Shape::buffers(credits, MESSAGE_BYTES_MAX)],
        }
    }

    /// The VI on which a request leaves, and so its answer.
    pub(crate) fn lane(self, kind: Kind) -> usize {
        match (self, kind) {
            (Self::V1, Kind::Medium) => 1,
            (Self::V1, Kind::Xfer | Kind::Get | Kind::Piece | Kind::Fetch) => 2,
            _ => 0,
        }
    }

    /// Whether bulk data goes by RDMA write, or in pieces in messages.
    pub(crate) fn writes(self) -> bool {
        self != Self::V1
    }

    /// Whether requests and answers leave by the same memory. Then no request takes that for which
    /// an answer waits.
    pub(crate) fn shares_room(self) -> bool {
        self == Self::V2
    }

    pub(crate) fn number(self) -> u8 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }
}

/// The mapping and the number of credits that `BELLWIRE_AM` and `BELLWIRE_AM_CREDITS` ask for.
/// `None` stands for Bellwire's own layer.
///
/// # Errors
/// A text for people says which variable is wrong, and which values it may have.
pub fn from_env() -> Result<Option<(Mapping, u16)>, String> {
    let value = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    parse(value("BELLWIRE_AM").as_deref(), value("BELLWIRE_AM_CREDITS").as_deref())
}

fn parse(mapping: Option<&str>, credits: Option<&str>) -> Result<Option<(Mapping, u16)>, String> {
    let mapping = match mapping {
        None | Some("" | "native") => return Ok(None),
        Some("v1") => Mapping::V1,
        Some("v2") => Mapping::V2,
        Some("v3") => Mapping::V3,
        Some(other) => return Err(format!("BELLWIRE_AM={other}: native, v1, v2 or v3 is possible")),
    };
    let credits = match credits {
        None | Some("") => CREDITS_DEFAULT,
        Some(text) => {
            let number = text.parse::<u16>().ok().filter(|n| (1..=CREDITS_MAX).contains(n));
            number.ok_or_else(|| format!("BELLWIRE_AM_CREDITS={text}: 1 to {CREDITS_MAX} is possible"))?
        }
    };
    Ok(Some((mapping, credits)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_is_read() {
        assert_eq!(parse(None, Some("nonsense")), Ok(None), "native has credits of its own");
        assert_eq!(parse(Some("v3"), None), Ok(Some((Mapping::V3, CREDITS_DEFAULT))));
        assert_eq!(parse(Some("v3"), Some("64")), Ok(Some((Mapping::V3, 64))));
        assert_eq!(parse(Some("v2"), Some("1")), Ok(Some((Mapping::V2, 1))));
        for (mapping, credits) in [("v4", "8"), ("V3", "8"), ("v3", "0"), ("v3", "257"), ("v3", "-1")] {
            assert!(parse(Some(mapping), Some(credits)).is_err(), "{mapping} {credits}");
        }
    }
}
