// SPDX-License-Identifier: MIT OR Apache-2.0
//! The common part of commands: printing, files that are written at the end, how an executable
//! finds itself.

use std::io::Write;
use std::path::{Path, PathBuf};

/// Prints to standard output.
///
/// # Errors
/// If that fails, except that the reader has gone: who closes the pipe early has seen enough.
pub fn print(text: &str) -> Result<(), String> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// Prints a report: the table, or with "-" the JSON; any other `path` is a file for the JSON,
/// beside the table.
///
/// # Errors
/// If something cannot be written.
pub fn report<E: std::fmt::Display>(path: Option<&Path>, json: impl FnOnce() -> Result<String, E>, table: impl FnOnce() -> String) -> Result<(), String> {
    let json = || json().map_err(|error| error.to_string());
    if path == Some(Path::new("-")) {
        return print(&json()?);
    }
    // First: if the file cannot be written, the figures are not lost.
    print(&table())?;
    let Some(path) = path else { return Ok(()) };
    std::fs::write(path, json()?).map_err(|error| format!("{}: {error}", path.display()))
}

/// A file that is written at the end, an argument: that it cannot be written is said before
/// anything is measured. "-" is standard output to those that know it.
///
/// # Errors
/// Why it could not be written.
pub fn file_to_write(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if text == "-" {
        return Ok(path);
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Some(folder) = folder.filter(|folder| !folder.is_dir()) {
        return Err(format!("there is no folder {}", folder.display()));
    }
    // What is there stays until there is something to put in its place.
    let mut open = std::fs::OpenOptions::new();
    let was_there = path.exists();
    let opened = if was_there { open.append(true) } else { open.write(true).create_new(true) }.open(&path);
    opened.map_err(|error| format!("it cannot be written: {error}"))?;
    if !was_there {
        let _ = std::fs::remove_file(&path);
    }
    Ok(path)
}

/// This executable.
///
/// # Errors
/// If it cannot be found.
pub fn executable() -> Result<PathBuf, String> {
    std::env::current_exe().map_err(|error| format!("cannot find this executable: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_written_are_refused_at_once() {
        assert_eq!(file_to_write("-"), Ok(PathBuf::from("-")));
        assert!(file_to_write("/nonexistent/x.json").is_err_and(|why| why.contains("no folder /nonexistent")));
        assert!(file_to_write("/").is_err());
        let folder = std::env::temp_dir().join(format!("bellwire-output-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder");
        let file = folder.join("x.json");
        let name = file.to_str().expect("a name");
        assert_eq!(file_to_write(name), Ok(file.clone()));
        assert!(!file.exists());
        std::fs::write(&file, "before").expect("a file");
        assert_eq!(file_to_write(name), Ok(file.clone()));
        assert_eq!(std::fs::read_to_string(&file).expect("still there"), "before");
        std::fs::remove_dir_all(&folder).expect("gone");
    }
}
