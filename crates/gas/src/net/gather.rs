// SPDX-License-Identifier: MIT OR Apache-2.0
//! Collective calls, round by round (`rounds.rs`).

use super::Net;
use super::rounds::{BLOCK_BYTES_MAX, PART_BYTES_MAX, pack, unpack};
use crate::error::{Error, Trouble};

impl Net {
    /// Everybody's block to everybody, in order; with `None` a barrier. Collective.
    ///
    /// # Errors
    /// [`Error::Trouble`]; [`Error::Left`].
    ///
    /// # Panics
    /// If the block is longer than [`Net::BLOCK_BYTES_MAX`].
    pub fn gather(&self, block: Option<&[u8]>) -> Result<Vec<Vec<u8>>, Error> {
        assert!(block.is_none_or(|block| block.len() <= BLOCK_BYTES_MAX), "a short block");
        let (count, me) = {
            let core = self.core();
            (core.rounds.count(), core.me as usize)
        };
        // Of this process, and of those before it, backwards.
        let mut held: Vec<Vec<u8>> = block.map(<[u8]>::to_vec).into_iter().collect();
        for round in 0..count {
            let (to, from, blocks) = {
                let core = self.core();
                let (to, from) = core.rounds.neighbours(round);
                (to, from, block.map_or(0, |_| core.rounds.blocks_in(round)))
            };
            self.send_round(to, round, &pack(&held, blocks))?;
            let data = self.until(true, |core, _| {
                if let Some(data) = core.rounds.taken(round) {
                    return Ok(Some(data));
                }
                core.check()?;
                let call = core.rounds.call;
                core.check_left(|_, farewell| farewell.calls <= call)?;
                Ok(None)
            })?;
            held.extend(unpack(&data, blocks).ok_or(Error::Trouble(Trouble::Misbehaved(from)))?);
        }
        self.core().rounds.next();
        let size = held.len();
        let mut all = vec![Vec::new(); size];
        for (back, block) in held.into_iter().enumerate() {
            all[(me + size - back) % size] = block;
        }
        Ok(all)
    }

    fn send_round(&self, to: u32, round: u32, data: &[u8]) -> Result<(), Error> {
        let mut at = 0;
        loop {
            let part = &data[at..data.len().min(at + PART_BYTES_MAX)];
            let is_last = at + part.len() == data.len();
            self.until(true, |core, engine| Ok(core.try_round(engine, to, round, part, is_last)?.then_some(())))?;
            if is_last {
                return Ok(());
            }
            at += part.len();
        }
    }

    /// The longest block that can be gathered, bytes.
    pub const BLOCK_BYTES_MAX: usize = BLOCK_BYTES_MAX;
}
