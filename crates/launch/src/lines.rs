// SPDX-License-Identifier: MIT OR Apache-2.0
//! Output of many processes into one stream, line by line: lines are never mixed.
//!
//! A line is kept until it is complete, or longer than [`LINE_MAX_BYTES`] (then it is broken there,
//! with a newline). One process without labels is passed on as it is, at once.

/// The longest line that is kept together.
pub(crate) const LINE_MAX_BYTES: usize = 1 << 20;

/// The lines of all processes on their way into one stream.
#[derive(Debug)]
pub(crate) struct Merger {
    /// What each process has written of its last line.
    partial: Vec<Vec<u8>>,
    /// What its lines begin with.
    labels: Option<Vec<String>>,
    /// Whose unfinished line has been shown already.
    shown: Option<usize>,
}

impl Merger {
    /// For so many processes, with or without `[rank] ` before each line.
    pub(crate) fn new(size: usize, label: bool) -> Self {
        let width = size.saturating_sub(1).to_string().len();
        let labels = label.then(|| (0..size).map(|rank| format!("[{rank:width$}] ")).collect());
        Self { partial: vec![Vec::new(); size], labels, shown: None }
    }

    /// A process has written something: appends to `out` what is to be written now.
    pub(crate) fn push(&mut self, rank: usize, mut bytes: &[u8], out: &mut Vec<u8>) {
        if self.partial.len() == 1 && self.labels.is_none() {
            return out.extend_from_slice(bytes);
        }
        while let Some(end) = bytes.iter().position(|byte| *byte == b'\n') {
            self.begin(rank, out);
            out.append(&mut self.partial[rank]);
            out.extend_from_slice(&bytes[..=end]);
            self.shown = None;
            bytes = &bytes[end + 1..];
        }
        while self.partial[rank].len() + bytes.len() > LINE_MAX_BYTES {
            let (fits, rest) = bytes.split_at(LINE_MAX_BYTES - self.partial[rank].len());
            self.partial[rank].extend_from_slice(fits);
            self.end(rank, out);
            bytes = rest;
        }
        self.partial[rank].extend_from_slice(bytes);
    }

    /// The stream of a process has ended: its last line gets the newline that it lacks.
    pub(crate) fn end(&mut self, rank: usize, out: &mut Vec<u8>) {
        if !self.partial[rank].is_empty() || self.shown == Some(rank) {
            self.begin(rank, out);
            out.append(&mut self.partial[rank]);
            out.push(b'\n');
            self.shown = None;
        }
    }

    /// Shows an unfinished line, which may be a question to somebody at a terminal.
    pub(crate) fn show(&mut self, rank: usize, out: &mut Vec<u8>) {
        if !self.partial[rank].is_empty() {
            self.begin(rank, out);
            out.append(&mut self.partial[rank]);
            self.shown = Some(rank);
        }
    }

    /// Whether a line of this process is unfinished and not shown.
    pub(crate) fn has_partial(&self, rank: usize) -> bool {
        !self.partial[rank].is_empty()
    }

    /// Before more of a line of `rank`: ends another's that was shown, and labels one that begins.
    fn begin(&mut self, rank: usize, out: &mut Vec<u8>) {
        match self.shown {
            Some(other) if other == rank => return,
            Some(_) => out.push(b'\n'),
            None => {}
        }
        self.shown = None;
        if let Some(labels) = &self.labels {
            out.extend_from_slice(labels[rank].as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pushed(merger: &mut Merger, rank: usize, text: &str) -> String {
        let mut out = Vec::new();
        merger.push(rank, text.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn whole_lines() {
        let mut merger = Merger::new(11, true);
        assert_eq!(pushed(&mut merger, 3, "a"), "");
        assert_eq!(pushed(&mut merger, 10, "x\ny"), "[10] x\n");
        assert_eq!(pushed(&mut merger, 3, "b\n\n"), "[ 3] ab\n[ 3] \n");
        let mut out = Vec::new();
        merger.end(10, &mut out);
        merger.end(3, &mut out);
        assert_eq!(out, b"[10] y\n");
    }

    #[test]
    fn one_process_is_passed_on() {
        let mut merger = Merger::new(1, false);
        assert_eq!(pushed(&mut merger, 0, "name? "), "name? ");
    }

    #[test]
    fn questions_are_shown() {
        let mut merger = Merger::new(2, false);
        let mut out = Vec::new();
        merger.push(0, b"name? ", &mut out);
        assert!(out.is_empty() && merger.has_partial(0));
        merger.show(0, &mut out);
        merger.push(0, b"again? ", &mut out);
        merger.show(0, &mut out);
        merger.push(1, b"other\n", &mut out);
        merger.push(0, b"on\n", &mut out);
        assert_eq!(out, b"name? again? \nother\non\n");
    }

    #[test]
    fn a_line_has_a_limit() {
        let mut merger = Merger::new(2, false);
        let mut out = Vec::new();
        merger.push(0, &vec![b'a'; LINE_MAX_BYTES * 2 + 5], &mut out);
        assert_eq!(out.len(), LINE_MAX_BYTES * 2 + 2);
        assert_eq!(merger.partial[0].len(), 5);
    }

    proptest! {
        /// However the writes of processes are cut and mixed, each one's lines come out whole and
        /// in order.
        #[test]
        fn lines_stay_whole(writes in proptest::collection::vec((0usize..3, "[ab\n]{0,9}"), 0..40)) {
            let mut merger = Merger::new(3, true);
            let mut out = Vec::new();
            let mut wrote = vec![String::new(); 3];
            for (rank, text) in &writes {
                merger.push(*rank, text.as_bytes(), &mut out);
                wrote[*rank].push_str(text);
            }
            (0..3).for_each(|rank| merger.end(rank, &mut out));
            let out = String::from_utf8(out).unwrap();
            for (rank, text) in wrote.iter().enumerate() {
                let label = format!("[{rank}] ");
                let seen: Vec<&str> = out.lines().filter_map(|line| line.strip_prefix(&label)).collect();
                prop_assert_eq!(seen, text.lines().collect::<Vec<_>>());
            }
            prop_assert!(out.lines().all(|line| line.starts_with('[')));
        }
    }
}
