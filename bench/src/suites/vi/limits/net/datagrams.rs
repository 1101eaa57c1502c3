// SPDX-License-Identifier: MIT OR Apache-2.0
//! A one-way stream of UDP datagrams with segmentation and coalescing by the kernel (GSO, GRO):
//! what the path carries when a program does nothing but hand over and take. No message is
//! repaired; what was lost is counted and is no part of the figure.
//!
//! The sender has at most a window under way: the receiver says now and then, in a datagram, up to
//! which one it has seen. So what is quoted has arrived (goodput). If nothing is heard for a while,
//! what is under way is written off. Each datagram begins with its number.

use std::io::IoSliceMut;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};

use super::Side;
use super::datagram::DATAGRAM_MAX;
use crate::clock::Patience;
use crate::error::Error;
use crate::limits::{NET_OFFSET, PATIENCE};
use crate::shared::{LINE_BYTES, Word};

/// Longest datagram that an Ethernet carries whole: 1500 less the headers of IPv4 and UDP.
pub const ETHERNET: usize = 1472;
/// Bytes under way at most.
const WINDOW_BYTES: usize = 256 << 10;
/// The receiver answers after this many.
const REPORT_BYTES: usize = 32 << 10;
/// Room asked of the kernel for what has arrived; it grants what it allows.
const SOCKET_BYTES: usize = 4 << 20;
/// Silence after which the sender writes off what is under way.
const SILENCE: Duration = Duration::from_millis(5);
/// Silence after which the receiver believes that the rest is lost, once all has been sent.
const REST: Duration = Duration::from_millis(3);
/// Buffers filled by one call.
const BUFFERS: usize = 4;
/// The most that the kernel joins into one buffer.
const BUFFER_BYTES: usize = 65_536;
/// Bytes of a datagram's number.
const NUMBER_BYTES: usize = 8;

/// What arrived.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Goodput {
    /// Bytes per nanosecond (GB/s).
    pub rate: f64,
    /// Lost, per cent of the datagrams; less than nothing if the network has doubled some.
    pub lost: f64,
    /// Datagrams per second.
    pub datagrams: f64,
}

/// Sends `bytes` in datagrams of `datagram` bytes from the first process; what the second one got.
///
/// # Errors
/// If the size is none, the other side does not come, or what the operating system says.
pub fn one_way(side: Side<'_>, bytes: u64, datagram: usize) -> Result<Goodput, Error> {
    if !(NUMBER_BYTES..=DATAGRAM_MAX).contains(&datagram) {
        return Err(Error::unsupported(format!("datagrams of {datagram} bytes")));
    }
    let socket = side.udp()?;
    let kernel = UdpSocketState::new(UdpSockRef::from(&socket))?;
    for grow in [UdpSocketState::set_recv_buffer_size, UdpSocketState::set_send_buffer_size] {
        // What is refused is made up for by the window.
        let _ = grow(&kernel, UdpSockRef::from(&socket), SOCKET_BYTES);
    }
    let mut goodput = Goodput { rate: 0.0, lost: 0.0, datagrams: 0.0 };
    let mut sent = 0;
    // Once for warming up.
    for (step, part) in [(2, bytes / 8), (4, bytes)] {
        let until = sent + part.div_ceil(datagram as u64).max(1);
        side.meet(step)?;
        let all_sent = side.map.word(NET_OFFSET + 8 * LINE_BYTES);
        if side.first {
            Sender { socket: &socket, kernel: &kernel, other: socket.peer_addr()?, datagram, heard: sent }.send(sent, until)?;
            all_sent.publish(until);
        } else {
            goodput = Receiver { socket: &socket, kernel: &kernel, datagram }.receive(sent, until, all_sent)?;
        }
        side.meet(step + 1)?;
        sent = until;
    }
    Ok(goodput)
}

struct Sender<'s> {
    socket: &'s UdpSocket,
    kernel: &'s UdpSocketState,
    other: SocketAddr,
    datagram: usize,
    /// Everything below has been seen, or written off.
    heard: u64,
}

impl Sender<'_> {
    /// Sends the datagrams with numbers from `next` to below `until`.
    fn send(&mut self, mut next: u64, until: u64) -> Result<(), Error> {
        let at_once = self.kernel.max_gso_segments().min(DATAGRAM_MAX / self.datagram).max(1) as u64;
        let window = ((WINDOW_BYTES / self.datagram) as u64).max(2 * at_once);
        let mut contents = vec![0x5A; self.datagram * at_once as usize];
        let (mut patience, mut last) = (Patience::lasting(PATIENCE), Instant::now());
        while next < until {
            if self.listen() {
                last = Instant::now();
            }
            let batch = at_once.min(until - next);
            if next - self.heard + batch > window {
                if last.elapsed() > SILENCE {
                    self.heard = next;
                }
                patience.tick()?;
                continue;
            }
            let part = &mut contents[..self.datagram * batch as usize];
            for (datagram, number) in part.chunks_mut(self.datagram).zip(next..) {
                datagram[..NUMBER_BYTES].copy_from_slice(&number.to_le_bytes());
            }
            let transmit = Transmit { destination: self.other, ecn: None, contents: part, segment_size: (batch > 1).then_some(self.datagram), src_ip: None };
            match self.kernel.try_send(UdpSockRef::from(self.socket), &transmit) {
                Ok(()) => next += batch,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => patience.tick()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Takes what the receiver has said; whether it said anything.
    fn listen(&mut self) -> bool {
        let mut said = [0; 32 * NUMBER_BYTES];
        let mut any = false;
        // Several reports may come as one, the latest at the end.
        while let Ok(len) = self.socket.recv(&mut said) {
            let Some(number) = said[..len].last_chunk::<NUMBER_BYTES>() else { continue };
            self.heard = self.heard.max(u64::from_le_bytes(*number));
            any = true;
        }
        any
    }
}

struct Receiver<'s> {
    socket: &'s UdpSocket,
    kernel: &'s UdpSocketState,
    datagram: usize,
}

impl Receiver<'_> {
    /// Takes the datagrams with numbers from `from` to below `until`. Time runs from the call to
    /// the last arrival.
    fn receive(&self, from: u64, until: u64, all_sent: Word<'_>) -> Result<Goodput, Error> {
        let mut memory = vec![0; BUFFERS * BUFFER_BYTES];
        let mut metas = [RecvMeta::default(); BUFFERS];
        let mut patience = Patience::lasting(PATIENCE);
        let start = Instant::now();
        let (mut last, mut seen, mut received, mut said, mut quiet_since) = (start, from, 0u64, from, None::<Instant>);
        while seen < until {
            let mut buffers = memory.chunks_mut(BUFFER_BYTES);
            let mut buffers: [IoSliceMut<'_>; BUFFERS] = std::array::from_fn(|_| IoSliceMut::new(buffers.next().expect("as many")));
            match self.kernel.recv(UdpSockRef::from(self.socket), &mut buffers, &mut metas) {
                Ok(count) => {
                    (last, quiet_since) = (Instant::now(), None);
                    for (buffer, meta) in buffers.iter().zip(&metas).take(count) {
                        for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                            let number = datagram.first_chunk::<NUMBER_BYTES>().map(|number| u64::from_le_bytes(*number));
                            let number = number.filter(|number| (from..until).contains(number) && datagram.len() == self.datagram);
                            // What was written off before this part may come late; it counts for
                            // nothing.
                            let Some(number) = number else { continue };
                            received += 1;
                            seen = seen.max(number + 1);
                        }
                    }
                    if (seen - said) as usize * self.datagram >= REPORT_BYTES || seen == until {
                        said = seen;
                        // If it is lost, the next says it.
                        let _ = self.socket.send(&seen.to_le_bytes());
                    }
                }
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    // Only a look after all was sent tells that nothing is left: this process may
                    // have lost its processor since the last look.
                    match quiet_since {
                        Some(since) if since.elapsed() > REST => break,
                        None if all_sent.observe() == until => quiet_since = Some(Instant::now()),
                        _ => {}
                    }
                    patience.tick()?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let ns = last.duration_since(start).as_nanos().max(1) as f64;
        let expected = (until - from) as f64;
        let lost = 100.0 * (expected - received as f64) / expected;
        Ok(Goodput { rate: received as f64 * self.datagram as f64 / ns, lost, datagrams: received as f64 / ns * 1e9 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::net::as_both;

    #[test]
    fn what_is_sent_arrives_and_is_counted() {
        for (bytes, datagram) in [(3 << 20, ETHERNET), (8 << 20, DATAGRAM_MAX), (100_000, 8)] {
            let [one, two] = as_both(|side| one_way(side, bytes, datagram));
            one.unwrap();
            let goodput = two.unwrap();
            assert!(goodput.rate > 0.0 && (0.0..100.0).contains(&goodput.lost), "{goodput:?}");
            assert!((goodput.rate * 1e9 / goodput.datagrams - datagram as f64).abs() < 0.001);
        }
    }
}
