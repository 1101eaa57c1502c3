// SPDX-License-Identifier: MIT OR Apache-2.0
//! How requests and answers that do not fit one message are cut into parts.

/// Bytes of long requests that share a system call: what a run of packets takes.
pub(super) const UNFLUSHED_BYTES_MAX: usize = 56 * 1024;
/// Most parts that are made equal.
const EQUAL_PARTS_MAX: usize = 8;

/// Bytes of a part of what does not fit one message. A tail of a few bytes behind full messages
/// costs a packet of its own and ends a run of equal ones: short requests are cut into equal parts,
/// of long ones the tail is one of many.
pub(super) fn part_of(length: usize, most: usize) -> usize {
    // A power of two, so that usual lengths are divided without a rest and runs go on from one
    // request to the next.
    let parts = length.div_ceil(most.max(1)).next_power_of_two();
    if (2..=EQUAL_PARTS_MAX).contains(&parts) { length.div_ceil(parts).next_multiple_of(64).min(most) } else { most }
}

#[cfg(test)]
mod tests {
    use super::part_of;

    #[test]
    fn parts_are_equal_or_many() {
        // Loopback: a packet of 16336 bytes less its heads; Ethernet.
        for (length, most, part) in [
            (16_384, 16_248, 8_192),
            (32_768, 16_248, 8_192),
            (65_536, 16_248, 8_192),
            (16_300, 16_248, 8_192),
            (8_192, 16_248, 16_248),
            (1 << 20, 16_248, 16_248),
            (2_048, 1_384, 1_024),
        ] {
            assert_eq!(part_of(length, most), part, "{length}");
        }
        for length in 1..40_000 {
            let part = part_of(length, 1_384);
            assert!(part > 0 && part <= 1_384);
            assert!(length <= 1_384 || length > 8 * 1_384 || length % part == 0 || length % part > part / 4, "{length}: {part}");
        }
    }
}
