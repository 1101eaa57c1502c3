// SPDX-License-Identifier: MIT OR Apache-2.0
//! [`Patience`] for waits that are mostly short: it asks for the time only after many polls that
//! found nothing, so that it costs a round trip nothing.

use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;

/// Polls before the time is asked for.
const POLLS_FREE: u32 = 4096;

/// See the module.
#[derive(Debug, Default)]
pub struct Patient {
    polls: u32,
    patience: Option<Patience>,
}

impl Patient {
    /// To be called after each poll that found nothing.
    ///
    /// # Errors
    /// When [`PATIENCE`] is over.
    #[inline]
    pub fn tick(&mut self) -> Result<(), Error> {
        self.polls += 1;
        if self.polls > POLLS_FREE { self.look() } else { Ok(()) }
    }

    #[cold]
    fn look(&mut self) -> Result<(), Error> {
        self.polls = POLLS_FREE;
        self.patience.get_or_insert_with(|| Patience::lasting(PATIENCE)).tick()
    }
}
