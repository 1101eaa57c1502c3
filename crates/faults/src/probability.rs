// SPDX-License-Identifier: MIT OR Apache-2.0
//! Probabilities as whole billionths: they compare, hash and print exactly, and draw the same on
//! every machine.

use crate::random::Random;
use crate::units;
use core::fmt;

const BILLION: u32 = 1_000_000_000;

/// A probability, from never to always, in steps of 1e-9.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Probability(u32);

impl Probability {
    /// Zero.
    pub const NEVER: Self = Self(0);
    /// One.
    pub const ALWAYS: Self = Self(BILLION);

    /// From billionths; more than a billion is always.
    pub const fn from_billionths(n: u32) -> Self {
        Self(if n > BILLION { BILLION } else { n })
    }

    /// In billionths.
    pub const fn billionths(self) -> u32 {
        self.0
    }

    /// Reads `0.01` or `1%`.
    ///
    /// # Errors
    /// A sentence that says what a probability looks like.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (number, one) = match text.strip_suffix('%') {
            Some(percent) => (percent, BILLION / 100),
            None => (text, BILLION),
        };
        let n = units::decimal(number, u64::from(one)).map_err(|why| format!("{text}: {why}"))?;
        match u32::try_from(n) {
            Ok(n) if n <= BILLION => Ok(Self(n)),
            _ => Err(format!("{text}: a probability lies between 0 and 1")),
        }
    }

    /// Whether it happens this time. An event that never happens draws nothing.
    #[inline]
    pub fn strikes(self, random: &mut Random) -> bool {
        self.0 != 0 && (u64::from(random.next_u32()) * u64::from(BILLION)) >> 32 < u64::from(self.0)
    }
}

impl fmt::Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, rest) = (self.0 / BILLION, self.0 % BILLION);
        if rest == 0 {
            return write!(f, "{whole}");
        }
        write!(f, "{whole}.{}", format!("{rest:09}").trim_end_matches('0'))
    }
}
