// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paper's tables and figures, with ours beside them.

use bellwire_lanai::paper::{COLUMNS, TABLE2};
use bellwire_report::bars::Bars;
use bellwire_report::model::{Axis, Cell, Column, Line, Plot, Scale, Table, Unit};

use super::paper::{CATEGORIES, FIGURE5, Part, TABLE1, TABLE5, category_share};
use super::parts;
use super::steps::{BOTH, CARRIERS, CREDITED, LAYOUTS, ROUTES, credited, credits, rows, sizes, types, word};
use crate::papers::model::Exhibit;
use crate::papers::values::{Round, Values};
use crate::splitc::Operation;

/// The text of a cell where the paper has nothing.
const NOT_SAID: &str = "not said";

/// All of them, in the paper's order; credits against the gap; Split-C's two versions; the
/// NIC's share.
pub fn all(values: &Values, quick: bool) -> Vec<Exhibit> {
    vec![
        table1(values),
        table2(values),
        apart(values, 3),
        apart(values, 4),
        table5(values),
        figure2(values, quick),
        figure_of(values, 3),
        figure_of(values, 4),
        figure5(values, quick),
        by_credits(values, quick),
        versions(values, quick),
        splitc_by_credits(values, quick),
    ]
    .into_iter()
    .chain(super::nic::exhibits(values))
    .collect()
}

fn said(value: Option<f64>) -> Cell {
    value.map_or_else(|| NOT_SAID.into(), Cell::from)
}

fn missing(value: Option<f64>) -> Cell {
    value.map_or_else(|| "not measured".into(), Cell::from)
}

/// The median of an expression, in microseconds if it is in nanoseconds. Some are differences,
/// which the noise can make negative: no time is.
fn us(values: &Values, of: impl Fn(&Round<'_>) -> Option<f64>) -> Cell {
    match values.of(of).map(|estimate| estimate.median / 1e3) {
        Some(negative) if negative < 0.0 => "below the noise".into(),
        median => missing(median),
    }
}

fn table1(values: &Values) -> Exhibit {
    let columns =
        [Column::plain("interface"), Column::plain("by"), Column::new("RTT/2", Unit::Microseconds), Column::new("throughput", Unit::MegabytesPerSecond)];
    let mut table = Table::new("Table 1: performance base", columns);
    for (name, half, throughput) in TABLE1 {
        table.row([name.into(), "paper".into(), half.into(), throughput.into()]);
    }
    for name in ROUTES {
        let half = us(values, |round| round.get(&format!("raw half, {name}")));
        let throughput = missing(values.median(&format!("raw GB/s, {name}")).map(|rate| rate * 1e3));
        table.row([format!("Bellwire, {name}").into(), "ours".into(), half, throughput]);
    }
    Exhibit::table("Table 1", ["Ours: 8 bytes there and back; messages of 32 KiB one way, whose bytes the receiver reads."], table)
}

fn table2(values: &Values) -> Exhibit {
    let columns = [Column::plain("version"), Column::plain("by")].into_iter().chain(COLUMNS.map(|name| Column::new(name, Unit::Microseconds)));
    let mut table = Table::new("Table 2: LogP of AMVIA", columns);
    for (name, figures) in TABLE2 {
        table.row([Cell::from(name), "paper".into()].into_iter().chain(figures.map(Cell::from)));
    }
    for (name, _) in CARRIERS {
        let get = |what: &str| {
            let name = format!("{name} {what}");
            us(values, move |round| round.get(&name))
        };
        let cells = [get("half"), us(values, |round| delta(round, name)), us(values, |round| latency(round, name)), get("o_s"), get("o_r"), get("gap")];
        table.row([format!("AMVIA {name}").into(), "ours".into()].into_iter().chain(cells));
    }
    let about = [
        "delta: what half a round trip is above that of a raw VI's message of 16 bytes. L: half a round trip less o_s and o_r. Over shared memory.",
        "o_s and o_r are measured with 32 credits, so that no request of a burst waits; all else with 8. v2 was not stable enough for the paper's table.",
    ];
    Exhibit::table("Table 2", about, table)
}

/// Nanoseconds that Active Messages add to half a round trip.
pub fn delta(round: &Round<'_>, name: &str) -> Option<f64> {
    Some(round.get(&format!("{name} half"))? - round.get("raw half")?)
}

/// L, ns.
pub fn latency(round: &Round<'_>, name: &str) -> Option<f64> {
    Some(round.get(&format!("{name} half"))? - round.get(&format!("{name} o_s"))? - round.get(&format!("{name} o_r"))?)
}

/// The round trip that a table takes apart.
pub fn of_table(table: usize) -> &'static str {
    if table == 3 { "v3" } else { "get" }
}

fn apart(values: &Values, number: usize) -> Exhibit {
    let of = of_table(number);
    let (name, title) = if number == 3 {
        ("Table 3", "Table 3: VI operations of an AMVIA request and its reply")
    } else {
        ("Table 4", "Table 4: VI operations of a Split-C get")
    };
    let columns =
        [Column::plain("operation"), Column::new("paper", Unit::Percent), Column::measured("ours", Unit::Percent), Column::measured("ours, ticks", Unit::None)];
    let mut table = Table::new(title, columns);
    let mut row = |name: String, paper: Cell, ticks: &dyn Fn(&Round<'_>) -> Option<f64>| {
        let share = values.of(|round| parts::share(round, of, ticks(round)?)).map(|estimate| estimate.median);
        table.row([name.into(), paper, missing(share), missing(values.of(ticks).map(|estimate| estimate.median))]);
    };
    for (category, operations) in CATEGORIES {
        row(category.to_owned(), said(category_share(category, number)), &|round| parts::category(round, of, category));
        for part in operations.iter().filter(|part| **part != Part::Rest) {
            row(format!("- {}", part.name()), said(part.share(number)), &|round| parts::ticks(round, of, *part));
        }
    }
    row("Sum of the categories".to_owned(), 100.0.into(), &|round| parts::sum(round, of));
    row("Whole, measured without marks".to_owned(), NOT_SAID.into(), &|round| parts::measured(round, of));
    row("Whole, with marks".to_owned(), NOT_SAID.into(), &|round| parts::with_marks(round, of));
    let about = [
        "Both sides together: two NICs of one process by turns on one thread, linked by shared memory, so that nobody waits. Ticks of the processor's counter for a round trip.",
        "By samples: another thread says at any moment that the next mark is to be counted, and a mark says what was done since the mark before. So nothing is left out, and a mark is a look at a word. Rest: entering and leaving the calls of the layer, and the measuring program.",
    ];
    Exhibit::table(name, about, table)
}

fn figure_of(values: &Values, number: usize) -> Exhibit {
    let of = of_table(number);
    let (name, title) = if number == 3 {
        ("Figure 3", "Figure 3: where the time of an AMVIA request and reply goes")
    } else {
        ("Figure 4", "Figure 4: where the time of a Split-C get goes")
    };
    let mut table = Table::new(title, [Column::plain("category"), Column::new("paper", Unit::Percent), Column::measured("ours", Unit::Percent)]);
    let mut groups = Vec::new();
    for (category, _) in CATEGORIES {
        let ours = values.of(|round| parts::share(round, of, parts::category(round, of, category)?)).map(|estimate| estimate.median);
        let paper = category_share(category, number);
        table.row([category.into(), said(paper), missing(ours)]);
        groups.push((category.to_owned(), vec![paper, ours]));
    }
    let bars = Bars { title: title.to_owned(), unit: "% of the overhead".to_owned(), series: vec!["paper".to_owned(), "ours".to_owned()], groups };
    Exhibit { bars: vec![bars], ..Exhibit::table(name, ["The categories of the table, as bars."], table) }
}

/// Time of a message of 1 KiB, ns, by its rate.
pub fn message_time(round: &Round<'_>, series: &str, bytes: usize) -> Option<f64> {
    Some(bytes as f64 / round.get(&format!("{series} stream {bytes}"))?)
}

/// Time of a copy of 1 KiB, ns.
pub fn copy_time(round: &Round<'_>) -> Option<f64> {
    Some(1024.0 / round.get("copies GB/s")?)
}

/// What a message of 1 KiB takes more than the raw VI's, ns.
pub fn difference(round: &Round<'_>, series: &str) -> Option<f64> {
    Some(message_time(round, series, 1 << 10)? - message_time(round, "raw", 1 << 10)?)
}

fn table5(values: &Values) -> Exhibit {
    let columns = [Column::plain("component"), Column::new("paper", Unit::Microseconds), Column::measured("ours", Unit::Microseconds)];
    let mut table = Table::new("Table 5: what a message of 1 KiB takes more than the raw VI's", columns);
    let short = |round: &Round<'_>| message_time(round, "raw", 32);
    let ours =
        [us(values, copy_time), us(values, short), us(values, |round| Some(copy_time(round)? + short(round)?)), us(values, |round| difference(round, "v3"))];
    for ((name, paper), ours) in TABLE5.into_iter().zip(ours) {
        table.row([name.into(), paper.into(), ours]);
    }
    table.row(["the same of Split-C".into(), TABLE5[3].1.into(), us(values, |round| difference(round, "splitc"))]);
    let about = [
        "As in the paper, the time of a short receive is that of a message in a stream of 32 bytes. Messages of AMVIA v3, each with a reply, whose handlers read the data.",
    ];
    Exhibit::table("Table 5", about, table)
}

fn figure2(values: &Values, quick: bool) -> Exhibit {
    let columns = std::iter::once(Column::plain("operation"))
        .chain(types(quick).iter().map(|(name, _)| Column::measured(*name, Unit::Microseconds)))
        .chain([Column::plain("paper")]);
    let mut table = Table::new("Figure 2: times of Split-C's operations", columns);
    let mut bars = Vec::new();
    for (layout, _) in LAYOUTS {
        let mut groups = Vec::new();
        for operation in Operation::ALL {
            let of = |name: &str| values.median(&word(layout, operation, name)).map(|ns| ns / 1e3);
            let cells = types(quick).iter().map(|(name, _)| missing(of(name)));
            table.row(std::iter::once(format!("{}, {layout}", operation.name()).into()).chain(cells).chain([NOT_SAID.into()]));
            groups.push((operation.name().to_owned(), types(quick).iter().map(|(name, _)| of(name)).collect()));
        }
        let series = types(quick).iter().map(|(name, _)| (*name).to_owned()).collect();
        bars.push(Bars { title: format!("Figure 2: Split-C's operations, {layout}"), unit: "us".to_owned(), series, groups });
    }
    let about = [
        "One VI: 8 credits, an acknowledgement for each second store (the paper's second version, LANai 7). Two VIs: 64 credits for words, an acknowledgement for each 16th store (its first, LANai 4).",
        "The paper's figure has no numbers; its text says that reads and writes take slightly less than AMVIA's round trip, gets and puts slightly less than its gap. Here as there a read and a write take a whole round trip.",
    ];
    Exhibit { bars, ..Exhibit::table("Figure 2", about, table) }
}

const SERIES5: [(&str, &str); 3] = [("raw", "VI"), ("v3", "AMVIA v3"), ("splitc", "Split-C")];

fn figure5(values: &Values, quick: bool) -> Exhibit {
    let columns = std::iter::once(Column::new("size", Unit::Bytes))
        .chain(SERIES5.map(|(_, name)| Column::measured(name, Unit::MegabytesPerSecond)))
        .chain([Column::plain("paper: VI"), Column::plain("paper: AMVIA v3, Split-C")]);
    let mut table = Table::new("Figure 5: bandwidth of bulk sends, whose data the receiver reads", columns);
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); SERIES5.len()];
    for bytes in sizes(quick) {
        let rates = SERIES5.map(|(series, _)| values.median(&format!("{series} stream {bytes}")).map(|rate| rate * 1e3));
        lines.iter_mut().zip(rates).for_each(|(line, rate)| line.extend(rate.map(|rate| (*bytes as f64, rate))));
        let is_last = *bytes == 32 << 10;
        let said = [(is_last, FIGURE5.1), (is_last, FIGURE5.0)].map(|(is_said, value)| said(is_said.then_some(value)));
        table.row(std::iter::once(Cell::from(*bytes)).chain(rates.map(missing)).chain(said));
    }
    let plot = Plot {
        title: "Figure 5: bandwidth of bulk sends".to_owned(),
        x: Axis::new("size", Unit::Bytes, Scale::Log2),
        y: Axis::new("bandwidth", Unit::MegabytesPerSecond, Scale::Log10),
        lines: SERIES5.iter().zip(lines).map(|((_, name), points)| Line::new(*name, points)).collect(),
    };
    let about = [
        "Up to 4 KiB AMVIA sends mediums, whose data it copies, above by RDMA write; each message has a reply. Split-C sends fragments of 4 KiB by gather, and its receiver copies them to their place, which is its reading.",
    ];
    Exhibit { plots: vec![plot], ..Exhibit::table("Figure 5", about, table) }
}

fn by_credits(values: &Values, quick: bool) -> Exhibit {
    let of = |name: &str, credits: u16| values.median(&format!("{name} gap, {credits} credits"));
    let columns =
        [Column::plain("credits"), Column::measured("AMVIA v1", Unit::Microseconds), Column::measured("AMVIA v3", Unit::Microseconds), Column::plain("paper")];
    let mut table = Table::new("Credits against the gap", columns);
    let mut lines = vec![Vec::new(); 2];
    for number in credits(quick) {
        let gaps = ["v1", "v3"].map(|name| of(name, *number).map(|ns| ns / 1e3));
        lines.iter_mut().zip(gaps).for_each(|(line, gap)| line.extend(gap.map(|gap| (f64::from(*number), gap))));
        let paper = match number {
            8 => Cell::from("30.0 (v3), 34.7 (v1)"),
            _ => NOT_SAID.into(),
        };
        table.row([Cell::from(u64::from(*number)), missing(gaps[0]), missing(gaps[1]), paper]);
    }
    let plot = Plot {
        title: "Credits against the gap".to_owned(),
        x: Axis::new("credits", Unit::None, Scale::Log2),
        y: Axis::new("gap", Unit::Microseconds, Scale::Linear),
        lines: ["AMVIA v1", "AMVIA v3"].iter().zip(lines).map(|(name, points)| Line::new(*name, points)).collect(),
    };
    let about = [
        "The time between two short requests of a long stream, each with a reply. k credits are k requests out in v3, and 4k short ones in v1. The paper took 8, by choice, and had 64 in its first versions.",
    ];
    Exhibit { plots: vec![plot], ..Exhibit::table("Credits", about, table) }
}

fn versions(values: &Values, quick: bool) -> Exhibit {
    let columns = BOTH.iter().flat_map(|route| {
        let by = |what: &str| format!("{what}, {}", ROUTES[*route]);
        [Column::measured(by("vi1"), Unit::Microseconds), Column::measured(by("vi2"), Unit::Microseconds), Column::new(by("vi1 / vi2"), Unit::None)]
    });
    let mut table = Table::new("Split-C's two versions", std::iter::once(Column::plain("operation")).chain(columns));
    for row in rows(quick) {
        let mut cells = vec![format!("{} of {} B", row.operation.name(), row.bytes).into()];
        for route in BOTH {
            let [one, two] = LAYOUTS.map(|(layout, _)| row.name(layout, route));
            cells.extend([us(values, |round| round.get(&one)), us(values, |round| round.get(&two))]);
            cells.push(missing(values.of(|round| Some(round.get(&one)? / round.get(&two)?)).map(|estimate| estimate.median)));
        }
        table.row(cells);
    }
    let about = [
        "vi1: one VI with 8 credits, bulk data of 512 B and more sent from where it lies. vi2: 64 credits for words; 8 for bulk data, which is copied. As programs have them (BELLWIRE_GAS). The quotient is the median of those of the rounds.",
        "The paper has no numbers for this: it found that few credits do as well as many, and took gather for its second version, to save a copy.",
    ];
    Exhibit::table("Versions", about, table)
}

fn splitc_by_credits(values: &Values, quick: bool) -> Exhibit {
    let series = || CREDITED.into_iter().flat_map(|operation| BOTH.into_iter().flat_map(move |route| LAYOUTS.map(|(layout, _)| (operation, layout, route))));
    let names: Vec<String> = series().map(|(operation, layout, route)| format!("{}, {layout}, {}", operation.name(), ROUTES[route])).collect();
    let columns = std::iter::once(Column::plain("credits")).chain(names.iter().map(|name| Column::measured(name.clone(), Unit::Microseconds)));
    let mut table = Table::new("Credits against Split-C's gets and puts of words", columns);
    let mut lines: Vec<Vec<(f64, f64)>> = vec![Vec::new(); names.len()];
    for number in credits(quick) {
        let times: Vec<Option<f64>> =
            series().map(|(operation, layout, route)| values.median(&credited(operation, layout, *number, route)).map(|ns| ns / 1e3)).collect();
        lines.iter_mut().zip(&times).for_each(|(line, time)| line.extend(time.map(|time| (f64::from(*number), time))));
        table.row(std::iter::once(Cell::from(u64::from(*number))).chain(times.into_iter().map(missing)));
    }
    let plot = Plot {
        title: "Credits against Split-C's gets and puts of words".to_owned(),
        x: Axis::new("credits", Unit::None, Scale::Log2),
        y: Axis::new("time", Unit::Microseconds, Scale::Log10),
        lines: names.into_iter().zip(lines).map(|(name, points)| Line::new(name, points)).collect(),
    };
    let about = [
        "Streams of 8 bytes in both versions, with as many credits as the row says on the VI for words: those of vi1 (8) and vi2 (64) are two of them. The paper gives no numbers.",
    ];
    Exhibit { plots: vec![plot], ..Exhibit::table("Credits, Split-C", about, table) }
}
