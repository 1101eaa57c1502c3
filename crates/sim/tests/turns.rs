// SPDX-License-Identifier: MIT OR Apache-2.0
//! Resident endpoints of one NIC take turns: one with a long backlog leaves its neighbours their
//! share of the NIC's processor.

use bellwire_residency::{Config as Frames, EndpointId};
use bellwire_sim::resident::{EndpointWorld, LOITER_DEFAULT, Message, MoveTimes, NicConfig, NicTimes};
use bellwire_sim::{Duration, FaultPlan, Instant, LinkSpec, Topology, WhenFull};

/// When the program of an endpoint writes its next message.
#[derive(Clone, Copy, PartialEq)]
enum Writes {
    /// As soon as the NIC has taken one from the send queue, which is never empty for long.
    WhenTaken,
    /// When one has arrived: so many messages are under way.
    WhenArrived,
}

/// Messages of each endpoint that arrived within 200 ms, of a NIC whose endpoints have so many
/// posted. The processor of the NIC is the bottleneck: 10 us for a packet.
fn delivered(backlogs: &[usize], writes: Writes) -> Vec<u64> {
    let link = LinkSpec { when_full: WhenFull::Hold, ..LinkSpec::default() };
    let endpoints = backlogs.len() as u32;
    let config = |nic| NicConfig {
        nic,
        peers: Vec::new(),
        endpoints,
        inbox_max: 1 << 16,
        transport: bellwire_proto::Config { refusals_max: 10_000, ..bellwire_proto::Config::default() },
        residency: Frames { frames: backlogs.len(), ..Frames::default() },
        times: MoveTimes { load: Duration::from_micros(10), unload: Duration::from_micros(10), image_bytes: 0 },
        loiter: LOITER_DEFAULT,
        // The receiver is faster.
        nic_times: NicTimes { packet: Duration::from_micros(if nic == 0 { 10 } else { 1 }), look: Duration(300), ..NicTimes::default() },
    };
    let mut world = EndpointWorld::new(Topology::star(2, link).unwrap(), &FaultPlan::default(), 1, config).unwrap();
    let mut got = vec![0; backlogs.len()];
    let mut id = 0;
    let mut post = |world: &mut EndpointWorld, endpoint: usize| {
        id += 1;
        let at = EndpointId(endpoint as u32);
        let message = Message { id, from: (0, at), to: (1, at), reply: false, payload: vec![0; 16] };
        world.with(0, |nic, now| nic.post(now, message));
    };
    for (endpoint, backlog) in backlogs.iter().enumerate() {
        (0..*backlog).for_each(|_| post(&mut world, endpoint));
    }
    while world.step(Instant(200_000_000)).is_some() {
        for endpoint in 0..backlogs.len() {
            let at = EndpointId(endpoint as u32);
            let before = got[endpoint];
            while world.nic_mut(1).take(at).is_some() {
                got[endpoint] += 1;
            }
            let due = match writes {
                Writes::WhenTaken => backlogs[endpoint] - world.nic(0).outbox(at),
                Writes::WhenArrived => (got[endpoint] - before) as usize,
            };
            (0..due).for_each(|_| post(&mut world, endpoint));
        }
    }
    println!("{backlogs:?}: {got:?}");
    got
}

const BACKLOGS: [&[usize]; 5] = [&[2048, 4], &[4, 2048], &[2048, 2048, 8], &[1, 64, 2048, 2], &[2048, 1]];

#[test]
fn a_backlog_takes_no_neighbour_s_share() {
    for backlogs in BACKLOGS {
        let got = delivered(backlogs, Writes::WhenTaken);
        let all: u64 = got.iter().sum();
        let fair = all / backlogs.len() as u64;
        assert!(all > 10_000 && got.iter().all(|got| *got >= fair / 2), "backlogs {backlogs:?}: {got:?}");
    }
}

/// An endpoint with few messages under way waits for each of them a turn of its neighbours at most,
/// so it has its few of each round.
#[test]
fn a_program_that_waits_for_each_message_has_its_place_in_each_round() {
    for backlogs in BACKLOGS {
        let got = delivered(backlogs, Writes::WhenArrived);
        let all: u64 = got.iter().sum();
        let turn = |backlog: usize| backlog.min(LOITER_DEFAULT as usize) as u64;
        let round: u64 = backlogs.iter().map(|b| turn(*b)).sum();
        for (got, backlog) in got.iter().zip(backlogs) {
            assert!(*got * round >= all * turn(*backlog) / 2, "backlogs {backlogs:?}: {got} of {all}");
        }
    }
}
