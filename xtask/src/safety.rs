// SPDX-License-Identifier: MIT OR Apache-2.0
//! A `SAFETY` comment names the invariant that its block relies on. One that points at another
//! comment says nothing any more when that one moves, and nobody looks whether it was ever true of
//! this block.

/// What a comment must not begin with, or contain. Split, so that this file does not contain them.
const BEGINNINGS: &[&str] =
    &["as above", "as before", "as below", "as for ", "as in ", "as there", "see above", "same", "the same", "likewise", "ditto", "idem"];
const POINTERS: &[&str] = &[" as above", "see above"];

/// Lines, counted from 1, whose comment only points at another one.
pub fn pointing(text: &str) -> Vec<usize> {
    let marked = text.lines().enumerate().filter_map(|(i, line)| Some((i + 1, line.split_once(concat!("SAF", "ETY:"))?.1.trim().to_lowercase())));
    marked.filter(|(_, says)| BEGINNINGS.iter().any(|b| says.starts_with(b)) || POINTERS.iter().any(|p| says.contains(p))).map(|(line, _)| line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_that_point_elsewhere_are_found() {
        let mark = concat!("// SAF", "ETY:");
        let says = |text: &str| pointing(&format!("fn f() {{\n    {mark} {text}\n}}\n"));
        for bad in ["as above.", "As above; there is room.", "as in `read`.", "U1: as above.", "X3, as above; numbers.", "see above", "Same.", "likewise"] {
            assert_eq!(says(bad), [2], "{bad}");
        }
        for good in ["U1.", "as many bytes as `count` says.", "R1, just looked up.", "B1: it was there until now.", "the caller's promise."] {
            assert!(says(good).is_empty(), "{good}");
        }
    }
}
