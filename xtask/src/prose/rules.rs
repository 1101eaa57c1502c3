// SPDX-License-Identifier: MIT OR Apache-2.0
//! The rules of `cargo xtask prose`.

use super::text::{self, Kind, Paragraph};

/// Stock phrases, in small letters, that plain English does without.
pub const PHRASES: &[&str] = &["in vain", "is none", "are none", "for ever does", "goes its own way", "has gone away", "is no way"];

/// Words after `what` or `who` that are a subject of their own: "what the figures mean" has a head.
const SUBJECTS: &[&str] = &[
    "it", "we", "you", "they", "he", "i", "this", "that", "these", "those", "the", "a", "an", "its", "our", "their", "your", "each", "every", "one", "all",
    "any", "some", "no", "to", "else", "and", "or", "if", "about", "exactly", "kind", "happens", "happened", "both", "two", "another", "most", "of", "in",
    "on", "for", "with", "at",
];
/// Words after which `who` has no noun to belong to.
const BEFORE_WHO: &[&str] =
    &["of", "to", "for", "by", "from", "with", "at", "and", "or", "but", "so", "than", "as", "if", "that", "does", "do", "is", "are", "where", "what"];

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    Headless,
    Phrase,
    Wide,
}

impl Rule {
    pub const ALL: [Self; 3] = [Self::Headless, Self::Phrase, Self::Wide];

    pub fn name(self) -> &'static str {
        match self {
            Self::Headless => "headless",
            Self::Phrase => "phrase",
            Self::Wide => "wide",
        }
    }
}

/// A place that a reader stumbles over.
#[derive(Debug)]
pub struct Finding {
    pub rule: Rule,
    /// The first and the last line of the paragraph; of a wide line, itself.
    pub line: usize,
    pub last: usize,
    pub excerpt: String,
}

/// All findings in `text`.
pub fn find(text: &str, kind: Kind) -> Vec<Finding> {
    let mut found = Vec::new();
    for paragraph in text::paragraphs(text, kind) {
        let (Some(first), Some(last)) = (paragraph.lines.first(), paragraph.lines.last()) else { continue };
        let words = joined(&paragraph);
        let at = |rule, excerpt| Finding { rule, line: first.number, last: last.number, excerpt };
        found.extend(headless(&words).into_iter().map(|excerpt| at(Rule::Headless, excerpt)));
        found.extend(phrases(&words).into_iter().map(|excerpt| at(Rule::Phrase, excerpt)));
    }
    let wide = wide(text, kind).into_iter().map(|(line, excerpt)| Finding { rule: Rule::Wide, line, last: line, excerpt });
    found.extend(wide);
    found
}

/// The words of a paragraph; what stands between backquotes counts as one word without meaning.
fn joined(paragraph: &Paragraph<'_>) -> String {
    let text: Vec<&str> = paragraph.lines.iter().map(|line| line.content.trim()).collect();
    let text = text.join(" ");
    let parts: Vec<&str> = text.split('`').enumerate().map(|(index, part)| if index % 2 == 0 { part } else { "X" }).collect();
    parts.concat().replace(['*', '_'], "")
}

/// Sentences and clauses whose subject is a bare `who`, `whoever` or `what`.
fn headless(text: &str) -> Vec<String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        let bare = word.trim_start_matches(['(', '"', '\'']).to_lowercase();
        let Some(next) = words.get(index + 1) else { continue };
        let before = index.checked_sub(1).and_then(|index| words.get(index));
        let is_first = before.is_none_or(|before| before.ends_with(['.', ':', ';', '|', '#', '?', '!']) || *before == "-") || word.starts_with('(');
        let is_headless = match bare.as_str() {
            "whoever" => true,
            "who" => is_first || before.is_some_and(|before| BEFORE_WHO.contains(&before.to_lowercase().as_str())),
            "what" => is_first,
            _ => false,
        };
        let has_subject = SUBJECTS.contains(&next.trim_end_matches([',', '.']).to_lowercase().as_str()) || next.starts_with(['|', '-']);
        if is_headless && !has_subject && !is_question(&words[index..]) {
            found.push(excerpt(&words, index));
        }
    }
    found
}

/// Whether the sentence that begins here ends with a question mark.
fn is_question(words: &[&str]) -> bool {
    let end = words.iter().map(|word| word.trim_end_matches([')', '"', '|'])).find(|word| word.ends_with(['.', '?', '!']));
    end.is_some_and(|word| word.ends_with('?'))
}

fn phrases(text: &str) -> Vec<String> {
    let small = text.to_lowercase();
    let words: Vec<&str> = small.split_whitespace().collect();
    let mut found = Vec::new();
    for index in 0..words.len() {
        for phrase in PHRASES {
            let length = phrase.split(' ').count();
            let is_here = words
                .get(index..index + length)
                .is_some_and(|here| here.iter().zip(phrase.split(' ')).all(|(word, wanted)| word.trim_matches(|c: char| !c.is_alphanumeric()) == wanted));
            // "there is none" and "is none of them" name what they speak of.
            let is_plain =
                phrase.ends_with("none") && (words.get(index + length) == Some(&"of") || index.checked_sub(1).is_some_and(|before| words[before] == "there"));
            if is_here && !is_plain {
                found.push(excerpt(&words, index.saturating_sub(3)));
            }
        }
    }
    found
}

fn excerpt(words: &[&str], first: usize) -> String {
    words[first..].iter().take(10).copied().collect::<Vec<_>>().join(" ")
}

/// Lines that are wider than is easy to review.
fn wide(text: &str, kind: Kind) -> Vec<(usize, String)> {
    let Some(columns) = kind.columns() else { return Vec::new() };
    let all: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    let mut in_fence = false;
    for line in text::lines(text, kind) {
        let is_fence = line.content.trim_start().starts_with("```");
        let is_code = kind == Kind::Markdown && (in_fence || is_fence);
        in_fence ^= is_fence;
        let whole = all[line.number - 1];
        let is_table = line.content.trim_start().starts_with('|');
        if !is_code && !is_table && whole.chars().count() > columns && !is_one_word(line.content, columns) {
            found.push((line.number, line.content.chars().take(60).collect()));
        }
    }
    found
}

/// A line whose width is that of a single word, such as a link, cannot be wrapped.
fn is_one_word(content: &str, columns: usize) -> bool {
    content.split_whitespace().any(|word| word.chars().count() > columns / 2 && (word.contains("://") || word.contains("](")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Vec<Rule> {
        find(text, Kind::Markdown).iter().map(|finding| finding.rule).collect()
    }

    #[test]
    fn headless_sentences_are_found() {
        for text in [
            "Who waits for an event looks for a moment.",
            "All is well. Who has posted nothing is not waited for.",
            "It is told to whoever waits for it.",
            "Whoever can choose takes the later one.",
            "The rest: what cannot be taken is refused.",
            "The bell is rung for who sleeps.",
            "| what travels between hosts | here |",
            "the peer reads; what is left\nstays there.",
        ] {
            assert_eq!(rules(text), [Rule::Headless], "{text}");
        }
    }

    #[test]
    fn sentences_with_a_head_pass() {
        for text in [
            "Who waits here?",
            "A waiter that notices a dead peer reports it, who is gone.",
            "What the figures mean",
            "| what | where |",
            "The peer, who of all is nearest, answers.",
            "It shows what arrived.",
            "See `Who waits` in the code.",
            "```\nWho waits for it\n```",
        ] {
            assert_eq!(rules(text), [], "{text}");
        }
    }

    #[test]
    fn stock_phrases_are_found_across_lines() {
        assert_eq!(rules("looking at each message would be in\nvain"), [Rule::Phrase]);
        assert_eq!(rules("the child of a fork, where a NIC is none."), [Rule::Phrase]);
        assert_eq!(rules("It is none of these, or there is none."), []);
    }

    #[test]
    fn wide_lines_are_counted_but_not_tables_links_and_code() {
        let long = "word ".repeat(30);
        assert_eq!(rules(&long), [Rule::Wide]);
        assert_eq!(rules(&format!("| {long} |")), []);
        assert_eq!(rules(&format!("```\n{long}\n```")), []);
        assert_eq!(rules(&format!("see [it](https://{})", "x".repeat(120))), []);
        let comment = format!("/// {}\nfn f() {{}}\n", "word ".repeat(20));
        assert_eq!(find(&comment, Kind::Slashes).len(), 1);
        assert_eq!(find(&format!("let a = {};\n", "1 + ".repeat(40)), Kind::Slashes).len(), 0);
    }
}
