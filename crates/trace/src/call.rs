// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that set something up: each asks whether it is traced, which is a load in a call of
//! microseconds. (Calls of the data path do not ask; see decision 45.)

use crate::here;
use crate::kinds::Kind;

/// What a call gives back, as a word.
pub trait Outcome {
    /// The word.
    fn word(&self) -> u64;
}

impl Outcome for i32 {
    fn word(&self) -> u64 {
        i64::from(*self).cast_unsigned()
    }
}

impl<T> Outcome for *mut T {
    fn word(&self) -> u64 {
        self.addr() as u64
    }
}

/// Makes a call, and notes when it began, with what and how it ended, if this process is traced.
#[inline]
pub fn call<R: Outcome>(name: &str, arguments: [u64; 2], call: impl FnOnce() -> R) -> R {
    noted(
        SETS_UP,
        name,
        || arguments,
        call,
        |outcome| {
            let errno = std::io::Error::last_os_error().raw_os_error().unwrap_or(0);
            [outcome.word(), u64::from(errno.unsigned_abs())]
        },
    )
}

/// The kinds of a call that sets something up, and of one that is made often.
pub const SETS_UP: [Kind; 2] = [Kind::Call, Kind::CallEnd];
/// See [`SETS_UP`].
pub const OFTEN: [Kind; 2] = [Kind::QuickCall, Kind::QuickCallEnd];

/// Makes a call, and notes it if this process is traced: with two words when it begins, and two
/// when it ends.
#[inline]
pub fn noted<R>([begin, end]: [Kind; 2], name: &str, begins: impl FnOnce() -> [u64; 2], call: impl FnOnce() -> R, ends: impl FnOnce(&R) -> [u64; 2]) -> R {
    if !here::is_on() {
        return call();
    }
    here::note_text(begin, 0, begins(), name);
    let outcome = call();
    // The end has the name too, for its beginning may be overwritten.
    here::note_text(end, 0, ends(&outcome), name);
    outcome
}
