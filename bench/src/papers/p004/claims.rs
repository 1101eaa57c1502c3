// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the paper's text states, and how each statement is tested here.

use super::steps::{
    ABSORBED as SOME, BUILDS, FRAMES, NAMESPACES, NETWORKS_SIMULATED, OUTSTANDING, PATTERNS, PERMUTED, RATE, RATE_SIMULATED, Shape, WIRE, What, Wire, World,
    build, loiter, loiters, permuted, point, wire,
};
use crate::papers::judge::{Claim, Test};
use crate::papers::values::Round;

const LOGP: &str = "LogP";
const CONTENTION: &str = "one virtual network";
const NETWORKS: &str = "several virtual networks";
const FLOW: &str = "flow control";
const SCHEDULING: &str = "endpoint scheduling";

/// A statement about a world: its text, with the world behind it.
macro_rules! said {
    ($world:expr, $text:literal) => {
        match $world {
            World::Simulated => concat!($text, " (simulated)"),
            World::Agents => concat!($text, " (agents)"),
        }
    };
}

/// How far a level may be from another one that is the same.
const STEADY: f64 = 1.2;
/// How far the parts may be from the whole.
const ADDS_UP: f64 = 1.05;
/// Jain's index of shares that are fair.
const FAIR: f64 = 0.9;

fn positive(what: &'static str, unit: &'static str, of: impl Fn(&Round<'_>) -> Option<f64> + 'static) -> Test<'static> {
    Test::Positive { what, unit, of: Box::new(of) }
}

fn near(what: &'static str, factor: f64, of: impl Fn(&Round<'_>) -> Option<f64> + 'static) -> Test<'static> {
    Test::Near { what, factor, of: Box::new(of) }
}

/// A figure of so many clients.
fn get(round: &Round<'_>, world: World, shape: Shape, clients: usize, what: What) -> Option<f64> {
    round.get(&point(world, shape, clients, what))
}

/// The most clients.
fn most(shape: Shape, world: World, quick: bool) -> usize {
    let points = shape.points(world, quick);
    points[points.len() - 1]
}

/// All of them.
pub fn all(quick: bool, has_namespaces: bool) -> Vec<Claim<'static>> {
    let mut claims = Vec::new();
    absent(&mut claims);
    parts(&mut claims, ["g", "all"]);
    switched(&mut claims);
    permutations(&mut claims, NETWORKS_SIMULATED[1], RATE_SIMULATED, true);
    permutations(&mut claims, NAMESPACES, RATE, has_namespaces);
    for world in World::ALL {
        one_network(&mut claims, world, quick);
        networks(&mut claims, world, quick);
        loitering(&mut claims, world, quick);
    }
    refusals(&mut claims, quick);
    claims
}

fn absent(claims: &mut Vec<Claim<'static>>) {
    for (place, text, why) in [
        ("LogP", "round trip and bandwidth are twice those of the layer before, without virtual networks", "that layer and its machine are not here"),
        ("contention-free", "transfers by streams over the host's bus are faster than consistent ones when they are long", "there is no such bus here"),
        (
            "contention-free",
            "messages stay in the network interface's memory between bus and wire, which takes a part of the bandwidth",
            "a host's memory is the network interface's here",
        ),
        ("protocol", "probes and a mapper find the network's topology and distribute routes", "networks of IP have their own routes"),
    ] {
        claims.push(Claim { place, text, test: Test::Absent(why) });
    }
}

/// Statements on the cost of each part: the gap in virtual time, and the code.
fn parts(claims: &mut Vec<Claim<'static>>, [gap, code]: [&'static str; 2]) {
    let of = |round: &Round<'_>, row: usize, what: &str| round.get(&build(BUILDS[row], what));
    let protection = move |round: &Round<'_>, what| Some(of(round, 1, what)? - of(round, 0, what)?);
    let reliability = move |round: &Round<'_>, what| Some(of(round, 4, what)? - of(round, 0, what)?);
    let mut claim = |text, test| claims.push(Claim { place: LOGP, text, test });
    for (what, texts) in [
        (
            gap,
            [
                "reliability adds most to the gap, protection less (simulated)",
                "timers add to the gap what can hardly be measured (simulated)",
                "the parts add up to the gap of the whole (simulated)",
            ],
        ),
        (
            code,
            [
                "reliability adds most to a message, protection less (code)",
                "timers add to a message what can hardly be measured (code)",
                "the parts add up to the whole message (code)",
            ],
        ),
    ] {
        claim(
            texts[0],
            positive("what reliability alone adds less what protection alone adds", "ns", move |round| {
                Some(reliability(round, what)? - protection(round, what)?)
            }),
        );
        claim(
            texts[1],
            positive("0.05 less what timers add, as a part of the whole", "", move |round| {
                Some(0.05 - (of(round, 5, what)? - of(round, 4, what)?) / of(round, 3, what)?)
            }),
        );
        claim(texts[2], near("bare and parts alone, of the whole", ADDS_UP, move |round| Some(of(round, 6, what)? / of(round, 3, what)?)));
    }
    claim(
        "reliability and protection add to the latency, too (simulated)",
        positive("the lesser of what each alone adds to L", "ns", move |round| Some(reliability(round, "L")?.min(protection(round, "L")?))),
    );
    claim(
        "the parts add up to the round trip of the whole (simulated)",
        near("bare and parts alone, of the whole", ADDS_UP, move |round| Some(of(round, 6, "round trip")? / of(round, 3, "round trip")?)),
    );
    claim(
        "reliable delivery is a significant part of what communication costs (simulated)",
        positive("what it adds to the gap, less a tenth of the whole", "ns", move |round| Some(reliability(round, gap)? - 0.1 * of(round, 3, gap)?)),
    );
    claim(
        "the network interface limits the rate of short messages, not the overhead (simulated)",
        positive("g less the sum of o_s and o_r", "ns", move |round| Some(of(round, 3, "g")? - of(round, 3, "o_s")? - of(round, 3, "o_r")?)),
    );
}

/// Statements on the cost of protection between real processes.
fn switched(claims: &mut Vec<Claim<'static>>) {
    let added = |of: Wire, what: &'static str| move |round: &Round<'_>| Some(round.get(&wire(of, what))? - round.get(&wire(Wire::Direct, what))?);
    for (text, of, what) in [
        ("protection adds to the gap (keys)", Wire::Sealed, WIRE[1]),
        ("protection adds to the round trip (keys)", Wire::Sealed, WIRE[0]),
        ("protection adds to the gap (agents)", Wire::Agents, WIRE[1]),
        ("protection adds to the round trip (agents)", Wire::Agents, WIRE[0]),
    ] {
        claims.push(Claim { place: LOGP, text, test: positive("what is added to direct UDP", "us", added(of, what)) });
    }
}

/// Statements on permutations; without namespaces nothing is known of those over them.
fn permutations(claims: &mut Vec<Claim<'static>>, network: &'static str, rate: u64, is_measured: bool) {
    let get = move |round: &Round<'_>, pattern: usize, what: usize| round.get(&permuted(network, PATTERNS[pattern], PERMUTED[what]));
    let of_link = move |round: &Round<'_>, pattern| Some(get(round, pattern, 0)? * 8e6 / rate as f64);
    let is_real = network == NAMESPACES;
    let world = usize::from(is_real);
    let mut claim = |texts: [&'static str; 2], test| {
        let test = if is_measured { test } else { Test::Absent("network namespaces cannot be had here: they need root, ip and tc") };
        claims.push(Claim { place: "permutations", text: texts[world], test });
    };
    for (pattern, texts) in [
        ["circular shift has a bandwidth near the peak for each host (simulated)", "circular shift has a bandwidth near the peak for each host (namespaces)"],
        [
            "neighbour exchange has a bandwidth near the peak for each host (simulated)",
            "neighbour exchange has a bandwidth near the peak for each host (namespaces)",
        ],
    ]
    .into_iter()
    .enumerate()
    {
        claim(texts, positive("bandwidth as a part of the link's rate, less 0.8", "", move |round| Some(of_link(round, pattern)? - 0.8)));
    }
    claim(
        ["many hosts saturate the bisection (simulated)", "many hosts saturate the bisection (namespaces)"],
        positive("half of the bandwidth of neighbour exchange less that of bisection exchange", "MB/s", move |round| {
            Some(0.5 * get(round, 1, 0)? - get(round, 2, 0)?)
        }),
    );
    claim(
        [
            "round trips of circular shift and neighbour exchange are alike (simulated)",
            "round trips of circular shift and neighbour exchange are alike (namespaces)",
        ],
        near("the round trip of the one, of that of the other", 1.5, move |round| Some(get(round, 0, 2)? / get(round, 1, 2)?)),
    );
    claim(
        ["hosts share fairly (simulated, bisection exchange)", "hosts share fairly (namespaces, bisection exchange)"],
        positive("Jain's index less 0.9", "", move |round| Some(get(round, 2, 1)? - FAIR)),
    );
    if is_real {
        claim(
            ["", "neighbour exchange has all of the rate but a tenth (namespaces)"],
            positive("bandwidth as a part of the link's rate, less 0.9", "", move |round| Some(of_link(round, 1)? - 0.9)),
        );
    }
}

fn one_network(claims: &mut Vec<Claim<'static>>, world: World, quick: bool) {
    let many = most(Shape::Short, world, quick);
    let rate = move |round: &Round<'_>, n| get(round, world, Shape::Short, n, What::All);
    let mut claim = |text, test| claims.push(Claim { place: CONTENTION, text, test });
    claim(
        said!(world, "the rate of all clients is steady, however many there are"),
        near("the rate of most clients, of that of four", STEADY, move |round| Some(rate(round, many)? / rate(round, SOME)?)),
    );
    claim(
        said!(world, "each client's share of short requests is fair"),
        positive("Jain's index of most clients less 0.9", "", move |round| Some(get(round, world, Shape::Short, many, What::Jain)? - FAIR)),
    );
    let many = most(Shape::Bulk, world, quick);
    claim(
        said!(world, "the bandwidth of all clients is steady with requests of 8 KiB"),
        near("the bandwidth of most clients, of that of four", STEADY, move |round| {
            Some(get(round, world, Shape::Bulk, many, What::All)? / get(round, world, Shape::Bulk, SOME, What::All)?)
        }),
    );
    claim(
        said!(world, "each client's bandwidth degrades fairly with requests of 8 KiB"),
        positive("Jain's index of most clients less 0.9", "", move |round| Some(get(round, world, Shape::Bulk, many, What::Jain)? - FAIR)),
    );
    let points = Shape::Short.points(world, quick);
    let (from, to) = (points[1], points[points.len() - 1]);
    claim(
        said!(world, "the round trip grows with the clients by the gap"),
        near("its slope for each request outstanding, of the gap at the rate of all", STEADY, move |round| {
            let at = |n| get(round, world, Shape::Short, n, What::Response);
            let slope = (at(to)? - at(from)?) / ((to - from) * OUTSTANDING) as f64;
            Some(slope / (1e3 / rate(round, to)?))
        }),
    );
}

fn networks(claims: &mut Vec<Claim<'static>>, world: World, quick: bool) {
    let many = most(Shape::Single, world, quick);
    let rate = move |round: &Round<'_>, shape, n| get(round, world, shape, n, What::All);
    let mut claim = |text, test| claims.push(Claim { place: NETWORKS, text, test });
    claim(
        said!(world, "with a frame for each network the server's rate is near its peak"),
        near("the rate of seven networks, of that of four", STEADY, move |round| Some(rate(round, Shape::Single, FRAMES)? / rate(round, Shape::Single, SOME)?)),
    );
    claim(
        said!(world, "with a frame for each network each client is near its share"),
        near("the client that gets least of seven, of a seventh of all", STEADY, move |round| {
            Some(get(round, world, Shape::Single, FRAMES, What::Least)? * FRAMES as f64 / rate(round, Shape::Single, FRAMES)?)
        }),
    );
    claim(
        said!(world, "with fewer frames than networks a server of one thread drops significantly"),
        positive("0.5 less the rate of most networks as a part of that of seven", "", move |round| {
            Some(0.5 - rate(round, Shape::Single, many)? / rate(round, Shape::Single, FRAMES)?)
        }),
    );
    claim(
        said!(world, "threads and events cost a part of the peak"),
        positive("the rate of one thread less that of a thread each, seven networks", "k/s", move |round| {
            Some(rate(round, Shape::Single, FRAMES)? - rate(round, Shape::Threads, FRAMES)?)
        }),
    );
    claim(
        said!(world, "with a thread for each network the rate stays, however few frames there are"),
        near("the rate of most networks, of that of seven", STEADY, move |round| {
            Some(rate(round, Shape::Threads, many)? / rate(round, Shape::Threads, FRAMES)?)
        }),
    );
    claim(
        said!(world, "with a thread for each network clients vary little over a long time"),
        positive("Jain's index of most networks less 0.9", "", move |round| Some(get(round, world, Shape::Threads, many, What::Jain)? - FAIR)),
    );
    claim(
        said!(world, "some clients are above the mean and others below, where frames are few"),
        positive("what the client with most has more than that with least, per cent of the mean, less that with seven networks", "%", move |round| {
            let spread = |n: usize| {
                let of = |what| get(round, world, Shape::Threads, n, what);
                Some(100.0 * (of(What::Most)? - of(What::Least)?) * n as f64 / of(What::All)?)
            };
            Some(spread(many)? - spread(FRAMES)?)
        }),
    );
}

fn refusals(claims: &mut Vec<Claim<'static>>, quick: bool) {
    let many = most(Shape::Short, World::Simulated, quick);
    let refused = |round: &Round<'_>, n| get(round, World::Simulated, Shape::Short, n, What::Refused);
    let mut claim = |text, test| claims.push(Claim { place: FLOW, text, test });
    claim(
        "a receive queue of that size absorbs four senders at full rate (simulated)",
        positive("1 less the messages refused with four clients", "", move |round| Some(1.0 - refused(round, SOME)?)),
    );
    claim(
        "more senders overrun it: messages are refused and sent again (simulated)",
        positive("messages refused with most clients", "", move |round| refused(round, many)),
    );
    claim(
        "sending again costs little of the rate (simulated)",
        near("the rate of most clients, of that of four, which are never refused", STEADY, move |round| {
            let rate = |n| get(round, World::Simulated, Shape::Short, n, What::All);
            Some(rate(many)? / rate(SOME)?)
        }),
    );
}

fn loitering(claims: &mut Vec<Claim<'static>>, world: World, quick: bool) {
    let ks = loiters(world, quick);
    let (least, some, most) = (ks[0], ks[ks.len() / 2], ks[ks.len() - 1]);
    let get = move |round: &Round<'_>, k, what| round.get(&loiter(world, k, what));
    let mut claim = |text, test| claims.push(Claim { place: SCHEDULING, text, test });
    claim(
        said!(world, "a larger K serves bursts better"),
        positive("the rate with a moderate K less that with K 1", "k/s", move |round| Some(get(round, some, What::All)? - get(round, least, What::All)?)),
    );
    claim(
        said!(world, "a large K degrades the response of other endpoints"),
        positive("the response with the largest K less that with K 1", "us", move |round| {
            Some(get(round, most, What::Response)? - get(round, least, What::Response)?)
        }),
    );
}
