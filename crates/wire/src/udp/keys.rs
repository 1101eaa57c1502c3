// SPDX-License-Identifier: MIT OR Apache-2.0
//! The keys of packets between hosts, as the environment names them.

use bellwire_proto::seal::{KeyError, Keys};
use core::fmt;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::net::ToSocketAddrs as _;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;

/// A file with a shared or a private key.
pub const KEY_FILE: &str = "BELLWIRE_KEY_FILE";
/// A shared key itself.
pub const KEY: &str = "BELLWIRE_KEY";
/// A file with the public keys of hosts.
pub const KEY_HOSTS: &str = "BELLWIRE_KEY_HOSTS";
/// Key files are short; more is a mistake.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Keys, and where they are from.
#[derive(Clone, Debug)]
pub struct LoadedKeys {
    /// The keys.
    pub keys: Arc<Keys>,
    /// For people: the variables' files.
    pub source: String,
}

/// Why there are no keys although there should be: the variable, and what is wrong.
#[derive(Debug)]
pub enum KeysError {
    /// The file cannot be read.
    Read(&'static str, String, io::Error),
    /// Others can read or change it.
    Open(&'static str, String, u32),
    /// It is another user's.
    Owner(&'static str, String),
    /// It is too long to be read to its end.
    Long(&'static str, String),
    /// What it says cannot be used.
    Text(&'static str, String, KeyError),
    /// A variable is no text.
    Variable(&'static str),
    /// A variable is set to nothing.
    Empty(&'static str),
}

impl KeysError {
    /// The variable that is to be changed.
    pub const fn variable(&self) -> &'static str {
        match self {
            Self::Read(v, ..) | Self::Open(v, ..) | Self::Owner(v, ..) | Self::Long(v, ..) | Self::Text(v, ..) | Self::Variable(v) | Self::Empty(v) => v,
        }
    }
}

impl fmt::Display for KeysError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(variable, path, e) => write!(f, "{variable}: {path} cannot be read: {e}"),
            Self::Open(variable, path, mode) => {
                write!(f, "{variable}: {path} can be read or changed by others (mode {:o}): chmod 600 {path}", mode & 0o777)
            }
            Self::Owner(variable, path) => write!(f, "{variable}: {path} belongs to another user"),
            Self::Long(variable, path) => write!(f, "{variable}: {path} is longer than {FILE_BYTES_MAX} bytes, which is no file of keys"),
            Self::Text(variable, path, e) => write!(f, "{variable}: {path}: {e}"),
            Self::Variable(variable) => write!(f, "{variable} is not text"),
            Self::Empty(variable) => write!(f, "{variable} is set, but empty: unset it to send packets without authentication"),
        }
    }
}

impl std::error::Error for KeysError {}

/// The text of a file. `secret`: nobody else may be able to read it; nobody else may change it in
/// any case.
fn read(variable: &'static str, path: &str, secret: bool) -> Result<String, KeysError> {
    let failed = |e| KeysError::Read(variable, path.to_owned(), e);
    let file = File::open(path).map_err(failed)?;
    // Of the file that was opened, whatever is at its path meanwhile.
    let metadata = file.metadata().map_err(failed)?;
    if metadata.mode() & if secret { 0o077 } else { 0o022 } != 0 {
        return Err(KeysError::Open(variable, path.to_owned(), metadata.mode()));
    }
    if metadata.uid() != 0 && metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(KeysError::Owner(variable, path.to_owned()));
    }
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(failed)?;
    // A part of it would be other keys, or fewer hosts, than its owner wrote.
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(KeysError::Long(variable, path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| failed(io::ErrorKind::InvalidData.into()))
}

fn value(variable: &'static str) -> Result<Option<String>, KeysError> {
    of_value(variable, std::env::var_os(variable))
}

/// An empty value is a mistake (`BELLWIRE_KEY=$UNSET`): it does not turn authentication off.
//= P-AUTH-3
fn of_value(variable: &'static str, value: Option<OsString>) -> Result<Option<String>, KeysError> {
    match value {
        None => Ok(None),
        Some(value) if value.is_empty() => Err(KeysError::Empty(variable)),
        Some(value) => value.into_string().map(Some).map_err(|_| KeysError::Variable(variable)),
    }
}

/// The keys that `BELLWIRE_KEY_FILE`, `BELLWIRE_KEY` and `BELLWIRE_KEY_HOSTS` name; `None`: none of
/// them is set, and packets are not authenticated.
///
/// # Errors
/// A [`KeysError`] says what to do. There is no falling back to packets without authentication.
//= P-AUTH-3
pub fn keys_from_env() -> Result<Option<LoadedKeys>, KeysError> {
    let (file, shared, hosts) = (value(KEY_FILE)?, value(KEY)?, value(KEY_HOSTS)?);
    if file.is_none() && shared.is_none() && hosts.is_none() {
        return Ok(None);
    }
    let mut text = match &file {
        Some(path) => read(KEY_FILE, path, true)?,
        None => String::new(),
    };
    if let Some(shared) = &shared {
        text.push_str("\nshared ");
        text.push_str(shared);
    }
    let of_hosts = hosts.as_ref().map(|path| read(KEY_HOSTS, path, false)).transpose()?;
    let resolve = |host: &str| (host, 0).to_socket_addrs().map_or_else(|_| Vec::new(), |found| found.map(|at| at.ip()).collect());
    let keys = Keys::parse(&text, of_hosts.as_deref(), resolve).map_err(|e| {
        let (variable, path) = match (&e, &file, &hosts) {
            (KeyError::HostLine(_) | KeyError::NoAddress(..), _, Some(path)) => (KEY_HOSTS, path.clone()),
            (_, Some(path), _) => (KEY_FILE, path.clone()),
            (_, None, Some(path)) if shared.is_none() => (KEY_HOSTS, path.clone()),
            _ => (KEY, "its value".to_owned()),
        };
        KeysError::Text(variable, path, e)
    })?;
    let named = [(KEY_FILE, file), (KEY, shared.map(|_| "a key".to_owned())), (KEY_HOSTS, hosts)];
    let source = named.into_iter().filter_map(|(variable, what)| what.map(|what| format!("{variable}={what}"))).collect::<Vec<_>>().join(", ");
    Ok(Some(LoadedKeys { keys: Arc::new(keys), source }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn an_empty_variable_is_a_mistake_and_an_unset_one_is_none() {
        //= P-AUTH-3
        assert!(matches!(of_value(KEY, None), Ok(None)));
        assert!(matches!(of_value(KEY, Some("ab".into())), Ok(Some(v)) if v == "ab"));
        let error = of_value(KEY, Some(OsString::new())).unwrap_err();
        assert!(matches!(error, KeysError::Empty(KEY)) && error.variable() == KEY && error.to_string().contains("unset"));
    }

    #[test]
    fn a_file_that_is_too_long_is_refused_and_not_cut() {
        //= P-AUTH-3
        let path = std::env::temp_dir().join(format!("bellwire-long-key-{}", std::process::id()));
        let text = path.to_str().unwrap();
        let longest = format!("shared {}\n{}", "0f".repeat(32), "#".repeat(FILE_BYTES_MAX as usize - 72));
        assert_eq!(longest.len() as u64, FILE_BYTES_MAX);
        let write = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            read(KEY_FILE, text, true)
        };
        assert_eq!(write(longest.as_bytes()).unwrap(), longest);
        let error = write(format!("{longest}#").as_bytes()).unwrap_err();
        assert!(matches!(error, KeysError::Long(KEY_FILE, _)) && error.variable() == KEY_FILE);
        assert!(error.to_string().contains("longer than 1048576 bytes"), "{error}");
        // A character that is cut in two at the limit is no other mistake.
        let mut split = longest.into_bytes();
        split.pop();
        split.extend("é".bytes());
        assert!(matches!(write(&split), Err(KeysError::Long(..))));
        assert!(matches!(write(&[0xff]), Err(KeysError::Read(..))));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn files_that_others_can_read_or_change_are_refused() {
        let path = std::env::temp_dir().join(format!("bellwire-key-{}", std::process::id()));
        let text = path.to_str().unwrap();
        std::fs::write(&path, "shared 00").unwrap();
        let set = |mode| std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        for (mode, secret, fine) in [(0o600, true, true), (0o640, true, false), (0o604, true, false), (0o644, false, true), (0o664, false, false)] {
            set(mode);
            let got = read(KEY_FILE, text, secret);
            assert_eq!(got.is_ok(), fine, "{mode:o}");
            assert!(got.err().is_none_or(|e| e.to_string().contains("chmod 600") && e.variable() == KEY_FILE));
        }
        std::fs::remove_file(&path).unwrap();
        assert!(matches!(read(KEY_FILE, text, true), Err(KeysError::Read(..))));
    }
}
