// SPDX-License-Identifier: MIT OR Apache-2.0
//! Table 5 of the paper beside ours. `cargo test -p bellwire-nisim --test table5 -- --nocapture` prints it.

use bellwire_nisim::machine::Parameters;
use bellwire_nisim::table5::{Kind, median_deviation, table5};

#[test]
fn table5_beside_the_papers() {
    let entries = table5(&Parameters::default()).unwrap();
    let mut row = "";
    for entry in &entries {
        if row != entry.design {
            row = entry.design;
            print!("\n{row:17}");
        }
        let (kind, unit) = if entry.kind == Kind::RoundTrip { ("rt", 2) } else { ("bw", 0) };
        print!(
            " {kind}{} {:.unit$}/{:.unit$} {:+.0}%{}",
            entry.payload,
            entry.ours,
            entry.paper,
            entry.deviation() * 100.0,
            if entry.fitted { "*" } else { "" }
        );
    }
    let far = entries.iter().filter(|entry| entry.deviation().abs() > 0.15).count();
    println!("\n\nours/paper; * fitted. Median deviation {:.1} %, {far} of {} beyond 15 %", median_deviation(&entries) * 100.0, entries.len());
}
