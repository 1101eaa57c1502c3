// SPDX-License-Identifier: MIT OR Apache-2.0
//! A peer cannot predict the numbers that it will see from those that it has seen.

use super::UdpConfig;
use super::find::Finder;
use crate::users::Allow;
use crate::xdp::XdpMode;
use bellwire_proto::{Config, Seed, Transport};
use bellwire_time::Instant;
use core::net::SocketAddr;

/// Questions that a peer has been asked, as the directory of its host.
const SEEN: usize = 10_000;

/// The random half of a session's id, which travels in every packet to us.
fn random_half(id: u64) -> u32 {
    (id >> 32) as u32
}

/// A NIC drew the nonces of its questions, the keys of its cookies and the ids of its sessions from
/// generators with one seed. A peer that found one id among the nonces then knew all that follow.
#[test]
fn ids_are_not_among_nonces() {
    let seed = Seed::from(0x5eed);
    let own: SocketAddr = "127.0.0.1:0".parse().unwrap();
    let config = UdpConfig { address: own, directory_port: 0, seed, faults: None, tap: None, allow: Allow::NOBODY, keys: None, xdp: XdpMode::Off };
    let mut finder = Finder::new(own, &config, Instant(0)).unwrap();
    let nonces: Vec<u64> = (0..SEEN).map(|_| finder.next_nonce()).collect();
    let mut transport: Transport<Vec<u8>> = Transport::new(Config::default(), seed);
    let mut connect = |port| {
        let id = transport.connect(Instant(1), SocketAddr::new(own.ip(), port), 0).unwrap();
        random_half(id.raw())
    };
    let first = connect(1);
    // A connection takes three numbers: id, nonce, and the first packet's.
    let predicted = nonces.iter().position(|n| *n as u32 == first).map(|at| nonces[at + 3] as u32);
    let second = connect(2);
    assert_ne!(predicted, Some(second), "a peer has predicted the next id");
}
