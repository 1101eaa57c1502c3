// SPDX-License-Identifier: MIT OR Apache-2.0
//! Wraps paragraphs that have a line which is too wide; everything else stays as it is.

use std::collections::BTreeMap;

use super::text::{self, Kind, Paragraph};

/// The text with its wide paragraphs wrapped.
pub fn wrap(text: &str, kind: Kind) -> String {
    let Some(columns) = kind.columns() else { return text.to_owned() };
    let all: Vec<&str> = text.lines().collect();
    // The new lines of a paragraph by the number of its first; none for its others.
    let mut new: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    for paragraph in text::paragraphs(text, kind) {
        let is_wide = paragraph.lines.iter().any(|line| all[line.number - 1].chars().count() > columns);
        if !is_wide || is_fixed(&paragraph, &all) {
            continue;
        }
        let mut wrapped = Some(fill(&paragraph, columns));
        for line in &paragraph.lines {
            new.insert(line.number, wrapped.take().unwrap_or_default());
        }
    }
    let mut output = String::new();
    for (index, line) in all.iter().enumerate() {
        match new.get(&(index + 1)) {
            Some(lines) => lines.iter().for_each(|line| output.extend([line, "\n"])),
            None => output.extend([line, "\n"]),
        }
    }
    if !text.ends_with('\n') {
        output.pop();
    }
    output
}

/// Pictures, tables, headings, code and blocks of C are left alone.
fn is_fixed(paragraph: &Paragraph<'_>, all: &[&str]) -> bool {
    paragraph.lines.iter().enumerate().any(|(index, line)| {
        let content = line.content;
        let indent = content.len() - content.trim_start().len();
        let is_picture = content.trim().contains("   ");
        let is_block = line.prefix.contains('*') || all[line.number - 1].contains("*/");
        line.is_apart
            || is_picture
            || is_block
            || content.ends_with("  ")
            || content.ends_with('\\')
            || (index == 0 && indent >= 3 && text::item(content).is_none())
    })
}

/// The paragraph's words in lines of at most `columns`, with the indentation of its list item.
fn fill(paragraph: &Paragraph<'_>, columns: usize) -> Vec<String> {
    let first = &paragraph.lines[0];
    let hang = text::item(first.content).unwrap_or(first.content.len() - first.content.trim_start().len());
    let begin = if text::item(first.content).is_some() { &first.content[..hang] } else { "" };
    let content: Vec<&str> = paragraph.lines.iter().map(|line| line.content.trim()).collect();
    let content = content.join(" ");
    let content = content.strip_prefix(begin.trim_start()).unwrap_or(&content);
    let mut lines = Vec::new();
    let mut line = if begin.is_empty() { format!("{}{}", first.prefix, " ".repeat(hang)) } else { format!("{}{begin}", first.prefix) };
    let mut is_empty = true;
    for word in words(content) {
        let width = line.chars().count() + usize::from(!is_empty) + word.chars().count();
        if !is_empty && width > columns {
            lines.push(std::mem::replace(&mut line, format!("{}{}", first.prefix, " ".repeat(hang))));
            is_empty = true;
        }
        if !is_empty {
            line.push(' ');
        }
        line.push_str(&word);
        is_empty = false;
    }
    lines.push(line);
    lines
}

/// Words that may be parted. Code between backquotes and targets of links stay whole, and so does a
/// word with the sign after it that would mean a list or a heading at the start of a line.
fn words(content: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    let mut is_open = false;
    for word in content.split_whitespace() {
        let means_something =
            matches!(word, "-" | "*" | "+" | "|" | ">" | "#" | "=") || word.starts_with(['#', '>', '|']) || text::item(&format!("{word} ")).is_some();
        match found.last_mut() {
            Some(last) if is_open || means_something => {
                last.push(' ');
                last.push_str(word);
            }
            _ => found.push(word.to_owned()),
        }
        let quotes = word.matches('`').count();
        let opens_target = word.contains("](") && !word[word.find("](").unwrap_or(0)..].contains(')');
        let closes_target = is_open && quotes == 0 && word.contains(')') && !word.contains("](");
        is_open = if quotes % 2 == 1 { !is_open } else { (is_open || opens_target) && !closes_target };
        // A quote that never closes does not hold the rest of the paragraph together.
        if is_open && found.last().is_some_and(|last| last.len() > 70) {
            is_open = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_comments_are_wrapped_and_others_stay() {
        let word = "abcdefgh ";
        let text = format!("    /// {}\n    /// short\n    fn f() {{}}\n    // stays\n    // as it is\n", word.repeat(13).trim());
        let new = wrap(&text, Kind::Slashes);
        assert!(new.lines().all(|line| line.chars().count() <= 100), "{new}");
        assert!(new.starts_with("    /// abcdefgh abcdefgh") && new.contains("abcdefgh short\n    fn f() {}\n    // stays\n    // as it is\n"), "{new}");
        assert_eq!(wrap(&new, Kind::Slashes), new);
    }

    #[test]
    fn list_items_keep_their_indentation() {
        let text = format!("- {}\n- b\n\n1. {}\n", "word ".repeat(30).trim(), "word ".repeat(30).trim());
        let new = wrap(&text, Kind::Markdown);
        let starts: Vec<&str> = new.lines().map(|line| &line[..line.len().min(6)]).collect();
        assert_eq!(starts, ["- word", "  word", "- b", "", "1. wor", "   wor"]);
    }

    #[test]
    fn tables_code_and_pictures_are_left_alone() {
        let long = "word ".repeat(30);
        for text in [format!("| {long} |\n"), format!("```\n{long}\n```\n"), format!("    {long}\n"), format!("# {long}\n"), format!("a    b {long}\n")] {
            assert_eq!(wrap(&text, Kind::Markdown), text);
        }
    }

    #[test]
    fn code_stays_whole_and_signs_do_not_begin_a_line() {
        let text = format!("{}`cargo test -p x` and 3 - 4 {}", "aaaa ".repeat(21), "bb ".repeat(20));
        let new = wrap(text.trim(), Kind::Markdown);
        assert!(new.contains("`cargo test -p x`"), "{new}");
        for cut in 15..25 {
            let text = format!("{} - {}", "aaaa ".repeat(cut).trim(), "bb ".repeat(40).trim());
            assert!(wrap(&text, Kind::Markdown).lines().all(|line| !line.starts_with('-')), "{cut}");
        }
    }
}
