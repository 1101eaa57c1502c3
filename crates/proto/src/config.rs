// SPDX-License-Identifier: MIT OR Apache-2.0
//! Every limit and time of the transport, with its default. Read once, at creation.

use crate::ids::NicId;
use crate::tokens::Rate;
use bellwire_seal::{Cipher, Keys, Limits};
use bellwire_time::Duration;
use std::sync::Arc;

/// Packets that may be outstanding in one session at most: the size of every table that is indexed
/// by packet number.
pub const WINDOW_PACKETS_MAX: usize = 1024;
/// Bytes of the header of a data packet.
pub const DATA_HEADER: usize = 32;
/// Bytes in front of each frame's head words.
pub const FRAME_HEADER: usize = 4;
/// Words of a frame's head at most.
pub const HEAD_WORDS_MAX: usize = 8;
/// Bytes of a datagram that every path must carry: the size used before a larger one has been
/// proved.
pub const DATAGRAM_BASE: usize = 1200;
/// The largest datagram: the limit of UDP over IPv6 without jumbograms.
pub const DATAGRAM_MAX: usize = 65_487;

/// With keys, what is not authenticated ends a session only after this time without a sign of life.
const HINTS_AFTER: Duration = Duration::from_secs(1);

/// The lowest and the highest version of the protocol that a NIC speaks, unless it is told others.
/// `scripts/versions.sh` sets `BELLWIRE_BUILD_VERSIONS` (`1-2`) for builds whose versions are alike
/// but for their numbers.
pub const VERSIONS: [u8; 2] = versions(option_env!("BELLWIRE_BUILD_VERSIONS"));

const fn versions(range: Option<&str>) -> [u8; 2] {
    let Some(text) = range else { return [1, 1] };
    let [low @ b'1'..=b'9', b'-', high @ b'1'..=b'9'] = text.as_bytes() else { panic!("BELLWIRE_BUILD_VERSIONS is two digits, such as 1-2") };
    assert!(*low <= *high, "the lowest version is at most the highest");
    [*low - b'0', *high - b'0']
}

/// The highest version that both sides speak.
pub(crate) fn common_version(ours: [u8; 2], theirs: [u8; 2]) -> Option<u8> {
    let highest = ours[1].min(theirs[1]);
    (highest >= ours[0].max(theirs[0])).then_some(highest)
}

/// Settings of a [`Transport`](crate::Transport). All sizes of datagrams are without the headers
/// below them (IP, UDP).
#[derive(Clone, Debug)]
pub struct Config {
    /// This NIC's name; must differ from every other NIC's.
    pub nic: NicId,
    /// Which life of the NIC this is: greater after each restart under the same name (a clock read
    /// at opening is good).
    pub boot: u64,
    /// Sessions at once, counting those being made and those whose returned frames wait to be
    /// fetched; 1 to 65536. Further ones are refused.
    pub sessions_max: usize,
    /// Incoming sessions that may be unconfirmed at once.
    pub handshakes_max: usize,
    /// Whether other NICs may begin sessions.
    pub accept: bool,
    /// The lowest and the highest version of the protocol that this NIC speaks. A session has the
    /// highest that both sides do.
    pub versions: [u8; 2],
    /// For experiments: 0 is the window; otherwise so many stop-and-wait channels take its place
    /// (`channels.rs`). Both sides need the same.
    pub channels: usize,
    /// Packets outstanding per session; a power of two, 8 to [`WINDOW_PACKETS_MAX`].
    pub window_packets: usize,
    /// Packets in flight before anything is known of the path.
    pub window_packets_initial: usize,
    /// Bytes of a session's transmit ring when it is in use; at least four datagrams.
    pub ring_bytes: usize,
    /// Bytes of a session's transmit ring until that is full for the first time.
    pub ring_bytes_initial: usize,
    /// Bytes of a session that are written and have not left, about; frames up to
    /// [`Config::coalesce_bytes_max`] find room up to twice that. Frames leave in the order of
    /// writing, so this is how long a small message may wait behind large ones.
    pub unsent_bytes_max: usize,
    /// Packets kept per session: waiting for a predecessor, or to be fetched by
    /// [`poll_deliver`](crate::Transport::poll_deliver).
    pub kept_packets_max: usize,
    /// Bytes kept per session.
    pub kept_bytes_max: usize,
    /// Bytes kept for all sessions.
    pub kept_bytes_total_max: usize,
    /// The largest datagram that is sent or received, in bytes; [`DATAGRAM_BASE`] to
    /// [`DATAGRAM_MAX`].
    pub datagram_max: usize,
    /// Whether the port puts a checksum to each packet
    /// ([`packet::checksum`](crate::packet::checksum)): packets are shorter by its trailer, so that
    /// all sizes are those on the wire.
    pub checksum: bool,
    /// With keys, all packets of sessions are authenticated and encrypted, and peers without the
    /// right ones get no session; `None`: nothing is authenticated.
    pub keys: Option<Arc<Keys>>,
    /// The cipher that this NIC would rather use. AES is used if both would.
    pub cipher: Cipher,
    /// When the keys of a session change.
    pub key_limits: Limits,
    /// Handshakes of peers with keys that are looked at per second, a quarter of that in one burst:
    /// each costs up to 0.3 ms.
    pub key_handshakes_per_second: u32,
    /// Those with one address.
    pub key_handshakes_per_address: u32,
    /// Bytes that each peer may have in flight towards this NIC: what the receiving socket can hold
    /// (a share of it, with many busy peers).
    pub receive_bytes: usize,
    /// Whether datagrams above [`DATAGRAM_BASE`] are tried out; without it,
    /// [`Config::datagram_max`] is used at once (a path that is known).
    pub probe_path: bool,
    /// When a smaller size than the largest was found: the time until larger ones are tried again.
    pub probe_again: Duration,
    /// Packets in one [`Transmit`](crate::Transmit).
    pub run_packets_max: usize,
    /// Bytes in one [`Transmit`](crate::Transmit), as far as it holds more than one packet.
    pub run_bytes_max: usize,
    /// A frame of up to so many bytes may share a packet with frames of other streams.
    pub coalesce_bytes_max: usize,
    /// While packets are in flight, such frames wait for more to share a packet with: so long at
    /// most after packets left last (zero: not at all) ..
    pub join_delay: Duration,
    /// .. and until so many bytes wait.
    pub join_bytes_max: usize,
    /// An acknowledgement leaves after so many packets ..
    pub ack_packets: u32,
    /// .. or after this time.
    pub ack_delay: Duration,
    /// Bounds of the retransmission time.
    pub rto_min: Duration,
    /// See [`Config::rto_min`].
    pub rto_max: Duration,
    /// A session is down when so many timeouts in a row passed without a sign that the peer was
    /// reached, ..
    pub retries_max: u32,
    /// .. and this time since the first packet without such a sign, in which nothing of the peer's
    /// came. A peer that is heard but not reached has three times as long.
    pub unreachable_after: Duration,
    /// The network saying that nobody is at the peer's address ends a session when it is said again
    /// after this time, in which the peer did not answer.
    pub refused_after: Duration,
    /// How often a packet may be refused for a passing reason before its frames return to the
    /// sender.
    pub refusals_max: u32,
    /// How long refused packets wait: this, doubled each time ..
    pub refusal_wait_min: Duration,
    /// .. up to this.
    pub refusal_wait_max: Duration,
    /// Silence after which a session on which something depends is tried with a PING.
    pub keepalive_idle: Duration,
    /// Time between the HELLOs of a handshake; doubled each time ..
    pub handshake_retry: Duration,
    /// .. up to this; the first time again once the peer has answered.
    pub handshake_retry_max: Duration,
    /// Time after which a handshake has failed; a session that a peer began and has not confirmed
    /// is kept for [`unreachable_after`](Config::unreachable_after) longer, if there is room.
    pub handshake_time: Duration,
    /// Time after which a session that is being closed is given up.
    pub close_time: Duration,
    /// How long a cookie is good for: at least this, at most twice.
    pub cookie_time: Duration,
    /// RESETs and other answers to packets without a session, per second.
    pub answers_per_second: u32,
    /// Delay that the congestion window allows: the smallest round trip times this (in eighths) ..
    pub target_factor_eighths: u32,
    /// .. plus this.
    pub target_extra: Duration,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            nic: NicId::default(),
            boot: 0,
            sessions_max: 4096,
            handshakes_max: 64,
            accept: true,
            versions: VERSIONS,
            channels: 0,
            window_packets: WINDOW_PACKETS_MAX,
            window_packets_initial: 16,
            ring_bytes: 1 << 20,
            ring_bytes_initial: 1 << 16,
            unsent_bytes_max: 128 << 10,
            kept_packets_max: WINDOW_PACKETS_MAX,
            kept_bytes_max: 4 << 20,
            kept_bytes_total_max: 64 << 20,
            datagram_max: 8952,
            checksum: false,
            keys: None,
            cipher: Cipher::fastest(),
            key_limits: Limits::default(),
            key_handshakes_per_second: 1000,
            key_handshakes_per_address: 250,
            receive_bytes: 4 << 20,
            probe_path: true,
            probe_again: Duration::from_secs(600),
            run_packets_max: 64,
            run_bytes_max: 65_000,
            coalesce_bytes_max: 1024,
            join_delay: Duration::from_micros(5),
            join_bytes_max: 4096,
            ack_packets: 16,
            ack_delay: Duration::from_micros(100),
            rto_min: Duration::from_millis(1),
            rto_max: Duration::from_secs(1),
            retries_max: 10,
            unreachable_after: Duration::from_secs(10),
            refused_after: Duration::from_millis(5),
            refusals_max: 100,
            refusal_wait_min: Duration::from_micros(50),
            refusal_wait_max: Duration::from_millis(100),
            keepalive_idle: Duration::from_secs(1),
            handshake_retry: Duration::from_millis(50),
            handshake_retry_max: Duration::from_millis(200),
            handshake_time: Duration::from_secs(5),
            close_time: Duration::from_secs(3),
            cookie_time: Duration::from_secs(10),
            answers_per_second: 1000,
            target_factor_eighths: 24,
            target_extra: Duration::from_millis(2),
        }
    }
}

impl Config {
    /// No packet is asked after, or sent again for its silence, sooner after it has left.
    pub(crate) fn patience_least(&self) -> Duration {
        self.rto_min.min(self.ack_delay)
    }

    /// Bytes that follow each packet of a session in the ring.
    pub(crate) fn trailer(&self) -> usize {
        if self.keys.is_some() { bellwire_seal::TRAILER } else { 0 }
    }

    /// The limit of handshakes with one address.
    pub(crate) fn handshakes_per_address(&self) -> Rate {
        Rate { per_second: self.key_handshakes_per_address, burst: self.key_handshakes_per_address / 4 }
    }

    /// The limit of handshakes with all addresses.
    pub(crate) fn handshakes_of_all(&self) -> Rate {
        Rate { per_second: self.key_handshakes_per_second, burst: self.key_handshakes_per_second / 4 }
    }

    /// The nearest settings that can work: values out of bounds move to the bound.
    pub(crate) fn bounded(mut self) -> Self {
        self.sessions_max = self.sessions_max.clamp(1, 1 << 16);
        self.handshakes_max = self.handshakes_max.clamp(1, self.sessions_max);
        self.window_packets = self.window_packets.clamp(8, WINDOW_PACKETS_MAX).next_power_of_two();
        self.window_packets_initial = self.window_packets_initial.clamp(2, self.window_packets);
        self.channels = self.channels.min(self.window_packets);
        self.datagram_max = self.datagram_max.clamp(DATAGRAM_BASE, DATAGRAM_MAX);
        self.receive_bytes = self.receive_bytes.clamp(self.datagram_max, u32::MAX as usize);
        self.ring_bytes = self.ring_bytes.clamp(4 * self.datagram_max, 1 << 30);
        self.ring_bytes_initial = self.ring_bytes_initial.clamp(2 * DATAGRAM_BASE, self.ring_bytes);
        self.unsent_bytes_max = self.unsent_bytes_max.clamp(self.datagram_max, 1 << 30);
        self.kept_packets_max = self.kept_packets_max.clamp(1, 1 << 16);
        self.run_packets_max = self.run_packets_max.clamp(1, WINDOW_PACKETS_MAX);
        self.ack_packets = self.ack_packets.clamp(1, (self.window_packets / 4) as u32);
        if self.channels > 0 {
            self.ack_packets = 1;
        }
        if self.keys.is_some() {
            self.refused_after = self.refused_after.max(HINTS_AFTER);
        }
        self.rto_min.0 = self.rto_min.0.max(100_000);
        self.rto_max = self.rto_max.max(self.rto_min);
        self.refusal_wait_min.0 = self.refusal_wait_min.0.max(1_000);
        self.refusal_wait_max = self.refusal_wait_max.max(self.refusal_wait_min);
        self.keepalive_idle.0 = self.keepalive_idle.0.max(1_000_000);
        self.handshake_retry.0 = self.handshake_retry.0.max(1_000_000);
        self.handshake_retry_max = self.handshake_retry_max.max(self.handshake_retry);
        self.cookie_time.0 = self.cookie_time.0.max(1_000_000);
        self.target_factor_eighths = self.target_factor_eighths.clamp(8, 800);
        self
    }
}
