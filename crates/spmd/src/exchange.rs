// SPDX-License-Identifier: MIT OR Apache-2.0
//! The services of a launcher. [`bellwire_job::Job`] is one; the C library asks the job library of
//! its process, so that a process is in its job once.

use crate::Error;
use bellwire_job::Job;

/// A process's place in a job, and how it hears of the others before there is a network.
pub trait Exchange: Send {
    /// This process's number, from 0.
    fn rank(&self) -> u32;
    /// How many processes there are.
    fn size(&self) -> u32;
    /// How many of them are on this host.
    fn local_size(&self) -> u32;
    /// Everybody's block to everybody, in order of rank. Collective. All blocks have the same
    /// length, at most some hundred bytes.
    ///
    /// # Errors
    /// [`Error::Launcher`].
    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>, Error>;
    /// Ends the whole job with a status from 0 to 255, and this process.
    fn exit(&self, status: i32) -> !;
}

impl Exchange for Job {
    fn rank(&self) -> u32 {
        Self::rank(self)
    }

    fn size(&self) -> u32 {
        Self::size(self)
    }

    fn local_size(&self) -> u32 {
        Self::local_size(self)
    }

    fn all_gather(&self, block: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Self::all_gather(self, block).map_err(|e| Error::Launcher(e.to_string()))
    }

    fn exit(&self, status: i32) -> ! {
        Self::exit(self, status)
    }
}
