// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask comparisons DIR`: functions in which the compiler lost a comparison.
//!
//! rustc before 1.96.1 may drop a comparison with a constant whose result is a number first and a
//! condition then, in one basic block after inlining
//! (<https://github.com/rust-lang/rust/issues/158206>): the number is then whatever there was. The
//! MIR before and after the pass that does so shows it, of every function with all that was inlined
//! into it: a local whose comparison is gone, and which is read still. `scripts/comparisons.sh` has
//! the compiler write both.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const BEFORE: &str = ".SimplifyComparisonIntegral.before.mir";
const AFTER: &str = ".SimplifyComparisonIntegral.after.mir";
const OPERATORS: &[&str] = &["Eq(", "Ne(", "Lt(", "Le(", "Gt(", "Ge("];

/// Looks at all dumps in `directory`; what was lost is added to `complaints`. How many functions
/// there were.
pub fn check(directory: &Path, complaints: &mut Vec<String>) -> usize {
    let mut seen = 0;
    for before in fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path()) {
        let Some(function) = before.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_suffix(BEFORE)) else { continue };
        let text = |path: &Path| fs::read_to_string(path).unwrap_or_default();
        let after = text(&before.with_file_name(format!("{function}{AFTER}")));
        seen += 1;
        for (local, reader) in lost(&text(&before), &after) {
            complaints.push(format!("{function}: the comparison {local} is gone, and read in `{reader}`"));
        }
    }
    seen
}

/// Locals that were assigned a comparison before, are assigned nothing after, and are read still;
/// with the first line that reads them.
fn lost<'a>(before: &'a str, after: &'a str) -> Vec<(&'a str, &'a str)> {
    let compared = assignments(before).filter(|(_, value)| OPERATORS.iter().any(|operator| value.starts_with(operator)));
    let gone: BTreeSet<_> = compared.map(|(local, _)| local).collect();
    let kept: BTreeSet<_> = assignments(after).map(|(local, _)| local).collect();
    let reader = |local: &str| statements(after).find(|line| line.split(|c: char| c != '_' && !c.is_ascii_alphanumeric()).any(|word| word == local));
    gone.difference(&kept).filter_map(|local| Some((*local, reader(local)?))).collect()
}

/// Lines that do something.
fn statements(mir: &str) -> impl Iterator<Item = &str> {
    let says_nothing = |line: &&str| ["let ", "debug ", "scope ", "Storage", "//", "fn "].iter().any(|start| line.starts_with(start));
    mir.lines().map(str::trim).filter(move |line| !says_nothing(line))
}

fn assignments(mir: &str) -> impl Iterator<Item = (&str, &str)> {
    statements(mir)
        .filter_map(|line| line.split_once(" = "))
        .filter(|(local, _)| local.strip_prefix('_').is_some_and(|n| n.bytes().all(|c| c.is_ascii_digit())))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "fn f(_1: &mut Set) -> bool {
        let mut _12: bool;
        debug there => _12;
        StorageLive(_12);
        _12 = Ne(copy _11, const 0_u64);
        _14 = copy _12 as u32 (IntToInt);
        ((*_1).1: u32) = Sub(copy ((*_1).1: u32), move _14);
        switchInt(move _12) -> [0: bb2, otherwise: bb1];
        StorageDead(_12);";

    #[test]
    fn a_comparison_that_is_gone_and_read_is_found() {
        let after = BEFORE.replace("_12 = Ne(copy _11, const 0_u64);", "nop;").replace("move _12", "copy _11");
        assert_eq!(lost(BEFORE, &after), [("_12", "_14 = copy _12 as u32 (IntToInt);")]);
    }

    #[test]
    fn others_are_none() {
        assert_eq!(lost(BEFORE, BEFORE), []);
        let unread = BEFORE.replace("_12 = Ne(copy _11, const 0_u64);", "nop;").replace("copy _12", "copy _122").replace("move _12", "copy _11");
        assert_eq!(lost(BEFORE, &unread), [], "what nobody reads may go; _122 is another");
    }
}
