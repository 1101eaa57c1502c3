// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the paper's text states, and how each statement is tested here.

use super::exhibits::{copy_time, delta, difference, latency, message_time};
use super::paper::{CATEGORIES, Part};
use super::steps::{BOTH, LAYOUTS, Row, credited, word};
use super::{nic, parts};
use crate::papers::judge::{Claim, Test};
use crate::papers::values::Round;
use crate::splitc::Operation;

const NS: &str = "ns";
const PERCENT: &str = "%";
/// "As good as", "very similar": within this factor.
const SIMILAR: f64 = 1.25;

fn positive(what: &'static str, unit: &'static str, of: impl Fn(&Round<'_>) -> Option<f64> + 'static) -> Test<'static> {
    Test::Positive { what, unit, of: Box::new(of) }
}

fn near(what: &'static str, factor: f64, of: impl Fn(&Round<'_>) -> Option<f64> + 'static) -> Test<'static> {
    Test::Near { what, factor, of: Box::new(of) }
}

/// What one figure of a round is above another one.
fn less(of: &'static str, from: &'static str) -> impl Fn(&Round<'_>) -> Option<f64> {
    move |round| Some(round.get(from)? - round.get(of)?)
}

/// A Split-C operation on words of 8 bytes, ns.
fn words(round: &Round<'_>, operation: Operation, layout: &str) -> Option<f64> {
    round.get(&word(layout, operation, "long"))
}

fn share(round: &Round<'_>, of: &str, category: &str) -> Option<f64> {
    parts::share(round, of, parts::category(round, of, category)?)
}

/// A category's share less the greatest of the others'.
fn lead(round: &Round<'_>, of: &str, category: &str) -> Option<f64> {
    let others = CATEGORIES.iter().filter(|(name, _)| *name != category && *name != "Rest");
    let greatest = others.map(|(name, _)| share(round, of, name)).try_fold(f64::NEG_INFINITY, |most, next| Some(most.max(next?)))?;
    Some(share(round, of, category)? - greatest)
}

/// The two calls of `VipCQDone` less the greatest other call or operation.
fn queue_lead(round: &Round<'_>, of: &str) -> Option<f64> {
    let queues = parts::ticks(round, of, Part::QueueSend)? + parts::ticks(round, of, Part::QueueReceive)?;
    let others = CATEGORIES.iter().flat_map(|(_, parts)| parts.iter()).filter(|part| !matches!(part, Part::QueueSend | Part::QueueReceive | Part::Rest));
    let greatest = others.map(|part| parts::ticks(round, of, *part)).try_fold(f64::NEG_INFINITY, |most, next| Some(most.max(next?)))?;
    Some(queues - greatest)
}

/// How the sum of a table's categories stands to the whole.
fn sum_to_whole(round: &Round<'_>, of: &str) -> Option<f64> {
    Some(parts::sum(round, of)? / parts::measured(round, of)?)
}

/// All of them, in the paper's order.
pub fn all() -> Vec<Claim<'static>> {
    let claim = |place, text, test| Claim { place, text, test };
    let mut claims = active_messages(&claim);
    claims.extend(split_c(&claim));
    claims.extend(taken_apart(&claim));
    claims.extend(bulk_and_discussion(&claim));
    claims.extend(versions(&claim));
    claims.extend(credits_alone(&claim));
    claims
}

type Make<'m> = &'m dyn Fn(&'static str, &'static str, Test<'static>) -> Claim<'static>;

fn active_messages(claim: Make<'_>) -> Vec<Claim<'static>> {
    vec![
        claim(
            "7.1",
            "the LANai 7's hardware doorbells take 11 to 15 us off half a round trip",
            positive("half a round trip of the simulated LANai 4 less that with a direct doorbell, less 11 us", NS, nic::doorbell_gain("half")),
        ),
        claim(
            "7.1",
            "the LANai 7's hardware doorbells take 11 to 15 us off the gap",
            positive("the gap of the simulated LANai 4 less that with a direct doorbell, less 11 us", NS, nic::doorbell_gain("gap")),
        ),
        claim("7.1", "v3 has a shorter round trip than v1", positive("half a round trip of v1 less v3's", NS, less("v3 half", "v1 half"))),
        claim("7.1", "v3 has a lower L than v1", positive("L of v1 less v3's", NS, |round| Some(latency(round, "v1")? - latency(round, "v3")?))),
        claim("7.1", "v3 has a lower gap than v1", positive("the gap of v1 less v3's", NS, less("v3 gap", "v1 gap"))),
        claim(
            "7.1",
            "Active Messages cost substantially more than the raw VI: 5.4 of 30.2 us",
            positive("delta of v3 less a sixth of the raw VI's half round trip", NS, |round| Some(delta(round, "v3")? - round.get("raw half")? / 6.0)),
        ),
        claim(
            "7.1",
            "the mapping cost is contained in the send and receive overheads",
            positive("o_s + o_r of v3 less its delta", NS, |round| Some(round.get("v3 o_s")? + round.get("v3 o_r")? - delta(round, "v3")?)),
        ),
        claim(
            "7.1",
            "the gap of v1 is higher since the NIC polls more VIs in turn",
            positive("what looks at VIs make of the gap of v1 above v3's on the simulated LANai 7, less half of it", NS, nic::polls_in_gap),
        ),
    ]
}

fn split_c(claim: Make<'_>) -> Vec<Claim<'static>> {
    use Operation::{Get, Put, Read, Store, Write};
    vec![
        claim(
            "6",
            "puts by RDMA write with a request behind it are no faster than puts by messages",
            Test::Absent("the Split-C layer measured here sends messages alone, as the paper's does"),
        ),
        claim(
            "7.2",
            "reads take slightly less than AMVIA's round trip",
            positive("a round trip of v3 less a read", NS, |round| Some(2.0 * round.get("v3 half")? - words(round, Read, "one VI")?)),
        ),
        claim(
            "7.2",
            "writes take slightly less than AMVIA's round trip",
            positive("a round trip of v3 less a write", NS, |round| Some(2.0 * round.get("v3 half")? - words(round, Write, "one VI")?)),
        ),
        claim(
            "7.2",
            "repeated gets take slightly less than AMVIA's gap",
            positive("the gap of v3 less a get", NS, |round| Some(round.get("v3 gap")? - words(round, Get, "one VI")?)),
        ),
        claim(
            "7.2",
            "repeated puts take slightly less than AMVIA's gap",
            positive("the gap of v3 less a put", NS, |round| Some(round.get("v3 gap")? - words(round, Put, "one VI")?)),
        ),
        claim(
            "7.2",
            "stores gain substantially, for not each of them is acknowledged",
            positive("nine tenths of a put less a store, one VI", NS, |round| Some(0.9 * words(round, Put, "one VI")? - words(round, Store, "one VI")?)),
        ),
        claim(
            "7.2",
            "stores gain less with 8 credits than with 64, for more acknowledgements are sent",
            positive("store to put with 8 credits less that with 64, of a hundred", PERCENT, |round| {
                let ratio = |layout| Some(100.0 * words(round, Store, layout)? / words(round, Put, layout)?);
                Some(ratio("one VI")? - ratio("two VIs")?)
            }),
        ),
        claim(
            "7.2",
            "Split-C's reads cost substantially more than the raw VI: 5 of 30 us",
            positive("half a read less seven sixths of the raw VI's half round trip", NS, |round| {
                Some(words(round, Read, "one VI")? / 2.0 - round.get("raw half")? * 7.0 / 6.0)
            }),
        ),
    ]
}

fn taken_apart(claim: Make<'_>) -> Vec<Claim<'static>> {
    vec![
        claim(
            "here",
            "the parts of Table 3 add up to the whole within 5 %",
            near("sum of the categories to the whole without marks", 1.05, |round| sum_to_whole(round, "v3")),
        ),
        claim(
            "here",
            "the parts of Table 4 add up to the whole within 5 %",
            near("sum of the categories to the whole without marks", 1.05, |round| sum_to_whole(round, "get")),
        ),
        claim(
            "7.3",
            "event notification is the largest category of an AMVIA round trip",
            positive("its share less the greatest other one", PERCENT, |round| lead(round, "v3", "Event notification")),
        ),
        claim(
            "7.3",
            "event notification is the largest category of a Split-C get",
            positive("its share less the greatest other one", PERCENT, |round| lead(round, "get", "Event notification")),
        ),
        claim(
            "7.3",
            "VipCQDone, of sends and receives, costs more than any other operation (AMVIA)",
            positive("its ticks less those of the greatest other operation", "ticks", |round| queue_lead(round, "v3")),
        ),
        claim(
            "7.3",
            "VipCQDone, of sends and receives, costs more than any other operation (Split-C)",
            positive("its ticks less those of the greatest other operation", "ticks", |round| queue_lead(round, "get")),
        ),
        claim(
            "7.3",
            "that is since the queue lies on the NIC, behind programmed I/O",
            positive("o_s + o_r of v3 on the simulated LANai 7 less that with its queues in memory", NS, nic::queue_overhead),
        ),
        claim(
            "7.3",
            "processing a message costs slightly more in AMVIA than in Split-C",
            positive("ticks in AMVIA less those in Split-C", "ticks", |round| {
                Some(parts::ticks(round, "v3", Part::Process)? - parts::ticks(round, "get", Part::Process)?)
            }),
        ),
        claim(
            "7.3",
            "the semantics of Active Messages cost more than those of Split-C",
            positive("ticks in AMVIA less those in Split-C", "ticks", |round| {
                Some(parts::category(round, "v3", "Semantics")? - parts::category(round, "get", "Semantics")?)
            }),
        ),
        claim(
            "7.3",
            "the semantics are less than a tenth of AMVIA's overhead",
            positive("10 % less their share", PERCENT, |round| Some(10.0 - share(round, "v3", "Semantics")?)),
        ),
        claim(
            "7.3",
            "the semantics are less than a tenth of Split-C's overhead",
            positive("10 % less their share", PERCENT, |round| Some(10.0 - share(round, "get", "Semantics")?)),
        ),
    ]
}

fn bulk_and_discussion(claim: Make<'_>) -> Vec<Claim<'static>> {
    vec![
        claim(
            "7.4",
            "the raw VI has the highest throughput (1 KiB; over AMVIA)",
            positive("time of a message of AMVIA less the raw VI's", NS, |round| difference(round, "v3")),
        ),
        claim(
            "7.4",
            "the raw VI has the highest throughput (1 KiB; over Split-C)",
            positive("time of a message of Split-C less the raw VI's", NS, |round| difference(round, "splitc")),
        ),
        claim(
            "7.4",
            "up to 4 KiB AMVIA and Split-C have nearly the same throughput (1 KiB)",
            near("AMVIA's rate to Split-C's", SIMILAR, |round| Some(message_time(round, "splitc", 1 << 10)? / message_time(round, "v3", 1 << 10)?)),
        ),
        claim(
            "7.4",
            "a copy and a short receive explain what a message of 1 KiB takes more",
            near("copy and short receive to the difference of AMVIA", SIMILAR, |round| {
                Some((copy_time(round)? + message_time(round, "raw", 32)?) / difference(round, "v3")?)
            }),
        ),
        claim(
            "7.4",
            "the short receive takes more of it than the copy",
            positive("a short receive less a copy", NS, |round| Some(message_time(round, "raw", 32)? - copy_time(round)?)),
        ),
        claim(
            "7.4",
            "above 4 KiB several messages for each cost AMVIA throughput: a knee",
            positive("a message of 16 KiB less four of 4 KiB, AMVIA", NS, |round| {
                Some(message_time(round, "v3", 16 << 10)? - 4.0 * message_time(round, "v3", 4 << 10)?)
            }),
        ),
        claim(
            "7.4",
            "above 4 KiB fragments cost Split-C throughput: a knee",
            positive("a put of 16 KiB less four of 4 KiB, Split-C", NS, |round| {
                Some(message_time(round, "splitc", 16 << 10)? - 4.0 * message_time(round, "splitc", 4 << 10)?)
            }),
        ),
        claim(
            "8.1",
            "8 credits do as well as 64 (v3)",
            positive("1.1 times the gap with 64 credits less that with 8", NS, |round| {
                Some(1.1 * round.get("v3 gap, 64 credits")? - round.get("v3 gap, 8 credits")?)
            }),
        ),
        claim(
            "8.1",
            "8 credits do as well as 64 (v1)",
            positive("1.1 times the gap with 64 credits less that with 8", NS, |round| {
                Some(1.1 * round.get("v1 gap, 64 credits")? - round.get("v1 gap, 8 credits")?)
            }),
        ),
        claim(
            "8.1",
            "a simple scheme with few credits has the better small messages (v3 with 8, v1 with four times as many for them)",
            positive("the gap of v1 less v3's, both with 8", NS, |round| Some(round.get("v1 gap, 8 credits")? - round.get("v3 gap, 8 credits")?)),
        ),
        claim(
            "8.1",
            "a completion queue in memory, by DMA, is no better for half a round trip",
            positive(
                "half a round trip of v3 on the simulated LANai 7 with its queues in memory less that with them on the NIC",
                NS,
                nic::queue_in_memory("half"),
            ),
        ),
        claim(
            "8.1",
            "a completion queue in memory, by DMA, is no better for the gap",
            positive("the gap of v3 on the simulated LANai 7 with its queues in memory less that with them on the NIC", NS, nic::queue_in_memory("gap")),
        ),
        claim(
            "8.1",
            "polling many VIs one by one is not efficient, so the completion queue is needed",
            Test::Absent("a pair of endpoints is measured here; `bellwire logp --peers` has many"),
        ),
        claim(
            "8.2",
            "InfiniBand's own flow control could make credits above it unnecessary",
            Test::Absent("the layers measured here have credits of their own; none without was built"),
        ),
        claim("8.2", "immediate data of 64 bits would help small messages", Test::Absent("immediate data has 32 bits here, as in the architecture")),
        claim("8.2", "fifteen virtual lanes may be too few", Test::Absent("there are no virtual lanes here")),
    ]
}

/// A time of the version with two VIs, `weight` times, less that of the version with one, ns.
fn gain(operation: Operation, bytes: usize, route: usize, weight: f64) -> impl Fn(&Round<'_>) -> Option<f64> {
    let [one, two] = LAYOUTS.map(|(layout, _)| Row { operation, bytes }.name(layout, route));
    move |round| Some(weight * round.get(&two)? - round.get(&one)?)
}

fn versions(claim: Make<'_>) -> Vec<Claim<'static>> {
    use Operation::{Get, Put};
    let [shm, udp] = BOTH;
    let credits = "1.1 times a get with 64 credits less one with 8";
    let puts = "1.1 times a put with 64 credits less one with 8";
    let copies = "a put that is copied less one that is gathered";
    vec![
        claim("8.1", "8 credits do as well as 64 (Split-C's gets, shared memory)", positive(credits, NS, gain(Get, 8, shm, 1.1))),
        claim("8.1", "8 credits do as well as 64 (Split-C's gets, UDP)", positive(credits, NS, gain(Get, 8, udp, 1.1))),
        claim("8.1", "8 credits do as well as 64 (Split-C's puts, shared memory)", positive(puts, NS, gain(Put, 8, shm, 1.1))),
        claim("8.1", "8 credits do as well as 64 (Split-C's puts, UDP)", positive(puts, NS, gain(Put, 8, udp, 1.1))),
        claim("6", "gathering bulk data is better than copying it (puts of 16 KiB, shared memory)", positive(copies, NS, gain(Put, 16 << 10, shm, 1.0))),
        claim("6", "gathering bulk data is better than copying it (puts of 16 KiB, UDP)", positive(copies, NS, gain(Put, 16 << 10, udp, 1.0))),
    ]
}

/// 8 credits against 64 in the same version, so that nothing else differs.
fn credits_alone(claim: Make<'_>) -> Vec<Claim<'static>> {
    use Operation::{Get, Put};
    let [shm, udp] = BOTH;
    let [(one, _), (two, _)] = LAYOUTS;
    let texts = [
        ("8 credits do as well as 64 (gets on one VI, shared memory)", Get, one, shm),
        ("8 credits do as well as 64 (gets on one VI, UDP)", Get, one, udp),
        ("8 credits do as well as 64 (puts on one VI, shared memory)", Put, one, shm),
        ("8 credits do as well as 64 (puts on one VI, UDP)", Put, one, udp),
        ("8 credits do as well as 64 (gets on two VIs, shared memory)", Get, two, shm),
        ("8 credits do as well as 64 (gets on two VIs, UDP)", Get, two, udp),
        ("8 credits do as well as 64 (puts on two VIs, shared memory)", Put, two, shm),
        ("8 credits do as well as 64 (puts on two VIs, UDP)", Put, two, udp),
    ];
    let judged = |(text, operation, layout, route)| {
        let [few, many] = [8, 64].map(|credits| credited(operation, layout, credits, route));
        let of = move |round: &Round<'_>| Some(1.1 * round.get(&many)? - round.get(&few)?);
        claim("8.1", text, positive("1.1 times the time with 64 credits less that with 8", NS, of))
    };
    texts.into_iter().map(judged).collect()
}
