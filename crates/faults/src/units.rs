// SPDX-License-Identifier: MIT OR Apache-2.0
//! Quantities as people write them: `1.5ms`, `10G` bits per second, `256k` bytes. Exact: a value
//! that is no multiple of the unit is an error, and printed values read back the same. Used by the
//! plan's text form and by topology files.

use bellwire_time::Duration;
use core::fmt;

/// Suffixes and what they stand for, the largest first; the last is the unit itself.
type Suffixes = &'static [(&'static str, u64)];

const TIME: Suffixes = &[("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("ns", 1)];
const RATE: Suffixes = &[("T", 1_000_000_000_000), ("G", 1_000_000_000), ("M", 1_000_000), ("k", 1_000), ("", 1)];
const BYTES: Suffixes = &[("G", 1 << 30), ("M", 1 << 20), ("k", 1 << 10), ("", 1)];

/// Reads a number like `12` or `0.25` in units of which `scale` make one.
///
/// # Errors
/// A sentence: not a number, too large, or finer than one unit.
pub fn decimal(text: &str, scale: u64) -> Result<u64, String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let dot_alone = text.contains('.') && fraction.is_empty();
    if whole.is_empty() || dot_alone || !digits(whole) || !digits(fraction) {
        return Err("not a number".into());
    }
    let whole: u64 = whole.parse().map_err(|_| "too large")?;
    let fraction = fraction.trim_end_matches('0');
    if fraction.len() > 18 {
        return Err("too many digits".into());
    }
    let divisor = 10_u128.pow(fraction.len() as u32);
    let numerator = fraction.parse::<u128>().unwrap_or(0) * u128::from(scale);
    if numerator % divisor != 0 {
        return Err("too many digits".into());
    }
    let total = u128::from(whole) * u128::from(scale) + numerator / divisor;
    u64::try_from(total).map_err(|_| "too large".into())
}

fn parse(text: &str, suffixes: Suffixes, what: &str) -> Result<u64, String> {
    let end = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, suffix) = text.split_at(end);
    let scale = suffixes.iter().find(|(s, _)| *s == suffix).map(|&(_, scale)| scale);
    let scale = scale.or((number == "0" && suffix.is_empty()).then_some(1));
    let Some(scale) = scale else { return Err(format!("{text}: {what}")) };
    decimal(number, scale).map_err(|why| format!("{text}: {why}; {what}"))
}

fn print(n: u64, suffixes: Suffixes, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let fits = suffixes.iter().find(|(_, scale)| n != 0 && n.is_multiple_of(*scale));
    let (suffix, scale) = fits.copied().unwrap_or(("", 1));
    write!(f, "{}{suffix}", n / scale)
}

/// Reads a time: `2ms`, `1.5s`, `100us`, `80ns`, `0`.
///
/// # Errors
/// A sentence that says what a time looks like.
pub fn parse_time(text: &str) -> Result<Duration, String> {
    parse(text, TIME, "a time is a number with ns, us, ms or s").map(Duration)
}

/// Reads bits per second: `10G`, `2.5M`, `9600`. Powers of 1000.
///
/// # Errors
/// A sentence that says what a rate looks like.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    parse(text, RATE, "a rate is a number of bits per second, with k, M, G or T for powers of 1000")
}

/// Reads bytes: `256k`, `4M`, `1500`. Powers of 1024.
///
/// # Errors
/// A sentence that says what a size looks like.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse(text, BYTES, "a size is a number of bytes, with k, M or G for powers of 1024")
}

/// Prints a time so that [`parse_time`] reads it back.
#[derive(Clone, Copy, Debug)]
pub struct Time(pub Duration);

/// Prints bits per second so that [`parse_rate`] reads them back.
#[derive(Clone, Copy, Debug)]
pub struct Rate(pub u64);

/// Prints bytes so that [`parse_bytes`] reads them back.
#[derive(Clone, Copy, Debug)]
pub struct Bytes(pub u64);

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0.0, TIME, f)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, RATE, f)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        print(self.0, BYTES, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_exact_is_read() {
        assert_eq!(parse_time("1.5ms"), Ok(Duration(1_500_000)));
        assert_eq!(parse_time("0"), Ok(Duration(0)));
        assert_eq!(parse_rate("2.5G"), Ok(2_500_000_000));
        assert_eq!(parse_bytes("1.5k"), Ok(1536));
        assert_eq!(parse_bytes("9000"), Ok(9000));
        assert_eq!(format!("{} {} {}", Time(Duration(1_500_000)), Rate(10_000_000_000), Bytes(262_144)), "1500us 10G 256k");
        assert_eq!(format!("{}", Time(Duration(0))), "0");
    }

    #[test]
    fn what_is_not_is_refused() {
        for wrong in ["", "ms", "1", "-1ms", "1.5ns", ".5s", "5.s", "1e3ms", "1m", "1 ms", "99999999999999999999s", "18446744074s", "1.0000000000000000001s"] {
            assert!(parse_time(wrong).is_err(), "{wrong}");
        }
        assert_eq!(parse_time("7"), Err("7: a time is a number with ns, us, ms or s".into()));
    }
}
