// SPDX-License-Identifier: MIT OR Apache-2.0
//! Counters of a transport, and the state of one session, for people to read.

use crate::error::PacketError;
use crate::ids::{NicId, SessionId};
use bellwire_seal::Cipher;
use bellwire_time::Duration;
use core::net::SocketAddr;

/// What a transport has counted since its creation. Plain numbers: nothing here steers anything.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Statistics {
    /// Packets given to [`poll_transmit`](crate::Transport::poll_transmit)'s caller.
    pub packets_out: u64,
    /// Their bytes.
    pub bytes_out: u64,
    /// Packets taken by [`handle_packet`](crate::Transport::handle_packet).
    pub packets_in: u64,
    /// Their bytes.
    pub bytes_in: u64,
    /// Frames taken by [`send`](crate::Transport::send).
    pub frames_out: u64,
    /// Data packets sent for the first time.
    pub data_out: u64,
    /// Data packets delivered.
    pub data_in: u64,
    /// Data packets sent again, for whatever reason.
    pub retransmitted: u64,
    /// .. because later packets had arrived.
    pub fast_retransmits: u64,
    /// .. because nothing was heard for a while: the last packet again, as a question.
    pub tail_probes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Retransmissions that had been needless: the first transmission was acknowledged.
    pub spurious: u64,
    /// Data packets that had come before.
    pub duplicates: u64,
    /// Data packets outside the window.
    pub out_of_window: u64,
    /// Data packets dropped for want of memory; they are not acknowledged and come again.
    pub no_memory: u64,
    /// Acknowledgements sent as packets of their own.
    pub acks_out: u64,
    /// Acknowledgement packets received.
    pub acks_in: u64,
    /// Refusals sent.
    pub nacks_out: u64,
    /// Refusals received that answer the latest transmission.
    pub nacks_in: u64,
    /// Refusals received that answer an earlier one, or nothing: ignored.
    pub nacks_stale: u64,
    /// Frames returned to the sender.
    pub frames_returned: u64,
    /// Packets dropped unread, by [`PacketError`].
    pub malformed: [u64; PacketError::COUNT],
    /// Packets for a session that is not, or no more.
    pub unknown_session: u64,
    /// Packets that belong to a session but cannot be believed (an acknowledgement of what was not
    /// sent, a RESET that knows too little, a wrong address).
    pub implausible: u64,
    /// RESETs sent.
    pub resets_out: u64,
    /// RESETs believed.
    pub resets_in: u64,
    /// Answers not given, because there were too many.
    pub answers_limited: u64,
    /// Cookies given.
    pub cookies_out: u64,
    /// HELLOs with a cookie that is wrong or too old.
    pub cookies_bad: u64,
    /// HELLOs older than the session that there is, or repeated.
    pub hellos_stale: u64,
    /// Sessions refused for want of room.
    pub sessions_refused: u64,
    /// Sessions that came up.
    pub sessions_up: u64,
    /// Sessions that went down.
    pub sessions_down: u64,
    /// PINGs sent, as signs of life or to try a size.
    pub pings_out: u64,
    /// Packets of sessions dropped because they are not the peer's: a wrong tag, or none.
    pub forged: u64,
    /// Packets of sessions dropped because they have come before, or came much too late.
    pub replayed: u64,
    /// Handshakes dropped because they were not made with the right keys.
    pub handshakes_forged: u64,
    /// Handshakes with keys that were not looked at because there were too many.
    pub handshakes_limited: u64,
    /// Times that a path proved to carry less than before.
    pub black_holes: u64,
}

impl Statistics {
    pub(crate) fn count_malformed(&mut self, e: PacketError) {
        self.malformed[e as usize] += 1;
    }
}

/// The state of one session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SessionInfo {
    /// Its id here.
    pub id: SessionId,
    /// Its id at the peer.
    pub peer_id: u64,
    /// The peer's name.
    pub peer: NicId,
    /// The peer's life.
    pub peer_boot: u64,
    /// Where its packets go.
    pub address: SocketAddr,
    /// Whether the peer began it.
    pub incoming: bool,
    /// The version of the protocol that both sides speak.
    pub version: u8,
    /// Bytes of a datagram.
    pub datagram: usize,
    /// Smoothed round-trip time; zero when unknown.
    pub rtt: Duration,
    /// Its mean deviation.
    pub rtt_deviation: Duration,
    /// The smallest round-trip time of late.
    pub rtt_min: Duration,
    /// The retransmission time, without backing off.
    pub rto: Duration,
    /// The congestion window in packets.
    pub window: u32,
    /// Packets in flight.
    pub in_flight: u32,
    /// Packets written and not yet released by the peer's acknowledgement, with those in flight.
    pub outstanding: u32,
    /// Packets kept here: waiting for predecessors or to be fetched.
    pub kept: u32,
    /// Data packets sent for the first time.
    pub data_out: u64,
    /// Data packets delivered.
    pub data_in: u64,
    /// Data packets sent again.
    pub retransmitted: u64,
    /// Data packets held to be lost.
    pub lost: u64,
    /// How its packets are encrypted; `None`: they are not, nor authenticated.
    pub cipher: Option<Cipher>,
    /// How often this side went on with a new key.
    pub key_updates: u64,
}
