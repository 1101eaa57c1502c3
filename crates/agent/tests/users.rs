// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two hosts (network namespaces) with three users each, many endpoints over few frames, and loss,
//! duplication and reordering between the agents: each message is handled once, in order. Needs
//! root and `ip`; without them the test says so and does nothing.
//!
//! BELLWIRE_AGENT_ENDPOINTS (default 20) is the number of endpoints of each process, and
//! BELLWIRE_AGENT_FRAMES (default 7) that of the frames of each agent.

mod common;

use bellwire_memory::line_queue::Line;
use bellwire_time::Duration;
use bellwire_wire::address::NetAddress;
use bellwire_wire::agent::{AgentConfig as PortConfig, AgentPort};
use bellwire_wire::packet::{PacketPort, PacketWire};
use bellwire_wire::udp::host_address;
use bellwire_wire::{LinkId, Received, Rendezvous, Sent, Wire, WireEvent};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::{IpAddr, SocketAddr};
use std::process::{Child, Command, Stdio};

const PROCESSES: usize = 6;
const MESSAGES: u64 = 20;
const ROLE: &str = "BELLWIRE_AGENT_ROLE";
const HOSTS: [&str; 2] = ["10.119.0.1", "10.119.0.2"];
const FAULTS: &str = "loss=0.1,dup=0.1,reorder=0.1,seed=5";

fn endpoints() -> usize {
    std::env::var("BELLWIRE_AGENT_ENDPOINTS").ok().and_then(|n| n.parse().ok()).unwrap_or(20)
}

fn frames() -> String {
    std::env::var("BELLWIRE_AGENT_FRAMES").unwrap_or_else(|_| "7".to_owned())
}

/// Processes alternate between the hosts.
fn host_of(process: usize) -> IpAddr {
    HOSTS[process % 2].parse().unwrap()
}

fn name_of(process: usize, endpoint: usize) -> NetAddress {
    let host = host_address(SocketAddr::new(host_of(process), 0));
    NetAddress::new(&host, format!("{process}/{endpoint}").as_bytes()).unwrap()
}

struct Link {
    id: LinkId,
    sent: u64,
    got: u64,
}

struct Nic {
    wire: PacketWire<AgentPort>,
    links: Vec<Link>,
    asked: bool,
}

impl Nic {
    fn turn(&mut self) {
        self.wire.handle_control();
        self.wire.begin_turn();
        while let Some(event) = self.wire.poll_event() {
            match event {
                WireEvent::LinkUp { link, .. } => {
                    if !self.links.iter().any(|l| l.id == link) {
                        self.links.push(Link { id: link, sent: 0, got: 0 });
                    }
                }
                // The peer had not begun to wait.
                WireEvent::Unresolved { .. } => self.asked = false,
                WireEvent::LinkDown { link, reason } => {
                    let l = self.links.iter().find(|l| l.id == link);
                    // A peer that has everything may go.
                    assert!(l.is_none_or(|l| (l.sent, l.got) == (MESSAGES, MESSAGES)), "a link broke: {reason:?}");
                }
                WireEvent::MapRequest { .. } => {}
            }
        }
        for l in &mut self.links {
            if l.sent < MESSAGES && l.sent < l.got + 8 {
                let mut line = Line::default();
                (line.0[0], line.0[1]) = (2, l.sent);
                if self.wire.send(l.id, &mut line, 2) == Sent::Yes {
                    l.sent += 1;
                }
            }
            // SAFETY: the frame is used before anything else is done.
            while let Received::Frame(frame) = unsafe { self.wire.receive(l.id) } {
                assert_eq!(frame.word(1), l.got, "lost, doubled or out of order");
                l.got += 1;
                self.wire.consume(l.id);
            }
        }
        self.wire.flush();
    }

    /// One link that was asked for, and one that a peer asked for.
    fn is_done(&self) -> bool {
        self.links.len() >= 2 && self.links.iter().all(|l| (l.sent, l.got) == (MESSAGES, MESSAGES)) && !self.wire.has_outstanding()
    }
}

/// What one of the processes does.
fn process(number: usize) {
    // Some descriptors for each endpoint.
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let at = SocketAddr::new(host_of(number), 0);
    let mut nics: Vec<Nic> = (0..endpoints())
        .map(|i| {
            let seed = (number * 100_000 + i) as u64;
            let port = AgentPort::open(PortConfig { address: Some(at.ip()), ..PortConfig::new(seed.into()) }).expect("an endpoint");
            let transport = port.transport_config().unwrap();
            let mut wire = PacketWire::new(port, transport, &host_address(at), seed);
            assert!(wire.listen(&name_of(number, i)));
            Nic { wire, links: Vec::new(), asked: false }
        })
        .collect();
    let next = (number + 1) % PROCESSES;
    let began = nics[0].wire.port().now();
    let (mut told, mut moved, mut handled) = (false, began, 0);
    // After the end the peers may still want acknowledgements: until the parent ends it, or nothing
    // happens any more.
    while nics[0].wire.port().now() < moved + Duration::from_millis(240_000) {
        for (i, nic) in nics.iter_mut().enumerate() {
            if !nic.asked {
                nic.asked = true;
                nic.wire.resolve(1, Rendezvous::Client, &name_of(number, i), &name_of(next, i));
            }
            nic.turn();
        }
        let now: u64 = nics.iter().flat_map(|nic| &nic.links).map(|l| l.got).sum();
        if now != handled {
            (handled, moved) = (now, nics[0].wire.port().now());
        }
        if !told && nics.iter().all(Nic::is_done) {
            told = true;
            eprintln!("done {number}: {handled} messages after {} ms", nics[0].wire.port().now().since(began).0 / 1_000_000);
        }
        std::thread::yield_now();
    }
}

fn ip(arguments: &str) -> bool {
    Command::new("ip").args(arguments.split(' ')).stderr(Stdio::null()).status().is_ok_and(|s| s.success())
}

struct World {
    spaces: [String; 2],
    children: Vec<Child>,
    place: std::path::PathBuf,
}

impl Drop for World {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
        for space in &self.spaces {
            ip(&format!("netns del {space}"));
        }
        let _ = std::fs::remove_dir_all(&self.place);
    }
}

#[test]
fn two_hosts_of_three_users_each() {
    if let Ok(role) = std::env::var(ROLE) {
        return process(role.parse().unwrap());
    }
    let pid = std::process::id();
    let spaces = [0, 1].map(|i| format!("bw-agent-{pid}-{i}"));
    if !ip(&format!("netns add {}", spaces[0])) {
        println!("SKIPPED: needs root and ip netns");
        return;
    }
    let place = std::env::temp_dir().join(format!("bellwire-agent-{pid}"));
    let mut world = World { spaces: spaces.clone(), children: Vec::new(), place: place.clone() };
    assert!(ip(&format!("netns add {}", spaces[1])) && ip(&format!("link add eth0 netns {} type veth peer name eth0 netns {}", spaces[0], spaces[1])));
    for (space, host) in spaces.iter().zip(HOSTS) {
        assert!(
            ip(&format!("-n {space} addr add {host}/24 dev eth0")) && ip(&format!("-n {space} link set eth0 up")) && ip(&format!("-n {space} link set lo up"))
        );
        let mut agent = Command::new("ip");
        agent.args([
            "netns",
            "exec",
            space,
            env!("CARGO_BIN_EXE_bellwired"),
            "--address",
            host,
            "--frames",
            &frames(),
            "--stay-us",
            "1000",
            "--faults",
            FAULTS,
        ]);
        world.children.push(agent.spawn().unwrap());
    }
    // Where any user may execute it.
    std::fs::create_dir_all(&place).unwrap();
    let program = place.join("users");
    std::fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    use std::os::unix::fs::PermissionsExt;
    for path in [&place, &program] {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut readers = Vec::new();
    for number in 0..PROCESSES {
        let uid = (61_000 + number / 2).to_string();
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &spaces[number % 2], "setpriv", "--reuid", &uid, "--regid", &uid, "--clear-groups"]);
        command.arg(&program).args(["--exact", "two_hosts_of_three_users_each", "--nocapture"]).env(ROLE, number.to_string());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let stderr = child.stderr.take().unwrap();
        world.children.push(child);
        readers.push(std::thread::spawn(move || {
            use std::io::BufRead;
            let mut said = vec![format!("process {number}")];
            for line in std::io::BufReader::new(stderr).lines().map_while(Result::ok) {
                let is_done = line.starts_with("done");
                said.push(line);
                if is_done {
                    return Ok(said);
                }
            }
            Err(said)
        }));
    }
    // All of them are told of, for one that has ended keeps the others waiting.
    let ended: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    assert!(ended.iter().all(Result::is_ok), "every process handles each message once: {ended:#?}");
    println!("{ended:#?}");
}
