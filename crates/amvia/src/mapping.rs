// SPDX-License-Identifier: MIT OR Apache-2.0
//! Which mapping, and how many credits: what the environment says.

/// A mapping of Active Messages to VIs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Mapping {
    /// One VI, send and receive for messages, RDMA write for bulk data.
    V3,
}

/// Requests that may be out to each endpoint, if the environment says nothing.
pub const CREDITS_DEFAULT: u16 = 8;
/// Most of them.
pub const CREDITS_MAX: u16 = 256;

impl Mapping {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::V3 => 3,
        }
    }
}

/// What `BELLWIRE_AM` and `BELLWIRE_AM_CREDITS` ask for; `None`: the native one.
///
/// # Errors
/// What is wrong with them.
pub fn from_env() -> Result<Option<(Mapping, u16)>, String> {
    let value = |name: &str| std::env::var_os(name).map(|value| value.to_string_lossy().into_owned());
    parse(value("BELLWIRE_AM").as_deref(), value("BELLWIRE_AM_CREDITS").as_deref())
}

fn parse(mapping: Option<&str>, credits: Option<&str>) -> Result<Option<(Mapping, u16)>, String> {
    let mapping = match mapping {
        None | Some("" | "native") => return Ok(None),
        Some("v3") => Mapping::V3,
        Some(other) => return Err(format!("BELLWIRE_AM={other}: native or v3 is possible")),
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
        for (mapping, credits) in [("v4", "8"), ("V3", "8"), ("v3", "0"), ("v3", "257"), ("v3", "-1")] {
            assert!(parse(Some(mapping), Some(credits)).is_err(), "{mapping} {credits}");
        }
    }
}
