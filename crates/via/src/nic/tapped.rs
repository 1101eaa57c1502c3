// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets that a captured NIC sends by UDP, as they leave, for `bellwire capture`.

use crate::wire::udp::{Leaving, Tap};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_trace::{Kind, address, here};

/// Packets told of.
static NUMBER: AtomicU32 = AtomicU32::new(0);

/// Notes packets, if this process is captured.
pub(super) fn tap() -> Option<Tap> {
    here::captures().is_some().then_some(note as Tap)
}

/// The bytes come first, so that all is known with the event of the packet.
fn note(leaving: &Leaving<'_>) {
    // Relaxed: only differs from others.
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let snap = here::captures().unwrap_or(0).min(leaving.bytes.len());
    here::note_bytes(Kind::DatagramBytes, number, 0, 0, &leaving.bytes[..snap]);
    let ([from, from_low], [to, to_low]) = (address::ip_words(leaving.from.ip()), address::ip_words(leaving.to.ip()));
    let ports = [leaving.from.port(), leaving.to.port()].map(u64::from);
    let rest = [from, from_low, to, to_low, leaving.copies as u64, leaving.delay.0];
    here::note_more(Kind::Datagram, number, [leaving.bytes.len() as u64, ports[0] << 16 | ports[1]], &rest);
}
