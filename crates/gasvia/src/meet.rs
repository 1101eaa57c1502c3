// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the processes of a job connect: each asks those with lower numbers in turn, then waits for
//! those with higher ones. A process that asks shows the random id that it told the others.

use std::time::{Duration, Instant};

use bellwire_vipl_calls::{Address, code};

use crate::core::Core;
use crate::failure::Failure;
use crate::memory::Memory;

const HOST_BYTES_MAX: usize = 18;
const ID_BYTES: usize = 16;
/// Waits, and asks.
const WAITING: &[u8] = b"GASVIA\x01W";
const ASKING: &[u8] = b"GASVIA\x01A";
/// How long all processes together may take.
const MEETING: Duration = Duration::from_secs(60);

/// Where a process is, out of what it has told the others.
struct Name<'a> {
    id: &'a [u8],
    host: &'a [u8],
}

impl<'a> Name<'a> {
    fn from_bytes(bytes: &'a [u8]) -> Option<Self> {
        let (id, host) = bytes.split_at_checked(ID_BYTES)?;
        (1..=HOST_BYTES_MAX).contains(&host.len()).then_some(Self { id, host })
    }

    fn waits_at(&self) -> Address {
        Address::new(self.host, &[WAITING, self.id].concat())
    }

    fn asks_as(&self, rank: u32, lane: u8) -> Address {
        Address::new(self.host, &[ASKING, &rank.to_le_bytes(), &[lane], self.id].concat())
    }
}

/// The process that asks, the VI, and the id that it shows, out of an address that a peer made up.
fn who_asks(address: &Address) -> Option<(u32, u8, &[u8])> {
    let (rank, rest) = address.discriminator().strip_prefix(ASKING)?.split_first_chunk()?;
    let (lane, id) = rest.split_first()?;
    Some((u32::from_le_bytes(*rank), *lane, id))
}

impl<M: Memory> Core<M> {
    /// What the others have to be told of this process.
    pub fn name(&self) -> Vec<u8> {
        [&self.id, self.nic.host()].concat()
    }

    /// Connects to all others, each of which calls this with the names of all, in order.
    ///
    /// # Errors
    /// [`Failure::Unreachable`].
    pub fn meet(&mut self, names: &[Vec<u8>]) -> Result<(), Failure> {
        let end = Instant::now() + MEETING;
        let left = || end.saturating_duration_since(Instant::now()).as_millis().clamp(1, 60_000) as _;
        let unreachable = |process: u32, why: String| Failure::Unreachable { process, why };
        let names = names.iter().zip(0..).map(|(name, rank)| Name::from_bytes(name).ok_or_else(|| unreachable(rank, "it has no name".to_owned())));
        let names = names.collect::<Result<Vec<_>, _>>()?;
        let (Some(own), true) = (names.get(self.me as usize), names.len() == self.peers.len()) else {
            return Err(unreachable(self.me, "a process has not said where it is".to_owned()));
        };
        for (rank, there) in (0..self.me).zip(&names) {
            for (lane, at) in self.peers[rank as usize].lanes.iter().zip(0..) {
                if let Err(e) = self.nic.connect(lane.vi, &own.asks_as(self.me, at), &there.waits_at(), left()) {
                    let said = self.nic.cause(lane.vi).text;
                    return Err(unreachable(rank, if said.is_empty() { why_not(e) } else { said }));
                }
            }
        }
        let mut missing: Vec<(u32, u8)> =
            self.peers.iter().zip(0..).skip(self.me as usize + 1).flat_map(|(peer, rank)| (0..peer.lanes.len() as u8).map(move |at| (rank, at))).collect();
        while let Some((first, _)) = missing.first() {
            let (remote, request) = self.nic.connect_wait_for(&own.waits_at(), left()).map_err(|e| unreachable(*first, why_not(e)))?;
            let known = who_asks(&remote).filter(|(rank, _, id)| names.get(*rank as usize).is_some_and(|name| name.id == *id));
            let Some(at) = known.and_then(|(rank, lane, _)| missing.iter().position(|of| *of == (rank, lane))) else {
                self.nic.reject(request);
                continue;
            };
            let (rank, lane) = missing[at];
            match self.nic.accept(request, self.peers[rank as usize].lanes[usize::from(lane)].vi) {
                Ok(()) => drop(missing.swap_remove(at)),
                Err(e) => return Err(unreachable(rank, why_not(e))),
            }
        }
        Ok(())
    }
}

fn why_not(e: std::ffi::c_int) -> String {
    match e {
        code::NO_MATCH => "nobody waits for connections there".to_owned(),
        code::NOT_REACHABLE => "no wire leads there".to_owned(),
        code::TIMEOUT => "it does not answer".to_owned(),
        other => format!("libvipl gives {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_askers_survive_as_bytes() {
        let bytes = [&[7; ID_BYTES][..], &[127, 0, 0, 1]].concat();
        let name = Name::from_bytes(&bytes).unwrap();
        assert_eq!(who_asks(&name.asks_as(9, 1)), Some((9, 1, &[7; ID_BYTES][..])));
        assert_eq!(who_asks(&name.waits_at()), None);
        assert!(Name::from_bytes(&bytes[..ID_BYTES]).is_none());
        assert!(Name::from_bytes(&[0; 40]).is_none());
    }
}
