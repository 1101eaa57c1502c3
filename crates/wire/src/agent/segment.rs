// SPDX-License-Identifier: MIT OR Apache-2.0
//! An endpoint's memory: a sealed memfd that the agent creates and the program maps for as long as
//! it is attached, the agent while the endpoint is resident.
//!
//! ```text
//!   0            512                    512 + tx               512 + tx + rx
//!   | words      | tx ring              | rx ring              |
//!      64 armed (program)        256 tx head (agent)
//!     128 tx tail (program)      320 rx tail (agent)
//!     192 rx head (program)      384 state (agent)
//! ```
//!
//! A record of a ring is an address of [`ADDRESS_BYTES`] (tx: the receiver; rx: the sender) and a
//! packet; its tag is a [`Kind`].
//!
//! The state word holds a [`State`] in its two lowest bits, and above it how often the endpoint has
//! left a frame; the agent's page how often it has fallen asleep and woken, so it sleeps while that
//! is odd. By these numbers a program that has rung knows that it need not ring again.
//!
//! Sleeping: a writer publishes, fences (`membarrier::light`), and reads the word of the other
//! side. A sleeper sets its word, fences (`membarrier::heavy`), and looks once more. So the program
//! rings an agent that sleeps or has not loaded the endpoint, and the agent rings a program that
//! sleeps. Both are the protocol of the model `loom_sleep`.

use bellwire_memory::MemoryError;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::membarrier::{Reach, heavy, light};
use bellwire_memory::packet_ring::{Corrupt, MappedRing, Reader, Record, Writer};
use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// Bytes before the rings.
const WORDS_BYTES: usize = 512;
const ARMED: usize = 64;
const TX_TAIL: usize = 128;
const RX_HEAD: usize = 192;
const TX_HEAD: usize = 256;
const RX_TAIL: usize = 320;
const STATE: usize = 384;
const STATE_MASK: u32 = 3;

/// Bytes of an address in a record.
pub const ADDRESS_BYTES: usize = 24;
/// The longest packet that endpoints exchange.
pub const PACKET_BYTES_MAX: usize = 16_336;
/// Bytes of a ring, at least and at most.
const RING_BYTES: core::ops::RangeInclusive<u32> = (1 << 16)..=(1 << 26);

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// A packet.
    Packet = 1,
    /// Of the agent: there is no endpoint at this address.
    Gone = 2,
    /// Of the agent: the endpoint at this address was not resident; the beginning of the packet
    /// that it was refused follows.
    NotResident = 3,
}

impl Kind {
    /// The kind of a record's tag.
    pub fn of(tag: u32) -> Option<Self> {
        [Self::Packet, Self::Gone, Self::NotResident].into_iter().find(|k| *k as u32 == tag)
    }
}

/// Where an endpoint stands, as the agent tells its program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum State {
    /// In the owner's memory alone: the agent must be rung.
    #[default]
    Host = 0,
    /// In a frame: the agent looks at its rings.
    Resident = 3,
}

/// Bytes of the two rings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Of the ring towards the agent.
    pub tx: u32,
    /// Of the ring towards the program.
    pub rx: u32,
}

impl Sizes {
    /// Two sizes, if they can be.
    pub fn new(tx: u32, rx: u32) -> Option<Self> {
        let fits = |size: u32| size.is_power_of_two() && RING_BYTES.contains(&size);
        (fits(tx) && fits(rx)).then_some(Self { tx, rx })
    }

    /// Bytes of the segment.
    pub fn bytes(self) -> usize {
        WORDS_BYTES + self.tx as usize + self.rx as usize
    }

    fn map(self, memfd: OwnedFd) -> Result<Arc<RemoteRegion>, MemoryError> {
        let whole = self.bytes().next_multiple_of(rustix::param::page_size());
        RemoteRegion::map(memfd, whole, whole, Access::ReadWrite).map(Arc::new)
    }

    /// The two rings of a segment.
    fn rings(self, region: &Arc<RemoteRegion>) -> (MappedRing, MappedRing) {
        let rx = WORDS_BYTES + self.tx as usize;
        (MappedRing::new(region, TX_TAIL, TX_HEAD, WORDS_BYTES, self.tx), MappedRing::new(region, RX_TAIL, RX_HEAD, rx, self.rx))
    }
}

fn word(region: &RemoteRegion, at: usize) -> &AtomicU32 {
    // SAFETY: in the first 512 bytes of a mapped segment, aligned; the memory is reached by atomics
    // only, and the reference does not outlive the mapping.
    unsafe { &*region.base().add(at).cast::<AtomicU32>() }
}

/// The program's end of a segment.
#[derive(Debug)]
pub struct ProgramEnd {
    region: Arc<RemoteRegion>,
    page: RemoteRegion,
    rx_bytes: u32,
    /// The state, and the agent's sleep, for which it was rung last.
    rung: (Option<u32>, Option<u32>),
    /// Towards the agent.
    pub tx: Writer<MappedRing>,
    /// From the agent.
    pub rx: Reader<MappedRing>,
}

impl ProgramEnd {
    /// Maps what an agent has sent: the segment, and the page of the agent.
    ///
    /// # Errors
    /// They are not what they should be.
    pub fn map(segment: OwnedFd, page: OwnedFd, sizes: Sizes) -> Result<Self, MemoryError> {
        let region = sizes.map(segment)?;
        let page = RemoteRegion::map(page, 4, 1 << 20, Access::ReadOnly)?;
        let (tx, rx) = sizes.rings(&region);
        Ok(Self { tx: Writer::new(tx, sizes.tx, 0), rx: Reader::new(rx, sizes.rx, 0), rx_bytes: sizes.rx, rung: (None, None), region, page })
    }

    /// Bytes that peers may have in flight towards this end: half of the ring, for records have
    /// heads, and the ring's end may stay empty.
    pub fn receive_bytes(&self) -> usize {
        self.rx_bytes as usize / 2
    }

    /// Asks to be rung when packets arrive and when there is room, or no longer. Look once more
    /// before sleeping.
    pub fn set_armed(&self, for_packets: bool, for_room: bool) {
        let armed = u32::from(for_packets) | u32::from(for_room) << 1;
        // Relaxed: the fence orders it before the look that follows; pairs with the agent's
        // light() in wants_ring().
        word(&self.region, ARMED).store(armed, Ordering::Relaxed);
        if armed != 0 {
            heavy(Reach::Fenced);
        }
    }

    /// Whether the agent must be rung for what has been written: it sleeps, or the endpoint is not
    /// resident. Once for each such time, unless [`not_rung`](Self::not_rung) says that it could
    /// not be done: an agent that has heard a ring has woken, and has the endpoint in its queue.
    #[inline]
    pub fn must_ring(&mut self) -> bool {
        light(false);
        // Relaxed, both: after the fence; pair with the agent's heavy() before it looks again.
        let (page, state) = (word(&self.page, 0).load(Ordering::Relaxed), word(&self.region, STATE).load(Ordering::Relaxed));
        let (is_asleep, is_resident) = (page & 1 != 0, state & STATE_MASK == State::Resident as u32);
        let (for_state, for_page) = self.rung;
        let is_new = if is_resident { is_asleep && for_page != Some(page) } else { for_state != Some(state) };
        if is_new {
            self.rung = (Some(state), Some(page));
        }
        is_new
    }

    /// Whether the endpoint has a frame.
    #[inline]
    pub fn is_resident(&self) -> bool {
        // Relaxed: a hint. A program that sleeps until it has one is rung when packets have left.
        word(&self.region, STATE).load(Ordering::Relaxed) & STATE_MASK == State::Resident as u32
    }

    /// The agent could not be rung.
    pub fn not_rung(&mut self) {
        self.rung = (None, None);
    }
}

/// The agent's end of a segment.
#[derive(Debug)]
pub struct AgentEnd {
    region: Arc<RemoteRegion>,
    /// How often it has left a frame.
    unloads: u32,
    /// From the program.
    pub tx: Reader<MappedRing>,
    /// Towards the program.
    pub rx: Writer<MappedRing>,
}

/// Where the agent's ends stand while the segment is not mapped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Indices {
    tx_head: u32,
    rx_tail: u32,
    unloads: u32,
}

impl AgentEnd {
    /// Maps a segment that this process created, where it stood.
    ///
    /// # Errors
    /// [`MemoryError::Os`]: no memory for the mapping.
    pub fn map(segment: OwnedFd, sizes: Sizes, at: Indices) -> Result<Self, MemoryError> {
        let region = sizes.map(segment)?;
        let (tx, rx) = sizes.rings(&region);
        Ok(Self { tx: Reader::new(tx, sizes.tx, at.tx_head), rx: Writer::new(rx, sizes.rx, at.rx_tail), unloads: at.unloads, region })
    }

    /// Where it stands.
    pub fn indices(&self) -> Indices {
        Indices { tx_head: self.tx.head(), rx_tail: self.rx.tail(), unloads: self.unloads }
    }

    /// Tells the program the state.
    pub fn set_state(&mut self, state: State) {
        if state == State::Host {
            self.unloads = self.unloads.wrapping_add(1);
        }
        // Relaxed: an agent that leaves Resident fences and looks once more (is_quiet()).
        word(&self.region, STATE).store(self.unloads << 2 | state as u32, Ordering::Relaxed);
    }

    /// Whether the program has written nothing more, after the state or the agent's own word has
    /// told it to ring.
    pub fn is_quiet(&self) -> bool {
        self.tx.is_empty()
    }

    /// Whether the program must be rung for what has been published: packets, and room.
    pub fn wants_ring(&self) -> (bool, bool) {
        light(false);
        // Relaxed: after the fence; pairs with the program's heavy() in set_armed().
        let armed = word(&self.region, ARMED).load(Ordering::Relaxed);
        (armed & 1 != 0, armed & 2 != 0)
    }

    /// Copies the address of a record and the first bytes behind it.
    pub fn head(&self, record: &Record) -> Option<(SocketAddr, usize)> {
        let body = (record.length as usize).checked_sub(ADDRESS_BYTES).filter(|n| *n <= PACKET_BYTES_MAX)?;
        let mut address = [0; ADDRESS_BYTES];
        self.tx.copy_out(record, 0, &mut address);
        Some((load_address(&address)?, body))
    }

    /// Copies the first bytes of a record's packet.
    ///
    /// # Panics
    /// If it is shorter than `to`.
    pub fn copy_packet(&self, record: &Record, to: &mut [u8]) {
        self.tx.copy_out(record, ADDRESS_BYTES as u32, to);
    }

    /// Delivers a packet. `false`: the ring is full.
    ///
    /// # Errors
    /// [`Corrupt`]: the program broke its end.
    pub fn deliver(&mut self, kind: Kind, from: &SocketAddr, packet: &[u8]) -> Result<bool, Corrupt> {
        self.rx.push(kind as u32, &store_address(from), packet)
    }

    /// Gives back memory of the ring towards the program that only a burst needed, if the program
    /// has taken everything.
    ///
    /// # Errors
    /// [`Corrupt`]: the program broke its end.
    pub fn release(&mut self) -> Result<(), Corrupt> {
        if self.rx.has_spare() { self.rx.release().map(|_| ()) } else { Ok(()) }
    }

    /// Delivers the packet of a record to another endpoint, from ring to ring.
    ///
    /// # Errors
    /// [`Corrupt`]: the receiver broke its end.
    pub fn forward(&self, record: &Record, from: &SocketAddr, to: &mut Self) -> Result<bool, Corrupt> {
        let Some(length) = (record.length as usize).checked_sub(ADDRESS_BYTES) else { return Ok(false) };
        let packet = self.tx.storage().address(record).wrapping_add(ADDRESS_BYTES);
        // SAFETY: `address` has checked that the record lies in the ring, which stays mapped.
        unsafe { to.rx.push_from(Kind::Packet as u32, &store_address(from), packet, length) }
    }
}

/// The page by which an agent tells all its programs whether it sleeps.
#[derive(Debug)]
pub struct AgentPage {
    region: Region,
    /// What it says.
    changes: u32,
}

impl AgentPage {
    /// A new page: awake.
    ///
    /// # Errors
    /// Those of [`Region::create`].
    pub fn create() -> Result<Self, MemoryError> {
        Region::create("bellwired", 4, RegionKind::WriterOwned).map(|region| Self { region, changes: 0 })
    }

    /// For a program to map: it can only read.
    pub fn fd(&self) -> rustix::fd::BorrowedFd<'_> {
        self.region.fd()
    }

    /// Says whether the agent sleeps from now on. Look once more before sleeping.
    pub fn set_asleep(&mut self, asleep: bool) {
        if asleep != (self.changes & 1 != 0) {
            self.changes = self.changes.wrapping_add(1);
        }
        // SAFETY: the first word of a mapped region, reached by atomics only.
        let word = unsafe { &*self.region.base().cast::<AtomicU32>() };
        // Relaxed: the fence orders it before the look; pairs with must_ring() of the programs.
        word.store(self.changes, Ordering::Relaxed);
        if asleep {
            heavy(Reach::Fenced);
        }
    }
}

/// The fence between a state that is no longer Resident and the last look.
pub fn fence_before_look() {
    heavy(Reach::Fenced);
}

/// An address as it lies in a record: family (4 or 6), zero, port (2), scope (4), IP (16).
pub fn store_address(address: &SocketAddr) -> [u8; ADDRESS_BYTES] {
    let mut bytes = [0; ADDRESS_BYTES];
    bytes[2..4].copy_from_slice(&address.port().to_ne_bytes());
    match address {
        SocketAddr::V4(v4) => {
            bytes[0] = 4;
            bytes[8..12].copy_from_slice(&v4.ip().octets());
        }
        SocketAddr::V6(v6) => {
            bytes[0] = 6;
            bytes[4..8].copy_from_slice(&v6.scope_id().to_ne_bytes());
            bytes[8..24].copy_from_slice(&v6.ip().octets());
        }
    }
    bytes
}

/// The address of a record. `None`: nonsense.
pub fn load_address(bytes: &[u8; ADDRESS_BYTES]) -> Option<SocketAddr> {
    let port = u16::from_ne_bytes([bytes[2], bytes[3]]);
    match bytes[0] {
        4 => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(bytes[8], bytes[9], bytes[10], bytes[11])), port)),
        6 => {
            let ip = <[u8; 16]>::try_from(&bytes[8..24]).ok()?;
            let scope = u32::from_ne_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
            Some(SocketAddrV6::new(Ipv6Addr::from(ip), port, 0, scope).into())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwire_memory::region::sparse_memfd;

    fn ends() -> (ProgramEnd, AgentEnd, AgentPage, OwnedFd) {
        let sizes = Sizes::new(1 << 16, 1 << 16).unwrap();
        let memfd = sparse_memfd("test", sizes.bytes()).unwrap();
        let page = AgentPage::create().unwrap();
        let program = ProgramEnd::map(memfd.try_clone().unwrap(), page.fd().try_clone_to_owned().unwrap(), sizes).unwrap();
        let agent = AgentEnd::map(memfd.try_clone().unwrap(), sizes, Indices::default()).unwrap();
        (program, agent, page, memfd)
    }

    #[test]
    fn packets_go_both_ways_and_over_a_remap() {
        let (mut program, mut agent, _page, memfd) = ends();
        let to: SocketAddr = "[fe80::7%3]:9".parse().unwrap();
        assert!(program.tx.push(Kind::Packet as u32, &store_address(&to), b"hello").unwrap());
        let record = agent.tx.peek().unwrap().unwrap();
        assert_eq!((agent.head(&record), Kind::of(record.tag)), (Some((to, 5)), Some(Kind::Packet)));
        agent.tx.consume(&record);
        agent.tx.publish();
        let at = agent.indices();
        drop(agent);
        let mut agent = AgentEnd::map(memfd, Sizes::new(1 << 16, 1 << 16).unwrap(), at).unwrap();
        assert!(agent.tx.peek().unwrap().is_none());
        let from: SocketAddr = "10.0.0.1:77".parse().unwrap();
        assert!(agent.deliver(Kind::Gone, &from, b"x").unwrap());
        let record = program.rx.peek().unwrap().unwrap();
        let mut address = [0; ADDRESS_BYTES];
        program.rx.copy_out(&record, 0, &mut address);
        assert_eq!((load_address(&address), Kind::of(record.tag)), (Some(from), Some(Kind::Gone)));
    }

    #[test]
    fn sleepers_are_rung() {
        let (mut program, mut agent, mut page, _memfd) = ends();
        assert!(program.must_ring(), "not resident yet");
        agent.set_state(State::Resident);
        assert!(!program.must_ring() && agent.wants_ring() == (false, false));
        page.set_asleep(true);
        program.set_armed(true, false);
        assert!(program.must_ring() && agent.wants_ring() == (true, false));
        page.set_asleep(false);
        program.set_armed(false, true);
        assert!(!program.must_ring() && agent.wants_ring() == (false, true));
    }

    #[test]
    fn an_agent_is_rung_once_for_each_time() {
        let (mut program, mut agent, mut page, _memfd) = ends();
        let mut rings = || (0..3).filter(|_| program.must_ring()).count();
        assert_eq!(rings(), 1, "new");
        page.set_asleep(true);
        assert_eq!(rings(), 0, "it has heard, and waits for a frame");
        for _ in 0..2 {
            agent.set_state(State::Resident);
            page.set_asleep(false);
            assert_eq!(rings(), 0);
            page.set_asleep(true);
            assert_eq!(rings(), 1, "it sleeps");
            page.set_asleep(false);
            agent.set_state(State::Host);
            assert_eq!(rings(), 1, "unloaded");
        }
        program.not_rung();
        assert!(program.must_ring());
    }

    #[test]
    fn nonsense_is_no_address() {
        assert_eq!(load_address(&[0; ADDRESS_BYTES]), None);
        assert_eq!(Sizes::new(0, 1 << 16), None);
        assert_eq!(Kind::of(0), None);
    }
}
