// SPDX-License-Identifier: MIT OR Apache-2.0
//! The steps of a round, and the names of their figures.

/// How clients meet at the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// All at one endpoint, short requests.
    Short,
    /// All at one endpoint, requests of 8 KiB.
    Bulk,
    /// A virtual network each, one thread of the server for all.
    Single,
    /// A virtual network each, a thread of the server for each.
    Threads,
}

/// Where it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// In virtual time.
    Simulated,
    /// On real processes, with two agents of hosts: one has the server, the other one the clients.
    Agents,
}

/// A figure of a number of clients.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// Requests answered for all clients, thousands a second.
    All,
    /// For the client that gets least.
    Least,
    /// For the client that gets most.
    Most,
    /// Jain's index of fairness.
    Jain,
    /// From a request to its reply, us: the mean in the simulator, else the median.
    Response,
    /// Messages refused.
    Refused,
    /// Endpoints loaded into frames.
    Loads,
}

/// Frames of the server's network interface.
pub const FRAMES: usize = 7;
/// Bytes of long requests.
pub const BULK_BYTES: usize = 8192;
/// Requests that a client has outstanding.
pub const OUTSTANDING: usize = 4;
/// Clients whose requests the receive queue of the simulator's endpoint holds, as in the paper.
pub const ABSORBED: usize = 4;
/// K of an agent, unless it is set.
pub const LOITER_USUAL: u32 = 2;
/// Clients of one endpoint.
const CLIENTS: [usize; 8] = [1, 2, 4, 8, 16, 32, 64, 100];
const CLIENTS_QUICK: [usize; 3] = [1, 4, 10];
const CLIENTS_REAL: [usize; 5] = [1, 2, 4, 8, 16];
const CLIENTS_REAL_QUICK: [usize; 3] = [1, 2, 4];
/// Virtual networks.
const NETWORKS: [usize; 8] = [1, 2, 4, 7, 8, 12, 16, 32];
const NETWORKS_QUICK: [usize; 4] = [1, 4, 7, 8];
const NETWORKS_REAL: [usize; 7] = [1, 2, 4, 7, 8, 12, 16];
const NETWORKS_REAL_QUICK: [usize; 3] = [4, 7, 8];
/// Values of K.
const LOITERS: [u32; 7] = [1, 2, 4, 16, 64, 256, 1024];
const LOITERS_QUICK: [u32; 3] = [1, 4, 256];
const LOITERS_REAL: [u32; 5] = [1, 4, 16, 64, 256];

/// The builds of the protocol, as `bellwire sim builds` names its rows.
pub const BUILDS: [&str; 7] =
    ["bare", "+ protection", "+ reliability", "+ timers: the whole", "reliability alone", "reliability and timers", "bare and parts alone, added up"];
/// The parameters of each in virtual time, ns.
pub const LOGP: [&str; 5] = ["o_s", "o_r", "g", "L", "round trip"];
/// And of the code, ns for each message.
pub const CODE: [&str; 5] = ["send", "receive", "acknowledge", "timers", "all"];

/// A way of real processes by UDP, with more or less protection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    /// A port for each program.
    Direct,
    /// The same, with packets that are authenticated and encrypted.
    Sealed,
    /// By an agent on each side.
    Agents,
}

/// Patterns in which each host sends to one other.
pub const PATTERNS: [&str; 3] = ["cshift", "neighbour", "bisection"];
/// Networks of the simulator: one switch, and three subclusters with few cables between them.
pub const NETWORKS_SIMULATED: [&str; 2] = ["star", "subclusters"];
/// The bits that a host's link carries in a second, in the simulator and in namespaces.
pub const RATE_SIMULATED: u64 = 10_000_000_000;
/// See [`RATE_SIMULATED`].
pub const RATE: u64 = 20_000_000;
/// The namespaces of permutations, as a network.
pub const NAMESPACES: &str = "namespaces";
/// The figures of a permutation: bandwidth of a host in MB/s, Jain's index, a round trip of a
/// short message in us. The first and the last are the mean over the hosts.
pub const PERMUTED: [&str; 3] = ["bandwidth", "Jain", "round trip"];

/// A measurement of a round.
#[derive(Debug, Clone)]
pub struct Step {
    /// The names of its figures, in order.
    pub names: Vec<String>,
    /// Its measurement.
    pub of: Of,
}

/// What a step does.
#[derive(Debug, Clone)]
pub enum Of {
    /// Runs a scenario of the simulator. Its figures are these columns of a table, row by row.
    Scenario { name: &'static str, options: Vec<(&'static str, String)>, columns: Vec<&'static str>, table: usize },
    /// So many clients of a server, each side with an agent of this K. Its figures are [`REAL`].
    Clients { shape: Shape, clients: usize, loiter: u32 },
    /// A pattern over namespaces. Its figures are [`PERMUTED`].
    Permutation(&'static str),
    /// A client with one request outstanding, and with many. Its figures are [`WIRE`].
    Wire(Wire),
}

/// The figures of a wire, us: half of a round trip, and from one message to the next.
pub const WIRE: [&str; 2] = ["half a round trip", "gap"];

/// The figures of clients on real processes.
pub const REAL: [What; 7] = [What::All, What::Least, What::Most, What::Jain, What::Response, What::Refused, What::Loads];

impl Shape {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Short, Self::Bulk, Self::Single, Self::Threads];

    /// In names of figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Short => "one endpoint",
            Self::Bulk => "one endpoint, 8 KiB",
            Self::Single => "networks, one thread",
            Self::Threads => "networks, threads",
        }
    }

    /// Whether each client has a virtual network for itself.
    pub fn is_networks(self) -> bool {
        matches!(self, Self::Single | Self::Threads)
    }

    /// Numbers of clients.
    pub fn points(self, world: World, quick: bool) -> &'static [usize] {
        match (world, self.is_networks(), quick) {
            (World::Simulated, false, false) => &CLIENTS,
            (World::Simulated, false, true) => &CLIENTS_QUICK,
            (World::Simulated, true, false) => &NETWORKS,
            (World::Simulated, true, true) => &NETWORKS_QUICK,
            (World::Agents, false, false) => &CLIENTS_REAL,
            (World::Agents, false, true) => &CLIENTS_REAL_QUICK,
            (World::Agents, true, false) => &NETWORKS_REAL,
            (World::Agents, true, true) => &NETWORKS_REAL_QUICK,
        }
    }
}

impl World {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Simulated, Self::Agents];

    /// In tables and names of figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Simulated => "simulated",
            Self::Agents => "agents",
        }
    }
}

impl Wire {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Direct, Self::Sealed, Self::Agents];

    /// In tables and names of figures.
    pub fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct UDP",
            Self::Sealed => "+ keys",
            Self::Agents => "by agents",
        }
    }
}

impl What {
    fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Least => "least",
            Self::Most => "most",
            Self::Jain => "Jain",
            Self::Response => "response",
            Self::Refused => "refused",
            Self::Loads => "loads",
        }
    }
}

/// Values of K.
pub fn loiters(world: World, quick: bool) -> &'static [u32] {
    match (world, quick) {
        (_, true) => &LOITERS_QUICK,
        (World::Simulated, false) => &LOITERS,
        (World::Agents, false) => &LOITERS_REAL,
    }
}

/// The name of a figure of so many clients.
pub fn point(world: World, shape: Shape, clients: usize, what: What) -> String {
    format!("{}, {}, {clients} clients: {}", world.name(), shape.name(), what.name())
}

/// The name of a figure of a value of K.
pub fn loiter(world: World, k: u32, what: What) -> String {
    format!("{}, K {k}: {}", world.name(), what.name())
}

/// The name of a figure of a build: one of [`LOGP`] or of [`CODE`].
pub fn build(build: &str, what: &str) -> String {
    format!("{build}: {what}")
}

/// The name of a figure of a wire: one of [`WIRE`].
pub fn wire(of: Wire, what: &str) -> String {
    format!("{}: {what}", of.name())
}

/// Hosts of permutations.
pub fn hosts(network: &str, quick: bool) -> usize {
    match (network == NAMESPACES, quick) {
        (true, true) => 4,
        (true, false) => 8,
        (false, true) => 8,
        (false, false) => 32,
    }
}

/// The name of a figure of a permutation: one of [`PERMUTED`].
pub fn permuted(network: &str, pattern: &str, what: &str) -> String {
    format!("{network}, {pattern}: {what}")
}

/// Everything, in the order of a round.
pub fn steps(quick: bool) -> Vec<Step> {
    let mut steps: Vec<Step> = Shape::ALL.into_iter().map(|shape| clients(shape, quick)).collect();
    steps.extend([loitering(quick), builds(&LOGP, 0, quick), builds(&CODE, 1, quick)]);
    steps.push(permutations(quick));
    for pattern in PATTERNS {
        let names = PERMUTED.map(|what| permuted(NAMESPACES, pattern, what)).into();
        steps.push(Step { names, of: Of::Permutation(pattern) });
    }
    steps.extend(Wire::ALL.map(|of| Step { names: WIRE.map(|what| wire(of, what)).into(), of: Of::Wire(of) }));
    for shape in Shape::ALL {
        for clients in shape.points(World::Agents, quick) {
            let names = REAL.map(|what| point(World::Agents, shape, *clients, what)).into();
            steps.push(Step { names, of: Of::Clients { shape, clients: *clients, loiter: LOITER_USUAL } });
        }
    }
    for k in loiters(World::Agents, quick) {
        let names = REAL.map(|what| loiter(World::Agents, *k, what)).into();
        steps.push(Step { names, of: Of::Clients { shape: Shape::Threads, clients: FRAMES, loiter: *k } });
    }
    steps
}

/// Builds of the protocol: in virtual time, or of the code.
fn builds(columns: &[&'static str], table: usize, quick: bool) -> Step {
    let (messages, rounds) = if quick { ("256", "1") } else { ("2048", "9") };
    let names = BUILDS.iter().flat_map(|of| columns.iter().map(move |what| build(of, what))).collect();
    let options = vec![("messages", messages.to_owned()), ("rounds", rounds.to_owned())];
    Step { names, of: Of::Scenario { name: "builds", options, columns: columns.to_vec(), table } }
}

/// Permutations in the simulator.
fn permutations(quick: bool) -> Step {
    let nodes = hosts(NETWORKS_SIMULATED[0], quick).to_string();
    let time = if quick { "200us" } else { "1ms" };
    let options = [
        ("nodes", nodes.as_str()),
        ("networks", &NETWORKS_SIMULATED.join(",")),
        ("patterns", &PATTERNS.join(",")),
        ("sizes", "8k"),
        ("rate", &RATE_SIMULATED.to_string()),
        ("start", time),
        ("time", time),
    ]
    .map(|(name, value)| (name, value.to_owned()))
    .into();
    let cases = NETWORKS_SIMULATED.iter().flat_map(|network| PATTERNS.map(|pattern| (*network, pattern)));
    let names = cases.flat_map(|(network, pattern)| PERMUTED.map(|what| permuted(network, pattern, what))).collect();
    Step { names, of: Of::Scenario { name: "traffic", options, columns: vec!["all", "Jain", "round trip"], table: 0 } }
}

fn list<T: ToString>(numbers: &[T]) -> String {
    numbers.iter().map(T::to_string).collect::<Vec<_>>().join(",")
}

/// Numbers of clients, or of virtual networks, in the simulator.
fn clients(shape: Shape, quick: bool) -> Step {
    let points = shape.points(World::Simulated, quick);
    let mut options = vec![("clients", list(points)), ("transport", "window".to_owned()), ("outstanding", OUTSTANDING.to_string())];
    options.push(("inbox", (OUTSTANDING * ABSORBED).to_string()));
    let mut whats = vec![What::All, What::Least, What::Most, What::Jain, What::Response, What::Refused];
    let name = if shape.is_networks() {
        let servers = if shape == Shape::Threads { "threads" } else { "single" };
        let (start, time) = if quick { ("20ms", "30ms") } else { ("100ms", "400ms") };
        options.extend([("servers", servers.to_owned()), ("frames", FRAMES.to_string()), ("start", start.to_owned()), ("time", time.to_owned())]);
        whats.push(What::Loads);
        "networks"
    } else {
        let bytes = if shape == Shape::Bulk { BULK_BYTES } else { 16 };
        let (start, time) = if quick { ("5ms", "10ms") } else { ("20ms", "100ms") };
        options.extend([("sizes", bytes.to_string()), ("start", start.to_owned()), ("time", time.to_owned())]);
        "clients"
    };
    let names = points.iter().flat_map(|clients| whats.iter().map(|what| point(World::Simulated, shape, *clients, *what))).collect();
    Step { names, of: Of::Scenario { name, options, columns: whats.iter().map(|what| what.name()).collect(), table: 0 } }
}

/// Values of K in the simulator, where the network interface is the bottleneck and going to another
/// endpoint takes long, so that bursts could gain.
fn loitering(quick: bool) -> Step {
    let whats = [What::All, What::Least, What::Jain, What::Response];
    let ks = loiters(World::Simulated, quick);
    let (start, time) = if quick { ("5ms", "10ms") } else { ("10ms", "100ms") };
    let fixed = [
        ("clients", "7"),
        ("servers", "threads"),
        ("transport", "window"),
        ("outstanding", "32"),
        ("inbox", "64"),
        ("take", "300ns"),
        ("write", "300ns"),
        ("switch", "0ns"),
        ("packet", "1us"),
        ("nic-switch", "5us"),
        ("look", "50ns"),
        ("start", start),
        ("time", time),
    ];
    let mut options: Vec<(&'static str, String)> = fixed.map(|(name, value)| (name, value.to_owned())).into();
    options.push(("loiter", list(ks)));
    let names = ks.iter().flat_map(|k| whats.map(|what| loiter(World::Simulated, *k, what))).collect();
    Step { names, of: Of::Scenario { name: "networks", options, columns: whats.iter().map(|what| what.name()).collect(), table: 0 } }
}
