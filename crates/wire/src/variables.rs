// SPDX-License-Identifier: MIT OR Apache-2.0
//! All variables of the environment that Bellwire reads, with their types and defaults, and a
//! warning of those that nobody reads. `crates/via/tests/variables.rs` compares this list with the
//! sources, the manual and the guide's table, and the engine's defaults with what the engine does.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::Once;

/// A variable for users.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// Its type, or the values that it may have.
    pub values: &'static str,
    /// What a program does where it is not set: a value of it in quotes, or words.
    pub default: &'static str,
    /// What it rules.
    pub rules: &'static str,
}

const fn variable(name: &'static str, values: &'static str, default: &'static str, rules: &'static str) -> Variable {
    Variable { name, values, default, rules }
}

/// The variables for users, by name.
pub const VARIABLES: &[Variable] = &[
    variable("BELLWIRE_ADDRESS", "address, interface or `auto`", "`127.0.0.1`", "where peers find this process"),
    variable("BELLWIRE_ADOPT", "`auto`, `no-ptrace`, `never`", "`auto`", "whether whole pages that a program registers are exchanged for pages that peers map"),
    variable("BELLWIRE_ALLOW", "users and groups, with commas", "nobody", "other users of this host that may share memory"),
    variable("BELLWIRE_AM", "`native`, `v1`, `v2`, `v3`", "`native`", "the layer that carries active messages"),
    variable("BELLWIRE_AM_CREDITS", "number, 1 to 256", "`8`", "requests that may be out, with a mapping of active messages"),
    variable("BELLWIRE_ATTACH", "`auto`, `always`, `never`", "`auto`", "whether large transfers are copied across processes"),
    variable("BELLWIRE_CAPTURE", "bytes, and perhaps `,wait`", "no requests are noted", "captures, with `BELLWIRE_TRACE`"),
    variable("BELLWIRE_DEVICE_FILE", "file", "that of the user's configuration, else of the system's", "which RDMA devices there are"),
    variable("BELLWIRE_DIRECTORY_PORT", "port", "`7118`", "the UDP port under which hosts tell where names wait"),
    variable("BELLWIRE_FAULTS", "plan of faults", "no faults", "faults of packets and of RDMA requests, by seed"),
    variable("BELLWIRE_GAS", "`vi`, `vi1`, `vi2`", "loads and stores, and messages", "the layer that carries global memory"),
    variable("BELLWIRE_GASNET", "file", "`testam` on the path", "GASNet-EX's program, for `bellwire logp --compare`"),
    variable("BELLWIRE_GASNET_HOME", "folder", "none", "where GASNet-EX is, for `bellwire gas`"),
    variable("BELLWIRE_GAS_HEAP_MIB", "MiB", "`1024`", "heap that global memory shares"),
    variable("BELLWIRE_GAS_SYMMETRIC_MIB", "MiB", "`4096`", "symmetric memory of global memory"),
    variable("BELLWIRE_JOB_TIMEOUT_S", "seconds", "`60`, and no end for barriers", "how long a job's launcher may take to answer"),
    variable("BELLWIRE_JOB_VIA", "`auto`, `pmi`, `pmix`, `alone`", "`auto`", "how the processes of a job find each other"),
    variable("BELLWIRE_KEY", "64 hexadecimal digits", "no keys", "a shared key of packets between hosts"),
    variable("BELLWIRE_KEY_FILE", "file", "no keys", "the file of the key of packets between hosts"),
    variable("BELLWIRE_KEY_HOSTS", "file", "no keys", "public keys of hosts"),
    variable("BELLWIRE_LIBSISCI", "file", "the loader's `libsisci.so.1`", "the library of the wire made of SISCI calls"),
    variable("BELLWIRE_MEMORY", "`trust`, `strict`", "`trust`", "whether registered memory is believed to be mapped"),
    variable("BELLWIRE_MODE", "`mapped`, `guarded`", "`mapped`", "whether peers may map memory"),
    variable("BELLWIRE_NETWORK", "name", "the network of everybody", "the virtual network, with `BELLWIRE_NIC=host`"),
    variable("BELLWIRE_NETWORK_KEY_FILE", "file", "none", "the key of a virtual network"),
    variable("BELLWIRE_NIC", "`own`, `host`", "`own`", "whether packets go by the host's agent"),
    variable("BELLWIRE_PMIX_LIBRARY", "file", "`libpmix.so.2`", "the library of PMIx"),
    variable("BELLWIRE_PREFIX", "folder", "the package's own files", "the installation that the Python package uses"),
    variable("BELLWIRE_REGISTRATION_CACHE", "`intervals`, `page-hash`, `off`", "`intervals`", "how the registration cache finds regions"),
    variable("BELLWIRE_REGISTRATION_CACHE_BYTES", "bytes", "`4294967296`", "bytes that the registration cache keeps"),
    variable("BELLWIRE_REGISTRATION_CACHE_ENTRIES", "number, 1 to 65536", "`4096`", "regions that the registration cache keeps"),
    variable("BELLWIRE_REGISTRATION_WATCH", "`on`, `off`", "`on`", "whether the kernel tells when cached memory is unmapped"),
    variable("BELLWIRE_SHM", "`on`, `off`", "`on`", "shared memory between processes of this host"),
    variable("BELLWIRE_SISCI", "words with commas", "this node by its address", "the node, users and stores of a SISCI program"),
    variable("BELLWIRE_SISCI_NODES", "list of nodes", "nodes by their addresses", "the addresses of SISCI's nodes"),
    variable(
        "BELLWIRE_SISCI_WIRE",
        "switches with commas",
        "`memory=allocate,descriptors=1,dma=never,events=interrupt`",
        "how the wire made of SISCI calls works",
    ),
    variable("BELLWIRE_SPIN_US", "microseconds, 0 to 1000000", "`50`; 0 with one processor", "how long a wait looks before it sleeps"),
    variable("BELLWIRE_TRACE", "folder", "nothing is noted", "where threads note what they call"),
    variable("BELLWIRE_TRACE_BYTES", "bytes, 65536 to 1073741824", "`4194304`", "the size of a trace's file"),
    variable("BELLWIRE_TURN_BYTES", "bytes, 1024 to 1048576", "`131072`", "how much a connection sends in its turn"),
    variable("BELLWIRE_UDP", "`on`, `off`", "`on` for an address of other hosts", "UDP to other hosts"),
    variable("BELLWIRE_VERBS_STRICT", "`text` or `json`, and perhaps `:FILE`", "no reports", "reports of what an RDMA program does against the rules"),
    variable("BELLWIRE_VIPL", "file", "beside the command, then the loader's", "the libvipl that is measured, or carries messages"),
    variable("BELLWIRE_WIRE", "`host`, `sisci`", "`host`", "whether everything goes by SISCI calls"),
    variable("BELLWIRE_XDP", "`off`, `on`, `native`", "`off`", "whether short packets to other hosts pass the kernel's stack"),
];

/// Variables by which Bellwire's parts, its tests and examples speak to each other. Users need none
/// of them; nobody is warned of them.
pub const OWN: &[&str] = &[
    "BELLWIRE_AGENT_ENDPOINTS",
    "BELLWIRE_AGENT_FRAMES",
    "BELLWIRE_AGENT_ROLE",
    "BELLWIRE_AM_SEEDS",
    "BELLWIRE_ATTACHMENTS",
    "BELLWIRE_FIRST_SEED",
    "BELLWIRE_GLOBAL_TEST",
    "BELLWIRE_HANDSHAKE_SEEDS",
    "BELLWIRE_JOB_ID",
    "BELLWIRE_KILLS",
    "BELLWIRE_NISIM_PROGRAMS",
    "BELLWIRE_NISIM_SEEDS",
    "BELLWIRE_PROTO_SEEDS",
    "BELLWIRE_RESIDENT_SEEDS",
    "BELLWIRE_RPC_TEST",
    "BELLWIRE_RUN_TEST",
    "BELLWIRE_SEEDS",
    "BELLWIRE_SIM_SEEDS",
    "BELLWIRE_SPMD_TEST",
    "BELLWIRE_STORM",
    "BELLWIRE_STORM_HOSTS",
    "BELLWIRE_TAG_BYTES",
    "BELLWIRE_TAG_FIRST",
    "BELLWIRE_TAG_LENT_TO",
    "BELLWIRE_TAG_SEEDS",
    "BELLWIRE_TAG_STEPS",
    "BELLWIRE_VERBS_BESIDE",
    "BELLWIRE_VERBS_FIRST",
    "BELLWIRE_VERBS_SEEDS",
    "BELLWIRE_VERBS_STEPS",
    "BELLWIRE_WEAKEN",
    "BELLWIRE_WRITE_VECTORS",
];

const PREFIX: &str = "BELLWIRE_";
/// Tests may have variables under this name without telling of them here.
const FOR_TESTS: &str = "BELLWIRE_TEST_";
/// A name is meant by another one if so many letters at most differ, or if one begins the other.
const MISTAKES_MAX: usize = 2;

/// Whether Bellwire, or nobody of its kind, reads the variable.
pub fn is_known(name: &str) -> bool {
    !name.starts_with(PREFIX) || name.starts_with(FOR_TESTS) || VARIABLES.iter().any(|v| v.name == name) || OWN.contains(&name)
}

/// The variable that was probably meant.
pub fn meant_by(name: &str) -> Option<&'static str> {
    let begins = |v: &str| name.len() > PREFIX.len() && (v.starts_with(name) || name.starts_with(v));
    let near = VARIABLES.iter().map(|v| (if begins(v.name) { 1 } else { distance(v.name, name) }, v.name)).min()?;
    (near.0 <= MISTAKES_MAX).then_some(near.1)
}

/// Letters to insert, to leave out or to change.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let changed = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

/// Tells on standard error, once in a process, of variables of Bellwire's name that nobody reads:
/// a name with a mistake would else do nothing, and nobody would know.
pub fn warn_of_unknown() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (name, _) in std::env::vars_os() {
            if let Some(warning) = warning(&name) {
                eprintln!("bellwire: {warning}");
            }
        }
    });
}

fn warning(name: &OsStr) -> Option<String> {
    if !name.as_bytes().starts_with(PREFIX.as_bytes()) {
        return None;
    }
    let name = name.to_string_lossy();
    (!is_known(&name)).then(|| match meant_by(&name) {
        Some(meant) => format!("the variable {} is not one of Bellwire's and does nothing; is {meant} meant?", name.escape_default()),
        None => format!("the variable {} is not one of Bellwire's and does nothing (man 7 bellwire-environment)", name.escape_default()),
    })
}

#[cfg(test)]
mod tests {
    use super::{OWN, VARIABLES, distance, is_known, meant_by, warning};
    use std::ffi::OsStr;

    #[test]
    fn what_is_meant() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", "abd"), 1);
        assert_eq!(distance("BELLWIRE_SPIN", "BELLWIRE_SPIN_US"), 3);
        assert_eq!(meant_by("BELLWIRE_SPIN"), Some("BELLWIRE_SPIN_US"));
        assert_eq!(meant_by("BELLWIRE_ADRESS"), Some("BELLWIRE_ADDRESS"));
        assert_eq!(meant_by("BELLWIRE_SOMETHING_ELSE"), None);
    }

    #[test]
    fn only_the_unknown_is_warned_of() {
        for known in VARIABLES.iter().map(|v| v.name).chain(OWN.iter().copied()).chain(["PATH", "BELLWIRE", "BELLWIRES", "BELLWIRE_TEST_X"]) {
            assert!(is_known(known), "{known}");
            assert_eq!(warning(OsStr::new(known)), None);
        }
        let said = warning(OsStr::new("BELLWIRE_SPIN")).unwrap();
        assert!(said.contains("BELLWIRE_SPIN ") && said.contains("BELLWIRE_SPIN_US"), "{said}");
        assert!(warning(OsStr::new("BELLWIRE_\u{1b}[2J")).unwrap().contains("\\u{1b}"));
    }

    #[test]
    fn they_stand_in_order_and_once() {
        assert!(VARIABLES.windows(2).all(|pair| pair[0].name < pair[1].name));
        assert!(OWN.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(OWN.iter().all(|own| VARIABLES.iter().all(|v| v.name != *own)));
    }
}
