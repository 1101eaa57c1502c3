// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether two processes can read each other's memory: shown by doing it.
//!
//! Each NIC keeps a block with its id and a random number (a nonce) in its memory and tells its
//! peers where. A peer that finds the id there has the right process (ids of processes differ
//! between pid namespaces) and may read it; it writes the nonce that it found into its half of the
//! link, which proves it to us.

use super::link::NicId;
use bellwire_memory::{MemoryError, attach};

const BLOCK_BYTES: usize = 24;

/// The block of a NIC.
#[derive(Debug)]
pub(super) struct Proof {
    block: Box<[u8; BLOCK_BYTES]>,
    offered: bool,
}

impl Proof {
    /// A block for the NIC `id`; peers are told of it only if `offered`.
    pub(super) fn new(id: &NicId, offered: bool) -> Result<Self, MemoryError> {
        let mut block = Box::new([0; BLOCK_BYTES]);
        block[..16].copy_from_slice(id);
        rustix::rand::getrandom(&mut block[16..], rustix::rand::GetRandomFlags::empty()).map_err(|e| MemoryError::os("getrandom", e))?;
        // Never 0, which stands for "could not be read".
        block[16] |= 1;
        Ok(Self { block, offered })
    }

    /// Where peers are to look; 0: they are not.
    pub(super) fn address(&self) -> u64 {
        if self.offered { self.block.as_ptr().expose_provenance() as u64 } else { 0 }
    }

    /// The number that only who reads our memory knows.
    pub(super) fn nonce(&self) -> u64 {
        nonce_of(&self.block)
    }
}

/// The nonce of the NIC `id` in process `pid`, whose block is said to be at `address`; 0 if it
/// cannot be read or is not there.
pub(super) fn of_peer(pid: u32, address: u64, id: &NicId) -> u64 {
    let mut block = [0; BLOCK_BYTES];
    if pid == 0 || address == 0 {
        return 0;
    }
    // SAFETY: `block` is ours.
    let read = unsafe { attach::read(pid, address, block.as_mut_ptr(), BLOCK_BYTES) };
    if read.is_ok() && block[..16] == *id { nonce_of(&block) } else { 0 }
}

fn nonce_of(block: &[u8; BLOCK_BYTES]) -> u64 {
    let mut n = [0; 8];
    n.copy_from_slice(&block[16..]);
    u64::from_le_bytes(n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_process_or_nothing() {
        let id = [3; 16];
        let proof = Proof::new(&id, true).unwrap();
        let own = std::process::id();
        assert_ne!(proof.nonce(), 0);
        assert_eq!(of_peer(own, proof.address(), &id), proof.nonce());
        assert_eq!(of_peer(own, proof.address(), &[4; 16]), 0, "another NIC");
        assert_eq!(of_peer(own, 4096, &id), 0, "nothing there");
        assert_eq!(of_peer(own, 0, &id), 0, "not offered");
        assert_eq!(Proof::new(&id, false).unwrap().address(), 0);
    }
}
