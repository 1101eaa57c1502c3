// SPDX-License-Identifier: MIT OR Apache-2.0
//! The requirements of docs/PROTOCOL.md: each is cited (`//= P-...`) by code and by a test, and
//! nothing else is cited.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Who cites a requirement.
#[derive(Default)]
struct Cited {
    code: bool,
    test: bool,
}

/// Checks the citations in `sources` against the document at `root`.
pub fn check(root: &Path, sources: &[PathBuf], complaints: &mut Vec<String>) {
    let document = "docs/PROTOCOL.md";
    let known = stated(&fs::read_to_string(root.join(document)).unwrap_or_default(), complaints);
    let mut cited: BTreeMap<String, Cited> = BTreeMap::new();
    for path in sources {
        let name = path.strip_prefix(root).unwrap_or(path).display().to_string();
        if name.starts_with("xtask/") {
            continue;
        }
        let text = fs::read_to_string(path).unwrap_or_default();
        for (line, requirement, in_test) in citations(&text, name.contains("/tests/")) {
            if !known.contains(requirement) {
                complaints.push(format!("{name}:{line}: {requirement} is not in {document}"));
            }
            let entry = cited.entry(requirement.to_owned()).or_default();
            entry.code |= !in_test;
            entry.test |= in_test;
        }
    }
    for requirement in known {
        let by = cited.remove(&requirement).unwrap_or_default();
        for (is_cited, whom) in [(by.code, "code"), (by.test, "test")] {
            if !is_cited {
                complaints.push(format!("{document}: {requirement} is cited by no {whom}"));
            }
        }
    }
}

/// The requirements that a document states: lines that begin with `- **P-...**`.
fn stated(text: &str, complaints: &mut Vec<String>) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("- **P-").and_then(|rest| rest.split_once("**")).map(|(name, _)| format!("P-{name}"))
            && !found.insert(name.clone())
        {
            complaints.push(format!("docs/PROTOCOL.md: {name} is stated twice"));
        }
    }
    found
}

/// Citations with their lines, and whether each stands in a test.
fn citations(text: &str, is_test_file: bool) -> Vec<(usize, &str, bool)> {
    let mut in_test = is_test_file;
    let mut found = Vec::new();
    for (index, line) in text.lines().enumerate() {
        in_test |= line.starts_with("mod tests {");
        if let Some(requirement) = line.trim_start().strip_prefix("//= ") {
            found.push((index + 1, requirement.trim(), in_test));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_and_citations_are_found() {
        let mut complaints = Vec::new();
        let known = stated("- **P-A-1** a\n  P-A-9\n- **P-B-2** b\n- **P-B-2** again\n", &mut complaints);
        assert_eq!(known.into_iter().collect::<Vec<_>>(), ["P-A-1", "P-B-2"]);
        assert_eq!(complaints.len(), 1);
        let text = "    //= P-A-1\nfn f() {}\n// P-B-2\nmod tests {\n    //= P-B-2\n}\n";
        assert_eq!(citations(text, false), [(1, "P-A-1", false), (5, "P-B-2", true)]);
        assert_eq!(citations(text, true)[0], (1, "P-A-1", true));
    }
}
