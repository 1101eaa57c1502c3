// SPDX-License-Identifier: MIT OR Apache-2.0
//! Where the file is: where `BELLWIRE_DEVICE_FILE` says, else in the user's configuration, else in
//! the system's.

use crate::device::Device;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The variable that names the file; empty: there is none.
pub const VARIABLE: &str = "BELLWIRE_DEVICE_FILE";
const NAME: &str = "bellwire/bellwire-device.toml";
const SYSTEM: &str = "/etc";

/// The file, if there is one.
pub fn find() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return (!named.is_empty()).then(|| named.into());
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let user = absolute("XDG_CONFIG_HOME").or_else(|| absolute("HOME").map(|home| home.join(".config")));
    [user, Some(PathBuf::from(SYSTEM))].into_iter().flatten().map(|folder| folder.join(NAME)).find(|path| path.is_file())
}

/// The devices of a file, or the one that there is without any.
///
/// # Errors
/// A sentence with the file, the line, and what is allowed there.
pub fn load(file: Option<&Path>) -> Result<Vec<Device>, String> {
    let Some(path) = file else { return Ok(vec![Device::new(0)]) };
    let text = std::fs::read_to_string(path).map_err(|e| match e.kind() {
        ErrorKind::InvalidData => format!("{}: this is no text", path.display()),
        _ => format!("{}: {e}", path.display()),
    })?;
    crate::parse(&text).map_err(|(line, what)| format!("{}:{line}: {what}", path.display()))
}
