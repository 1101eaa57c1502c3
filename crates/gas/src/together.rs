// SPDX-License-Identifier: MIT OR Apache-2.0
//! Completion, and what all processes do together: by the control area if all of them share memory,
//! else by messages.

use bellwire_memory::atomic::{Ordering, fence};

use crate::error::{Error, Left};
use crate::layout::{self, WORD_MAX};
use crate::net::Net;
use crate::process::Process;

impl Process {
    /// Someone of the group has left.
    fn left(&self, left: Left) -> Error {
        let process = self.group.members.get(left.process as usize).copied().unwrap_or(left.process);
        Error::Left(Left { process, ..left })
    }

    /// Completes this process's gets and puts: over shared memory they are complete, and now in
    /// order with everything.
    ///
    /// # Errors
    /// [`Error::Trouble`], [`Error::Left`].
    pub fn sync(&self) -> Result<(), Error> {
        // SeqCst: puts before whatever this process reads next; pairs with the same in the others.
        fence(Ordering::SeqCst);
        self.net.as_ref().map_or(Ok(()), Net::sync_all)
    }

    /// Whether gets and puts are complete.
    ///
    /// # Errors
    /// As for [`Process::sync`].
    pub fn is_sync(&self) -> Result<bool, Error> {
        // SeqCst: as in `sync`.
        fence(Ordering::SeqCst);
        self.net.as_ref().map_or(Ok(true), |net| if net.is_by_vis() { net.vi_is_sync() } else { net.is_sync() })
    }

    /// Waits for all processes. What they have put and stored before is in place then.
    ///
    /// # Errors
    /// [`Error::Left`]; [`Error::Trouble`].
    pub fn barrier(&self) -> Result<(), Error> {
        // SeqCst: as in `sync`; the barrier itself orders the rest.
        fence(Ordering::SeqCst);
        match &self.net {
            None => self.control.barrier().map_err(|left| self.left(left)),
            Some(net) => {
                net.vi_flush()?;
                net.flush()?;
                net.gather(None).map(drop)
            }
        }
    }

    /// Waits for stored bytes and takes them off the count.
    ///
    /// # Errors
    /// As for [`Process::barrier`].
    pub fn store_sync(&mut self, bytes: u64) -> Result<(), Error> {
        let end = self.taken.wrapping_add(bytes);
        match &self.net {
            None => self.control.wait_stored(end).map_err(|left| self.left(left))?,
            // A process that shares memory with this one does not ring.
            Some(net) => {
                let stored = |by_messages: u64| self.control.stored().wrapping_add(by_messages).wrapping_add(net.vi_stored());
                net.wait_stored(self.group.size() == 1, |by_messages| stored(by_messages).wrapping_sub(end).cast_signed() >= 0)?;
            }
        }
        self.taken = end;
        Ok(())
    }

    fn stored(&self) -> u64 {
        self.control.stored().wrapping_add(self.net.as_ref().map_or(0, |net| net.stored().wrapping_add(net.vi_stored())))
    }

    /// Bytes stored here that are not taken off the count.
    pub fn store_count(&self) -> u64 {
        self.stored().wrapping_sub(self.taken)
    }

    /// Sets the count to 0.
    pub fn reset_store_sync(&mut self) {
        self.taken = self.stored();
    }

    /// Waits until all stores of all have arrived. Collective. Nobody stores again before everybody
    /// has set its count to 0.
    ///
    /// # Errors
    /// As for [`Process::barrier`].
    pub fn all_store_sync(&mut self) -> Result<(), Error> {
        self.barrier()?;
        self.reset_store_sync();
        self.barrier()
    }

    /// Spread memory: a pointer to the first block, in process 0, or 0. Collective; waits until all
    /// are here: memory that was freed before may be in use elsewhere until then.
    ///
    /// # Errors
    /// As for [`Process::barrier`].
    pub fn spread_make(&mut self, blocks: u64, block_bytes: u64) -> Result<u64, Error> {
        let rows = blocks.div_ceil(u64::from(self.processes()));
        // Behind the last byte a word may not begin: the window's limit is shorter than the window.
        let made = rows.checked_mul(block_bytes).and_then(|bytes| self.symmetric.take(bytes.checked_add(WORD_MAX)?));
        self.barrier()?;
        Ok(made.map_or(0, |address| layout::pointer_of(0, address)))
    }

    /// As [`Process::spread_make`], but of this process alone: the others know of it when they are
    /// told the pointer. 0 if there is no memory.
    pub fn spread_make_alone(&mut self, blocks: u64, block_bytes: u64) -> u64 {
        let rows = blocks.div_ceil(u64::from(self.processes()));
        let made = rows.checked_mul(block_bytes).and_then(|bytes| self.arena.take(bytes.checked_add(WORD_MAX)?));
        made.map_or(0, |address| layout::pointer_of(0, address))
    }

    /// Gives spread memory back: of a collective call in all processes, of this process alone in
    /// this one. False if nothing was made there, or by another process.
    pub fn spread_end(&mut self, pointer: u64) -> bool {
        let address = layout::address_of(pointer);
        self.symmetric.give(address) || self.arena.give(address)
    }

    /// Everybody's bytes to everybody, in order.
    ///
    /// # Errors
    /// As for [`Process::barrier`].
    ///
    /// # Panics
    /// If `mine` is longer than a line of the control area, or `all` does not fit.
    pub fn exchange(&mut self, mine: &[u8], all: &mut [u8]) -> Result<(), Error> {
        let Some(net) = &self.net else { return self.control.exchange(mine, all).map_err(|left| self.left(left)) };
        net.vi_flush()?;
        assert!(all.len() == mine.len() * self.job.size() as usize, "room for everybody's");
        for (to, block) in all.chunks_exact_mut(mine.len().max(1)).zip(net.gather(Some(mine))?) {
            // All programs of a job give blocks of the same length; a block of another is cut or
            // leaves the rest as it is.
            to.iter_mut().zip(block).for_each(|(to, byte)| *to = byte);
        }
        Ok(())
    }

    /// One process's bytes to all.
    ///
    /// # Errors
    /// As for [`Process::barrier`]; [`Error::NoSuchProcess`].
    pub fn broadcast(&mut self, data: &mut [u8], root: u32) -> Result<(), Error> {
        if root >= self.processes() {
            return Err(Error::NoSuchProcess(u64::from(root)));
        }
        let Some(net) = &self.net else { return self.control.broadcast(data, root).map_err(|left| self.left(left)) };
        net.vi_flush()?;
        if data.len() > Net::BLOCK_BYTES_MAX {
            return self.broadcast_long(net, data, root);
        }
        let blocks = net.gather(Some(if root == self.process() { data } else { &[] }))?;
        if root != self.process() {
            data.iter_mut().zip(&blocks[root as usize]).for_each(|(to, byte)| *to = *byte);
        }
        Ok(())
    }

    /// The number of processes that have the bytes doubles in each round: the others read them
    /// where they are.
    fn broadcast_long(&self, net: &Net, data: &mut [u8], root: u32) -> Result<(), Error> {
        let (me, size) = (self.process(), self.processes());
        let address = data.as_mut_ptr().expose_provenance() as u64;
        let places = net.gather(Some(&address.to_le_bytes()))?;
        // As if the root were process 0.
        let place = (me + size - root) % size;
        for step in (0..u32::BITS).map(|round| 1u32 << round).take_while(|step| *step < size) {
            if (step..2 * step).contains(&place) {
                let from = (place - step + root) % size;
                let there = places[from as usize].as_slice().try_into().map_or(0, u64::from_le_bytes);
                // SAFETY: a slice of the caller's.
                unsafe { self.read_anywhere(data.as_mut_ptr(), layout::pointer_of(from, there), data.len())? };
            }
            net.gather(None)?;
        }
        Ok(())
    }
}
