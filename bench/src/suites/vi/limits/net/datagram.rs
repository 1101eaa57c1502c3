// SPDX-License-Identifier: MIT OR Apache-2.0
//! One datagram there, one back, over a connected UDP socket: the least that a message over UDP
//! costs on this path, spinning or sleeping in `recv`.

use std::time::Duration;

use super::{Side, Trip, check, spin, stamp};
use crate::clock::Patience;
use crate::error::Error;
use crate::limits::PATIENCE;
use crate::limits::sleep::round_trips;

/// Longest datagram over IPv4.
pub const DATAGRAM_MAX: usize = 65_507;

/// Half a round trip in ns, less the pause; the mean.
///
/// # Errors
/// If the size is too large, the other side does not answer, or what the operating system says.
pub fn ping_pong(side: Side<'_>, trip: Trip) -> Result<f64, Error> {
    if !(1..=DATAGRAM_MAX).contains(&trip.size) {
        return Err(Error::unsupported(format!("datagrams of {} bytes", trip.size)));
    }
    let socket = side.udp()?;
    socket.set_nonblocking(!trip.blocking)?;
    // For who blocks: the other side may be gone. Longer than any pause.
    socket.set_read_timeout(Some(PATIENCE))?;
    let (mut out, mut incoming) = (vec![0; trip.size], vec![0; trip.size]);
    let mut patience = Patience::lasting(lasting(trip));
    let send = |turn: u64| {
        stamp(&mut out, turn);
        socket.send(&out).map(drop).map_err(Error::from)
    };
    let receive = |turn: u64| {
        // One call if there is something; who blocks gets here once.
        let len = if trip.blocking { socket.recv(&mut incoming)? } else { spin(&mut patience, || socket.recv(&mut incoming))? };
        if len == incoming.len() { check(&incoming, turn) } else { Err(Error::failed("a datagram of another length")) }
    };
    round_trips(side.map, side.first, (trip.count, trip.pause), side.epoch + 2, send, receive)
}

/// How long a whole ping-pong may take.
pub(super) fn lasting(trip: Trip) -> Duration {
    PATIENCE + trip.pause * 3 * u32::try_from(trip.count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::net::as_both;

    #[test]
    fn there_and_back_both_ways_of_waiting() {
        for (size, blocking) in [(1, false), (8, true), (DATAGRAM_MAX, false)] {
            let trip = Trip { size, count: 20, blocking, pause: Duration::ZERO };
            let [one, two] = as_both(|side| ping_pong(side, trip));
            assert!(one.unwrap() > 0.0);
            two.unwrap();
        }
    }

    #[test]
    fn what_is_no_datagram_is_refused() {
        let trip = Trip { size: DATAGRAM_MAX + 1, count: 1, blocking: false, pause: Duration::ZERO };
        assert!(as_both(|side| ping_pong(side, trip)).into_iter().all(|result| matches!(result, Err(Error::Unsupported(_)))));
    }
}
