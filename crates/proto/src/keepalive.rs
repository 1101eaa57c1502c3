// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether the peer is there: signs of life, questions without an answer, PINGs after silence.
//!
//! Only an answer to something recent is a sign that we reach the peer: packets that it sends by
//! itself show the other direction alone. So a path that is broken one way is found out.

use crate::config::Config;
use bellwire_time::{Duration, Instant};

/// Signs of life.
#[derive(Clone, Debug)]
pub(crate) struct Liveness {
    /// The oldest question without an answer.
    asked: Option<Instant>,
    /// Timeouts since.
    tries: u32,
    /// When the peer last showed that we reach it.
    proof: Instant,
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
        Self { asked: None, tries: 0, proof: now, refused: None, depended: false, wanted: false, token: 0, ping_at: Instant::NEVER }
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

    /// Whether the peer counts as unreachable.
    //= P-LIFE-2
    pub(crate) fn is_dead(&self, config: &Config, now: Instant) -> bool {
        self.tries > config.retries_max && self.asked.is_some_and(|at| now.since(at) >= config.unreachable_after)
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

    /// A PING leaves: its token. The next waits for `rto`, doubled with each try.
    pub(crate) fn ping(&mut self, config: &Config, now: Instant, rto: Duration, token: u32) -> u32 {
        if self.asked.is_some() {
            self.tries = self.tries.saturating_add(1);
        }
        self.asked(now);
        self.token = token;
        let wait = rto.0.saturating_mul(1 << self.tries.min(20)).min(config.rto_max.0);
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
        while !life.is_dead(&config, now) {
            life.ping(&config, now, config.rto_min, pings);
            pings += 1;
            assert!(life.deadline(&config) > now);
            now = life.deadline(&config);
        }
        assert!(now.0 >= 11_000_000_000 && now.0 <= 12_100_000_000, "{now:?}");
        assert!(pings > config.retries_max && pings < 30);
        life.proof(now);
        assert!(!life.is_dead(&config, now) && life.deadline(&config) == now + config.keepalive_idle);
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
