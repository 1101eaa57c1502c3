// SPDX-License-Identifier: MIT OR Apache-2.0
//! `cargo xtask links`: every relative link of every Markdown file leads to a file that is there,
//! and every anchor to a heading. Links to other machines are not followed. Source files that
//! Markdown and doc comments name between backquotes must exist, too (`cargo xtask tidy`).

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders at the root: a name that begins with one is a path from the root.
const FOLDERS: &[&str] = &["bench/", "crates/", "docs/", "examples/", "ffi/", "fuzz/", "research/", "scripts/", "splitcc/", "tests/"];
/// Headers of other projects.
const ELSEWHERE: &[&str] = &["pmix.h", "pmix_common.h", "infiniband/verbs.h", "rdma/rdma_user_cm.h"];
/// Extensions of the source files that they name.
const NAMED: &[&str] = &["rs", "cpp", "c", "h", "sh", "py", "md"];

/// Checks `files`, which lie under `root`; complaints are added.
pub fn check(root: &Path, files: &[PathBuf], complaints: &mut Vec<String>) -> usize {
    let mut seen = 0;
    for file in files {
        let text = fs::read_to_string(file).unwrap_or_default();
        let name = file.strip_prefix(root).unwrap_or(file).display().to_string();
        for (line, target) in links(&text) {
            seen += 1;
            if let Some(why) = broken(file, &text, &target) {
                complaints.push(format!("{name}:{line}: {target}: {why}"));
            }
        }
    }
    seen
}

/// Checks that each source file that Markdown and doc comments name is the end of a path under
/// `root`.
pub fn check_names(root: &Path, complaints: &mut Vec<String>) {
    let all: Vec<PathBuf> = NAMED.iter().flat_map(|extension| crate::files(root, extension)).collect();
    let paths: BTreeSet<&str> = all.iter().filter_map(|path| path.strip_prefix(root).ok()?.to_str()).collect();
    let names: BTreeSet<&str> = paths.iter().filter_map(|path| path.rsplit('/').next()).collect();
    let is_there = |name: &str| match name.rsplit_once('/') {
        None => names.contains(name),
        Some(_) => paths.iter().any(|path| path.strip_suffix(name).is_some_and(|before| before.is_empty() || before.ends_with('/'))),
    };
    for path in all.iter().filter(|path| path.extension().is_some_and(|extension| extension == "md" || extension == "rs")) {
        let page = path.strip_prefix(root).unwrap_or(path).display().to_string();
        let mut text = fs::read_to_string(path).unwrap_or_default();
        if page.ends_with(".rs") {
            text = text.lines().map(doc_comment).collect::<Vec<_>>().join("\n");
        }
        for (line, name) in named_files(&text) {
            if !is_there(name) && !ELSEWHERE.contains(&name) && !root.join(name).exists() {
                complaints.push(format!("{page}:{line}: {name}: no such file"));
            }
        }
    }
}

/// The text of a doc comment; nothing of another line.
fn doc_comment(line: &str) -> &str {
    let line = line.trim_start();
    line.strip_prefix("///").or_else(|| line.strip_prefix("//!")).unwrap_or("")
}

/// Names of source files between backquotes, with their lines.
fn named_files(text: &str) -> Vec<(usize, &str)> {
    let is_file = |word: &str| word.rsplit_once('.').is_some_and(|(stem, extension)| !stem.is_empty() && NAMED.contains(&extension));
    let is_in_folder = |word: &str| FOLDERS.iter().any(|folder| word.len() > folder.len() && word.starts_with(folder));
    let is_name = |word: &&str| (is_file(word) || is_in_folder(word)) && !word.contains(['*', '$', '<', '{', ':']);
    prose(text)
        .flat_map(|(number, line)| line.split('`').skip(1).step_by(2).flat_map(str::split_whitespace).filter(is_name).map(move |word| (number, word)))
        .collect()
}

/// Why a link leads nowhere, if it does.
fn broken(file: &Path, text: &str, target: &str) -> Option<String> {
    let is_elsewhere = target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    if is_elsewhere {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let there = if path.is_empty() { file.to_path_buf() } else { file.parent()?.join(path) };
    if path.starts_with('/') {
        return Some("a path from the root of the machine".to_owned());
    }
    if !there.exists() {
        return Some("no such file".to_owned());
    }
    let anchor = anchor?;
    let other = if path.is_empty() { text.to_owned() } else { fs::read_to_string(&there).unwrap_or_default() };
    (!anchors(&other).contains(anchor)).then(|| "no such heading".to_owned())
}

/// Lines outside code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            code = !code;
            return None;
        }
        (!code).then_some((index + 1, line))
    })
}

/// Targets of `[text](target)` and of `[name]: target`, with their lines.
fn links(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let line = without_code(line);
        let mut rest = line.as_str();
        while let Some((_, after)) = rest.split_once("](") {
            let end = after.find(')').unwrap_or(after.len());
            let target = after[..end].split_whitespace().next().unwrap_or("");
            found.push((number, target.trim_matches(['<', '>']).to_owned()));
            rest = &after[end..];
        }
        if let Some((name, target)) = line.split_once("]: ")
            && name.starts_with('[')
            && !name.starts_with("[^")
        {
            found.push((number, target.split_whitespace().next().unwrap_or("").to_owned()));
        }
    }
    found
}

/// The line without what stands between backquotes.
fn without_code(line: &str) -> String {
    line.split('`').enumerate().filter(|(index, _)| index.is_multiple_of(2)).map(|(_, part)| part).collect()
}

/// The anchors of a file's headings, as the usual hosts of Markdown make them: small letters,
/// blanks to hyphens, punctuation dropped, repetitions numbered.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (_, line) in prose(text) {
        let title = line.trim_start_matches('#');
        if title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let base: String = title
            .trim()
            .to_lowercase()
            .chars()
            .filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c))
            .map(|c| if c == ' ' { '-' } else { c })
            .collect();
        let mut anchor = base.clone();
        let mut number = 0;
        while !found.insert(anchor.clone()) {
            number += 1;
            anchor = format!("{base}-{number}");
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_outside_code() {
        let text = "see [a](b.md) and [c](d.md#e \"title\"), not `[x](y)`\n```\n[no](no.md)\n```\n[name]: f.md\n[^1]: note\n";
        let targets: Vec<(usize, String)> = links(text);
        assert_eq!(targets, [(1, "b.md".to_owned()), (1, "d.md#e".to_owned()), (5, "f.md".to_owned())]);
    }

    #[test]
    fn named_files_are_found_between_backquotes() {
        let text = "`a/b.rs` does, c.rs not; `make d.sh X`, `*.rs`, `e.f`, `crates/q`, `a/q`\n```\n`g.rs`\n```\n`h.cpp`\n";
        assert_eq!(named_files(text), [(1, "a/b.rs"), (1, "d.sh"), (1, "crates/q"), (5, "h.cpp")]);
    }

    #[test]
    fn headings_make_anchors() {
        let found = anchors("# What is `new`?\n## Two words\n## Two words\n```\n# no heading\n```\n#hash\n");
        assert_eq!(found.into_iter().collect::<Vec<_>>(), ["two-words", "two-words-1", "what-is-new"]);
    }

    #[test]
    fn broken_links_are_told_from_good_ones() {
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
        let is_broken = |target: &str| broken(&here, "# A heading\n", target).is_some();
        assert!(is_broken("nowhere.md") && is_broken("#no-heading") && is_broken("ARCHITECTURE.md#no-such-heading") && is_broken("/etc/passwd"));
        assert!(!is_broken("#a-heading") && !is_broken("ARCHITECTURE.md#layers") && !is_broken("docs") && !is_broken("https://example.org/x"));
    }
}
