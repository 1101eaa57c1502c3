// SPDX-License-Identifier: MIT OR Apache-2.0
//! A NIC with many peers of which few are active: how many links a poll touches, and that no
//! message waits for longer than it may. By counts, in virtual time.

use bellwire_via::attention::{
    ALL_AFTER_NS, ALL_AFTER_NS_PER_LINK, ALONE, Attention, FINDS_PER_CLOCK, QUICK_NS, RECENT_MAX, STREAK, TURNS_PER_ALL, UNASKED_MAX,
};
use bellwire_via::inbox::LineWords;
use bellwire_via::time::Duration;
use bellwire_via::wire::sim::{SimConfig, SimWire};
use bellwire_via::world::World;
use bellwire_via::{Engine, InboxHandle, NetAddress, Notice, Pieces, ReceiveRequest, SendRequest, Taken, ViAttributes, ViHandle, ViState};
use proptest::prelude::*;
use std::collections::VecDeque;

/// NIC 0 with an inbox for its VIs to all others.
struct Star {
    world: World,
    inbox: InboxHandle,
    /// The peers' VIs; that of peer `i` is on NIC `i + 1`.
    peers: Vec<ViHandle>,
    /// Messages sent by each peer, and not yet taken.
    sent: Vec<u64>,
    under_way: Vec<VecDeque<u64>>,
}

fn world(peers: usize) -> World {
    World::with_nics(SimConfig { latency: Duration(100), queue_frames_max: 1 << 20, ..SimConfig::default() }, peers + 1)
}

/// Connects a VI of NIC 0 with one of each other NIC; both lists, by peer.
fn connect(world: &mut World, peers: usize, create: impl Fn(&mut Engine<SimWire>, usize) -> ViHandle) -> (Vec<ViHandle>, Vec<ViHandle>) {
    let mut here = Vec::new();
    let mut there = Vec::new();
    for peer in 0..peers {
        let addresses = [0, peer + 1].map(|nic| NetAddress::new(&[10, 0, 0, nic as u8 + 1], &peer.to_le_bytes()).unwrap());
        let deadline = world.now() + Duration::from_micros(100_000);
        let a = create(world.engine(0), peer);
        let b = world.engine(peer + 1).create_vi(&ViAttributes::default(), None, None, None).unwrap();
        world.engine(0).peer_request(a, &addresses[0], &addresses[1], deadline).unwrap();
        world.engine(peer + 1).peer_request(b, &addresses[1], &addresses[0], deadline).unwrap();
        here.push(a);
        there.push(b);
    }
    let deadline = world.now() + Duration::from_micros(200_000);
    let up = |world: &mut World| {
        (0..peers).all(|p| {
            world.engine(0).query_vi(here[p]).unwrap().0 == ViState::Connected && world.engine(p + 1).query_vi(there[p]).unwrap().0 == ViState::Connected
        })
    };
    assert!(world.run_until(deadline, up), "all are connected");
    world.run_for(Duration::from_micros(10));
    (here, there)
}

impl Star {
    fn new(peers: usize) -> Self {
        let mut world = world(peers);
        let inbox = world.engine(0).create_inbox().unwrap();
        let (_, there) = connect(&mut world, peers, |engine, peer| {
            let vi = engine.create_vi(&ViAttributes::default(), None, None, None).unwrap();
            engine.set_inbox(vi, inbox, 1000, peer as u64).unwrap();
            vi
        });
        let mut star = Self { world, inbox, peers: there, sent: vec![0; peers], under_way: vec![VecDeque::new(); peers] };
        while let Some(taken) = star.take_any() {
            assert!(matches!(taken, Taken::Notice(_, _, Notice::Connected(_))), "{taken:?}");
        }
        star
    }

    /// A peer sends a message, which has arrived when this returns. (Time moves without a turn of
    /// NIC 0, which would take it.)
    fn send(&mut self, peer: usize) {
        let number = self.sent[peer];
        let bytes = number.to_ne_bytes();
        let pieces = Pieces { head: (bytes.as_ptr(), 8), body: (core::ptr::null(), 0) };
        // SAFETY: U2: `bytes` outlives the call.
        let sent = unsafe { self.world.engine(peer + 1).send_copied(self.peers[peer], &pieces, 0) }.unwrap();
        assert_eq!(sent, 8, "there is room");
        self.sent[peer] += 1;
        self.under_way[peer].push_back(number);
        let arrives = self.world.now() + Duration(200);
        self.world.network().advance_to(arrives);
    }

    fn take_any(&mut self) -> Option<Taken> {
        let mut line: LineWords = [0; 7];
        let taken = self.world.engine(0).take(self.inbox, &mut line)?;
        let number = match &taken {
            Taken::Line(context, 8) => Some((*context, line[0])),
            Taken::Waited(context, data) => Some((*context, u64::from_ne_bytes(data[..].try_into().unwrap()))),
            _ => None,
        };
        if let Some((context, number)) = number {
            assert_eq!(self.under_way[context as usize].pop_front(), Some(number), "once, in order");
        }
        Some(taken)
    }

    /// One poll; the peer whose message it found.
    fn poll(&mut self) -> Option<usize> {
        match self.take_any()? {
            Taken::Line(context, 8) | Taken::Waited(context, _) => Some(context as usize),
            other => panic!("{other:?}"),
        }
    }

    fn looks(&self) -> u64 {
        self.world.network().statistics().looks
    }

    /// One peer has been active alone for a while.
    fn settle(&mut self, peer: usize) {
        for _ in 0..2 * STREAK {
            self.send(peer);
            while self.poll() != Some(peer) {}
        }
    }
}

#[test]
fn polls_for_the_active_peer_do_not_touch_the_others() {
    for peers in [1, 2, 16, 64] {
        let mut star = Star::new(peers);
        star.settle(peers / 2);
        let (before, messages) = (star.looks(), 320);
        for _ in 0..messages {
            star.send(peers / 2);
            assert_eq!(star.poll(), Some(peers / 2));
        }
        let looks = star.looks() - before;
        // One for each message; and looks at all links, once in so many times that the clock would
        // be asked.
        let all = messages / u64::from(FINDS_PER_CLOCK) / u64::from(TURNS_PER_ALL) + 1;
        assert!(looks <= messages + if peers > 2 { all * peers as u64 } else { messages }, "{peers} peers: {looks} looks for {messages} messages");
    }
}

#[test]
fn polls_in_vain_touch_all_links_now_and_then() {
    let mut star = Star::new(64);
    star.settle(7);
    let before = star.looks();
    for _ in 0..10 * TURNS_PER_ALL {
        assert_eq!(star.poll(), None);
    }
    let looks = star.looks() - before;
    let expected = u64::from(10 * TURNS_PER_ALL) + 10 * 64;
    assert!((expected - 10..=expected + u64::from(10 * TURNS_PER_ALL) * (RECENT_MAX as u64 - 1)).contains(&looks), "{looks}");
}

#[test]
fn a_message_on_an_idle_link_is_found_within_the_bound() {
    let mut star = Star::new(64);
    star.settle(7);
    star.send(50);
    let polls = (1..).find(|_| star.poll() == Some(50)).unwrap();
    assert!(polls <= TURNS_PER_ALL, "{polls} polls while nobody else sends");
    // And beside a peer that always has something.
    star.settle(7);
    star.send(50);
    let polls = (1..).find(|_| {
        star.send(7);
        star.poll() == Some(50)
    });
    assert!(polls.unwrap() <= (FINDS_PER_CLOCK + 1) * TURNS_PER_ALL, "{polls:?} polls beside a busy one");
}

#[test]
fn a_turn_before_sleep_looks_everywhere() {
    let mut star = Star::new(64);
    star.settle(7);
    star.send(50);
    let inbox = star.inbox;
    assert!(star.world.engine(0).has_come(inbox), "what sleepers ask");
    star.settle(7);
    star.send(51);
    assert!(star.world.engine(0).progress());
    assert_eq!(star.poll(), Some(50));
    assert_eq!(star.poll(), Some(51));
}

#[test]
fn no_busy_peer_starves_another() {
    for busy in [2, 3, 4, 5, 64] {
        let mut star = Star::new(64);
        star.settle(0);
        let mut last = vec![0u32; busy];
        for round in 1..6000u32 {
            (0..busy).for_each(|peer| {
                while star.under_way[peer].len() < 2 {
                    star.send(peer)
                }
            });
            let found = star.poll().expect("there are many");
            last[found] = round;
            // Each has its turns: of several that are recent, or of all.
            let bound = (FINDS_PER_CLOCK + 1) * (TURNS_PER_ALL + 2 * busy as u32);
            for (peer, at) in last.iter().enumerate() {
                assert!(round - at <= bound, "{busy} busy: peer {peer} waits since {at}, now {round}");
            }
        }
    }
}

/// A VI is polled, by itself or by its completion queue; most polls find nothing, as when a message
/// is on its way.
#[test]
fn polls_of_a_vi_do_not_touch_the_links_of_others() {
    const MESSAGES: u64 = 320;
    const EMPTY: u64 = 20;
    for with_cq in [false, true] {
        let looks = [1, 64].map(|peers| {
            let mut world = world(peers);
            let cq = with_cq.then(|| world.engine(0).create_cq(1000).unwrap());
            let (here, there) = connect(&mut world, peers, |engine, _| engine.create_vi(&ViAttributes::default(), None, cq, None).unwrap());
            let (own, other) = (here[peers / 2], there[peers / 2]);
            let mut exchange = |messages: u64| {
                let before = world.network().statistics().looks;
                for _ in 0..messages {
                    world.engine(0).post_receive(own, &ReceiveRequest { context: 7, segments: &[], descriptor: None }).unwrap();
                    let mut polls = 0;
                    let mut poll = |world: &mut World| {
                        polls += 1;
                        if let Some(cq) = cq {
                            let (vi, _) = world.engine(0).poll_cq(cq).unwrap()?;
                            assert_eq!(vi, own);
                        }
                        world.engine(0).poll_receive(own).unwrap()
                    };
                    (0..EMPTY).for_each(|_| assert!(poll(&mut world).is_none()));
                    let sender = world.engine(peers / 2 + 1);
                    sender.post_send_inline(other, &[], &SendRequest::default()).unwrap();
                    assert!(sender.poll_send(other).unwrap().is_some(), "there is room");
                    let arrives = world.now() + Duration(200);
                    world.network().advance_to(arrives);
                    assert!(core::iter::from_fn(|| Some(poll(&mut world))).take(3).flatten().any(|done| done.context == 7), "a message that is there is found");
                    assert!(polls <= EMPTY + 3);
                }
                world.network().statistics().looks - before
            };
            // Polls become narrow by what they find.
            exchange(u64::from(2 * STREAK));
            exchange(MESSAGES)
        });
        // All links, when the clock would be asked, and one more look then.
        let all = MESSAGES * (EMPTY + 3) / u64::from(TURNS_PER_ALL) + 1;
        assert!(looks[1] <= looks[0] + all * 66, "with a completion queue: {with_cq}; looks with one peer and with many: {looks:?}");
    }
}

/// What a burst brings after its first message counts: a peer that always has more is not the only
/// one that is heard.
#[test]
fn messages_of_a_burst_count() {
    let mut star = Star::new(64);
    star.settle(7);
    star.send(50);
    let mut line: LineWords = [0; 7];
    let polls = (1..).find(|_| {
        (0..4).for_each(|_| star.send(7));
        if star.poll() == Some(50) {
            return true;
        }
        for _ in 0..3 {
            let more = star.world.engine(0).take_more(star.inbox, &mut line);
            assert!(matches!(more, Some(Taken::Line(7, 8))), "{more:?}");
            star.under_way[7].pop_front();
        }
        false
    });
    assert!(polls.unwrap() <= (FINDS_PER_CLOCK / 4 + 1) * TURNS_PER_ALL, "{polls:?} polls beside bursts");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]
    /// Each message is taken once, in order, and none waits for longer than the bound.
    #[test]
    fn nothing_waits_longer_than_the_bound(peers in 3usize..24, steps in prop::collection::vec((0usize..24, 0u32..40), 1..120)) {
        let mut star = Star::new(peers);
        star.settle(0);
        let bound = (FINDS_PER_CLOCK + 1) * (TURNS_PER_ALL + 2 * peers as u32);
        let mut waits = vec![0u32; peers];
        for (peer, polls) in steps {
            star.send(peer % peers);
            for _ in 0..polls {
                let found = star.poll();
                for (p, wait) in waits.iter_mut().enumerate() {
                    *wait = if found == Some(p) || star.under_way[p].is_empty() { 0 } else { *wait + 1 };
                    prop_assert!(*wait <= bound, "peer {} of {} waits for {} polls", p, peers, wait);
                }
            }
        }
        for _ in 0..bound * peers as u32 {
            if star.under_way.iter().all(VecDeque::is_empty) {
                break;
            }
            star.poll();
        }
        prop_assert!(star.under_way.iter().all(VecDeque::is_empty), "nothing is lost");
    }
}

/// With a clock, the bound is a time: a program that polls seldom looks at all links with each poll
/// that finds nothing.
#[test]
fn by_the_clock_all_links_are_due_after_a_time() {
    let mut attention = Attention::default();
    (0..=STREAK).for_each(|_| attention.found(3));
    assert!(attention.is_narrow() && attention.recent() == ([3, 0, 0, 0], 1));
    let mut now = 1_000_000;
    assert!(attention.is_due(64, || now));
    for links in [64, 1000] {
        let after = ALL_AFTER_NS.max(links as u64 * ALL_AFTER_NS_PER_LINK);
        assert!(!attention.is_due(links, || now + after - QUICK_NS), "{links} links");
        now += after;
        assert!(attention.is_due(links, || now));
    }
    // A message on another link makes polls wide.
    attention.found(9);
    assert!(!attention.is_narrow() && attention.favourite().is_none());
}

/// Polls that follow each other quickly ask the clock once in a few times; the first slow one ends
/// that.
#[test]
fn quick_polls_ask_the_clock_seldom() {
    let mut attention = Attention::default();
    (0..=STREAK).for_each(|_| attention.found(3));
    let (mut now, mut asked) = (1_000_000, 0);
    let mut poll = |time| {
        now += time;
        let is_due = attention.is_due(64, || {
            asked += 1;
            now
        });
        (is_due, asked)
    };
    assert_eq!(poll(0), (true, 1));
    assert_eq!(poll(QUICK_NS / 10), (false, 2));
    for round in 0..10 {
        for _ in 0..UNASKED_MAX {
            assert_eq!(poll(20), (false, 2 + round), "not asked");
        }
        assert_eq!(poll(20), (false, 3 + round), "asked");
    }
    // A message came to an idle link, and the program polls each millisecond from now on.
    let found = (0..=UNASKED_MAX).position(|_| poll(1_000_000).0);
    assert_eq!(found, Some(UNASKED_MAX as usize));
    for slow in 1..10 {
        assert_eq!(poll(1_000_000), (true, 13 + slow), "each poll asks");
    }
}

/// A link that alone brings messages for long is the only one that narrow polls look at.
#[test]
fn one_busy_link_is_looked_at_alone() {
    let mut attention = Attention::default();
    for at in [5, 6, 7, 8] {
        attention.found(at);
    }
    (1..ALONE).for_each(|_| attention.found(7));
    assert!(attention.is_narrow());
    assert_eq!(attention.recent().1, RECENT_MAX);
    (0..2).for_each(|_| attention.found(7));
    assert_eq!(attention.recent().1, 1);
    assert_eq!(attention.recent().0[0], 7);
    assert!(attention.is_narrow());
    // Two that take turns stay.
    attention.found(6);
    (0..ALONE).for_each(|i| attention.found(6 + i % 2));
    assert_eq!(attention.recent().1, 2);
}

/// The only busy link of many is polled like an only link, but for one poll in a few, which asks
/// the clock; finds have an end, too.
#[test]
fn an_only_busy_link_is_polled_alone() {
    let mut attention = Attention::default();
    attention.found(3);
    assert_eq!(attention.only(), None, "polls are wide");
    (0..STREAK).for_each(|_| attention.found(3));
    assert!(attention.is_due(64, || 1_000_000) && attention.only() == Some(3));
    // The first question to the clock says nothing about how quick polls are.
    assert!(!attention.is_content());
    assert!(!attention.is_due(64, || 1_000_000 + QUICK_NS - 1));
    for _ in 0..UNASKED_MAX {
        assert!(attention.is_content());
    }
    assert!(!attention.is_content(), "it is time to ask");
    for _ in 0..FINDS_PER_CLOCK {
        assert_eq!(attention.only(), Some(3));
        attention.found_at_favourite();
    }
    assert_eq!(attention.only(), None, "it is time to think of the others");
    assert!(!attention.is_due(64, || 1_000_000 + QUICK_NS) && attention.only() == Some(3));
    attention.ask();
    assert!(attention.only().is_none() && attention.must_ask());
    // A second busy link is looked for in the usual way.
    attention.found(9);
    (0..=STREAK).for_each(|_| attention.found(9));
    assert!(attention.is_narrow() && !attention.is_due(64, || 1_000_000 + QUICK_NS) && attention.only().is_none() && !attention.is_content());
}
