// SPDX-License-Identifier: MIT OR Apache-2.0
//! One session: its two halves and what they share. `input.rs` takes what arrived, `output.rs`
//! gives what leaves.

mod input;
mod output;

use crate::ack::AckState;
use crate::config::Config;
use crate::congestion::Congestion;
use crate::delivery::{Buffer, Returned};
use crate::event::{DownReason, Refusal};
use crate::ids::{NicId, SessionId};
use crate::keepalive::Liveness;
use crate::mtu::Mtu;
use crate::packet::data::Answer;
use crate::packet::handshake::Party;
use crate::rtt::Rtt;
use crate::rx_window::Rx;
use crate::statistics::{SessionInfo, Statistics};
use crate::tx_window::Tx;
use crate::tx_window::leave::Allowance;
use crate::tx_window::losses::Timeout;
use bellwire_seal::Association;
use bellwire_time::{Duration, Instant};
use core::net::SocketAddr;
pub(crate) use input::Arrived;
pub(crate) use output::Out;
use std::collections::VecDeque;

/// Where a session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Up,
    /// Being closed from here; until when, and when the next CLOSE leaves.
    Closing {
        until: Instant,
        next: Instant,
    },
    /// Over; frames may wait to be fetched. The next: packet and frame within it.
    Down {
        reason: DownReason,
        psn: u32,
        frame: usize,
    },
}

/// What a call needs besides the session.
pub(crate) struct Context<'a> {
    pub(crate) config: &'a Config,
    pub(crate) statistics: &'a mut Statistics,
    pub(crate) now: Instant,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session<B> {
    pub(crate) id: SessionId,
    pub(crate) peer_id: u64,
    pub(crate) peer: NicId,
    pub(crate) peer_boot: u64,
    pub(crate) peer_attempt: u64,
    pub(crate) address: SocketAddr,
    pub(crate) incoming: bool,
    /// The version of the protocol that both sides speak.
    pub(crate) version: u8,
    pub(crate) stage: Stage,
    /// The id by which packets reach it that are as they came: none if they must be opened before.
    pub(crate) plain_id: SessionId,
    /// Its keys, if its packets are authenticated.
    pub(crate) seal: Option<Box<Association>>,
    pub(crate) tx: Tx,
    pub(crate) rx: Rx<B>,
    pub(crate) ack: AckState,
    pub(crate) rtt: Rtt,
    congestion: Congestion,
    pub(crate) life: Liveness,
    pub(crate) mtu: Mtu,
    /// Bytes that the peer lets be in flight.
    room: u32,
    /// When the newest packet left here that the peer has echoed, in ns.
    echoed: u64,
    /// What a data packet of the peer's acknowledged last.
    heard: Answer,
    /// Tokens of PINGs.
    token: u32,
    /// `send` was told that there is no room, and waits for the event.
    pub(crate) wants_room: bool,
    /// A refusal that no event has told.
    pub(crate) refusal: Option<Refusal>,
    pub(crate) returned: VecDeque<Returned>,
    pub(crate) returned_bytes: usize,
}

impl<B: Buffer> Session<B> {
    pub(crate) fn new(config: &Config, now: Instant, id: SessionId, address: SocketAddr, peer: &Party, psn: u32, incoming: bool) -> Self {
        let mut tx = Tx::new(peer.session, psn, config.trailer());
        tx.losses.by_channels = config.channels > 0;
        Self {
            id,
            peer_id: peer.session,
            peer: peer.nic,
            peer_boot: peer.boot,
            peer_attempt: peer.attempt,
            address,
            incoming,
            version: config.versions[1],
            stage: Stage::Up,
            plain_id: id,
            seal: None,
            tx,
            rx: Rx::new(peer.psn),
            ack: AckState::new(),
            rtt: Rtt::default(),
            congestion: Congestion::new(config, psn),
            life: Liveness::new(now),
            mtu: Mtu::new(config, peer.datagram as usize, now),
            room: peer.room,
            echoed: now.0,
            heard: Answer::default(),
            token: id.raw() as u32,
            wants_room: false,
            refusal: None,
            returned: VecDeque::new(),
            returned_bytes: 0,
        }
    }

    /// .. whose packets are authenticated, if there are keys.
    pub(crate) fn sealed(mut self, seal: Option<Box<Association>>) -> Self {
        self.plain_id = if seal.is_some() { SessionId::NONE } else { self.id };
        self.seal = seal;
        self
    }

    pub(crate) const fn is_down(&self) -> bool {
        matches!(self.stage, Stage::Down { .. })
    }

    #[inline]
    pub(crate) fn allowance(&self, config: &Config, now: Instant) -> Allowance {
        let datagram = self.mtu.in_ring();
        let run = config.run_packets_max.min(config.run_bytes_max / datagram).max(1) as u32;
        Allowance { packets: self.congestion.window(), bytes: self.room, datagram, run, now, join_delay: config.join_delay, join_bytes: config.join_bytes_max }
    }

    /// When the session wants to be called; packets that wait to leave are not counted.
    pub(crate) fn deadline(&self, config: &Config, now: Instant) -> Instant {
        let later = |at: Instant| if at > now { at } else { Instant::NEVER };
        let closing = match self.stage {
            Stage::Up => Instant::NEVER,
            Stage::Closing { until, next } => until.min(if self.tx.outstanding() == 0 { later(next) } else { Instant::NEVER }),
            Stage::Down { .. } => return Instant::NEVER,
        };
        let waits = later(self.ack.deadline()).min(later(self.life.deadline(config))).min(later(self.mtu.deadline()));
        self.tx.deadline(config, &self.rtt).min(closing).min(waits)
    }

    /// Whether nothing more may be sealed.
    pub(crate) fn is_spent(&self) -> bool {
        self.seal.as_ref().is_some_and(|seal| seal.is_spent())
    }

    /// Something was sealed. If that was the last that this key may seal, nothing more is taken to
    /// be sent; `true`: the session is to end at once.
    //= P-AUTH-12
    #[must_use]
    pub(crate) fn ends_spent(&mut self, now: Instant) -> bool {
        let is_spent = self.is_spent();
        if is_spent && self.stage == Stage::Up {
            self.stage = Stage::Closing { until: now, next: Instant::NEVER };
        }
        is_spent
    }

    /// Its alarm rang. The reason, when that is the end of it.
    pub(crate) fn timeout(&mut self, context: &mut Context<'_>) -> Option<DownReason> {
        //= P-AUTH-12
        if self.is_spent() {
            return Some(DownReason::KeySpent);
        }
        let Context { config, statistics, now } = context;
        self.tx.wake_refused(*now);
        let in_flight = self.tx.flying;
        match self.tx.timeout(config, *now, &self.rtt) {
            Timeout::Nothing => {}
            Timeout::Late(count) => {
                self.congestion.lost(count, in_flight);
                statistics.fast_retransmits += u64::from(count);
            }
            Timeout::Probe => {
                statistics.tail_probes += 1;
                self.life.asked(*now);
            }
            Timeout::Channels(count) => {
                statistics.timeouts += u64::from(count);
                self.life.unanswered(*now);
            }
            Timeout::Retransmit => {
                statistics.timeouts += 1;
                self.life.unanswered(*now);
                //= P-CONG-4
                if self.tx.losses.backoff == 2 {
                    self.congestion.collapse();
                }
                //= P-MTU-2
                if self.tx.losses.backoff == 3 && self.mtu.fall(*now) {
                    statistics.black_holes += 1;
                }
            }
        }
        if self.life.is_dead(config, *now, self.ack.heard()) {
            return Some(DownReason::Unreachable);
        }
        match self.stage {
            Stage::Closing { until, .. } if until <= *now => Some(DownReason::CloseTimeout),
            _ => None,
        }
    }

    /// Begins to close it.
    pub(crate) fn close(&mut self, config: &Config, now: Instant) {
        if self.stage == Stage::Up {
            self.stage = Stage::Closing { until: now + config.close_time, next: now };
            self.tx.joining.hurry();
        }
    }

    /// The time between two CLOSEs or two PINGs.
    fn patience(&self, config: &Config) -> Duration {
        let rto = self.rtt.rto(config);
        Duration((2 * rto.0).min(config.rto_max.0))
    }

    /// The next number for a PING.
    fn next_token(&mut self) -> u32 {
        self.token = self.token.wrapping_add(1);
        self.token
    }

    /// It is over.
    pub(crate) fn down(&mut self, reason: DownReason) {
        self.rx.clear();
        self.stage = Stage::Down { reason, psn: self.tx.una, frame: 0 };
    }

    pub(crate) fn info(&self, config: &Config) -> SessionInfo {
        SessionInfo {
            id: self.id,
            peer_id: self.peer_id,
            peer: self.peer,
            peer_boot: self.peer_boot,
            address: self.address,
            incoming: self.incoming,
            version: self.version,
            datagram: self.mtu.current(),
            rtt: Duration(self.rtt.smoothed()),
            rtt_deviation: Duration(self.rtt.deviation()),
            rtt_min: Duration(self.rtt.smallest()),
            rto: self.rtt.rto(config),
            window: self.congestion.window(),
            in_flight: self.tx.flying,
            outstanding: self.tx.outstanding(),
            kept: self.rx.kept() as u32,
            data_out: self.tx.sent_total,
            data_in: self.rx.delivered_total,
            retransmitted: self.tx.again_total,
            lost: self.tx.lost_total,
            cipher: self.seal.as_ref().map(|seal| seal.cipher()),
            key_updates: self.seal.as_ref().map_or(0, |seal| seal.updates()),
        }
    }
}
