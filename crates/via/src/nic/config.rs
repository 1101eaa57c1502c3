// SPDX-License-Identifier: MIT OR Apache-2.0
//! How a NIC is opened: from the program, or from the environment. Control plane only.

use crate::attributes::HOST_ADDRESS_BYTES_MAX;
use crate::limits::{TURN_BYTES_DEFAULT, TURN_BYTES_MAX, TURN_BYTES_MIN};
use crate::registration_cache::{CACHE_ENTRIES_MAX, CacheAlgorithm, CacheConfig};
use crate::user_memory::{MemoryMode, kernel_copies};
use crate::wire::agent::messages::Label;
use crate::wire::agent::{AgentConfig, AgentError};
use crate::wire::shm::ProtectionMode;
use crate::wire::sisci::Switches;
use crate::wire::udp::{DIRECTORY_PORT, KEY, KEY_FILE, KEY_HOSTS, address_from, host_address, keys_from_env};
use crate::wire::users::Allow;
use crate::wire::xdp::XdpMode;
use crate::wire::{Attach, Keys, Seed};
use bellwire_faults::FaultPlan;
use bellwire_memory::MemoryError;
pub use bellwire_memory::adopt::Adoption;
use bellwire_memory::processors;
use core::fmt;
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
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
    /// Whether pages of the program that are registered may be exchanged for shared ones.
    pub adoption: Adoption,
    /// Whether registered memory of the program is believed to be mapped.
    pub memory: MemoryMode,
    /// The registration cache.
    pub registration_cache: CacheConfig,
    /// Host address of the NIC: an IPv4 or IPv6 address, with 2 more bytes if a port belongs to it
    /// (4, 16, 6 or 18 bytes; others only without UDP).
    pub host: Vec<u8>,
    /// Interface of a host address that is of its link only (IPv6, `fe80::`): its number; else 0.
    /// Peers' addresses of that kind are on the same link.
    pub scope: u32,
    /// UDP to other hosts, at the host address; `None`: this host only.
    pub udp: Option<Udp>,
    /// Other users of this host whose processes may have shared-memory links with this NIC, all of
    /// them guarded, if they allow this user. If it names any, a process of another user that is
    /// not among them is not looked for by UDP either.
    pub allow: Allow,
    /// The host's agent in UDP's place, at its own address; `None`: this NIC opens a port of its
    /// own, if any.
    pub agent: Option<AgentNic>,
    /// Faults on purpose, for what leaves by UDP.
    pub faults: Option<FaultPlan>,
    /// The keys by which packets to other hosts are authenticated and encrypted; `None`: they are
    /// not.
    pub keys: Option<Arc<Keys>>,
    /// Shared memory to peers on this host. Without it, and with UDP, they are reached by UDP as if
    /// they were elsewhere: to measure and to test.
    pub shm: bool,
    /// The wire made of SISCI calls in place of all others, with the report's switches; `udp`,
    /// `agent` and `shm` then have no effect.
    pub sisci: Option<Switches>,
    /// How long a wait spins at most before it sleeps; waits whose spinning does not pay spin for
    /// less.
    pub spin: Duration,
    /// Bytes that a VI sends before the next one does, when several share a link
    /// ([`Engine::set_turn_bytes`](crate::Engine::set_turn_bytes)).
    pub turn_bytes: u32,
    /// All that the NIC draws at random comes from it: ids and nonces that peers see, the key of
    /// cookies, pauses between tries.
    pub seed: Seed,
}

/// The virtual network of a NIC at the host's agent, and the file of its key.
const NETWORK: &str = "BELLWIRE_NETWORK";
const NETWORK_KEY_FILE: &str = "BELLWIRE_NETWORK_KEY_FILE";
const NETWORK_KEY_FILE_BYTES_MAX: u64 = 256;

/// The wire, and the switches of the one made of SISCI calls.
const WIRE: &str = "BELLWIRE_WIRE";
const SISCI_WIRE: &str = "BELLWIRE_SISCI_WIRE";

/// Whether packets to other hosts go past the kernel's stack.
const XDP: &str = "BELLWIRE_XDP";

/// UDP to other hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// The port under which the hosts answer who waits where; the same on all of them.
    pub directory_port: u16,
    /// Whether packets go past the kernel's stack (AF_XDP), where the process may do that and the
    /// interface is free; else they go by sockets alone.
    pub xdp: XdpMode,
}

/// An endpoint of the host's agent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AgentNic {
    /// The agent's address; `None`: the host's first agent.
    pub address: Option<IpAddr>,
    /// The virtual network to be in: only endpoints of the same one reach this NIC, and it reaches
    /// only those. Empty: the default one.
    pub network: Label,
    /// The network's key, for a user who is no member.
    pub key: Label,
}

impl AgentNic {
    pub(super) fn config(&self, nic: &NicConfig) -> AgentConfig {
        AgentConfig { address: self.address, network: self.network, key: self.key, allow: nic.allow.clone(), ..AgentConfig::new(nic.seed) }
    }
}

impl Default for Udp {
    fn default() -> Self {
        Self { directory_port: DIRECTORY_PORT, xdp: XdpMode::Off }
    }
}

/// Of the operating system, which has random bytes at any time once it has booted.
fn fresh_seed() -> Seed {
    let mut bytes = [0; 32];
    let got = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    assert_eq!(got, Ok(bytes.len()), "random bytes of the operating system");
    Seed::new(bytes)
}

impl Default for NicConfig {
    /// Mapped mode, 127.0.0.1 without UDP, [`SPIN_DEFAULT`] (none on a machine with one processor),
    /// a seed of its own.
    fn default() -> Self {
        // Of the machine, not of this process: a thread that is pinned to one processor usually
        // waits for a peer on another.
        let alone = processors::online() == 1;
        Self {
            mode: ProtectionMode::Mapped,
            attach: Attach::Auto,
            adoption: Adoption::Auto,
            memory: MemoryMode::Trust,
            registration_cache: CacheConfig::default(),
            host: Ipv4Addr::LOCALHOST.octets().to_vec(),
            scope: 0,
            udp: None,
            allow: Allow::NOBODY,
            agent: None,
            faults: None,
            keys: None,
            shm: true,
            sisci: None,
            spin: if alone { Duration::ZERO } else { SPIN_DEFAULT },
            turn_bytes: TURN_BYTES_DEFAULT,
            seed: fresh_seed(),
        }
    }
}

impl NicConfig {
    /// How memory of the program may be exchanged for memory that peers map, where any peer could.
    pub(super) fn usable_adoption(&self) -> Adoption {
        let is_mapped = self.mode == ProtectionMode::Mapped && self.memory == MemoryMode::Trust && self.shm && self.sisci.is_none();
        if is_mapped { self.adoption } else { Adoption::Never }
    }

    /// The default, changed by `BELLWIRE_MODE` (`mapped` or `guarded`), `BELLWIRE_ATTACH` (`auto`,
    /// `never`, `always`), `BELLWIRE_ADOPT` (`auto`, `no-ptrace`, `never`), `BELLWIRE_MEMORY`
    /// (`trust` or `strict`), `BELLWIRE_SPIN_US` (0 to 1000000), `BELLWIRE_ADDRESS` (an IP address
    /// with or without a port, the name of an interface, or `auto`: any but a loopback address
    /// turns UDP on), `BELLWIRE_UDP` and `BELLWIRE_SHM` (`on` or `off`), `BELLWIRE_ALLOW`
    /// ([`Allow::parse`]), `BELLWIRE_XDP` ([`XdpMode::parse`]), `BELLWIRE_DIRECTORY_PORT`,
    /// `BELLWIRE_FAULTS` (a [`FaultPlan`]), `BELLWIRE_TURN_BYTES` (1024 to 1048576),
    /// `BELLWIRE_REGISTRATION_CACHE` (`intervals`, `page-hash` or `off`),
    /// `BELLWIRE_REGISTRATION_CACHE_ENTRIES` (1 to 65536), `BELLWIRE_REGISTRATION_CACHE_BYTES`,
    /// `BELLWIRE_REGISTRATION_WATCH` (`on` or `off`), `BELLWIRE_NIC` (`own`, or `host`: the host's
    /// agent, at `BELLWIRE_ADDRESS` or 127.0.0.1), `BELLWIRE_WIRE` (`host`, or `sisci`: SISCI calls
    /// alone) with `BELLWIRE_SISCI_WIRE` ([`Switches::parse`]), `BELLWIRE_NETWORK`,
    /// `BELLWIRE_NETWORK_KEY_FILE`, and `BELLWIRE_KEY_FILE`, `BELLWIRE_KEY` and
    /// `BELLWIRE_KEY_HOSTS` ([`keys_from_env`]).
    ///
    /// # Errors
    /// A variable is set to something else.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::from_env_at(None)
    }

    /// The same at another address, which is written like `BELLWIRE_ADDRESS`.
    ///
    /// # Errors
    /// As for [`from_env`](Self::from_env); a wrong `address` counts as a wrong
    /// `BELLWIRE_ADDRESS`.
    pub fn from_env_at(address: Option<&str>) -> Result<Self, ConfigError> {
        crate::wire::variables::warn_of_unknown();
        let mut config = Self::default();
        if let Some(mode) = read("BELLWIRE_MODE", parse_mode)? {
            config.mode = mode;
        }
        if let Some(attach) = read("BELLWIRE_ATTACH", parse_attach)? {
            config.attach = attach;
        }
        if let Some(adoption) = read("BELLWIRE_ADOPT", parse_adoption)? {
            config.adoption = adoption;
        }
        if let Some(memory) = read("BELLWIRE_MEMORY", parse_memory)? {
            config.memory = memory;
        }
        const ADDRESS: &str = "BELLWIRE_ADDRESS";
        let address = match address {
            Some(text) => Some(address_from(text).ok_or(ConfigError { variable: ADDRESS })?),
            None => read(ADDRESS, address_from)?,
        };
        if let Some(address) = address {
            config.host = host_address(address);
            config.scope = if let SocketAddr::V6(v6) = address { v6.scope_id() } else { 0 };
            // Nobody else can send to a loopback address; a program that gives another one wants to
            // be reached there.
            config.udp = (!address.ip().is_loopback()).then(Udp::default);
        }
        if let Some(on) = read("BELLWIRE_UDP", parse_switch)? {
            config.udp = on.then(Udp::default);
        }
        if let Some(allow) = read("BELLWIRE_ALLOW", parse_allow)? {
            config.allow = allow;
        }
        if let Some(plan) = read("BELLWIRE_FAULTS", |v| v.parse::<FaultPlan>().ok())? {
            config.faults = Some(plan);
        }
        if let Some(on) = read("BELLWIRE_SHM", parse_switch)? {
            config.shm = on;
        }
        config.keys = keys_from_env().map_err(|e| ConfigError { variable: e.variable() })?.map(|loaded| loaded.keys);
        if let Some(port) = read("BELLWIRE_DIRECTORY_PORT", parse_port)?
            && let Some(udp) = &mut config.udp
        {
            udp.directory_port = port;
        }
        if let Some(mode) = read(XDP, XdpMode::parse)?
            && let Some(udp) = &mut config.udp
        {
            udp.xdp = mode;
        }
        if read("BELLWIRE_NIC", parse_nic)? == Some(true) {
            config.agent = Some(AgentNic {
                address: Some(address.map_or(Ipv4Addr::LOCALHOST.into(), |a| a.ip())),
                network: read(NETWORK, |name| Label::new(name.as_bytes()))?.unwrap_or_default(),
                key: read(NETWORK_KEY_FILE, network_key)?.unwrap_or_default(),
            });
            config.udp = None;
        } else if std::env::var_os(NETWORK).is_some_and(|name| !name.is_empty()) {
            // It would reach everybody.
            return Err(ConfigError { variable: NETWORK });
        }
        if read(WIRE, parse_wire)? == Some(true) {
            config.sisci = Some(read(SISCI_WIRE, Switches::parse)?.unwrap_or_default());
        }
        if let Some(spin) = read("BELLWIRE_SPIN_US", parse_spin)? {
            config.spin = spin;
        }
        if let Some(bytes) = read("BELLWIRE_TURN_BYTES", parse_turn)? {
            config.turn_bytes = bytes;
        }
        config.registration_cache = cache_from_env()?;
        Ok(config)
    }

    pub(super) fn check(&self) -> Result<(), OpenError> {
        if self.host.is_empty() || self.host.len() > HOST_ADDRESS_BYTES_MAX {
            return Err(OpenError::HostAddress);
        }
        //= P-AUTH-3
        if self.agent.is_some() && self.keys.is_some() {
            return Err(OpenError::AgentWithKeys);
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

fn cache_from_env() -> Result<CacheConfig, ConfigError> {
    let mut cache = CacheConfig::default();
    if let Some(algorithm) = read("BELLWIRE_REGISTRATION_CACHE", parse_algorithm)? {
        cache.algorithm = algorithm;
    }
    if let Some(entries) = read("BELLWIRE_REGISTRATION_CACHE_ENTRIES", |v| v.parse().ok().filter(|n| (1..=CACHE_ENTRIES_MAX).contains(n)))? {
        cache.entries = entries;
    }
    if let Some(bytes) = read("BELLWIRE_REGISTRATION_CACHE_BYTES", |v| v.parse().ok())? {
        cache.bytes = bytes;
    }
    if let Some(watch) = read("BELLWIRE_REGISTRATION_WATCH", parse_switch)? {
        cache.watch = watch;
    }
    Ok(cache)
}

fn parse_algorithm(value: &str) -> Option<CacheAlgorithm> {
    match value {
        "intervals" => Some(CacheAlgorithm::Intervals),
        "page-hash" => Some(CacheAlgorithm::PageHash),
        "off" => Some(CacheAlgorithm::Off),
        _ => None,
    }
}

/// Nothing is nobody: a script may have no one to name.
fn parse_allow(value: &str) -> Option<Allow> {
    if value.is_empty() { Some(Allow::NOBODY) } else { Allow::parse(value) }
}

fn parse_mode(value: &str) -> Option<ProtectionMode> {
    match value {
        "mapped" => Some(ProtectionMode::Mapped),
        "guarded" => Some(ProtectionMode::Guarded),
        _ => None,
    }
}

fn parse_switch(value: &str) -> Option<bool> {
    match value {
        "on" => Some(true),
        "off" => Some(false),
        _ => None,
    }
}

/// The wires of this host as they are, or the one made of SISCI calls.
fn parse_wire(value: &str) -> Option<bool> {
    match value {
        "host" => Some(false),
        "sisci" => Some(true),
        _ => None,
    }
}

fn parse_nic(value: &str) -> Option<bool> {
    match value {
        "own" => Some(false),
        "host" => Some(true),
        _ => None,
    }
}

/// The key in a file: a secret, though one that a group may share.
fn network_key(path: &str) -> Option<Label> {
    let file = std::fs::File::open(path).ok()?;
    if file.metadata().ok()?.permissions().mode() & 0o004 != 0 {
        return None;
    }
    let mut text = String::new();
    file.take(NETWORK_KEY_FILE_BYTES_MAX).read_to_string(&mut text).ok()?;
    Label::new(text.trim().as_bytes()).filter(|key| !key.as_bytes().is_empty())
}

fn parse_turn(value: &str) -> Option<u32> {
    value.parse().ok().filter(|bytes| (TURN_BYTES_MIN..=TURN_BYTES_MAX).contains(bytes))
}

fn parse_port(value: &str) -> Option<u16> {
    value.parse().ok().filter(|port| *port != 0)
}

fn parse_attach(value: &str) -> Option<Attach> {
    match value {
        "auto" => Some(Attach::Auto),
        "never" => Some(Attach::Never),
        "always" => Some(Attach::Always),
        _ => None,
    }
}

fn parse_adoption(value: &str) -> Option<Adoption> {
    match value {
        "auto" => Some(Adoption::Auto),
        "no-ptrace" => Some(Adoption::WithoutTracing),
        "never" => Some(Adoption::Never),
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
        // Read once more: an error that is copied holds no text. The value may be secret.
        if let (KEY | KEY_FILE | KEY_HOSTS, Err(e)) = (self.variable, keys_from_env()) {
            return write!(f, "{e}");
        }
        let allowed = match self.variable {
            "BELLWIRE_MODE" => "\"mapped\" or \"guarded\"",
            "BELLWIRE_ATTACH" => "\"auto\", \"never\" or \"always\"",
            "BELLWIRE_ADOPT" => "\"auto\", \"no-ptrace\" or \"never\"",
            "BELLWIRE_MEMORY" => "\"trust\" or \"strict\"",
            "BELLWIRE_ADDRESS" => "an IP address of this host (10.0.0.5, 10.0.0.5:9000, [fd00::5]:9000, fe80::5%eth0), the name of an interface, or \"auto\"",
            "BELLWIRE_FAULTS" => "a plan of faults, such as \"loss=0.01,reorder=0.02,seed=7\" (docs/simulator.md)",
            "BELLWIRE_UDP" | "BELLWIRE_SHM" | "BELLWIRE_REGISTRATION_WATCH" => "\"on\" or \"off\"",
            "BELLWIRE_REGISTRATION_CACHE" => "\"intervals\", \"page-hash\" or \"off\"",
            "BELLWIRE_REGISTRATION_CACHE_ENTRIES" => "a number of regions, 1 to 65536",
            "BELLWIRE_REGISTRATION_CACHE_BYTES" => "a number of bytes",
            "BELLWIRE_ALLOW" => "a list of users of this host, by commas: ids, names, and groups with @ before them (1000,alice,@hpc)",
            "BELLWIRE_NIC" => "\"own\" or \"host\" (the host's agent, bellwired)",
            XDP => "\"off\", \"on\" or \"native\" (by the interface's driver)",
            NETWORK => "the name of a virtual network, up to 32 bytes, together with BELLWIRE_NIC=host (bellwire vn list)",
            NETWORK_KEY_FILE => "a file with the key of a virtual network, up to 32 bytes, that not everybody can read",
            WIRE => "\"host\" or \"sisci\"",
            SISCI_WIRE => {
                "switches of the wire made of SISCI calls, with commas between: memory=shadow or allocate, descriptors=1 to 32, dma=BYTES or never, events=memory or interrupt"
            }
            "BELLWIRE_TURN_BYTES" => "a number of bytes, 1024 to 1048576",
            "BELLWIRE_DIRECTORY_PORT" => "a port, 1 to 65535",
            _ => "a number of microseconds up to 1000000",
        };
        write!(f, "the environment variable {} must be {allowed}", self.variable)?;
        // Read once more: an error that is copied holds no text.
        std::env::var_os(self.variable).map_or(Ok(()), |value| write!(f, "; it is {value:?}"))
    }
}

impl std::error::Error for ConfigError {}

/// Why a NIC could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OpenError {
    /// Caller: the host address is empty or too long, or no IP address although UDP is wanted.
    HostAddress,
    /// Local limit: strict memory was asked for, and the kernel does not copy within this process
    /// (`process_vm_readv`).
    StrictMemory,
    /// Local limit: the kernel refuses memory or descriptors.
    Memory(MemoryError),
    /// The UDP socket: the address is not this host's, the port is taken, or a local limit.
    Udp(SocketAddr, std::io::ErrorKind),
    /// Caller: keys are set, and packets that go by the host's agent are not authenticated.
    AgentWithKeys,
    /// The host's agent does not run, or refuses this program.
    Agent(AgentError),
    /// The wire made of SISCI calls: the library has this error, or is not found (0; standard error
    /// has the reason).
    Sisci(u32),
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
            Self::HostAddress => f.write_str("the host address is empty, too long, or no IP address"),
            Self::Udp(address, kind) => {
                let advice = match kind {
                    std::io::ErrorKind::AddrInUse => "another process has this port: set BELLWIRE_ADDRESS to another one, or leave the port out",
                    std::io::ErrorKind::PermissionDenied => "ports below 1024 are the system's: set BELLWIRE_ADDRESS to another one, or leave the port out",
                    _ => "the address must be one of this host's; see BELLWIRE_ADDRESS",
                };
                write!(f, "no UDP socket at {address}: {kind} ({advice})")
            }
            Self::StrictMemory => f.write_str(
                "strict memory needs the system call process_vm_readv on this process itself, which the kernel refuses (a seccomp filter, or built without it)",
            ),
            Self::Memory(error) => write!(f, "{error}"),
            Self::AgentWithKeys => f.write_str(
                "keys are set (BELLWIRE_KEY_FILE, BELLWIRE_KEY or BELLWIRE_KEY_HOSTS), and packets by the host's agent are not authenticated: unset BELLWIRE_NIC, or the keys",
            ),
            Self::Agent(error) => write!(f, "{error}"),
            Self::Sisci(0) => f.write_str("libsisci cannot be used (BELLWIRE_WIRE=sisci)"),
            Self::Sisci(code) => write!(f, "libsisci has the error {code:#x} (BELLWIRE_WIRE=sisci)"),
            Self::Thread => f.write_str("no thread could be started"),
        }
    }
}

impl std::error::Error for OpenError {
    /// The text of a memory error stands for this one, so its cause does, too.
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Memory(error) => error.source(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::agent::AgentFailure;

    #[test]
    fn values() {
        assert_eq!(parse_mode("guarded"), Some(ProtectionMode::Guarded));
        assert_eq!(parse_mode("Mapped"), None);
        assert_eq!(parse_attach("never"), Some(Attach::Never));
        assert_eq!(parse_adoption("no-ptrace"), Some(Adoption::WithoutTracing));
        assert_eq!(parse_adoption("ptrace"), None);
        assert_eq!(parse_attach(""), None);
        assert_eq!(parse_allow(""), Some(Allow::NOBODY));
        assert_eq!(parse_allow("7,8"), Some(Allow::of_users([7, 8])));
        assert_eq!(parse_allow("7,,8"), None);
        assert_eq!(parse_memory("strict"), Some(MemoryMode::Strict));
        assert_eq!(parse_memory("Trust"), None);
        assert_eq!(parse_algorithm("page-hash"), Some(CacheAlgorithm::PageHash));
        assert_eq!(parse_algorithm("lru"), None);
        assert_eq!(parse_spin("0"), Some(Duration::ZERO));
        assert_eq!(parse_spin("1000001"), None);
        assert_eq!(parse_spin("-1"), None);
        assert_eq!(read("BELLWIRE_NO_SUCH_VARIABLE", parse_spin), Ok(None));
        assert!(NicConfig { host: vec![0; 19], ..NicConfig::default() }.check().is_err());
        assert!(NicConfig::default().check().is_ok());
    }

    #[test]
    fn texts_say_what_to_do() {
        let at = "127.0.0.1:9000".parse().expect("an address");
        assert!(OpenError::Udp(at, std::io::ErrorKind::AddrInUse).to_string().contains("another process has this port"));
        assert!(OpenError::Udp(at, std::io::ErrorKind::AddrNotAvailable).to_string().contains("one of this host's"));
        let nobody = AgentError { address: Some(Ipv4Addr::LOCALHOST.into()), failure: AgentFailure::NobodyThere };
        let text = OpenError::Agent(nobody).to_string();
        assert!(text.contains("@bellwire/agent/127.0.0.1") && text.contains("start bellwired --address 127.0.0.1"), "{text}");
        // A variable that every process has, with a value that no mode has.
        assert!(ConfigError { variable: "PATH" }.to_string().contains("; it is \""));
    }
}
