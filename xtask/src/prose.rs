// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask prose`: sentences that a reader has to decode, and lines that are too wide to
//! review.
//!
//! | finding | rule |
//! |---|---|
//! | headless | a sentence or clause whose subject is `who`, `whoever` or `what` without a noun |
//! | phrase | a stock phrase that plain English does without ([`rules::PHRASES`]) |
//! | wide | a comment line over 100 columns, a Markdown line over 120 (tables and links excepted) |
//!
//! The numbers of each area are checked in (`xtask/prose.txt`) and may only fall:
//! `cargo xtask tidy` fails where one rose. `--write` lowers them. It also moves them between
//! areas, as long as no total rises, because text moves with code.

mod rules;
mod text;
mod wrap;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use rules::{Finding, Rule};
use text::Kind;

/// The checked-in numbers, relative to the root.
const NUMBERS: &str = "xtask/prose.txt";
/// Folders whose subfolders are areas of their own.
const SPLIT: &[&str] = &["crates", "ffi", "tests", "docs"];

/// How many findings of each rule an area has, in the order of [`Rule::ALL`].
type Counts = [usize; 3];
type Areas = BTreeMap<String, Counts>;

/// A finding with its file, relative to the root.
struct Place {
    file: String,
    finding: Finding,
}

/// Runs the command with its `arguments`; returns complaints and the last line of a good run.
pub fn command(root: &Path, arguments: &[String]) -> (Vec<String>, String) {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        [] => {
            let areas = count(&find(root, &all(root)));
            print!("{}", format(&areas));
            (Vec::new(), format!("total {}", describe(total(&areas))))
        }
        ["--write"] => write(root),
        ["--changed"] => changed(root, "main"),
        ["--changed", base] => changed(root, base),
        ["--wrap", files @ ..] if !files.is_empty() => wrap_files(root, files),
        [prefix] if !prefix.starts_with('-') => {
            let places: Vec<Place> = find(root, &all(root)).into_iter().filter(|place| place.file.starts_with(prefix)).collect();
            for place in &places {
                println!("{place}");
            }
            (Vec::new(), format!("{} findings under {prefix}", places.len()))
        }
        _ => (vec!["usage: cargo xtask prose [PREFIX | --changed [BASE] | --write | --wrap FILE...]".to_owned()], String::new()),
    }
}

/// Complains about areas with more findings than are checked in.
pub fn check(root: &Path, complaints: &mut Vec<String>) {
    let numbers = parse(&fs::read_to_string(root.join(NUMBERS)).unwrap_or_default());
    compare(&numbers, &count(&find(root, &all(root))), complaints);
}

/// Compares counts `now` with the checked-in `numbers`. An area without numbers may use what others
/// have left: a crate that was split off brings its text along.
fn compare(numbers: &Areas, now: &Areas, complaints: &mut Vec<String>) {
    let (limit, sum) = (total(numbers), total(now));
    for (area, counts) in now {
        let allowed = numbers.get(area);
        for (index, rule) in Rule::ALL.iter().enumerate() {
            let most = allowed.map_or(counts[index], |allowed| allowed[index]);
            if counts[index] > most {
                complaints.push(format!(
                    "{area}: {} {} findings, at most {most}: see `cargo xtask prose --changed`; `cargo xtask prose --wrap FILE` wraps, `--write` moves numbers with text",
                    counts[index],
                    rule.name(),
                ));
            }
        }
    }
    for (index, rule) in Rule::ALL.iter().enumerate() {
        if sum[index] > limit[index] {
            complaints.push(format!("{} {} findings in all, at most {}: see `cargo xtask prose --changed`", sum[index], rule.name(), limit[index]));
        }
    }
}

/// Writes today's numbers, unless a total rose.
fn write(root: &Path) -> (Vec<String>, String) {
    let file = root.join(NUMBERS);
    let now = count(&find(root, &all(root)));
    let mut complaints = Vec::new();
    if let Ok(before) = fs::read_to_string(&file) {
        let (limit, sum) = (total(&parse(&before)), total(&now));
        for (index, rule) in Rule::ALL.iter().enumerate() {
            if sum[index] > limit[index] {
                complaints.push(format!("{} {} findings in all, at most {}: numbers only fall", sum[index], rule.name(), limit[index]));
            }
        }
    }
    if complaints.is_empty()
        && let Err(error) = fs::write(&file, format(&now))
    {
        complaints.push(format!("{NUMBERS}: {error}"));
    }
    (complaints, format!("{NUMBERS}: {}", describe(total(&now))))
}

/// Lists findings on lines that were added since `base`.
fn changed(root: &Path, base: &str) -> (Vec<String>, String) {
    let output = Command::new("git").arg("-C").arg(root).args(["diff", "-U0", "--no-color", "--merge-base", base]).output();
    let added = match output {
        Ok(output) if output.status.success() => added_lines(&String::from_utf8_lossy(&output.stdout)),
        Ok(output) => return (vec![String::from_utf8_lossy(&output.stderr).trim().to_owned()], String::new()),
        Err(error) => return (vec![format!("git: {error}")], String::new()),
    };
    let files: Vec<PathBuf> = added.keys().map(|file| root.join(file)).collect();
    let mut places = find(root, &files);
    places.retain(|place| {
        let first = place.finding.line;
        added.get(&place.file).is_some_and(|lines| lines.iter().any(|line| (first..=place.finding.last).contains(line)))
    });
    for place in &places {
        println!("{place}");
    }
    (Vec::new(), format!("{} findings on lines added since {base}", places.len()))
}

/// The numbers of added lines by file, from a diff without context.
fn added_lines(diff: &str) -> BTreeMap<String, Vec<usize>> {
    let mut found: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    let mut file = None;
    for line in diff.lines() {
        if let Some(name) = line.strip_prefix("+++ ") {
            file = name.strip_prefix("b/").map(str::to_owned);
        } else if let Some(hunk) = line.strip_prefix("@@ -")
            && let Some((_, new)) = hunk.split_once(" +")
            && let Some(file) = &file
        {
            let range = new.split(' ').next().unwrap_or("");
            let (first, count) = range.split_once(',').unwrap_or((range, "1"));
            let (first, count) = (first.parse().unwrap_or(0), count.parse::<usize>().unwrap_or(0));
            found.entry(file.clone()).or_default().extend(first..first + count);
        }
    }
    found
}

/// Wraps comments and Markdown of `files` in place.
fn wrap_files(root: &Path, files: &[&str]) -> (Vec<String>, String) {
    let mut complaints = Vec::new();
    let mut wrapped = 0;
    for name in files {
        let path = root.join(name);
        let (Some(kind), Ok(text)) = (Kind::of(&path), fs::read_to_string(&path)) else {
            complaints.push(format!("{name}: no text that can be wrapped"));
            continue;
        };
        let new = wrap::wrap(&text, kind);
        if new == text {
            continue;
        }
        wrapped += 1;
        if let Err(error) = fs::write(&path, new) {
            complaints.push(format!("{name}: {error}"));
        }
    }
    (complaints, format!("{wrapped} of {} files wrapped", files.len()))
}

/// All files with prose. The rules' own examples and the notes' diaries of old figures are prose
/// too.
fn all(root: &Path) -> Vec<PathBuf> {
    text::EXTENSIONS.iter().flat_map(|extension| crate::files(root, extension)).filter(|path| !path.starts_with(root.join("xtask/src/prose"))).collect()
}

fn find(root: &Path, files: &[PathBuf]) -> Vec<Place> {
    let mut places = Vec::new();
    for path in files {
        let Some(kind) = Kind::of(path) else { continue };
        let text = fs::read_to_string(path).unwrap_or_default();
        let file = path.strip_prefix(root).unwrap_or(path).display().to_string();
        places.extend(rules::find(&text, kind).into_iter().map(|finding| Place { file: file.clone(), finding }));
    }
    places
}

/// The area of a file: its first folder, or its first two where [`SPLIT`] says so.
fn area(file: &str) -> String {
    let folders: Vec<&str> = file.split('/').collect();
    match folders.as_slice() {
        [first, second, _, ..] if SPLIT.contains(first) => format!("{first}/{second}"),
        [first, _, ..] => (*first).to_owned(),
        _ => ".".to_owned(),
    }
}

fn count(places: &[Place]) -> Areas {
    let mut areas = Areas::new();
    for place in places {
        areas.entry(area(&place.file)).or_default()[place.finding.rule as usize] += 1;
    }
    areas
}

fn total(areas: &Areas) -> Counts {
    areas.values().fold([0; 3], |sum, counts| [sum[0] + counts[0], sum[1] + counts[1], sum[2] + counts[2]])
}

fn describe(counts: Counts) -> String {
    let parts: Vec<String> = Rule::ALL.iter().zip(counts).map(|(rule, count)| format!("{count} {}", rule.name())).collect();
    parts.join(", ")
}

fn format(areas: &Areas) -> String {
    let mut text = "# Findings of `cargo xtask prose` by area: headless, phrase, wide. They may only fall.\n".to_owned();
    for (area, [headless, phrase, wide]) in areas {
        text.push_str(&format!("{area:24} {headless:5} {phrase:5} {wide:5}\n"));
    }
    text
}

fn parse(text: &str) -> Areas {
    let mut areas = Areas::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split_whitespace();
        let Some(area) = words.next() else { continue };
        let mut number = || words.next().and_then(|word| word.parse().ok()).unwrap_or(0);
        areas.insert(area.to_owned(), [number(), number(), number()]);
    }
    areas
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file, self.finding.line, self.finding.rule.name(), self.finding.excerpt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn areas(rows: &[(&str, Counts)]) -> Areas {
        rows.iter().map(|(area, counts)| ((*area).to_owned(), *counts)).collect()
    }

    #[test]
    fn areas_are_crates_and_parts_of_the_documentation() {
        assert_eq!(area("crates/via/src/post.rs"), "crates/via");
        assert_eq!(area("docs/decisions/0001-x.md"), "docs/decisions");
        assert_eq!(area("docs/perf.md"), "docs");
        assert_eq!(area("fuzz/src/lib.rs"), "fuzz");
        assert_eq!(area("README.md"), ".");
    }

    #[test]
    fn numbers_survive_writing_and_reading() {
        let areas = areas(&[(".", [1, 0, 22]), ("crates/via", [300, 12, 679])]);
        assert_eq!(parse(&format(&areas)), areas);
    }

    #[test]
    fn an_area_may_only_fall() {
        let numbers = areas(&[("crates/via", [5, 1, 9]), ("docs", [4, 0, 3])]);
        let complain = |now: &[(&str, Counts)]| {
            let mut complaints = Vec::new();
            compare(&numbers, &areas(now), &mut complaints);
            complaints
        };
        assert!(complain(&[("crates/via", [5, 1, 9]), ("docs", [4, 0, 3])]).is_empty());
        assert!(complain(&[("crates/via", [0, 0, 0])]).is_empty());
        let risen = complain(&[("crates/via", [6, 1, 9])]);
        assert!(risen.len() == 1 && risen[0].contains("crates/via") && risen[0].contains("headless"), "{risen:?}");
    }

    #[test]
    fn a_new_area_uses_what_others_have_left() {
        let numbers = areas(&[("crates/via", [5, 1, 9])]);
        let mut complaints = Vec::new();
        compare(&numbers, &areas(&[("crates/via", [2, 1, 4]), ("crates/wire", [3, 0, 5])]), &mut complaints);
        assert!(complaints.is_empty(), "{complaints:?}");
        compare(&numbers, &areas(&[("crates/via", [2, 1, 4]), ("crates/wire", [4, 0, 5])]), &mut complaints);
        assert_eq!(complaints.len(), 1, "{complaints:?}");
    }

    #[test]
    fn added_lines_are_read_from_a_diff() {
        let diff = "--- a/x.rs\n+++ b/x.rs\n@@ -1,0 +2,2 @@\n+a\n+b\n@@ -9 +12 @@\n+c\n--- a/y\n+++ /dev/null\n@@ -1 +0,0 @@\n";
        let found = added_lines(diff);
        assert_eq!(found.len(), 1);
        assert_eq!(found["x.rs"], [2, 3, 12]);
    }
}
