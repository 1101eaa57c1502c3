// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a NIC is opened: from the program, or from the environment. Control plane only.

use crate::attributes::HOST_ADDRESS_BYTES_MAX;
use crate::user_memory::{MemoryMode, kernel_copies};
use crate::wire::Attach;
use crate::wire::shm::ProtectionMode;
use bellwire_memory::MemoryError;
use bellwire_memory::processors;
use core::fmt;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::Ipv4Addr;
use std::time::Duration;

/// How long waits spin at most, unless told otherwise: about what a sleep and a wake-up cost.
pub const SPIN_DEFAULT: Duration = Duration::from_micros(50);
/// Longest spin that can be asked for.
pub const SPIN_MAX: Duration = Duration::from_secs(1);

/// How to open a [`Nic`](super::Nic).
#[derive(Clone, Debug)]
pub struct NicConfig {
    /// How far peers may reach.
    pub mode: ProtectionMode,
    /// Cross-memory attach for memory of the program, in mapped mode.
    pub attach: Attach,
    /// Whether registered memory of the program is believed to be mapped.
    pub memory: MemoryMode,
    /// Host address of the NIC, at most 16 bytes.
    pub host: Vec<u8>,
    /// How long a wait spins at most before it sleeps; waits that spin in vain spin for less.
    pub spin: Duration,
    /// Seed of the engine's randomness (pauses between tries of a connection).
    pub seed: u64,
}

impl Default for NicConfig {
    /// Mapped mode, 127.0.0.1, [`SPIN_DEFAULT`] (none on a machine with one processor), a seed of its own.
    fn default() -> Self {
        // Of the machine, not of this process: whoever is pinned to one processor usually waits for a peer on another.
        let alone = processors::online() == 1;
        Self {
            mode: ProtectionMode::Mapped,
            attach: Attach::Auto,
            memory: MemoryMode::Trust,
            host: Ipv4Addr::LOCALHOST.octets().to_vec(),
            spin: if alone { Duration::ZERO } else { SPIN_DEFAULT },
            seed: RandomState::new().build_hasher().finish(),
        }
    }
}

impl NicConfig {
    /// The default, changed by `BELLWIRE_MODE` (`mapped` or `guarded`), `BELLWIRE_ATTACH` (`auto`, `never`, `always`), `BELLWIRE_MEMORY` (`trust` or `strict`), `BELLWIRE_ADDRESS` (an IPv4
    /// address) and `BELLWIRE_SPIN_US` (0 to 1000000).
    ///
    /// # Errors
    /// A variable is set to something else.
    pub fn from_env() -> Result<Self, ConfigError> {
        let mut config = Self::default();
        if let Some(mode) = read("BELLWIRE_MODE", parse_mode)? {
            config.mode = mode;
        }
        if let Some(attach) = read("BELLWIRE_ATTACH", parse_attach)? {
            config.attach = attach;
        }
        if let Some(memory) = read("BELLWIRE_MEMORY", parse_memory)? {
            config.memory = memory;
        }
        if let Some(host) = read("BELLWIRE_ADDRESS", |v| v.parse::<Ipv4Addr>().ok())? {
            config.host = host.octets().to_vec();
        }
        if let Some(spin) = read("BELLWIRE_SPIN_US", parse_spin)? {
            config.spin = spin;
        }
        Ok(config)
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        if self.host.is_empty() || self.host.len() > HOST_ADDRESS_BYTES_MAX {
            return Err(OpenError::HostAddress);
        }
        if self.memory == MemoryMode::Strict && !kernel_copies() { Err(OpenError::StrictMemory) } else { Ok(()) }
    }
}

fn read<T>(variable: &'static str, parse: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, ConfigError> {
    match std::env::var_os(variable) {
        None => Ok(None),
        Some(value) => value.to_str().and_then(parse).map(Some).ok_or(ConfigError { variable }),
    }
}

fn parse_mode(value: &str) -> Option<ProtectionMode> {
    match value {
        "mapped" => Some(ProtectionMode::Mapped),
        "guarded" => Some(ProtectionMode::Guarded),
        _ => None,
    }
}

fn parse_attach(value: &str) -> Option<Attach> {
    match value {
        "auto" => Some(Attach::Auto),
        "never" => Some(Attach::Never),
        "always" => Some(Attach::Always),
        _ => None,
    }
}

fn parse_memory(value: &str) -> Option<MemoryMode> {
    match value {
        "trust" => Some(MemoryMode::Trust),
        "strict" => Some(MemoryMode::Strict),
        _ => None,
    }
}

fn parse_spin(value: &str) -> Option<Duration> {
    value.parse().ok().map(Duration::from_micros).filter(|d| *d <= SPIN_MAX)
}

/// Caller: an environment variable has a value that means nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// Its name.
    pub variable: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let allowed = match self.variable {
            "BELLWIRE_MODE" => "\"mapped\" or \"guarded\"",
            "BELLWIRE_ATTACH" => "\"auto\", \"never\" or \"always\"",
            "BELLWIRE_MEMORY" => "\"trust\" or \"strict\"",
            "BELLWIRE_ADDRESS" => "an IPv4 address",
            _ => "a number of microseconds up to 1000000",
        };
        write!(f, "the environment variable {} must be {allowed}", self.variable)
    }
}

impl std::error::Error for ConfigError {}

/// Why a NIC could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Caller: the host address is empty or longer than 16 bytes.
    HostAddress,
    /// Local limit: strict memory was asked for, and the kernel does not copy within this process (`process_vm_readv`).
    StrictMemory,
    /// Local limit: the kernel refuses memory or descriptors.
    Memory(MemoryError),
    /// Local limit: no thread for the helper.
    Thread,
}

impl From<MemoryError> for OpenError {
    fn from(error: MemoryError) -> Self {
        Self::Memory(error)
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HostAddress => f.write_str("the host address is empty or too long"),
            Self::StrictMemory => f.write_str(
                "strict memory needs the system call process_vm_readv on this process itself, which the kernel refuses (a seccomp filter, or built without it)",
            ),
            Self::Memory(error) => write!(f, "{error}"),
            Self::Thread => f.write_str("no thread could be started"),
        }
    }
}

impl std::error::Error for OpenError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        assert_eq!(parse_mode("guarded"), Some(ProtectionMode::Guarded));
        assert_eq!(parse_mode("Mapped"), None);
        assert_eq!(parse_attach("never"), Some(Attach::Never));
        assert_eq!(parse_attach(""), None);
        assert_eq!(parse_memory("strict"), Some(MemoryMode::Strict));
        assert_eq!(parse_memory("Trust"), None);
        assert_eq!(parse_spin("0"), Some(Duration::ZERO));
        assert_eq!(parse_spin("1000001"), None);
        assert_eq!(parse_spin("-1"), None);
        assert_eq!(read("BELLWIRE_NO_SUCH_VARIABLE", parse_spin), Ok(None));
        assert!(NicConfig { host: vec![0; 17], ..NicConfig::default() }.check().is_err());
        assert!(NicConfig::default().check().is_ok());
    }
}
