// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbitrary bytes as a packet of the NIC-to-NIC protocol: what can be read is written back as it was.

use bellwire_proto::packet::Packet;

/// Runs one input.
pub fn run(data: &[u8]) {
    let Ok(packet) = Packet::parse(data) else { return };
    let mut out = vec![0xee; 70_000];
    let n = packet.emit(&mut out);
    assert_eq!(&out[..n], data, "{packet:?}");
}
