// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire run --verbs`: has a program of libibverbs find Bellwire's device. Nothing does so unasked, and nothing outside the program's own environment is changed.

mod unseen;

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;

use clap::ValueEnum;

use bellwire_report::output;

/// How a program gets libibverbs' interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Verbs {
    /// By a preloaded library; the system's libibverbs stays for who else wants it
    Preload,
    /// The same, and in the place of libibverbs.so.1: where that is not installed
    Replace,
    /// By a preloaded library; real RDMA devices stay, in the list and in /sys, beside Bellwire's
    Beside,
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
    // A file that is wrong is said now, not by each process.
    bellwire_devices::load(bellwire_devices::find().as_deref())?;
    let mut set = vec![before("LD_PRELOAD", installed("libbellwire-verbs.so")?)];
    match verbs {
        Verbs::Preload => {}
        Verbs::Replace => set.push(before("LD_LIBRARY_PATH", installed("bellwire-verbs")?)),
        Verbs::Beside => set.push(("BELLWIRE_VERBS_BESIDE".into(), "1".into())),
    }
    Ok(set.into_iter().chain(strict.map(|to| ("BELLWIRE_VERBS_STRICT".into(), to.into()))).collect())
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

/// Says which variables are set, which devices there are, and why a program does not see them.
pub fn explain(variables: &[(OsString, OsString)], program: &OsStr) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        text += &format!("verbs: {}={}\n", name.display(), value.display());
    }
    let file = bellwire_devices::find();
    if let Some(file) = &file {
        text += &format!("verbs: devices of {}\n", file.display());
    }
    let variable = std::env::var("BELLWIRE_ADDRESS");
    for device in bellwire_devices::load(file.as_deref()).unwrap_or_default() {
        let name = &device.name;
        text += &match (&device.address, &variable) {
            (Some(address), _) => format!("verbs: device {name} at {address}\n"),
            (None, Ok(address)) => format!("verbs: device {name} at {address} (BELLWIRE_ADDRESS): shared memory to processes of this host, UDP to others\n"),
            (None, Err(_)) => format!("verbs: device {name} at 127.0.0.1: this host only; BELLWIRE_ADDRESS=auto, or an address of this host, reaches others\n"),
        };
    }
    if let Some(reason) = unseen::reason(program) {
        text += &format!("verbs: not seen: {reason}\n");
    }
    text
}
