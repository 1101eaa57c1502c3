// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire key`: makes the keys by which packets between hosts are authenticated.

use bellwire_wire::{Keys, SecretKey};
use clap::Args;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

const LONG_ABOUT: &str = "\
Makes a key by which packets between hosts are authenticated and encrypted, in a new file that only its owner can read. \
BELLWIRE_KEY_FILE names the file to programs.

A shared key (--shared) is the simplest: the same file on all hosts. With a key of its own for each host, no host can \
pose as another: run bellwire key on each, and give all of them one file with a line for each host, HOST PUBLIC-KEY, \
which BELLWIRE_KEY_HOSTS names. The public key is what this command prints.";

/// Make a key for packets between hosts
#[derive(Debug, Args)]
#[command(long_about = LONG_ABOUT)]
pub struct Arguments {
    /// The file to make
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Make a key that all hosts share
    #[arg(long, conflicts_with = "public")]
    shared: bool,

    /// Make nothing: print the public key of the private one in the file
    #[arg(long)]
    public: bool,
}

/// Makes the file, and prints the public key.
///
/// # Errors
/// The file cannot be written, or is there already; or there is no private key in it.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    let path = &arguments.file;
    if arguments.public {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let keys = Keys::parse(&text, Some(""), |_| Vec::new()).map_err(|e| format!("{}: {e}", path.display()))?;
        let public = keys.public().ok_or_else(|| format!("{}: no private key in it", path.display()))?;
        println!("{public}");
        return Ok(());
    }
    let mut bytes = [0; 32];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).map_err(|e| format!("no random bytes: {e}"))?;
    if got != bytes.len() {
        return Err("no random bytes".into());
    }
    let secret = SecretKey::new(bytes);
    let kind = if arguments.shared { "shared" } else { "private" };
    write_new(path, &format!("{kind} {}\n", secret.to_hex()))?;
    if arguments.shared {
        println!("{}: copy it to the other hosts, and set BELLWIRE_KEY_FILE={}", path.display(), path.display());
    } else {
        println!("{}", secret.public());
    }
    Ok(())
}

/// For its owner's eyes from the beginning; never over another file.
fn write_new(path: &Path, text: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::AlreadyExists => format!("{} is there already: a key that is in use must not be lost", path.display()),
        _ => format!("{}: {e}", path.display()),
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed)?;
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn a_key_is_made_once_and_for_its_owner_alone() {
        let file = std::env::temp_dir().join(format!("bellwire-cli-key-{}", std::process::id()));
        let arguments = |shared, public| Arguments { file: file.clone(), shared, public };
        for shared in [true, false] {
            run(&arguments(shared, false)).unwrap();
            assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
            assert!(run(&arguments(shared, false)).unwrap_err().contains("there already"));
            let text = std::fs::read_to_string(&file).unwrap();
            assert!(text.starts_with(if shared { "shared " } else { "private " }));
            assert_eq!(run(&arguments(false, true)).is_ok(), !shared);
            std::fs::remove_file(&file).unwrap();
        }
    }
}
