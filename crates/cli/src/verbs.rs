// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire run --verbs`: has a program of libibverbs find Bellwire's device. Nothing does so unasked, and nothing outside the program's own environment is changed.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;

use bellwire_report::output;

/// How a program gets libibverbs' interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Verbs {
    /// By a preloaded library; the system's libibverbs stays for who else wants it
    Preload,
    /// In the place of libibverbs.so.1: for programs that load it while they run
    Replace,
}

/// Installed beside this command.
fn installed(name: &str) -> Result<PathBuf, String> {
    let executable = output::executable()?;
    let path = executable.parent().and_then(|bin| bin.parent()).map(|prefix| prefix.join("lib/bellwire").join(name)).ok_or("this command has no place")?;
    if path.exists() { Ok(path) } else { Err(format!("{} is not there: make install puts it there", path.display())) }
}

/// `new` before what the variable has already.
fn before(variable: &str, new: PathBuf) -> (OsString, OsString) {
    let mut value = new.into_os_string();
    if let Some(old) = std::env::var_os(variable).filter(|old| !old.is_empty()) {
        value.push(":");
        value.push(old);
    }
    (variable.into(), value)
}

/// What to set.
///
/// # Errors
/// If the libraries are not installed.
pub fn variables(verbs: Verbs, strict: Option<String>) -> Result<Vec<(OsString, OsString)>, String> {
    let library = match verbs {
        Verbs::Preload => before("LD_PRELOAD", installed("libbellwire-verbs.so")?),
        Verbs::Replace => before("LD_LIBRARY_PATH", installed("bellwire-verbs")?),
    };
    Ok([library].into_iter().chain(strict.map(|to| ("BELLWIRE_VERBS_STRICT".into(), to.into()))).collect())
}

/// Where reports are to go: `text` or `json`, perhaps with a file, whose place is the caller's, wherever the program works.
///
/// # Errors
/// A sentence.
pub fn strict(text: &str) -> Result<String, String> {
    let (form, file) = text.split_once(':').map_or((text, None), |(form, file)| (form, Some(file)));
    if !matches!(form, "text" | "json") || file == Some("") {
        return Err("text or json, or text:FILE or json:FILE".to_owned());
    }
    let Some(file) = file else { return Ok(form.to_owned()) };
    let path = std::path::absolute(file).map_err(|e| format!("{file}: {e}"))?;
    Ok(format!("{form}:{}", path.display()))
}

/// What was done, for people.
pub fn explain(variables: &[(OsString, OsString)]) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        text += &format!("verbs: {}={}\n", name.display(), value.display());
    }
    match std::env::var("BELLWIRE_ADDRESS") {
        Ok(address) => text += &format!("verbs: device bellwire0 at {address} (BELLWIRE_ADDRESS): shared memory to processes of this host, UDP to others\n"),
        Err(_) => text += "verbs: device bellwire0 at 127.0.0.1: this host only; BELLWIRE_ADDRESS=auto, or an address of this host, reaches others\n",
    }
    text
}
