// SPDX-License-Identifier: MIT OR Apache-2.0
//! Programs in which a preloaded library changes nothing, or not everything: told by their file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Bytes looked at: headers, and the names of sections at the end of most programs.
const LOOKED_AT: u64 = 256 << 20;
/// `PT_INTERP`.
const INTERPRETER: u32 = 3;
/// Interpreters of scripts followed.
const SCRIPTS_MAX: u32 = 4;

/// Why a program does not see the devices, or not all of their files.
pub fn reason(program: &OsStr) -> Option<String> {
    let mut path = find(program)?;
    for _ in 0..SCRIPTS_MAX {
        let mut bytes = Vec::new();
        File::open(&path).ok()?.take(LOOKED_AT).read_to_end(&mut bytes).ok()?;
        match bytes.strip_prefix(b"#!") {
            Some(line) => path = interpreter(line)?,
            None => return of_file(&path, &bytes),
        }
    }
    None
}

/// The program as the shell finds it.
fn find(program: &OsStr) -> Option<PathBuf> {
    if program.as_bytes().contains(&b'/') {
        return Some(program.into());
    }
    std::env::split_paths(&std::env::var_os("PATH")?).map(|folder| folder.join(program)).find(|path| path.is_file())
}

/// The interpreter that a script's first line names; behind `env`, the program named there.
fn interpreter(line: &[u8]) -> Option<PathBuf> {
    let line = line.split(|b| *b == b'\n').next()?;
    let mut words = line.split(u8::is_ascii_whitespace).filter(|w| !w.is_empty());
    let first = PathBuf::from(OsStr::from_bytes(words.next()?));
    match first.file_name().is_some_and(|name| name == "env") {
        true => find(OsStr::from_bytes(words.find(|w| !w.starts_with(b"-"))?)),
        false => Some(first),
    }
}

fn of_file(path: &Path, bytes: &[u8]) -> Option<String> {
    let name = path.display();
    if path.metadata().is_ok_and(|m| m.permissions().mode() & 0o6000 != 0) {
        return Some(format!("{name} changes its user or group when it starts: the loader then ignores preloaded libraries"));
    }
    match is_linked_dynamically(bytes) {
        Some(false) => Some(format!("{name} is linked statically: it loads no library, so it sees neither the devices nor their files")),
        Some(true) if has(bytes, b".go.buildinfo") => {
            Some(format!("{name} is a Go program: it looks at files by system calls of its own, which are not seen; what it calls in C libraries is"))
        }
        _ => None,
    }
}

fn has(bytes: &[u8], text: &[u8]) -> bool {
    bytes.windows(text.len()).any(|w| w == text)
}

/// Whether an ELF file of 64 bits names a loader; `None`: it is no such file.
fn is_linked_dynamically(bytes: &[u8]) -> Option<bool> {
    if !bytes.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let number = |at: usize, n: usize| bytes.get(at..at + n).map(|b| b.iter().rev().fold(0u64, |sum, b| sum << 8 | u64::from(*b)));
    let (table, size, count) = (number(32, 8)? as usize, number(54, 2)? as usize, number(56, 2)? as usize);
    let kinds = (0..count).map_while(|i| number(table.checked_add(i.checked_mul(size)?)?, 4));
    Some(kinds.into_iter().any(|kind| kind == u64::from(INTERPRETER)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_of_the_system() {
        assert_eq!(reason(OsStr::new("sh")), None);
        assert_eq!(reason(OsStr::new("nonexistent-program")), None);
        assert_eq!(is_linked_dynamically(b"text"), None);
        assert_eq!(is_linked_dynamically(b"\x7fELF\x02\x01"), None);
        assert_eq!(interpreter(b"/bin/sh -e\n"), Some("/bin/sh".into()));
        assert!(interpreter(b"/usr/bin/env sh\n").is_some_and(|p| p.ends_with("sh")));
    }
}
