// SPDX-License-Identifier: MIT OR Apache-2.0
//! Blocks of bytes as text, for launchers that keep words of limited length: `LENGTH.` and base 64
//! (RFC 4648, URL alphabet, no padding), cut into pieces.
//!
//! Invariant: a text that is not exactly what [`encode`] writes is refused, so a damaged or
//! truncated block is never taken for a shorter one.

/// The longest block, bytes.
pub const BLOCK_MAX_BYTES: usize = 64 * 1024;
/// The longest key, bytes.
pub const KEY_MAX_BYTES: usize = 24;

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Characters of a block's base 64.
fn digits(bytes: usize) -> usize {
    (bytes * 4).div_ceil(3)
}

/// The text of a block.
pub fn encode(block: &[u8]) -> String {
    let mut text = format!("{}.", block.len());
    text.reserve(digits(block.len()));
    for group in block.chunks(3) {
        let word = group.iter().enumerate().fold(0u32, |word, (i, byte)| word | u32::from(*byte) << (16 - 8 * i));
        for i in 0..=group.len() {
            text.push(char::from(ALPHABET[(word >> (18 - 6 * i) & 63) as usize]));
        }
    }
    text
}

/// How long a text is, by its first piece; `None` if that cannot be the beginning of the text of at
/// most `bytes_max` bytes.
pub fn length(first: &str, bytes_max: usize) -> Option<usize> {
    let (number, _) = first.split_once('.')?;
    let bytes = canonical(number)?;
    (bytes <= bytes_max).then(|| number.len() + 1 + digits(bytes))
}

/// The block of a whole text, or `None` if it is not one.
pub fn decode(text: &str) -> Option<Vec<u8>> {
    let (number, rest) = text.split_once('.')?;
    let bytes = canonical(number)?;
    if rest.len() != bytes.checked_mul(4)?.div_ceil(3) {
        return None;
    }
    let mut block = Vec::with_capacity(bytes);
    for group in rest.as_bytes().chunks(4) {
        let mut word = 0u32;
        for (i, digit) in group.iter().enumerate() {
            word |= u32::from(value(*digit)?) << (18 - 6 * i);
        }
        let octets = word.to_be_bytes();
        let n = group.len() - 1;
        block.extend_from_slice(&octets[1..=n]);
        // Digits carry more bits than the bytes have; the surplus is written as zeros.
        if octets[n + 1..].iter().any(|octet| *octet != 0) {
            return None;
        }
    }
    Some(block)
}

/// A decimal number without sign or leading zeros.
fn canonical(number: &str) -> Option<usize> {
    let value: usize = number.parse().ok()?;
    (value.to_string() == number).then_some(value)
}

fn value(digit: u8) -> Option<u8> {
    Some(match digit {
        b'A'..=b'Z' => digit - b'A',
        b'a'..=b'z' => digit - b'a' + 26,
        b'0'..=b'9' => digit - b'0' + 52,
        b'-' => 62,
        b'_' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_texts() {
        for (block, text) in [(&b""[..], "0."), (b"f", "1.Zg"), (b"fo", "2.Zm8"), (b"foo", "3.Zm9v"), (b"foob", "4.Zm9vYg"), (b"\xff\xfe", "2.__4")] {
            assert_eq!(encode(block), text);
            assert_eq!(decode(text).as_deref(), Some(block));
            assert_eq!(length(text, 4), Some(text.len()));
        }
    }

    #[test]
    fn what_is_no_text() {
        for text in
            ["", ".", "1", "1.", "1.Z", "1.Zh", "1.Zg=", "01.Zg", "+1.Zg", "2.Zg", "3.Zm9v!", "3.Zm9", "99999999999999999999.", "18446744073709551615.A"]
        {
            assert_eq!(decode(text), None, "{text}");
        }
        assert_eq!(length("5.", 4), None);
        assert_eq!(length("18446744073709551615.", 65536), None);
    }

    proptest! {
        #[test]
        fn there_and_back(block in proptest::collection::vec(any::<u8>(), 0..300)) {
            let text = encode(&block);
            prop_assert_eq!(length(&text, block.len()), Some(text.len()));
            prop_assert_eq!(decode(&text), Some(block));
        }

        #[test]
        fn whatever_is_taken_is_what_would_be_written(text in "[0-9]{1,2}\\.[A-Za-z0-9_-]{0,24}") {
            if let Some(block) = decode(&text) {
                prop_assert_eq!(encode(&block), text);
            }
        }
    }
}
