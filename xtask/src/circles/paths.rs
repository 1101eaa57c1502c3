// SPDX-License-Identifier: MIT OR Apache-2.0
//! The paths that a source file names, from its crate's root.

/// A path that a module names.
#[derive(Debug, PartialEq, Eq)]
pub struct Reference {
    /// Its parts.
    pub path: Vec<String>,
    /// The name that it has in the module, if a `use` gives it one.
    pub imports: Option<String>,
}

/// The paths of its own crate that `text`, the source of `module`, names.
pub fn references(text: &str, module: &[String]) -> Vec<Reference> {
    let code = code_of(text);
    let mut found = Vec::new();
    let mut rest = code.as_str();
    let mut before = ' ';
    while let Some(first) = rest.chars().next() {
        let length = word(rest);
        if length == 0 {
            before = first;
            rest = &rest[first.len_utf8()..];
            continue;
        }
        let name = &rest[..length];
        let after = &rest[length..];
        if name == "use" && after.starts_with(char::is_whitespace) {
            let end = after.find(';').unwrap_or(after.len());
            tree(&after[..end], Vec::new(), module, true, &mut found);
            rest = &after[end..];
        } else if matches!(name, "crate" | "super" | "self") && before != ':' && after.starts_with("::") {
            let end = path_end(rest);
            tree(&rest[..end], Vec::new(), module, false, &mut found);
            rest = &rest[end..];
        } else {
            rest = after;
        }
        before = 'x';
    }
    found
}

/// The code of a source file: without comments, texts and the module of its tests.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines().take_while(|line| !line.starts_with("mod tests {")) {
        let mut in_text = false;
        let mut characters = line.chars().peekable();
        while let Some(c) = characters.next() {
            match c {
                '\\' if in_text => {
                    characters.next();
                }
                '\'' if !in_text && characters.peek() == Some(&'"') => {
                    characters.next();
                }
                '"' => in_text = !in_text,
                '/' if !in_text && characters.peek() == Some(&'/') => break,
                _ if in_text => {}
                _ => code.push(c),
            }
        }
        code.push('\n');
    }
    code
}

/// The length of the word at the beginning.
fn word(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Where a path of words ends.
fn path_end(text: &str) -> usize {
    let mut end = word(text);
    while let Some(after) = text[end..].strip_prefix("::") {
        let length = word(after);
        if length == 0 {
            break;
        }
        end += 2 + length;
    }
    end
}

/// Adds the paths of a tree of names, as `use` has it.
fn tree(text: &str, prefix: Vec<String>, module: &[String], is_use: bool, found: &mut Vec<Reference>) {
    let text = text.trim();
    if let Some(open) = text.find('{') {
        let close = text.rfind('}').unwrap_or(text.len());
        let mut before = prefix;
        before.extend(parts(&text[..open]));
        for part in split(&text[open + 1..close]) {
            tree(part, before.clone(), module, is_use, found);
        }
        return;
    }
    let (path, name) = match text.split_once(" as ") {
        Some((path, name)) => (path, Some(name.trim().to_owned())),
        None => (text, None),
    };
    let mut path = [prefix, parts(path)].concat();
    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
        path.pop();
    }
    let imports = is_use.then(|| name.or_else(|| path.last().cloned())).flatten();
    if let Some(path) = absolute(&path, module, is_use) {
        found.push(Reference { path, imports });
    }
}

fn parts(path: &str) -> Vec<String> {
    path.split("::").map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect()
}

/// The parts of a list between braces, which may hold lists.
fn split(list: &str) -> Vec<&str> {
    let (mut found, mut depth, mut from) = (Vec::new(), 0, 0);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&list[from..at]);
                from = at + 1;
            }
            _ => {}
        }
    }
    found.push(&list[from..]);
    found.retain(|part| !part.trim().is_empty());
    found
}

/// A path from the crate's root. Of another crate, it names nothing here.
fn absolute(path: &[String], module: &[String], is_use: bool) -> Option<Vec<String>> {
    let mut base: Vec<String> = module.to_vec();
    let mut rest = path;
    match path.first()?.as_str() {
        "crate" => {
            base.clear();
            rest = &rest[1..];
        }
        "self" => rest = &rest[1..],
        "super" => {
            while rest.first().is_some_and(|part| part == "super") {
                base.pop()?;
                rest = &rest[1..];
            }
        }
        // A child of this module, or another crate.
        _ if is_use => {}
        _ => return None,
    }
    base.extend_from_slice(rest);
    Some(base)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ways_to_name_a_path() {
        let module = ["a".to_owned(), "b".to_owned()];
        let text = "use crate::x::{Y, z::{self, W as V}};\nuse super::c;\npub use child::Thing;\nfn f() { crate::q::run(super::super::top::T) }";
        let named: Vec<(String, Option<String>)> = references(text, &module).into_iter().map(|r| (r.path.join("::"), r.imports)).collect();
        let named: Vec<(&str, Option<&str>)> = named.iter().map(|(path, name)| (path.as_str(), name.as_deref())).collect();
        let expected = [
            ("x::Y", Some("Y")),
            ("x::z", Some("z")),
            ("x::z::W", Some("V")),
            ("a::c", Some("c")),
            ("a::b::child::Thing", Some("Thing")),
            ("q::run", None),
            ("top::T", None),
        ];
        assert_eq!(named, expected);
    }
}
