// SPDX-License-Identifier: MIT OR Apache-2.0
//! Golden packets: each kind, byte for byte as docs/PROTOCOL.md has it (`vectors/*.hex`), read and
//! written; and what must not be read.

use bellwire_proto::packet::ack::BITMAP_WORDS_MAX;
use bellwire_proto::packet::data::{Answer, Data};
use bellwire_proto::packet::handshake::{Party, RejectReason};
use bellwire_proto::packet::{Ack, Close, CloseAck, Cookie, Hello, Kind, Nack, Packet, Ping, Pong, Reject, Reset, Welcome};
use bellwire_proto::{NicId, PacketError, Refusal};

const SESSION: u64 = 0xa1b2_c3d4_0007_0003;
const FRAMES: &[u8] = &[1, 0, 3, 0, 8, 7, 6, 5, 4, 3, 2, 1, b'x', b'y', b'z', 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];

fn party() -> Party {
    let nic = NicId(core::array::from_fn(|i| i as u8 + 0x10));
    Party { nic, boot: 0x1122_3344_5566_7788, session: 0x0102_0304_0506_0708, attempt: 9, features: 0, datagram: 8952, psn: 0xffff_fffe, room: 0x0040_0000 }
}

fn packets() -> Vec<(&'static str, Packet<'static>)> {
    let answer = Answer { ack: Some(0x99), echo: Some((0xaabb_ccdd, 0x1234)) };
    let data = Data {
        session: SESSION,
        psn: 0x0102_0304,
        stream_back: 5,
        ordered: false,
        ack_now: true,
        retransmitted: true,
        timestamp: 0x0a0b_0c0d,
        answer,
        frames: FRAMES,
        count: 2,
    };
    let ordered =
        Data { stream_back: 0, ordered: true, ack_now: false, retransmitted: false, answer: Answer::default(), frames: &[], count: 0, ..data.clone() };
    let mut bitmap = [0; BITMAP_WORDS_MAX];
    bitmap[..2].copy_from_slice(&[0xfe, 1]);
    let nonce = 0xdead_beef_0bad_cafe;
    let cookie = [0xc0; 16];
    vec![
        ("data", Packet::Data(data)),
        ("data_ordered_empty", Packet::Data(ordered)),
        ("ack", Packet::Ack(Ack { session: SESSION, ack: 77, echo: Some((5, 6)), bitmap, words: 2 })),
        ("nack", Packet::Nack(Nack { session: SESSION, psn: 78, reason: Refusal::NoReceive, echo: 0x0101_0101, consumed: 3 })),
        ("hello", Packet::Hello(Hello { timestamp: 0x55, party: party(), nonce, versions: [1, 1], cookie })),
        ("cookie", Packet::Cookie(Cookie { session: SESSION, echo: 0x55, nic: party().nic, boot: 3, nonce, cookie, auth: false })),
        ("welcome", Packet::Welcome(Welcome { session: SESSION, echo: 0x55, party: party(), nonce, version: 1 })),
        ("reject", Packet::Reject(Reject { session: SESSION, reason: RejectReason::Full, nonce })),
        ("reset", Packet::Reset(Reset { kind: Kind::Ping, word: 4, unknown: SESSION })),
        ("close", Packet::Close(Close { session: SESSION, psn: 100, own: 0x0102_0304_0506_0708 })),
        ("close_ack", Packet::CloseAck(CloseAck { session: SESSION, psn: 100 })),
        ("ping", Packet::Ping(Ping { session: SESSION, token: 0x7070, timestamp: 8, length: 40 })),
        ("pong", Packet::Pong(Pong { session: SESSION, token: 0x7070, echo: 8, length: 40 })),
        ("cookie_auth", Packet::Cookie(Cookie { session: SESSION, echo: 0x55, nic: NicId([0; 16]), boot: 0, nonce, cookie, auth: true })),
    ]
}

fn bytes_of(packet: &Packet<'_>) -> Vec<u8> {
    let mut out = vec![0xee; 70_000];
    let n = packet.emit(&mut out);
    out.truncate(n);
    out
}

#[test]
fn every_kind_is_as_documented() {
    //= P-HEAD-1
    //= P-HEAD-2
    for (name, packet) in packets() {
        let bytes = bytes_of(&packet);
        let path = format!("{}/tests/vectors/{name}.hex", env!("CARGO_MANIFEST_DIR"));
        let hex: String = bytes.chunks(16).map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<Vec<_>>().join(" ") + "\n").collect();
        if std::env::var_os("BELLWIRE_WRITE_VECTORS").is_some() {
            std::fs::write(&path, &hex).unwrap();
        }
        let golden = std::fs::read_to_string(&path).unwrap();
        assert_eq!(golden, hex, "{name}");
        assert_eq!(Packet::parse(&bytes).as_ref(), Ok(&packet), "{name}");
    }
}

#[test]
fn lengths_are_exact() {
    //= P-HEAD-5
    //= P-HAND-1
    for (name, packet) in packets() {
        let bytes = bytes_of(&packet);
        for n in 0..bytes.len() {
            let cut = Packet::parse(&bytes[..n]);
            // A frame's end is a packet's end; a PING may have any padding.
            let is_whole = (name == "data" && (n == 32 || n == 47)) || (name == "ping" && n >= 32);
            assert_eq!(cut.is_ok(), is_whole, "{name} cut to {n}");
        }
        let longer = [&bytes[..], &[1]].concat();
        assert!(Packet::parse(&longer).is_err(), "{name} with a byte more");
        assert!(!matches!(packet, Packet::Cookie(_) | Packet::Welcome(_) | Packet::Reject(_)) || bytes.len() <= 256);
    }
    assert_eq!(Packet::parse(&[]), Err(PacketError::Short));
    assert_eq!(Packet::parse(&[0x11; 15]), Err(PacketError::Short));
    assert_eq!(Packet::parse(&[0x21; 40]), Err(PacketError::Version));
    assert_eq!(Packet::parse(&[0x1d; 40]), Err(PacketError::Kind));
}

/// Flips each bit in turn, and says which flips leave something that can be read.
#[test]
fn reserved_bits_are_looked_at() {
    //= P-HEAD-4
    //= P-FRAME-2
    let reserved: &[(&str, &[usize])] = &[
        ("data", &[30, 31, 33, 48]),
        ("ack", &[22, 23]),
        ("nack", &[1, 3, 22, 23]),
        ("hello", &[1, 2, 3, 8, 15, 86, 87, 104, 255]),
        ("cookie", &[1, 2, 3]),
        ("welcome", &[1, 84, 87]),
        ("reject", &[1, 4, 7]),
        ("reset", &[1, 8, 15]),
        ("close", &[1, 2, 3, 24, 31]),
        ("close_ack", &[1, 2, 3]),
        ("ping", &[1, 2, 3, 20, 31, 39]),
        ("pong", &[1, 2, 3]),
    ];
    let packets = packets();
    for (name, offsets) in reserved {
        let packet = &packets.iter().find(|p| p.0 == *name).unwrap().1;
        for offset in *offsets {
            for bit in 0..8 {
                let mut bytes = bytes_of(packet);
                bytes[*offset] ^= 1 << bit;
                assert!(Packet::parse(&bytes).is_err(), "{name}: byte {offset}, bit {bit}");
            }
        }
    }
    // Flags of DATA: 5 and 6 are free, 7 is reserved for authentication.
    for bit in 5..8 {
        let mut bytes = bytes_of(&packets[0].1);
        bytes[1] |= 1 << bit;
        assert_eq!(Packet::parse(&bytes), Err(PacketError::Reserved));
    }
}

#[test]
fn values_without_meaning_are_refused() {
    let with = |which: usize, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = bytes_of(&packets()[which].1);
        change(&mut bytes);
        Packet::parse(&bytes).map(|_| ())
    };
    //= P-DATA-3
    assert_eq!(with(1, &|b| b[2] = 1), Err(PacketError::Value));
    //= P-FRAME-1
    for words in [0, 9, 255] {
        assert_eq!(with(0, &|b| b[32] = words), Err(PacketError::Value));
    }
    assert_eq!(with(0, &|b| b[35] = 1), Err(PacketError::Value), "a payload beyond the packet");
    //= P-ACK-2
    for (offset, flag) in [(16, 1), (24, 2), (28, 2)] {
        assert_eq!(with(0, &|b| (b[1], b[offset]) = (b[1] & !flag, 1)), Err(PacketError::Reserved));
    }
    assert_eq!(with(2, &|b| b[1] = 2), Err(PacketError::Reserved), "an acknowledgement that is none");
    //= P-ACK-3
    assert_eq!(with(2, &|b| b[2] = 17), Err(PacketError::Value));
    assert_eq!(with(2, &|b| b[32..].fill(0)), Err(PacketError::Value));
    assert_eq!(with(2, &|b| b.resize(24 + 17 * 8, 1)), Err(PacketError::Long));
    for reason in [0, 6, 255] {
        assert_eq!(with(3, &|b| b[2] = reason), Err(PacketError::Value));
    }
    //= P-HAND-2
    for (which, session) in [(4, 48), (6, 48)] {
        assert_eq!(with(which, &|b| b[session..session + 8].fill(0)), Err(PacketError::Value));
        assert_eq!(with(which, &|b| b[72..76].copy_from_slice(&1199u32.to_le_bytes())), Err(PacketError::Value));
        assert_eq!(with(which, &|b| b[72..76].copy_from_slice(&65_488u32.to_le_bytes())), Err(PacketError::Value));
    }
    assert_eq!(with(4, &|b| b[84] = 0), Err(PacketError::Value));
    assert_eq!(with(5, &|b| b[48..].fill(0)), Err(PacketError::Value));
    for version in [0, 16] {
        assert_eq!(with(6, &|b| b[2] = version), Err(PacketError::Value));
    }
    assert_eq!(with(7, &|b| b[2] = 7), Err(PacketError::Value));
    assert_eq!(with(8, &|b| b[2] = 13), Err(PacketError::Value));
}
