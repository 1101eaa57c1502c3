// SPDX-License-Identifier: MIT OR Apache-2.0
//! The NIC's share: Table 2 on simulated machines with the paper's costs, and with completion
//! queues and doorbells of the other kind. In virtual time, so each round has the same figures.

use bellwire_lanai::costs::{Costs, DATA, DMA, Doorbell, Fits, Queue};
use bellwire_lanai::fit::Lab;
use bellwire_lanai::paper::{COLUMNS, RAW, TABLE2};
use bellwire_lanai::program::LogP;
use bellwire_lanai::share::{SWITCHES, share};
use bellwire_report::model::{Cell, Column, Table, Unit};

use crate::error::Error;
use crate::papers::model::Exhibit;
use crate::papers::values::{Round, Values};

/// The machines whose raw VI Table 1 has.
const RAWS: [&str; 2] = ["raw VI (LANai 4)", "raw VI (LANai 7)"];
/// The parts of a line that are measured; the others are differences.
const MEASURED: [&str; 4] = ["half", "o_s", "o_r", "gap"];
const NONE: &str = "-";

fn figures(logp: &LogP) -> [f64; 4] {
    [logp.half, logp.o_s, logp.o_r, logp.gap]
}

/// The name of a figure of a simulated machine.
fn named(machine: &str, what: &str) -> String {
    format!("simulated {machine}: {what}")
}

fn switched(machine: &str, (queue, doorbell): (Queue, Doorbell), what: &str) -> String {
    named(machine, &format!("{what}, {}, {}", queue_name(queue), doorbell_name(doorbell)))
}

fn queue_name(queue: Queue) -> &'static str {
    match queue {
        Queue::Nic => "queue on the NIC",
        Queue::Host => "queue in memory",
    }
}

fn doorbell_name(doorbell: Doorbell) -> &'static str {
    match doorbell {
        Doorbell::Emulated => "emulated doorbell",
        Doorbell::Direct => "direct doorbell",
    }
}

/// What the paper's machine of a row has.
fn own(row: usize) -> (Queue, Doorbell) {
    (Queue::Nic, if row == 0 { Doorbell::Emulated } else { Doorbell::Direct })
}

/// All figures by their names, ns.
///
/// # Errors
/// The simulation fails.
pub fn simulate() -> Result<Vec<(String, f64)>, Error> {
    let failed = |error: bellwire_lanai::Error| Error::failed(error.to_string());
    let found = Lab::new().and_then(|mut lab| share(&mut lab, &Fits::FOUND)).map_err(failed)?;
    let mut all: Vec<(String, f64)> = RAWS.iter().zip(found.tables.raw).map(|(name, half)| (named(name, "half"), half)).collect();
    for (row, (machine, _)) in TABLE2.iter().enumerate() {
        let mut note = |name: &dyn Fn(&str) -> String, logp: &LogP| all.extend(MEASURED.iter().zip(figures(logp)).map(|(what, ns)| (name(what), ns)));
        note(&|what| named(machine, what), &found.tables.lines[row]);
        for (switch, logp) in SWITCHES.into_iter().zip(&found.switched[row]) {
            note(&|what| switched(machine, switch, what), logp);
        }
        note(&|what| named(machine, &format!("{what}, looks at VIs free")), &found.without_polls[row]);
    }
    Ok(all)
}

/// Simulates, and notes the figures in each round.
///
/// # Errors
/// The simulation fails.
pub fn note(values: &mut Values, rounds: usize) -> Result<(), Error> {
    let all = simulate()?;
    for round in 1..=rounds {
        all.iter().for_each(|(name, ns)| values.note(name, round, *ns));
    }
    Ok(())
}

fn us(ns: Option<f64>) -> Cell {
    ns.map_or_else(|| "not measured".into(), |ns| Cell::from(ns / 1e3))
}

/// A line of Table 2, ns: half a round trip, delta, L, `o_s`, `o_r`, gap.
fn line(values: &Values, row: usize) -> [Option<f64>; 6] {
    let of = |what: &str| values.median(&named(TABLE2[row].0, what));
    let [half, send, receive, gap] = MEASURED.map(of);
    let raw = values.median(&named(RAWS[usize::from(row > 0)], "half"));
    let less = |from: Option<f64>, what: Option<f64>| Some(from? - what?);
    [half, less(half, raw), less(less(half, send), receive), send, receive, gap]
}

/// Three exhibits: Table 2, the switches, the costs.
pub fn exhibits(values: &Values) -> [Exhibit; 3] {
    [table2(values), switches(values), costs()]
}

fn table2(values: &Values) -> Exhibit {
    let columns = [Column::plain("version"), Column::plain("by")].into_iter().chain(COLUMNS.map(|name| Column::new(name, Unit::Microseconds)));
    let mut table = Table::new("The NIC's share: Table 2 on simulated machines with the paper's costs", columns);
    let mut rows = |name: &str, paper: [Option<f64>; 6], ours: [Option<f64>; 6]| {
        let row = |by: &str, cells: [Cell; 6]| [Cell::from(name), by.into()].into_iter().chain(cells);
        let none = || Cell::from(NONE);
        table.row(row("paper", paper.map(|us| us.map_or_else(none, Cell::from))));
        table.row(row("simulated", std::array::from_fn(|i| if paper[i].is_some() { us(ours[i]) } else { none() })));
        let residual = |i: usize| match (paper[i], ours[i]) {
            (Some(paper), Some(ours)) => format!("{:+.1} %", (ours / 1e3 / paper - 1.0) * 100.0).into(),
            _ => none(),
        };
        table.row(row("residual", std::array::from_fn(residual)));
    };
    for (name, paper) in RAWS.iter().zip(RAW) {
        let mut cells = [None; 6];
        let mut ours = [None; 6];
        (cells[0], ours[0]) = (Some(paper), values.median(&named(name, "half")));
        rows(name, cells, ours);
    }
    for (row, (name, paper)) in TABLE2.iter().enumerate() {
        rows(name, paper.map(Some), line(values, row));
    }
    let about = [
        "The mappings as programs run them (crates/amvia) on a simulated library of VIPL calls, in virtual time: each run gives the same figures. What calls and steps of the host cost is put in from Table 3 and the o_s + o_r of Table 2, a DMA transfer is the paper's 2 to 3 us; seven figures that the paper leaves open are fitted, and told as fits below.",
        "So this shows that the paper's costs are enough to explain its table, and not that they are what its machines cost. The raw VI's lines are those of Table 1.",
    ];
    Exhibit::table("The NIC's share", about, table)
}

fn switches(values: &Values) -> Exhibit {
    let names = ["RTT/2", "o_s", "o_r", "g"];
    let columns = [Column::plain("version"), Column::plain("completion queue"), Column::plain("doorbell"), Column::plain("")]
        .into_iter()
        .chain(names.map(|name| Column::new(name, Unit::Microseconds)));
    let mut table = Table::new("The NIC's share, switched: what other queues and doorbells would have given", columns);
    for (row, (machine, _)) in TABLE2.iter().enumerate() {
        for switch in SWITCHES {
            let is_own = if switch == own(row) { "as in the paper" } else { "" };
            let cells = MEASURED.map(|what| us(values.median(&switched(machine, switch, what))));
            let words = [*machine, queue_name(switch.0), doorbell_name(switch.1), is_own].map(Cell::from);
            table.row(words.into_iter().chain(cells));
        }
    }
    let about = [
        "On the NIC a look at a completion queue is a programmed read, and a programmed write clears an entry. In memory a look is a load, which misses the cache where there is an entry, and each entry is a DMA transfer that the firmware waits for.",
        "An emulated doorbell is one word: the host waits until the token before is taken. What the firmware pays for a look at a VI goes with the doorbell, as the paper says that the doorbell makes the difference of its two NICs.",
    ];
    Exhibit::table("The NIC's share, switched", about, table)
}

fn costs() -> Exhibit {
    let columns = [Column::plain("cost"), Column::new("value", Unit::Microseconds), Column::plain("from")];
    let mut table = Table::new("The NIC's share: what everything costs", columns);
    let mut fits = Fits::FOUND;
    for fitted in Fits::ALL {
        table.row([fitted.what.into(), us(Some(*(fitted.of)(&mut fits) as f64)), "fit".into()]);
    }
    let host = Costs::of_paper(&fits, true).host;
    let share = "the paper: Table 3's share of o_s + o_r = 6.0 us";
    let rows = [
        ("programmed write", host.write, "VipCQDone's share of Table 3 less the read"),
        ("VipPostSend, beside its programmed write", host.post_send, share),
        ("VipPostRecv, beside its programmed write", host.post_receive, share),
        ("VipSendDone", host.send_done, share),
        ("VipRecvDone", host.receive_done, share),
        ("code of the mapping, all steps", host.code.iter().sum(), share),
        ("DMA transfer of a few bytes", DMA, "the paper: 2 to 3 us"),
        ("a send or a receive of more than 4 bytes, in addition", DATA, "the paper: 16 bytes take 32 us, the least message 30.2"),
        ("a look at a cached word", host.look, "chosen"),
    ];
    rows.into_iter().for_each(|(what, ns, from)| table.row([what.into(), us(Some(ns as f64)), from.into()]));
    let about = [
        "Pentium III, 550 MHz. On the Pentium II the code takes 550 / 400 of that. A send and a receive make three DMA transfers each: descriptor, data, status. Bytes cost nothing else, for all messages are short.",
    ];
    Exhibit::table("The NIC's share, costs", about, table)
}

/// What a direct doorbell takes off half a round trip of the machine that has an emulated one, less
/// 11 us; its gap.
pub fn doorbell_gain(what: &'static str) -> impl Fn(&Round<'_>) -> Option<f64> {
    move |round| {
        let of = |doorbell| round.get(&switched(TABLE2[0].0, (Queue::Nic, doorbell), what));
        Some(of(Doorbell::Emulated)? - of(Doorbell::Direct)? - 11_000.0)
    }
}

/// How much of the gap of v1 above v3's the looks at its VIs make, less half of it.
pub fn polls_in_gap(round: &Round<'_>) -> Option<f64> {
    let above = |what: &str| Some(round.get(&named(TABLE2[1].0, what))? - round.get(&named(TABLE2[2].0, what))?);
    let all = above("gap")?;
    Some(all - above("gap, looks at VIs free")? - all / 2.0)
}

/// What a queue in memory takes off the overheads of v3.
pub fn queue_overhead(round: &Round<'_>) -> Option<f64> {
    let of = |queue, what| round.get(&switched(TABLE2[2].0, (queue, Doorbell::Direct), what));
    let both = |queue| Some(of(queue, "o_s")? + of(queue, "o_r")?);
    Some(both(Queue::Nic)? - both(Queue::Host)?)
}

/// What a queue in memory adds to half a round trip, or to the gap, of v3.
pub fn queue_in_memory(what: &'static str) -> impl Fn(&Round<'_>) -> Option<f64> {
    move |round| {
        let of = |queue| round.get(&switched(TABLE2[2].0, (queue, Doorbell::Direct), what));
        Some(of(Queue::Host)? - of(Queue::Nic)?)
    }
}
