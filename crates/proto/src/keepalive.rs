// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the peer is there: signs of life, questions without an answer, PINGs after silence.
//!
//! Only an answer to something recent is a sign that we reach the peer: packets that it sends by
//! itself show the other direction alone. They show that the peer lives, so it gets more time to
//! answer ([`ONE_WAY`]): on a path that loses a third of its packets, each round trip fails half
//! the time, and a dozen of them may fail in a row. A path that is broken one way is still found
//! out.

use crate::config::Config;
use bellwire_time::{Duration, Instant};

/// A peer that is heard, but answers nothing, counts as unreachable after so many times
/// [`Config::unreachable_after`].
const ONE_WAY: u64 = 3;
/// PINGs without an answer are at most so much of [`Config::unreachable_after`] apart.
const PINGS: u64 = 16;
/// Between two alarms at most such a part of [`Config::unreachable_after`] counts as silence: a
/// process that was stopped for a minute has not listened for a minute.
const ALARMS: u64 = 4;

/// How long the peer has been silent, as far as we have listened.
#[derive(Clone, Copy, Debug, Default)]
struct Silence {
    /// The question since which this counts.
    asked: Instant,
    checked: Instant,
    /// Time without any packet, and without an answer, ns.
    unheard: u64,
    unanswered: u64,
}

/// Signs of life.
#[derive(Clone, Debug)]
pub(crate) struct Liveness {
    /// The oldest question without an answer.
    asked: Option<Instant>,
    /// Timeouts since.
    tries: u32,
    /// When the peer last showed that we reach it.
    proof: Instant,
    /// When a packet of the peer came last, other than data (`AckState` knows of those).
    heard: Instant,
    silence: Silence,
    /// The network has said since that nobody is there: when first, and when last.
    refused: Option<(Instant, Instant)>,
    /// Something depends on the session.
    pub(crate) depended: bool,
    /// A PING is wanted although nothing depends on it.
    wanted: bool,
    /// The PING that has no answer, and when the next leaves.
    token: u32,
    ping_at: Instant,
}

impl Liveness {
    pub(crate) const fn new(now: Instant) -> Self {
        Self {
            asked: None,
            tries: 0,
            proof: now,
            heard: now,
            silence: Silence { asked: Instant::NEVER, checked: now, unheard: 0, unanswered: 0 },
            refused: None,
            depended: false,
            wanted: false,
            token: 0,
            ping_at: Instant::NEVER,
        }
    }

    /// A question left.
    #[inline]
    pub(crate) fn asked(&mut self, now: Instant) {
        if self.asked.is_none() {
            self.asked = Some(now);
        }
    }

    /// A question had no answer in time.
    pub(crate) fn unanswered(&mut self, now: Instant) {
        self.asked(now);
        self.tries = self.tries.saturating_add(1);
    }

    /// The peer answered something recent.
    #[inline]
    pub(crate) fn proof(&mut self, now: Instant) {
        (self.asked, self.tries, self.proof, self.wanted, self.refused) = (None, 0, now, false, None);
    }

    /// A packet of the peer came.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.heard = now;
    }

    /// Whether the peer counts as unreachable, at an alarm; `data_at` is when its last data packet
    /// came.
    //= P-LIFE-2
    pub(crate) fn is_dead(&mut self, config: &Config, now: Instant, data_at: Option<Instant>) -> bool {
        let Some(asked) = self.asked else { return false };
        let heard = data_at.map_or(self.heard, |at| at.max(self.heard));
        let (silence, after) = (&mut self.silence, config.unreachable_after.0);
        if silence.asked != asked {
            *silence = Silence { asked, checked: asked, unheard: 0, unanswered: 0 };
        }
        let step = |since: Instant| now.since(since).0.min(after / ALARMS);
        silence.unanswered += step(silence.checked);
        silence.unheard = if heard > silence.checked { step(heard) } else { silence.unheard + step(silence.checked) };
        silence.checked = now;
        let is_over = silence.unheard >= after || silence.unanswered >= after.saturating_mul(ONE_WAY);
        is_over && self.tries > config.retries_max
    }

    /// The network says that nobody is there. Anybody who can guess the ports can say so, and a
    /// packet that was on its way may still prove the contrary: the peer is asked.
    pub(crate) fn refused(&mut self, now: Instant) {
        match &mut self.refused {
            Some((_, last)) => *last = now,
            None => {
                self.refused = Some((now, now));
                self.want(now);
            }
        }
    }

    /// Whether the peer is gone: refused again after it had time to answer.
    //= P-LIFE-5
    pub(crate) fn is_gone(&self, config: &Config) -> bool {
        self.refused.is_some_and(|(first, last)| last.since(first) >= config.refused_after)
    }

    /// Asks at once, and goes on until there is an answer.
    pub(crate) fn want(&mut self, now: Instant) {
        self.wanted = true;
        self.ping_at = now;
    }

    /// When the next PING leaves, if silence lasts.
    //= P-LIFE-1
    pub(crate) fn deadline(&self, config: &Config) -> Instant {
        if self.wanted {
            return self.ping_at;
        }
        if !self.depended {
            return Instant::NEVER;
        }
        (self.proof + config.keepalive_idle).max(if self.asked.is_some() { self.ping_at } else { Instant(0) })
    }

    /// A PING leaves: its token. The next waits for `rto`, doubled with each try, but not so long
    /// that few of them leave before the peer is given up.
    pub(crate) fn ping(&mut self, config: &Config, now: Instant, rto: Duration, token: u32) -> u32 {
        if self.asked.is_some() {
            self.tries = self.tries.saturating_add(1);
        }
        self.asked(now);
        self.token = token;
        let most = config.rto_max.0.min(config.unreachable_after.0 / PINGS).max(config.rto_min.0);
        let wait = rto.0.saturating_mul(1 << self.tries.min(20)).min(most);
        self.ping_at = now + Duration(wait);
        token
    }

    pub(crate) const fn is_answer(&self, token: u32) -> bool {
        self.token == token
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silence_is_tried_and_ends() {
        //= P-LIFE-1
        //= P-LIFE-2
        let config = Config::default();
        let mut life = Liveness::new(Instant(0));
        assert_eq!(life.deadline(&config), Instant::NEVER);
        life.depended = true;
        let mut pings = 0;
        let mut now = life.deadline(&config);
        assert_eq!(now.0, 1_000_000_000);
        while !life.is_dead(&config, now, None) {
            life.ping(&config, now, config.rto_min, pings);
            pings += 1;
            assert!(life.deadline(&config) > now);
            now = life.deadline(&config);
        }
        assert!(now.0 >= 11_000_000_000 && now.0 <= 12_100_000_000, "{now:?}");
        assert!(pings > config.retries_max && pings < 30);
        life.proof(now);
        assert!(!life.is_dead(&config, now, None) && life.deadline(&config) == now + config.keepalive_idle);
    }

    #[test]
    fn who_is_refused_twice_and_does_not_answer_in_between_is_gone() {
        //= P-LIFE-5
        let config = Config::default();
        let mut life = Liveness::new(Instant(0));
        life.refused(Instant(100));
        assert_eq!(life.deadline(&config), Instant(100), "asked at once");
        life.refused(Instant(200));
        assert!(!life.is_gone(&config), "both may be of one moment");
        life.proof(Instant(300));
        life.refused(Instant(400));
        assert!(!life.is_gone(&config), "it has answered since");
        life.refused(Instant(400 + config.refused_after.0));
        assert!(life.is_gone(&config));
    }

    #[test]
    fn a_wanted_ping_leaves_at_once_until_answered() {
        let config = Config::default();
        let mut life = Liveness::new(Instant(0));
        life.want(Instant(5));
        assert_eq!(life.deadline(&config), Instant(5));
        life.ping(&config, Instant(5), config.rto_min, 9);
        assert_eq!(life.deadline(&config), Instant(1_000_005));
        assert!(life.is_answer(9));
        life.proof(Instant(6));
        assert_eq!(life.deadline(&config), Instant::NEVER);
    }
}
