// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer of the shared-memory wire that is not the library: it makes a link by itself and can write whatever a peer can. The numbers are those of
//! `crates/wire/src/shm/layout.rs`, written down again; `link_up` fails when they differ.

use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_memory::event::{PeerBell, pipe_of_bell};
use bellwire_memory::fd_passing::{self, Received};
use bellwire_memory::pidfd;
use bellwire_memory::region::{Access, Region, RegionKind, RemoteRegion};
use bellwire_via::wire::Attach;
use bellwire_via::wire::shm::{ProtectionMode, ShmConfig, ShmWire};
use bellwire_via::wire::users::Allow;
use bellwire_via::{Engine, NetAddress};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

pub const VERSION: u32 = 4;
pub const LINES: u32 = 1024;
pub const PAYLOAD_BYTES: usize = 256 * 1024;
pub const ADVERTS: usize = 1024;
pub const CATALOGUE_ENTRIES: usize = 4096;
pub const HEAD_AT: usize = 128;
pub const LINES_AT: usize = 4096;
pub const ADVERTS_AT: usize = LINES_AT + LINES as usize * 64;
pub const LINK_BYTES: usize = ADVERTS_AT + ADVERTS * 32;
pub const CATALOGUE_BYTES: usize = CATALOGUE_ENTRIES * 64;
/// Bytes of a socket message.
pub const MESSAGE_BYTES: usize = 32;

/// A NIC to be attacked.
pub fn engine(mode: ProtectionMode) -> Engine<ShmWire> {
    Engine::new(ShmWire::open(ShmConfig { mode, host: vec![127, 0, 0, 1], attach: Attach::Auto, allow: Allow::NOBODY, network: 0 }).unwrap(), 1)
}

/// An address that nobody else uses.
pub fn fresh_address() -> NetAddress {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only the number matters.
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let discriminator = [&b"fuzz"[..], &std::process::id().to_le_bytes(), &number.to_le_bytes()].concat();
    NetAddress::new(&[127, 0, 0, 1], &discriminator).unwrap()
}

/// The name of the socket of who waits at an address.
pub fn waiter_name(address: &NetAddress) -> Vec<u8> {
    let mut hash = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128;
    for part in [address.host(), address.discriminator()] {
        for b in [&[part.len() as u8][..], part].concat() {
            hash = (hash ^ u128::from(b)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
        }
    }
    format!("bellwire/{VERSION}/{}/w/{hash:032x}", rustix::process::geteuid().as_raw()).into_bytes()
}

/// A socket message.
pub fn message(kind: u8, flags: u8, segment: u32, id: [u8; 16]) -> [u8; MESSAGE_BYTES] {
    let mut b = [0; MESSAGE_BYTES];
    (b[0], b[1], b[2]) = (kind, flags, VERSION as u8);
    b[4..8].copy_from_slice(&segment.to_le_bytes());
    b[8..24].copy_from_slice(&id);
    b
}

/// Memory without seals: whoever has it may cut it off.
pub fn soft(bytes: u64) -> OwnedFd {
    let fd = memfd_create("soft", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&fd, bytes).unwrap();
    fd
}

/// Our half of a link: region, payload bytes, catalogue.
pub fn half() -> (Region, Region, Region) {
    let out = Region::create("outsider", LINK_BYTES, RegionKind::Shared).unwrap();
    let header: Vec<u8> =
        [&b"bellwire"[..]].concat().into_iter().chain([VERSION, LINES, PAYLOAD_BYTES as u32, 1024, 4096, 0].iter().flat_map(|w| w.to_ne_bytes())).collect();
    out.bytes().copy_in(0, &header).unwrap();
    let payload = Region::create("outsider-payload", PAYLOAD_BYTES, RegionKind::Shared).unwrap();
    (out, payload, Region::create("outsider-catalogue", CATALOGUE_BYTES, RegionKind::Shared).unwrap())
}

/// Lets the NIC do all that its sockets ask for: each call does one round.
pub fn control(engine: &mut Engine<ShmWire>) {
    (0..4).for_each(|_| engine.handle_control());
}

/// A peer with a link.
pub struct Outsider {
    pub socket: fd_passing::Socket,
    pub out: Region,
    pub payload: Region,
    pub catalogue: Region,
    pub inward: RemoteRegion,
    pub payload_inward: RemoteRegion,
    pub tail: u32,
    pub bell: PeerBell,
    _listener: OwnedFd,
}

impl Outsider {
    /// Becomes a link of the NIC that listens at `address`.
    pub fn link_up(engine: &mut Engine<ShmWire>, address: &NetAddress) -> Self {
        let socket = fd_passing::connect_abstract(&waiter_name(address)).unwrap();
        let id = [7; 16];
        fd_passing::send(socket.as_fd(), &message(1, 0, 0, id), &[]).unwrap();
        control(engine);
        let mut b = [0; 64];
        fd_passing::receive(socket.as_fd(), &mut b).expect("an answer");
        let (out, payload, catalogue) = half();
        let (listener, ringer) = pipe_of_bell().unwrap();
        let own = pidfd::own().unwrap();
        fd_passing::send(socket.as_fd(), &message(4, 3, 0, id), &[out.fd(), payload.fd(), catalogue.fd(), ringer.as_fd(), own.as_fd()]).unwrap();
        control(engine);
        let Received { fds, .. } = fd_passing::receive(socket.as_fd(), &mut b).expect("an offer");
        let mut fds = fds.into_iter();
        let inward = RemoteRegion::map(fds.next().unwrap(), LINK_BYTES, LINK_BYTES + 65_536, Access::ReadOnly).unwrap();
        let payload_inward = RemoteRegion::map(fds.next().unwrap(), PAYLOAD_BYTES, PAYLOAD_BYTES + 65_536, Access::ReadOnly).unwrap();
        let bell = PeerBell::from_fd(fds.nth(1).unwrap()).unwrap();
        engine.progress();
        Self { socket, out, payload, catalogue, inward, payload_inward, tail: 0, bell, _listener: listener }
    }

    /// Puts a line into our queue, and payload where it says.
    pub fn push(&mut self, mut words: [u64; 8], payload: &[u8]) {
        let at = words[7] as usize % PAYLOAD_BYTES;
        let n = payload.len().min(PAYLOAD_BYTES - at);
        self.payload.bytes().copy_in(at, &payload[..n]).unwrap();
        words[0] = words[0] & !1 | u64::from(self.tail & LINES == 0);
        let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_ne_bytes()).collect();
        self.out.bytes().copy_in(LINES_AT + (self.tail % LINES) as usize * 64, &bytes).unwrap();
        self.tail = self.tail.wrapping_add(1);
    }

    /// What the NIC wrote in its line `index`, with the first bytes of the payload.
    pub fn line(&self, index: u32) -> ([u64; 8], [u8; 64]) {
        let (mut words, mut b, mut payload) = ([0; 8], [0; 64], [0; 64]);
        self.inward.bytes().copy_out(LINES_AT + (index % LINES) as usize * 64, &mut b).unwrap();
        for (w, c) in words.iter_mut().zip(b.chunks(8)) {
            *w = u64::from_ne_bytes(c.try_into().unwrap());
        }
        let _ = self.payload_inward.bytes().copy_out(words[7] as usize % (PAYLOAD_BYTES - 64), &mut payload);
        (words, payload)
    }
}
