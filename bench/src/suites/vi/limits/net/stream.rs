// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP between the two processes: ping-pong without delay, spinning or sleeping in `read`, and
//! one-way bandwidth.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Instant;

use super::datagram::lasting;
use super::{Side, Trip, check, spin, stamp};
use crate::clock::Patience;
use crate::error::Error;
use crate::limits::PATIENCE;
use crate::limits::sleep::round_trips;

/// Bytes taken by one `read` of a stream.
const READ_BYTES: usize = 256 << 10;

/// A connection: the second process listens; uses meetings 0 and 1.
pub(crate) fn connect(side: Side<'_>) -> Result<TcpStream, Error> {
    let stream = if side.first {
        let other = side.exchange_ports(0, 0)?;
        TcpStream::connect_timeout(&other, PATIENCE)?
    } else {
        let listener = TcpListener::bind((side.ends.own, 0))?;
        side.exchange_ports(listener.local_addr()?.port(), 0)?;
        listener.accept()?.0
    };
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// Half a round trip in ns, less the pause; the mean.
///
/// # Errors
/// If the other side does not answer, or what the operating system says.
pub fn ping_pong(side: Side<'_>, trip: Trip) -> Result<f64, Error> {
    let stream = connect(side)?;
    stream.set_nonblocking(!trip.blocking)?;
    let (mut out, mut incoming) = (vec![0; trip.size], vec![0; trip.size]);
    let (mut sending, mut receiving) = (Patience::lasting(lasting(trip)), Patience::lasting(lasting(trip)));
    let send = |turn: u64| {
        stamp(&mut out, turn);
        let mut left = out.as_slice();
        while !left.is_empty() {
            let written = spin(&mut sending, || (&stream).write(left))?;
            left = &left[written..];
        }
        Ok(())
    };
    let receive = |turn: u64| {
        let mut filled = 0;
        while filled < incoming.len() {
            match spin(&mut receiving, || (&stream).read(&mut incoming[filled..]))? {
                0 => return Err(Error::from(io::Error::from(io::ErrorKind::UnexpectedEof))),
                more => filled += more,
            }
        }
        check(&incoming, turn)
    };
    round_trips(side.map, side.first, (trip.count, trip.pause), side.epoch + 2, send, receive)
}

/// Writes `size` bytes `count` times in the first process; the second answers with bytes per
/// nanosecond (GB/s), from the start to the last byte.
///
/// # Errors
/// As [`ping_pong`].
pub fn one_way(side: Side<'_>, size: usize, count: u64) -> Result<f64, Error> {
    let mut stream = connect(side)?;
    let mut rate = 0.0;
    // Once for warming up.
    for (step, times) in [(2, count / 8 + 1), (3, count)] {
        side.meet(step)?;
        let start = Instant::now();
        let total = size as u64 * times;
        if side.first {
            let message = vec![0x5A; size];
            for _ in 0..times {
                stream.write_all(&message)?;
            }
        } else {
            let mut buffer = vec![0; READ_BYTES];
            let mut left = total;
            while left > 0 {
                let most = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                match stream.read(&mut buffer[..most])? {
                    0 => return Err(Error::from(io::Error::from(io::ErrorKind::UnexpectedEof))),
                    more => left -= more as u64,
                }
            }
            rate = total as f64 / start.elapsed().as_nanos().max(1) as f64;
        }
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::net::as_both;
    use std::time::Duration;

    #[test]
    fn there_and_back_and_one_way() {
        for (size, blocking) in [(1, true), (300_000, false)] {
            let trip = Trip { size, count: 10, blocking, pause: Duration::ZERO };
            let [one, two] = as_both(|side| ping_pong(side, trip));
            assert!(one.unwrap() > 0.0);
            two.unwrap();
        }
        let [one, two] = as_both(|side| one_way(side, 10_000, 100));
        one.unwrap();
        assert!(two.unwrap() > 0.0);
    }
}
