// SPDX-License-Identifier: MIT OR Apache-2.0
//! How the processes of a job connect: each asks those with lower numbers, where they said through the launcher that they wait. Who does not know a process's random id cannot find it, and who
//! asks has to show the one that it told the others.

use bellwire_via::wire::Wire;
use bellwire_via::{Acceptor, Duration, Engine, Error as ViaError, NetAddress, ViAttributes, ViHandle};

use super::core::Core;
use super::peer::{INBOX_LIMIT, State};

/// How long a connection may take.
const PATIENCE: Duration = Duration(60_000_000_000);
/// Context of a VI that has no connection yet.
const UNKNOWN: u64 = u64::MAX;
/// What both ends must say: the version of this layer's messages.
pub const VERSION: u64 = 0x6761_7300_0000_0003;
/// Tells connections of this layer from others, where a process waits and in what it asks.
const WAITING: [u8; 4] = *b"GA\x01W";
const ASKING: [u8; 4] = *b"GA\x01A";
const HOST_BYTES_MAX: usize = 18;

/// Where a process is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Name {
    host: Vec<u8>,
    id: [u8; 16],
}

impl Name {
    pub(super) fn new(host: &[u8], id: [u8; 16]) -> Self {
        Self { host: host.to_vec(), id }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        [&self.id, self.host.as_slice()].concat()
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (id, host) = bytes.split_first_chunk::<16>()?;
        (!host.is_empty() && host.len() <= HOST_BYTES_MAX).then(|| Self::new(host, *id))
    }

    /// Where it waits.
    pub(super) fn waits_at(&self) -> Option<NetAddress> {
        NetAddress::new(&self.host, &[WAITING.as_slice(), &self.id].concat())
    }

    /// What process `rank` asks with.
    pub(super) fn asks_as(&self, rank: u32) -> Option<NetAddress> {
        NetAddress::new(&self.host, &[ASKING.as_slice(), &rank.to_le_bytes(), &self.id].concat())
    }
}

/// Who asks, out of an address that a peer made up: its number, and the id that it shows.
fn who_asks(address: &NetAddress) -> Option<(u32, [u8; 16])> {
    let (magic, rest) = address.discriminator().split_first_chunk::<4>()?;
    let (rank, id) = rest.split_first_chunk::<4>()?;
    (*magic == ASKING).then_some((u32::from_le_bytes(*rank), id.try_into().ok()?))
}

impl Core {
    /// Waits for requests.
    pub(super) fn listen<W: Wire>(&mut self, engine: &mut Engine<W>, name: &Name) -> Result<(), ViaError> {
        let at = name.waits_at().ok_or(ViaError::InvalidParameter)?;
        self.acceptor = Acceptor::new(engine, at)?;
        Ok(())
    }

    /// Asks the processes before this one for connections; the inbox says what became of it. The engine has been told the time.
    pub(super) fn connect<W: Wire>(&mut self, engine: &mut Engine<W>) -> Result<(), ViaError> {
        let deadline = engine.now() + PATIENCE;
        let asks = self.names[self.me as usize].asks_as(self.me).ok_or(ViaError::InvalidParameter)?;
        for rank in 0..self.me {
            let remote = self.names[rank as usize].waits_at().ok_or(ViaError::InvalidParameter)?;
            let vi = self.create_vi(engine, u64::from(rank))?;
            self.peers[rank as usize].channel.set_vi(vi);
            engine.connect_request(vi, &asks, &remote, deadline)?;
        }
        Ok(())
    }

    /// Answers all requests that have come; the inbox says what became of them.
    pub(super) fn accept<W: Wire>(&mut self, engine: &mut Engine<W>) {
        let mut acceptor = std::mem::take(&mut self.acceptor);
        acceptor.accept(engine, |engine, address| {
            self.asker(address)?;
            self.create_vi(engine, UNKNOWN).ok()
        });
        self.acceptor = acceptor;
    }

    /// The process that asks for its connection, which it has not yet.
    fn asker(&self, address: &NetAddress) -> Option<u32> {
        let (rank, id) = who_asks(address)?;
        let is_awaited = rank > self.me && self.peers.get(rank as usize)?.state == State::Connecting;
        (is_awaited && self.names.get(rank as usize)?.id == id).then_some(rank)
    }

    /// A request was accepted.
    pub(super) fn accepted<W: Wire>(&mut self, engine: &mut Engine<W>, vi: ViHandle, remote: &NetAddress) {
        let Some(rank) = self.asker(remote).filter(|rank| engine.set_inbox(vi, self.inbox, INBOX_LIMIT, u64::from(*rank)).is_ok()) else {
            return engine.end_vi(vi);
        };
        let peer = &mut self.peers[rank as usize];
        peer.channel.set_vi(vi);
        peer.open(engine);
    }

    /// Nobody is awaited any more.
    pub(super) fn stop_listening<W: Wire>(&mut self, engine: &mut Engine<W>) {
        self.acceptor.close(engine);
    }

    /// Whether all processes are connected.
    pub(super) fn is_complete(&self) -> bool {
        self.peers.iter().all(|peer| peer.state != State::Connecting)
    }

    fn create_vi<W: Wire>(&self, engine: &mut Engine<W>, context: u64) -> Result<ViHandle, ViaError> {
        let attributes = ViAttributes { ptag: Some(self.ptag), qos: VERSION, ..ViAttributes::default() };
        engine.create_vi_for_inbox(&attributes, self.inbox, INBOX_LIMIT, context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_as_bytes_and_in_requests() {
        let name = Name::new(&[127, 0, 0, 1], [7; 16]);
        assert_eq!(Name::from_bytes(&name.to_bytes()), Some(name.clone()));
        assert_eq!(Name::from_bytes(&[0; 16]), None);
        assert_eq!(Name::from_bytes(&[0; 35]), None);
        assert_eq!(who_asks(&name.asks_as(9).unwrap()), Some((9, [7; 16])));
        assert_eq!(who_asks(&name.waits_at().unwrap()), None);
    }
}
