// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets as datagrams of a connected UDP socket, which may lose them.

use std::io::ErrorKind;
use std::net::UdpSocket;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::packets::{Carrier, PACKET_BYTES, WINDOW};
use crate::error::Error;
use crate::patient::Patient;

/// Slots for what is sent, and for what comes.
const SLOTS: usize = 2 * WINDOW as usize;
/// Longest sleep, after which it is looked whether something must be sent again.
const SLEEP_NS: i64 = 5_000_000;

/// See the module.
pub struct Datagrams {
    socket: UdpSocket,
    out: Vec<Vec<u8>>,
    free: Vec<usize>,
    incoming: Vec<Vec<u8>>,
    empty: Vec<usize>,
}

impl Datagrams {
    /// On a socket that is connected.
    ///
    /// # Errors
    /// What the operating system says.
    pub fn new(socket: UdpSocket) -> Result<Self, Error> {
        socket.set_nonblocking(true)?;
        let slots = || vec![vec![0; PACKET_BYTES]; SLOTS];
        Ok(Self { socket, out: slots(), free: (0..SLOTS).collect(), incoming: slots(), empty: (0..SLOTS).collect() })
    }
}

impl Carrier for Datagrams {
    const MAY_LOSE: bool = true;

    fn take(&mut self) -> Result<Option<usize>, Error> {
        Ok(self.free.pop())
    }

    fn fill(&mut self, slot: usize) -> &mut [u8] {
        &mut self.out[slot]
    }

    fn send(&mut self, slot: usize, bytes: usize) -> Result<(), Error> {
        let mut patient = Patient::default();
        loop {
            match self.socket.send(&self.out[slot][..bytes]) {
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == ErrorKind::WouldBlock => patient.tick()?,
                // The other one is not there yet, or any more: this one is lost.
                Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn free(&mut self, slot: usize) {
        self.free.push(slot);
    }

    fn receive(&mut self) -> Result<Option<(usize, usize)>, Error> {
        let Some(&slot) = self.empty.last() else { return Ok(None) };
        match self.socket.recv(&mut self.incoming[slot]) {
            Ok(bytes) => {
                self.empty.pop();
                Ok(Some((slot, bytes)))
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionRefused) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn came(&self, slot: usize) -> &[u8] {
        &self.incoming[slot]
    }

    fn give_back(&mut self, slot: usize) -> Result<(), Error> {
        self.empty.push(slot);
        Ok(())
    }

    fn sleep(&mut self) -> Result<(), Error> {
        let time = Timespec { tv_sec: 0, tv_nsec: SLEEP_NS };
        // Its end by a signal or the time is no news.
        let _ = poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&time));
        Ok(())
    }
}
