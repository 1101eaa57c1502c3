// SPDX-License-Identifier: MIT OR Apache-2.0
//! Return codes: `VIP_RETURN`, the table from the engine's errors to them, and the wall that panics
//! do not pass.

use bellwire_via::Error;

/// `VIP_RETURN`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
#[allow(dead_code)] // The whole enumeration of the header, used or not.
pub(crate) enum VipReturn {
    Success = 0,
    NotDone = 1,
    InvalidParameter = 2,
    ErrorResource = 3,
    Timeout = 4,
    Reject = 5,
    InvalidReliabilityLevel = 6,
    InvalidMtu = 7,
    InvalidQos = 8,
    InvalidPtag = 9,
    InvalidRdmaRead = 10,
    DescriptorError = 11,
    InvalidState = 12,
    ErrorNameService = 13,
    NoMatch = 14,
    NotReachable = 15,
    ErrorNotSupported = 16,
}

impl From<Error> for VipReturn {
    #[cold]
    fn from(error: Error) -> Self {
        match error {
            Error::InvalidParameter => Self::InvalidParameter,
            Error::Resource => Self::ErrorResource,
            Error::Timeout => Self::Timeout,
            Error::Rejected => Self::Reject,
            Error::InvalidReliability => Self::InvalidReliabilityLevel,
            Error::InvalidMtu => Self::InvalidMtu,
            Error::InvalidPtag => Self::InvalidPtag,
            Error::InvalidRdmaRead => Self::InvalidRdmaRead,
            Error::InvalidState => Self::InvalidState,
            Error::NoMatch | Error::NotAllowedHere | Error::NotAllowedThere => Self::NoMatch,
            Error::NotReachable | Error::Key(_) => Self::NotReachable,
            Error::NotSupported => Self::ErrorNotSupported,
            // The enum may grow.
            _ => Self::ErrorResource,
        }
    }
}

/// Result of what a C function does; `Err` is any code but `VIP_SUCCESS`.
pub(crate) type Outcome = Result<(), VipReturn>;

/// Runs the body of a C function.
#[cfg(panic = "abort")]
#[inline(always)]
pub(crate) fn guard(body: impl FnOnce() -> VipReturn) -> VipReturn {
    body()
}

/// Runs the body of a C function; a panic, which must not unwind into C, becomes a code.
#[cfg(panic = "unwind")]
pub(crate) fn guard(body: impl FnOnce() -> VipReturn) -> VipReturn {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(VipReturn::ErrorResource)
}

/// Runs the body of a C function that stops at the first error.
#[inline(always)]
pub(crate) fn call(body: impl FnOnce() -> Outcome) -> VipReturn {
    guard(|| code(body()))
}

/// As [`call`], for a call that sets something up: it is noted if this process is traced.
#[inline]
pub(crate) fn traced(name: &str, arguments: [usize; 2], body: impl FnOnce() -> Outcome) -> VipReturn {
    bellwire_trace::call::call(name, arguments.map(|a| a as u64), || call(body))
}

impl bellwire_trace::call::Outcome for VipReturn {
    fn word(&self) -> u64 {
        *self as u64
    }
}

#[inline(always)]
pub(crate) fn code(outcome: Outcome) -> VipReturn {
    match outcome {
        Ok(()) => VipReturn::Success,
        Err(code) => code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_has_its_code() {
        let table = [
            (Error::InvalidParameter, 2),
            (Error::Resource, 3),
            (Error::Timeout, 4),
            (Error::Rejected, 5),
            (Error::InvalidReliability, 6),
            (Error::InvalidMtu, 7),
            (Error::InvalidPtag, 9),
            (Error::InvalidRdmaRead, 10),
            (Error::InvalidState, 12),
            (Error::NoMatch, 14),
            (Error::NotAllowedHere, 14),
            (Error::NotAllowedThere, 14),
            (Error::NotReachable, 15),
            (Error::Key(bellwire_via::wire::LinkFailure::KeyOther), 15),
            (Error::NotSupported, 16),
        ];
        for (error, code) in table {
            assert_eq!(VipReturn::from(error) as i32, code, "{error}");
        }
    }

    #[test]
    #[cfg(panic = "unwind")]
    fn a_panic_is_a_code() {
        assert_eq!(call(|| panic!("on purpose")), VipReturn::ErrorResource);
    }
}
