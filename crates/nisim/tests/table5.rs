// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table 5 of the paper beside ours. `cargo test -p bellwire-nisim --test table5 -- --nocapture` prints it.

use bellwire_nisim::experiment::Measure;
use bellwire_nisim::experiment::table5::{median_deviation, table5};
use bellwire_nisim::machine::Parameters;

/// A guard against getting worse, not the goal: every entry within 15 %, median within 6 %.
#[test]
fn table5_beside_the_papers() {
    let entries = table5(&Parameters::default()).unwrap();
    let mut row = "";
    for entry in &entries {
        if row != entry.design {
            row = entry.design;
            print!("\n{row:17}");
        }
        let digits = if matches!(entry.measure, Measure::RoundTrip(_)) { 2 } else { 0 };
        let mark = if entry.is_fitted() { "*" } else { "" };
        print!(" {} {:.digits$}/{:.digits$} {:+.0}%{mark}", entry.measure, entry.ours, entry.paper, entry.deviation() * 100.0);
    }
    let far = entries.iter().filter(|entry| entry.deviation().abs() > 0.15).count();
    println!("\n\nours/paper; * fitted. Median deviation {:.1} %, {far} of {} beyond 15 %", median_deviation(&entries) * 100.0, entries.len());
    assert!(far <= 3 && median_deviation(&entries) < 0.06, "Table 5 has moved away from the paper's");
    let round_trip = |design: &str, payload: usize| {
        let entry = entries.iter().find(|entry| entry.design == design && entry.measure == Measure::RoundTrip(payload));
        entry.expect("an entry of the table").ours
    };
    assert!(round_trip("startjr", 8) < round_trip("ap3000", 8) && round_trip("startjr", 256) > round_trip("ap3000", 256), "StarT-JR crosses AP3000");
    assert!(round_trip("cni32qm", 8) < round_trip("startjr", 8), "the NI with a cache is the fastest");
    assert!(round_trip("udma-always", 8) > round_trip("ni2w", 8) && round_trip("udma-always", 256) < round_trip("ni2w", 256), "UDMA crosses the CM-5");
}
