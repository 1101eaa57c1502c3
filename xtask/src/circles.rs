// SPDX-License-Identifier: MIT OR Apache-2.0
//! Circles of modules: `cargo xtask circles [CRATE]`.
//!
//! The modules of one parent, each with everything below it, should use one another in one
//! direction only. Uses between a module and its own parents and children are not counted. A circle
//! is a largest set of modules of one parent in which each one leads to each other one; its modules
//! are counted, for each crate of `crates/` and `ffi/`. The numbers are checked in
//! (`xtask/circles.txt`) and may only fall.

mod paths;

use paths::{Reference, references};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// The checked-in numbers, relative to the root.
const NUMBERS: &str = "xtask/circles.txt";
/// Folders whose subfolders are crates.
const FOLDERS: &[&str] = &["crates", "ffi"];
/// How often a name may be re-exported.
const HOPS_MAX: usize = 8;

/// A module: its path from the crate's root.
type Module = Vec<String>;

/// The modules of a crate, with what each of them names.
#[derive(Default)]
struct Crate {
    modules: BTreeMap<Module, Vec<Reference>>,
}

/// An arrow between two modules of one parent, and a path that makes it.
type Arrows = BTreeMap<(String, String), String>;

/// Lists circles, all or those of one crate, with a path for each arrow in them.
pub fn command(root: &Path, only: Option<&str>) -> (Vec<String>, String) {
    let mut count = 0;
    for (name, folder) in crates(root).into_iter().filter(|(name, _)| only.is_none_or(|only| only == name)) {
        let found = Crate::read(&folder).circles();
        if only.is_none() && !found.is_empty() {
            let sum: usize = found.iter().map(|(_, circle, _)| circle.len()).sum();
            println!("{name:<24}{sum:>4}");
        }
        for (parent, circle, arrows) in &found {
            count += circle.len();
            if only.is_some() {
                println!("{name}: under {}: {}", if parent.is_empty() { "the root" } else { parent }, circle.join(", "));
                for ((from, to), path) in arrows.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to)) {
                    println!("    {from} -> {to}: {path}");
                }
            }
        }
    }
    (Vec::new(), format!("{count} modules are in circles"))
}

/// Complains about crates with more modules in circles than are checked in.
pub fn check(root: &Path, complaints: &mut Vec<String>) {
    let numbers = parse(&fs::read_to_string(root.join(NUMBERS)).unwrap_or_default());
    for (name, folder) in crates(root) {
        let now: usize = Crate::read(&folder).circles().iter().map(|(_, circle, _)| circle.len()).sum();
        let most = numbers.get(&name).copied().unwrap_or(0);
        if now > most {
            complaints.push(format!("{name}: {now} modules in circles, at most {most}: see `cargo xtask circles {name}`"));
        }
    }
}

fn parse(text: &str) -> BTreeMap<String, usize> {
    text.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let (name, number) = line.split_once(char::is_whitespace)?;
            Some((name.to_owned(), number.trim().parse().ok()?))
        })
        .collect()
}

/// The crates, by folder: `crates/via`.
fn crates(root: &Path) -> Vec<(String, PathBuf)> {
    let mut found = Vec::new();
    for folder in FOLDERS {
        for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
            let source = entry.path().join("src");
            if source.join("lib.rs").exists() || source.join("main.rs").exists() {
                found.push((format!("{folder}/{}", entry.file_name().to_string_lossy()), source));
            }
        }
    }
    found.sort();
    found
}

impl Crate {
    /// Reads the modules under `source`, without those of tests.
    fn read(source: &Path) -> Self {
        let mut found = Self::default();
        for file in crate::files(source, "rs") {
            let Ok(relative) = file.strip_prefix(source) else { continue };
            let mut module: Module = relative.with_extension("").iter().map(|part| part.to_string_lossy().into_owned()).collect();
            if matches!(module.last().map(String::as_str), Some("mod")) || module == ["lib"] || module == ["main"] {
                module.pop();
            }
            let is_test = module.iter().any(|part| part == "tests" || part.ends_with("_tests") || part == "bin");
            if !is_test {
                found.add(module, &fs::read_to_string(&file).unwrap_or_default());
            }
        }
        found
    }

    fn add(&mut self, module: Module, text: &str) {
        self.modules.insert(module.clone(), references(text, &module));
    }

    /// The module that defines the end of a path, as far as the files tell.
    fn resolve(&self, path: &[String], hops: usize) -> Module {
        let depth = (0..=path.len()).rev().find(|n| self.modules.contains_key(&path[..*n])).unwrap_or(0);
        let module = &path[..depth];
        let (Some(name), Some(references)) = (path.get(depth), self.modules.get(module)) else { return module.to_vec() };
        let import = references.iter().find(|r| r.imports.as_ref() == Some(name) && r.path != path);
        match import {
            Some(import) if hops != 0 => self.resolve(&import.path, hops - 1),
            _ => module.to_vec(),
        }
    }

    /// The arrows between the modules of each parent.
    fn arrows(&self) -> BTreeMap<Module, Arrows> {
        let mut found: BTreeMap<Module, Arrows> = BTreeMap::new();
        for (module, references) in &self.modules {
            for reference in references {
                let target = self.resolve(&reference.path, HOPS_MAX);
                let common = module.iter().zip(&target).take_while(|(a, b)| a == b).count();
                // Of a parent, or of a child.
                let (Some(from), Some(to)) = (module.get(common), target.get(common)) else { continue };
                let mut path = String::new();
                let _ = write!(path, "{} names {}", module.join("::"), reference.path.join("::"));
                found.entry(module[..common].to_vec()).or_default().entry((from.clone(), to.clone())).or_insert(path);
            }
        }
        found
    }

    /// The circles: their parent, their modules, all arrows under that parent.
    fn circles(&self) -> Vec<(String, Vec<String>, Arrows)> {
        let mut found = Vec::new();
        for (parent, arrows) in self.arrows() {
            let names: BTreeSet<&String> = arrows.keys().flat_map(|(from, to)| [from, to]).collect();
            let mut left = names.clone();
            while let Some(first) = left.iter().next().copied() {
                let ahead = reached(first, |from| arrows.keys().filter(move |(f, _)| f == from).map(|(_, to)| to).collect());
                let behind = reached(first, |to| arrows.keys().filter(move |(_, t)| t == to).map(|(from, _)| from).collect());
                let circle: Vec<String> = ahead.intersection(&behind).map(|name| (*name).clone()).collect();
                left.retain(|name| !circle.contains(name));
                if circle.len() > 1 {
                    found.push((parent.join("::"), circle, arrows.clone()));
                }
            }
        }
        found
    }
}

/// All names that are reached from `first`, itself included.
fn reached<'a>(first: &'a String, next: impl Fn(&'a String) -> Vec<&'a String>) -> BTreeSet<&'a String> {
    let (mut seen, mut stack) = (BTreeSet::new(), vec![first]);
    while let Some(name) = stack.pop() {
        if seen.insert(name) {
            stack.extend(next(name));
        }
    }
    seen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(files: &[(&str, &str)]) -> Vec<Vec<String>> {
        let mut found = Crate::default();
        for (module, text) in files {
            found.add(module.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect(), text);
        }
        found.circles().into_iter().map(|(_, circle, _)| circle).collect()
    }

    #[test]
    fn a_circle_is_found_through_a_third_module_and_a_re_export() {
        let circle =
            of(&[("", "pub use c::C;"), ("a", "use crate::b::B;"), ("b", "fn f(_: crate::C) {}"), ("c", "use super::a::{A, X};"), ("d", "use crate::a;")]);
        assert_eq!(circle, [["a", "b", "c"]]);
    }

    #[test]
    fn parents_and_children_are_one() {
        assert!(of(&[("a", "mod x; use x::X;"), ("a::x", "use super::A; use crate::b::B;"), ("b", "")]).is_empty());
        assert_eq!(of(&[("a", ""), ("a::x", "use crate::b::B;"), ("b", "use crate::a::A;")]), [["a", "b"]]);
        assert_eq!(of(&[("a::x", "use super::y::Y;"), ("a::y", "use crate::a::x::X;")]), [["x", "y"]]);
    }

    #[test]
    fn comments_tests_and_text_make_no_arrow() {
        assert!(
            of(&[
                ("a", "// crate::b\n/// [`b`](crate::b)\nconst A: &str = \"crate::b\";\n#[cfg(test)]\nmod tests {\n    use crate::b::B;\n}\n"),
                ("b", "use crate::a::A;")
            ])
            .is_empty()
        );
    }
}
