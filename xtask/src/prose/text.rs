// SPDX-License-Identifier: MIT OR Apache-2.0
//! Prose in files: comments of sources, text of Markdown and of man pages, as paragraphs with their
//! lines.

use std::path::Path;

/// Extensions of the files that are read.
pub const EXTENSIONS: &[&str] = &["rs", "c", "h", "cpp", "sc", "sh", "md", "1", "3", "7"];

/// How prose stands in a file.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// In comments that begin with `//` or stand between `/*` and `*/`.
    Slashes,
    /// In comments that begin with `#`.
    Hash,
    /// Everywhere but in code.
    Markdown,
    /// In lines that are no request of roff.
    Man,
}

impl Kind {
    pub fn of(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()? {
            "rs" | "c" | "h" | "cpp" | "sc" => Some(Self::Slashes),
            "sh" => Some(Self::Hash),
            "md" => Some(Self::Markdown),
            "1" | "3" | "7" => Some(Self::Man),
            _ => None,
        }
    }

    /// The widest line that is easy to review, in columns.
    pub fn columns(self) -> Option<usize> {
        match self {
            Self::Slashes | Self::Hash => Some(100),
            Self::Markdown => Some(120),
            Self::Man => None,
        }
    }
}

/// A line of prose: where it stands, what it begins with and what it says.
pub struct Line<'a> {
    pub number: usize,
    /// Indentation and comment sign, with the blank after it; empty in Markdown.
    pub prefix: &'a str,
    pub content: &'a str,
    /// In a block of code, a table or a heading: not part of a paragraph.
    pub is_apart: bool,
}

/// The lines of `text` that hold prose.
pub fn lines(text: &str, kind: Kind) -> Vec<Line<'_>> {
    let mut found = Vec::new();
    let mut in_fence = false;
    let mut in_block = false;
    for (index, line) in text.lines().enumerate() {
        let sign = match kind {
            Kind::Markdown => 0,
            Kind::Man => {
                let is_request = line.starts_with(['.', '\'']);
                if is_request {
                    continue;
                }
                0
            }
            Kind::Hash => match sign_of(line, "#") {
                Some(length) if !line.starts_with("#!") => length,
                _ => continue,
            },
            Kind::Slashes => {
                let was_in_block = in_block;
                let trimmed = line.trim_start();
                let opens = trimmed.starts_with("/*");
                in_block = (was_in_block || opens) && !line.contains("*/");
                match sign_of(line, "//") {
                    Some(length) => length,
                    None if opens => line.len() - trimmed.len() + 2 + usize::from(trimmed.starts_with("/**")),
                    None if was_in_block => line.len() - trimmed.trim_start_matches(['*', '/']).len(),
                    None => {
                        in_fence = false;
                        continue;
                    }
                }
            }
        };
        let (prefix, content) = line.split_at(sign);
        let content = if kind == Kind::Slashes { content.trim_end_matches("*/") } else { content };
        let blank = content.len() - content.trim_start().len();
        // One blank after a comment's sign belongs to it.
        let (prefix, content) = if sign > 0 && blank > 0 { (&line[..sign + 1], &content[1..]) } else { (prefix, content) };
        let is_fence = content.trim_start().starts_with("```");
        let is_apart = in_fence || is_fence || is_set_apart(content) || prefix.ends_with('=');
        in_fence ^= is_fence;
        found.push(Line { number: index + 1, prefix, content, is_apart });
    }
    found
}

/// The length of indentation and comment sign, if the line is such a comment.
fn sign_of(line: &str, sign: &str) -> Option<usize> {
    let trimmed = line.trim_start();
    let indent = line.len() - trimmed.len();
    let rest = trimmed.strip_prefix(sign)?;
    let more = if sign == "//" { rest.len() - rest.trim_start_matches(['/', '!', '=']).len() } else { 0 };
    Some(indent + sign.len() + more)
}

/// A heading, a row of a table, the target of a link, or the licence.
fn is_set_apart(content: &str) -> bool {
    let trimmed = content.trim_start();
    trimmed.starts_with("SPDX-License-Identifier:")
        || trimmed.starts_with('|')
        || content.starts_with("# ")
        || content.starts_with("##")
        || (trimmed.starts_with('[') && trimmed.contains("]: "))
}

/// Whether a list item begins here; the length of its sign.
pub fn item(content: &str) -> Option<usize> {
    let trimmed = content.trim_start();
    let indent = content.len() - trimmed.len();
    if trimmed.starts_with("- ") || trimmed.starts_with("* ") {
        return Some(indent + 2);
    }
    let digits = trimmed.len() - trimmed.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (1..=2).contains(&digits).then(|| trimmed[digits..].starts_with(". ").then_some(indent + digits + 2)).flatten()
}

/// Neighbouring lines of one paragraph, heading, cell or list item.
pub struct Paragraph<'a> {
    pub lines: Vec<Line<'a>>,
}

/// The paragraphs of `text`; code in fences is left out.
pub fn paragraphs(text: &str, kind: Kind) -> Vec<Paragraph<'_>> {
    let mut found: Vec<Paragraph<'_>> = Vec::new();
    let mut last: Option<(usize, &str)> = None;
    let mut in_fence = false;
    for line in lines(text, kind) {
        if line.content.trim_start().starts_with("```") {
            in_fence = !in_fence;
            last = None;
            continue;
        }
        if in_fence || line.content.trim().is_empty() {
            last = None;
            continue;
        }
        let (number, prefix) = (line.number, line.prefix);
        let goes_on = last == Some((number - 1, prefix)) && !line.is_apart && item(line.content).is_none();
        last = (!line.is_apart).then_some((number, prefix));
        match found.last_mut() {
            Some(paragraph) if goes_on => paragraph.lines.push(line),
            _ => found.push(Paragraph { lines: vec![line] }),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn joined(text: &str, kind: Kind) -> Vec<String> {
        paragraphs(text, kind).iter().map(|p| p.lines.iter().map(|l| l.content.trim()).collect::<Vec<_>>().join(" ")).collect()
    }

    #[test]
    fn comments_of_sources_are_paragraphs() {
        let text = "//! One\n//! two.\n//!\n//! Three\n\n/// Four\nfn f() {} // not this\n    // five\n    // six\n";
        assert_eq!(joined(text, Kind::Slashes), ["One two.", "Three", "Four", "five six"]);
    }

    #[test]
    fn code_in_fences_is_no_prose() {
        let text = "One\n```\nwho does\n```\ntwo\n| who is | a |\n# What it is\n- three\n  four\n";
        assert_eq!(joined(text, Kind::Markdown), ["One", "two", "| who is | a |", "# What it is", "- three four"]);
    }

    #[test]
    fn blocks_of_c_and_requests_of_roff_are_told_apart() {
        assert_eq!(joined("/* One */\nint a;\n/** Two\n * three. */\nint b; /* no */\n", Kind::Slashes), ["One", "Two", "three."]);
        assert_eq!(joined(".TH X\nOne\ntwo\n.PP\nthree\n", Kind::Man), ["One two", "three"]);
        assert_eq!(joined("#!/bin/sh\n# one\n# two\necho # no\n", Kind::Hash), ["one two"]);
    }
}
