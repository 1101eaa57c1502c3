// SPDX-License-Identifier: MIT OR Apache-2.0
//! All-gathers by dissemination, as the layers above do them with messages of their own: in round
//! *k* process *r* sends what it has to *r + 2^k* and waits for *r - 2^k*; after log2(n) rounds
//! everybody has everybody's block. Here is what has no message in it.

/// How many rounds a call of so many processes has.
pub fn rounds(size: u32) -> u32 {
    size.next_power_of_two().trailing_zeros()
}

/// To whom a process sends in a round, and from whom it hears.
pub fn neighbours(rank: u32, size: u32, round: u32) -> (u32, u32) {
    let step = 1 << round;
    ((rank + step) % size, (rank + size - step) % size)
}

/// Blocks that travel in a round.
pub fn blocks_in(round: u32, size: u32) -> u32 {
    (1u32 << round).min(size - (1 << round))
}

/// The first `count` blocks, each behind its length.
pub fn pack(blocks: &[Vec<u8>], count: u32) -> Vec<u8> {
    let mut data = Vec::new();
    for block in blocks.iter().take(count as usize) {
        data.extend((block.len() as u32).to_le_bytes());
        data.extend(block);
    }
    data
}

/// `count` blocks out of what a process sent, and nothing else.
pub fn unpack(mut data: &[u8], count: u32) -> Option<Vec<Vec<u8>>> {
    let mut blocks = Vec::new();
    for _ in 0..count {
        let (length, rest) = data.split_first_chunk::<4>()?;
        let (block, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
        blocks.push(block.to_vec());
        data = rest;
    }
    data.is_empty().then_some(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_unpacked_as_they_were_packed() {
        let blocks = vec![vec![1, 2, 3], vec![], vec![9; 1000], vec![4]];
        let data = pack(&blocks, 3);
        assert_eq!(unpack(&data, 3).as_deref(), Some(&blocks[..3]));
        for (wrong, count) in [(&data[..], 2), (&data[..], 4), (&data[..data.len() - 1], 3), (&[255, 255, 255, 255][..], 1)] {
            assert_eq!(unpack(wrong, count), None);
        }
    }

    #[test]
    fn every_block_travels_once_to_each() {
        for size in 1..200u32 {
            assert_eq!((0..rounds(size)).map(|round| blocks_in(round, size)).sum::<u32>(), size - 1);
        }
        assert_eq!((neighbours(0, 5, 2), neighbours(4, 5, 0)), ((4, 1), (0, 3)));
    }
}
