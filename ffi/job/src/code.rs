// SPDX-License-Identifier: MIT OR Apache-2.0
//! Return codes: the table from errors to `BW_JOB_ERR_..`, and the wall that panics do not pass.

use std::ffi::{CString, c_int};

use bellwire_job::Error;

use crate::REASON;

/// A code of the header, and its reason.
#[derive(Debug)]
pub(crate) struct Failure {
    pub code: c_int,
    pub reason: String,
}

impl Failure {
    pub(crate) const NOT_JOINED: Self = Self { code: 2, reason: String::new() };

    pub(crate) fn argument(reason: impl Into<String>) -> Self {
        Self { code: 1, reason: reason.into() }
    }

    pub(crate) fn space(reason: impl Into<String>) -> Self {
        Self { code: 8, reason: reason.into() }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match &error {
            Error::TooLong { .. } | Error::BadKey(_) | Error::NoSuchRank { .. } | Error::WrongMoment(_) => 1,
            Error::Environment(_) | Error::JoinedBefore => 3,
            Error::Protocol { .. } | Error::Refused { .. } => 4,
            Error::Timeout { .. } => 5,
            Error::LauncherGone => 6,
            Error::NotFound { .. } => 7,
            // Os, and what may be added.
            _ => 9,
        };
        Self { code, reason: error.to_string() }
    }
}

/// Runs the body of a C function; keeps the reason of a failure for `bw_job_error`.
pub(crate) fn call(body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    // A panic must not unwind into C. Releases abort at once.
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
    let failure = match outcome {
        Ok(Ok(())) => return 0,
        Ok(Err(Failure { code: 2, .. })) => Failure { code: 2, reason: "bw_job_join has not been called, or has failed".to_owned() },
        Ok(Err(failure)) => failure,
        Err(_) => Failure { code: 9, reason: "an internal error, reported on standard error".to_owned() },
    };
    // Zero bytes, which no message has, would be the only obstacle.
    let text = CString::new(failure.reason).unwrap_or_default();
    let _ = REASON.try_with(|reason| *reason.borrow_mut() = text);
    failure.code
}
