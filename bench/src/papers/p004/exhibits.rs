// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rates, bandwidth and response times against the number of clients and of virtual networks; K.

use bellwire_report::bars::Bars;
use bellwire_report::model::{Axis, Cell, Column, Line, Plot, Scale, Table, Unit};

use super::steps::{
    BUILDS, BULK_BYTES, CODE, FRAMES, LOGP, NAMESPACES, NETWORKS_SIMULATED, PATTERNS, PERMUTED, RATE, RATE_SIMULATED, Shape, WIRE, What, Wire, World, build,
    hosts, loiter, loiters, permuted, point, wire,
};
use crate::papers::model::Exhibit;
use crate::papers::values::Values;

/// All of them.
pub fn all(values: &Values, quick: bool, has_namespaces: bool) -> Vec<Exhibit> {
    let few: fn(usize) -> bool = |networks| networks <= FRAMES;
    let networks = [Shape::Single, Shape::Threads];
    vec![
        builds(values),
        wires(values),
        permutations(values, quick, has_namespaces),
        clients(values, quick, "Rate", "Clients of one endpoint: requests answered", &[Shape::Short], |_| true),
        bandwidth(values, quick),
        response(values, quick),
        clients(values, quick, "Few networks", "Virtual networks, a frame for each: requests answered", &networks, few),
        clients(values, quick, "Many networks", "More virtual networks than frames: requests answered", &networks, |networks| networks > FRAMES),
        loitering(values, quick),
    ]
}

fn missing(value: Option<f64>) -> Cell {
    value.map_or_else(|| "not measured".into(), Cell::from)
}

fn cell(values: &Values, name: &str) -> Cell {
    missing(values.median(name))
}

fn builds(values: &Values) -> Exhibit {
    let ns = |what| Column::measured(what, Unit::Nanoseconds);
    let mut columns = vec![Column::plain("build")];
    columns.extend(LOGP.map(ns));
    columns.extend(CODE.map(|what| Column::measured(format!("code: {what}"), Unit::Nanoseconds)));
    let mut table = Table::new("LogP of stop-and-wait channels by build, simulated; the code on this machine", columns);
    for of in BUILDS {
        let figures = LOGP.iter().chain(&CODE).map(|what| cell(values, &build(of, what)));
        table.row(std::iter::once(Cell::from(of)).chain(figures));
    }
    let bars = [("g", "Gap"), ("L", "Latency"), ("round trip", "Round trip")].map(|(what, title)| Bars {
        title: format!("{title} by build, simulated"),
        unit: "ns".to_owned(),
        groups: BUILDS[..4].iter().map(|of| ((*of).to_owned(), vec![values.median(&build(of, what))])).collect(),
        series: vec![what.to_owned()],
    });
    let about = [
        "Each of the first four builds has what the one before has. Timers alone are those of reliability and timers less those of reliability alone.",
        "Simulated: the times of network interface and hosts are settings; what comes of them is not (bellwire sim builds). Code: processor time of this machine for each message, both sides, no network.",
    ];
    Exhibit { bars: bars.into(), ..Exhibit::table("LogP", about, table) }
}

fn permutations(values: &Values, quick: bool, has_namespaces: bool) -> Exhibit {
    let rate = |name: &str| Column::measured(name, Unit::MegabytesPerSecond);
    let columns =
        [Column::plain("network"), Column::plain("hosts"), Column::plain("pattern"), rate("each"), rate("all"), Column::measured("of a link", Unit::Percent)];
    let columns = columns.into_iter().chain([Column::measured("Jain", Unit::None), Column::measured("round trip", Unit::Microseconds)]);
    let mut table = Table::new("Permutations: each host sends to one other", columns);
    for network in NETWORKS_SIMULATED.into_iter().chain(has_namespaces.then_some(NAMESPACES)) {
        let (hosts, link) = (hosts(network, quick), if network == NAMESPACES { RATE } else { RATE_SIMULATED });
        for pattern in PATTERNS {
            let get = |what| values.median(&permuted(network, pattern, what));
            let each = get(PERMUTED[0]);
            let mut row = vec![network.into(), hosts.into(), pattern.into(), missing(each), missing(each.map(|mb| mb * hosts as f64))];
            row.push(missing(each.map(|mb| mb * 8e8 / link as f64)));
            row.extend([missing(get(PERMUTED[1])), missing(get(PERMUTED[2]))]);
            table.row(row);
        }
    }
    let about = [
        "cshift: to the right neighbour, around the ring. neighbour: adjacent hosts exchange. bisection: host i and host i + n/2 exchange. Requests of 8 KiB; round trips of short ones, all hosts at once.",
        "star, subclusters: simulated, links of 10 Gbit/s. namespaces: processes in network namespaces, half of them at each of two bridges, which one cable joins; hosts and cable have 20 Mbit/s.",
    ];
    Exhibit::table("Permutations", about, table)
}

fn wires(values: &Values) -> Exhibit {
    let us = |what| Column::measured(what, Unit::Microseconds);
    let mut table = Table::new("What can be switched, between two processes over loopback", std::iter::once(Column::plain("wire")).chain(WIRE.map(us)));
    for of in Wire::ALL {
        table.row(std::iter::once(Cell::from(of.name())).chain(WIRE.map(|what| cell(values, &wire(of, what)))));
    }
    let about = [
        "Active Messages. Keys authenticate and encrypt packets. Agents write the addresses of senders, and take packets for the endpoints of their programs only. Acknowledgements and timers cannot be switched off.",
    ];
    Exhibit::table("Protection", about, table)
}

/// Where a shape is measured with so many clients.
fn measured(shapes: &[Shape], quick: bool, wanted: fn(usize) -> bool) -> Vec<(World, Shape, usize)> {
    let mut all = Vec::new();
    for world in World::ALL {
        for shape in shapes {
            all.extend(shape.points(world, quick).iter().filter(|n| wanted(**n)).map(|n| (world, *shape, *n)));
        }
    }
    all
}

fn line_name(world: World, shape: Shape) -> String {
    format!("{}, {}", world.name(), shape.name())
}

/// A figure of points as lines: one for each world and shape.
fn plot(title: &str, y: Axis, points: &[(World, Shape, usize)], value: impl Fn(World, Shape, usize) -> Option<f64>) -> Plot {
    let mut lines: Vec<(String, Vec<(f64, f64)>)> = Vec::new();
    for (world, shape, n) in points {
        let Some(value) = value(*world, *shape, *n) else { continue };
        let name = line_name(*world, *shape);
        match lines.iter_mut().find(|line| line.0 == name) {
            Some(line) => line.1.push((*n as f64, value)),
            None => lines.push((name, vec![(*n as f64, value)])),
        }
    }
    let lines = lines.into_iter().map(|(name, points)| Line::new(name, points)).collect();
    Plot { title: title.to_owned(), x: Axis::new("clients", Unit::None, Scale::Log2), y, lines }
}

fn clients(values: &Values, quick: bool, name: &'static str, title: &str, shapes: &[Shape], wanted: fn(usize) -> bool) -> Exhibit {
    let rate = |name: &str| Column::measured(name, Unit::ThousandPerSecond);
    let mut columns = vec![Column::plain("where"), Column::plain("clients"), rate("all"), rate("each"), rate("least"), rate("most")];
    columns.extend([Column::measured("Jain", Unit::None), Column::measured("response", Unit::Microseconds)]);
    columns.push(Column::measured(if shapes[0].is_networks() { "loads" } else { "refused" }, Unit::None));
    let mut table = Table::new(title, columns);
    let points = measured(shapes, quick, wanted);
    let of = |world, shape, n, what| values.median(&point(world, shape, n, what));
    for (world, shape, n) in &points {
        let get = |what| missing(of(*world, *shape, *n, what));
        let each = of(*world, *shape, *n, What::All).map(|all| all / *n as f64);
        let mut row = vec![line_name(*world, *shape).into(), (*n).into(), get(What::All), missing(each), get(What::Least), get(What::Most)];
        row.extend([get(What::Jain), get(What::Response), get(if shape.is_networks() { What::Loads } else { What::Refused })]);
        table.row(row);
    }
    let rate = || Axis::new("requests answered", Unit::ThousandPerSecond, Scale::Log10);
    let plots = vec![
        plot("All clients", rate(), &points, |world, shape, n| of(world, shape, n, What::All)),
        plot("Each client", rate(), &points, |world, shape, n| Some(of(world, shape, n, What::All)? / n as f64)),
    ];
    Exhibit { plots, ..Exhibit::table(name, [], table) }
}

fn bandwidth(values: &Values, quick: bool) -> Exhibit {
    let rate = |name: &str| Column::measured(name, Unit::MegabytesPerSecond);
    let columns =
        [Column::plain("where"), Column::plain("clients"), rate("all"), rate("each"), rate("least"), rate("most"), Column::measured("Jain", Unit::None)];
    let mut table = Table::new("Clients of one endpoint: bandwidth of requests of 8 KiB", columns);
    let points = measured(&[Shape::Bulk], quick, |_| true);
    let megabytes = |world, n, what, share: f64| Some(values.median(&point(world, Shape::Bulk, n, what))? * BULK_BYTES as f64 / 1e3 / share);
    for (world, shape, n) in &points {
        let get = |what, share| missing(megabytes(*world, *n, what, share));
        let mut row =
            vec![line_name(*world, *shape).into(), (*n).into(), get(What::All, 1.0), get(What::All, *n as f64), get(What::Least, 1.0), get(What::Most, 1.0)];
        row.push(cell(values, &point(*world, *shape, *n, What::Jain)));
        table.row(row);
    }
    let axis = || Axis::new("bandwidth", Unit::MegabytesPerSecond, Scale::Log10);
    let plots = vec![
        plot("All clients", axis(), &points, |world, _, n| megabytes(world, n, What::All, 1.0)),
        plot("Each client", axis(), &points, |world, _, n| megabytes(world, n, What::All, n as f64)),
    ];
    Exhibit { plots, ..Exhibit::table("Bandwidth", ["Replies have one word."], table) }
}

fn response(values: &Values, quick: bool) -> Exhibit {
    let columns = [Column::plain("where"), Column::plain("clients"), Column::measured("response", Unit::Microseconds)];
    let mut table = Table::new("Clients of one endpoint: from a request to its reply", columns);
    let points = measured(&[Shape::Short], quick, |_| true);
    for (world, shape, n) in &points {
        table.row([line_name(*world, *shape).into(), (*n).into(), cell(values, &point(*world, *shape, *n, What::Response))]);
    }
    let axis = Axis::new("response", Unit::Microseconds, Scale::Log10);
    let plots = vec![plot("From a request to its reply", axis, &points, |world, shape, n| values.median(&point(world, shape, n, What::Response)))];
    let about = ["A client has several requests outstanding: each client more adds the gap of all of them."];
    Exhibit { plots, ..Exhibit::table("Round trip", about, table) }
}

fn loitering(values: &Values, quick: bool) -> Exhibit {
    let rate = |name: &str| Column::measured(name, Unit::ThousandPerSecond);
    let columns = [
        Column::plain("where"),
        Column::plain("K"),
        rate("all"),
        rate("least"),
        Column::measured("Jain", Unit::None),
        Column::measured("response", Unit::Microseconds),
    ];
    let mut table = Table::new("Seven networks, a thread for each, by K", columns);
    let mut lines = Vec::new();
    for world in World::ALL {
        let mut points = Vec::new();
        for k in loiters(world, quick) {
            let name = |what| loiter(world, *k, what);
            let mut row = vec![world.name().into(), u64::from(*k).into()];
            row.extend([What::All, What::Least, What::Jain, What::Response].map(|what| cell(values, &name(what))));
            table.row(row);
            points.extend(values.median(&name(What::All)).map(|all| (f64::from(*k), all)));
        }
        lines.push(Line::new(world.name(), points));
    }
    let y = Axis::new("requests answered", Unit::ThousandPerSecond, Scale::Log10);
    let plots = vec![Plot { title: "All clients, by K".to_owned(), x: Axis::new("K", Unit::None, Scale::Log2), y, lines }];
    let about = [
        "K: attempts to send that an endpoint has in a turn, whether it has something to send or not. Clients have 32 requests outstanding, and the network interface is the bottleneck: 5 us to go to another endpoint, 1 us a packet.",
    ];
    Exhibit { plots, ..Exhibit::table("K", about, table) }
}
