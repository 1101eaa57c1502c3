// SPDX-License-Identifier: MIT OR Apache-2.0
//! Small versions of the scenarios: the same seed gives the same report, and figures are what the
//! network allows.

use bellwire_report::model::{Cell, Report, Table};
use bellwire_sim::scenario::{self};

fn run(name: &str, given: &[(&str, &str)]) -> Report {
    let scenario = scenario::find(name).expect("a scenario");
    let report = scenario.run_with(3, given).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert_eq!(report, scenario.run_with(3, given).unwrap(), "{name}: the same seed gives the same report");
    assert_ne!(report.hash, scenario.run_with(4, given).unwrap().hash, "{name}: another seed is another run");
    report
}

/// The numbers of a column of the first table.
fn column(report: &Report, name: &str) -> Vec<f64> {
    column_of(&report.tables[0], name)
}

fn column_of(table: &Table, name: &str) -> Vec<f64> {
    let at = table.columns.iter().position(|column| column.name == name).unwrap_or_else(|| panic!("no column {name}"));
    let number = |row: &Vec<Cell>| match &row[at] {
        Cell::Number(number) => *number,
        Cell::Count(count) => *count as f64,
        other => panic!("{name}: {other:?}"),
    };
    table.rows.iter().map(number).collect()
}

#[test]
fn two_nodes() {
    let report = run("logp", &[("sizes", "8,16k"), ("messages", "200"), ("latency", "2us"), ("rate", "10G")]);
    let (half, bandwidth) = (column(&report, "half round trip"), column(&report, "bandwidth"));
    assert!(half[0] > 2.0 && half[0] < 4.0 && half[1] > half[0], "{half:?}");
    assert!(bandwidth[1] > 900.0 && bandwidth[1] < 1250.0, "{bandwidth:?}");
}

#[test]
fn parts_of_the_protocol_add_up_to_the_whole() {
    let given = [("messages", "300"), ("rounds", "3"), ("latency", "500ns")];
    let report = scenario::find("builds").expect("a scenario").run_with(1, &given).expect("a report");
    assert!(column_of(&report.tables[1], "all").iter().all(|ns| *ns > 0.0), "{report:?}");
    let [gap, latency, trip] = ["g", "L", "round trip"].map(|name| column(&report, name));
    // Bare: the NIC takes 1 us for a message, and 0.2 us for the tag. Between it are the link, the
    // hosts' 0.5 us, and the other NIC.
    assert_eq!((gap[0], latency[0], trip[0]), (1000.0, 2500.0, 7000.0));
    assert_eq!((gap[1], latency[1]), (1200.0, 2900.0));
    // The sender sends, keeps, and takes the acknowledgement; then also the timer, set and deleted.
    assert!((gap[2] - 2000.0).abs() < 2.0 && (gap[3] - 2040.0).abs() < 2.0, "{gap:?}");
    assert!(latency[2] >= 3500.0 && latency[2] < 4500.0, "{latency:?}");
    for figures in [&gap, &latency, &trip] {
        assert!((figures[6] / figures[3] - 1.0).abs() < 0.05, "{figures:?}");
    }
}

#[test]
fn the_parameters_of_logp_add_up() {
    let given = [("sizes", "8"), ("messages", "1000"), ("latency", "2us"), ("rate", "10G"), ("post", "300ns"), ("complete", "100ns"), ("take", "200ns")];
    let report = scenario::find("logp").expect("a scenario").run_with(1, &given).expect("a report");
    let figure = |name: &str| column_of(&report.tables[1], name)[0];
    assert_eq!((figure("o_s"), figure("o_r")), (400.0, 200.0));
    assert!((figure("L") + 300.0 + 200.0 - figure("half round trip")).abs() < 1.0 && figure("L") > 2000.0 && figure("L") < 2300.0, "{report:?}");
    // The sender's processor sets the rate; a byte more takes 0.8 ns.
    assert!(figure("g") > 390.0 && figure("g") < 440.0 && figure("G") > 0.8 && figure("G") < 0.88, "{report:?}");
}

#[test]
fn what_is_offered_is_delivered_until_it_is_too_much() {
    let given = [("nodes", "4"), ("networks", "star"), ("patterns", "cshift"), ("loads", "20,60,150"), ("time", "1ms")];
    let report = run("load", &given);
    let (offered, delivered, time) = (column(&report, "offered"), column(&report, "delivered"), column(&report, "mean time"));
    assert!(offered[0] > 220.0 && offered[0] < 280.0 && offered[2] > 1700.0, "{offered:?}");
    assert!((0..2).all(|i| delivered[i] > 0.97 * offered[i]) && delivered[2] > 1100.0 && delivered[2] < 1250.0, "{delivered:?} of {offered:?}");
    assert!(time[0] < 25.0 && time[2] > 10.0 * time[0], "{time:?}");
}

#[test]
fn what_takes_the_time_of_this_machine_has_a_hash_all_the_same() {
    let speed = scenario::find("speed").expect("a scenario");
    let hash = |seed| speed.run_with(seed, &[("packets", "2000"), ("networks", "pair,faults"), ("turns", "200ns")]).expect("a report").hash;
    assert!(hash(1) == hash(1) && hash(1) != hash(2));
}

#[test]
fn a_star_is_fair_and_full() {
    let given = [("nodes", "4"), ("networks", "star"), ("patterns", "cshift,bisection"), ("sizes", "8k"), ("time", "1ms")];
    let report = run("traffic", &given);
    assert!(column(&report, "least").iter().all(|rate| *rate > 1000.0 && *rate < 1250.0), "{report:?}");
    assert!(column(&report, "Jain").iter().all(|index| *index > 0.99), "{report:?}");
    assert!(column(&report, "dropped").iter().all(|dropped| *dropped == 0.0), "{report:?}");
}

#[test]
fn a_permutation_fills_a_fat_tree_by_target_and_not_by_hash() {
    let given = [("nodes", "16"), ("networks", "fat-tree,fat-tree-hash"), ("patterns", "bisection"), ("sizes", "8k"), ("start", "2ms"), ("time", "3ms")];
    let report = run("traffic", &given);
    let (least, jain) = (column(&report, "least"), column(&report, "Jain"));
    // One message more or less in the time is 2.7.
    assert!(jain[0] > 0.999 && least[0] > 880.0 && least[0] > 1.4 * least[1], "{least:?} {jain:?}");
}

#[test]
fn channels_are_limited_by_the_round_trip_and_the_window_is_not() {
    let given = [("channels", "1,64"), ("latencies", "10us"), ("rates", "10G"), ("messages", "500")];
    let bandwidth = column(&run("channels", &given), "bandwidth");
    // 1 KiB in each round trip of 20 us, and a little.
    assert!(bandwidth[1] > 35.0 && bandwidth[1] < 51.2, "{bandwidth:?}");
    assert!(bandwidth[2] > 15.0 * bandwidth[1] && bandwidth[0] > bandwidth[1] * 10.0, "{bandwidth:?}");
}

#[test]
fn the_window_fills_a_link_whose_queue_drops() {
    // What a full queue drops is sent again at once, and does not meet a full queue again; the last
    // packets are not waited for long.
    let given = [("channels", "8"), ("latencies", "1us,10us"), ("rates", "1G,10G"), ("messages", "2000")];
    let shares = column(&run("channels", &given), "of the rate");
    assert!(shares.iter().step_by(3).all(|share| *share > 92.0), "window, channels and imitated ones in turn: {shares:?}");
}

#[test]
fn traffic_sets_channels_beside_the_window() {
    let given = [
        ("nodes", "4"),
        ("networks", "star"),
        ("patterns", "cshift"),
        ("sizes", "512"),
        ("time", "1ms"),
        ("transport", "window,channels"),
        ("channels", "1,4"),
    ];
    let report = run("traffic", &given);
    let all = column(&report, "all");
    assert!(all[0] > all[2] && all[2] > 2.0 * all[1] && report.plots.len() == 1, "{all:?}");
}

#[test]
fn what_cannot_be_is_refused() {
    let traffic = scenario::find("traffic").expect("a scenario");
    assert!(traffic.run_with(1, &[("nodes", "5")]).unwrap_err().0.contains("even"));
    assert!(traffic.run_with(1, &[("sizes", "0x")]).is_err());
}

#[test]
fn virtual_networks_share_the_frames_that_there_are() {
    let given = [("clients", "2,3,5"), ("frames", "3"), ("transport", "window"), ("start", "20ms"), ("time", "150ms")];
    let report = run("networks", &given);
    let (all, loads, least) = (column(&report, "all"), column(&report, "loads"), column(&report, "least"));
    // One thread; then a thread for each endpoint.
    assert!(loads[0] + loads[1] + loads[3] + loads[4] == 0.0 && loads[2] > 5.0 && loads[5] > 5.0, "{loads:?}");
    // The processor takes 12 us for each, and is full.
    assert!(all[0] > 80.0 && all[1] > 80.0 && all[1] < 83.4, "{all:?}");
    assert!(all[2] < all[1] / 2.0 && all[5] > 1.5 * all[2] && all[5] > all[4] / 2.0, "one thread is suspended, and threads go on: {all:?}");
    assert!(least.iter().all(|rate| *rate > 0.0), "nobody starves: {least:?}");
}

#[test]
fn clients_of_one_endpoint_share_it() {
    let given = [("clients", "1,12"), ("sizes", "16"), ("start", "10ms"), ("time", "60ms"), ("channels", "4")];
    let report = run("clients", &given);
    let (all, response, refused, jain) = (column(&report, "all"), column(&report, "response"), column(&report, "refused"), column(&report, "Jain"));
    assert!(all.iter().all(|all| *all > 60.0 && *all < 83.4), "{all:?}");
    assert!(response[1] > 8.0 * response[0] && refused[0] == 0.0 && refused[1] > 0.0, "{response:?} {refused:?}");
    assert!(jain.iter().all(|jain| *jain > 0.95), "{jain:?}");
}

/// The places of a full queue go to those that were refused before, not to those that come first.
#[test]
fn a_hundred_clients_of_one_endpoint_share_it_fairly() {
    let given = [("clients", "100"), ("sizes", "16"), ("start", "20ms"), ("time", "100ms"), ("transport", "window")];
    let report = run("clients", &given);
    let (all, jain) = (column(&report, "all"), column(&report, "Jain"));
    assert!(all[0] > 60.0 && jain[0] >= 0.9, "{all:?} {jain:?}");
}
