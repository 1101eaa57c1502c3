// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bare sockets between the two measuring processes, over the same way as the library: what is left
//! of a network when no protocol of ours is on it.
//!
//! The processes tell each other their ports through the shared mapping; nothing else of it is used
//! while the clock runs.

pub mod datagram;
pub mod datagrams;
pub mod stream;

use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::time::Duration;

use super::{NET_OFFSET, PATIENCE};
use crate::clock::Patience;
use crate::error::Error;
use crate::job::Ends;
use crate::shared::{LINE_BYTES, SharedMap};

/// A process in a limit over sockets.
#[derive(Debug, Clone, Copy)]
pub struct Side<'m> {
    /// Meeting place.
    pub map: &'m SharedMap,
    /// Whether it is the one that measures.
    pub first: bool,
    /// Addresses.
    pub ends: Ends,
    /// First of 16 meetings.
    pub epoch: u64,
}

/// A ping-pong.
#[derive(Debug, Clone, Copy)]
pub struct Trip {
    /// Bytes of a message, at least 1.
    pub size: usize,
    /// Round trips.
    pub count: u64,
    /// Sleep until something comes, instead of looking again and again.
    pub blocking: bool,
    /// What each side computes before it answers.
    pub pause: Duration,
}

impl Side<'_> {
    fn meet(&self, step: u64) -> Result<(), Error> {
        self.map.meet(self.first, self.epoch + step, PATIENCE)
    }

    /// Says our port and learns the other one's; uses meetings `step` and `step + 1`.
    fn exchange_ports(&self, port: u16, step: u64) -> Result<SocketAddr, Error> {
        let word = |first: bool| self.map.word(NET_OFFSET + if first { 0 } else { 4 * LINE_BYTES });
        word(self.first).put(u64::from(port));
        self.meet(step)?;
        let other = word(!self.first).get() as u16;
        // Both have read before either writes again.
        self.meet(step + 1)?;
        Ok(SocketAddr::new(self.ends.other, other))
    }

    /// A UDP socket connected to the other process's; uses meetings 0 and 1.
    pub(crate) fn udp(&self) -> Result<UdpSocket, Error> {
        let socket = UdpSocket::bind((self.ends.own, 0))?;
        let other = self.exchange_ports(socket.local_addr()?.port(), 0)?;
        socket.connect(other)?;
        Ok(socket)
    }
}

/// Does `io` until it has something to do.
#[inline]
fn spin<T>(patience: &mut Patience, mut io: impl FnMut() -> io::Result<T>) -> Result<T, Error> {
    loop {
        match io() {
            Ok(value) => return Ok(value),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => patience.tick()?,
            Err(error) => return Err(error.into()),
        }
    }
}

/// The turn's number in the first bytes of a message.
#[inline]
fn stamp(message: &mut [u8], turn: u64) {
    let len = message.len().min(8);
    message[..len].copy_from_slice(&turn.to_le_bytes()[..len]);
}

#[inline]
fn check(message: &[u8], turn: u64) -> Result<(), Error> {
    let len = message.len().min(8);
    if len > 0 && message[..len] == turn.to_le_bytes()[..len] { Ok(()) } else { Err(Error::failed(format!("message {turn} arrived damaged"))) }
}

/// Runs `run` as both processes, which are threads here.
#[cfg(test)]
fn as_both<T: Send>(run: impl Fn(Side<'_>) -> T + Sync) -> [T; 2] {
    let route = crate::route::Route::loopback();
    let (one, two) = super::two_mappings();
    let side = |map, first| Side { map, first, ends: route.ends(first).unwrap(), epoch: 16 };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| run(side(&two, false)));
        let own = run(side(&one, true));
        [own, other.join().unwrap()]
    })
}
