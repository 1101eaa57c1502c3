// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many processes, each sending random requests of every kind to all, itself too, and checking
//! every byte: each request is answered once, with what it must be; nobody waits for ever.
//!
//! `BELLWIRE_STORM=processes,seconds` for more than the default; scripts/test.sh long runs 24
//! processes. `BELLWIRE_STORM_HOSTS=one,other` has them by turns in those network namespaces, each
//! with the address of its interface eth0 (scripts/hosts-am.sh).

mod common;

use bellwire_am::{Bundle, Device, EndpointId, MEDIUM_BYTES_MAX, Message, NAME_BYTES, Name, Region};
use bellwire_via::nic::NicConfig;
use common::{Side, pattern};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const SHORT: u8 = 1;
const MEDIUM: u8 = 2;
const BULK: u8 = 3;
const ANSWER: u8 = 4;
const GOT: u8 = 5;
/// Bulk requests that one process has out at most; each has a slot in every receiver's segment and
/// one for gets in its own.
const SLOTS: usize = 4;
const SLOT: usize = 40_000;
const LIBRARY: usize = 64 << 10;
/// Longer than any turn may take on a crowded machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request that is out: the answer that it must have.
#[derive(Default)]
struct Out {
    requests: BTreeMap<i32, i32>,
    /// Whose slots are in use.
    slots: [Option<i32>; SLOTS],
    answered: u64,
}

impl Out {
    fn answer(&mut self, id: i32, value: i32) {
        assert_eq!(self.requests.remove(&id), Some(value), "request {id} is answered once, with what it must be");
        self.slots.iter_mut().filter(|s| **s == Some(id)).for_each(|s| *s = None);
        self.answered += 1;
    }
}

fn digest(data: &[u8]) -> i32 {
    data.iter().fold(17, |h: i32, b| h.wrapping_mul(31).wrapping_add(i32::from(*b)))
}

struct Process {
    rank: usize,
    count: usize,
    side: Side,
    _segment: Arc<Region>,
    out: Arc<Mutex<Out>>,
    random: u64,
}

impl Process {
    fn new(rank: usize, count: usize) -> Self {
        let side = Side::new(&Device::open(NicConfig::from_env().expect("the environment is well")).expect("a NIC"));
        let (b, e) = (&side.bundle, side.endpoint);
        // Slots for each other process, the library, slots for gets.
        let segment = side.device.allocate((count + 1) * SLOTS * SLOT + LIBRARY).unwrap();
        segment.write(count * SLOTS * SLOT, &pattern(rank, LIBRARY)).unwrap();
        b.set_segment(e, Some(&segment)).unwrap();
        let out = Arc::new(Mutex::new(Out::default()));
        let takes = |m: &mut Message<'_>| {
            let (id, seed, data) = (m.args()[0], m.args()[1], m.payload().to_vec());
            assert!(data == pattern(seed as usize, m.args()[2] as usize), "what was sent");
            let value = digest(&data).wrapping_add(seed);
            if seed % 3 == 0 { m.reply_medium(ANSWER, &data, &[id, value]) } else { m.reply(ANSWER, &[id, value]) }.expect("it waits");
        };
        b.set_handler(e, SHORT, |m| {
            let (id, value) = (m.args()[0], m.args().iter().fold(0, |a: i32, b| a.wrapping_add(*b)));
            m.reply(ANSWER, &[id, value]).expect("it waits");
        })
        .unwrap();
        b.set_handler(e, MEDIUM, takes).unwrap();
        b.set_handler(e, BULK, takes).unwrap();
        let o = Arc::clone(&out);
        b.set_handler(e, ANSWER, move |m| o.lock().unwrap().answer(m.args()[0], m.args()[1])).unwrap();
        let o = Arc::clone(&out);
        b.set_handler(e, GOT, move |m| o.lock().unwrap().answer(m.args()[0], digest(&m.payload().to_vec()))).unwrap();
        b.set_error_handler(e, |back| panic!("{back:?}")).unwrap();
        Self { rank, count, side, _segment: segment, out, random: 0x9e37_79b9 + rank as u64 }
    }

    fn below(&mut self, n: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.random >> 33) as usize) % n
    }

    fn ends(&self) -> (&Bundle, EndpointId) {
        (&self.side.bundle, self.side.endpoint)
    }

    /// A random request. `false`: no slot is free.
    fn request(&mut self, id: i32) {
        let (to, kind, seed) = (self.below(self.count), self.below(10), self.below(1_000));
        let most = [100, 5_000, SLOT][self.below(3)];
        let length = self.below(most.min(MEDIUM_BYTES_MAX));
        let args = [id, seed as i32, length as i32];
        if kind < 5 {
            let args: Vec<i32> = (0..1 + seed as i32 % 16).map(|i| id.wrapping_mul(i + 1)).collect();
            let sum = args.iter().fold(0, |a: i32, b| a.wrapping_add(*b));
            self.out.lock().unwrap().requests.insert(id, sum);
            let (b, e) = self.ends();
            return b.request(e, to as u32, SHORT, &args).unwrap();
        }
        let is_get = kind == 9;
        let data = if is_get { pattern(to, LIBRARY)[seed..seed + length].to_vec() } else { pattern(seed, length) };
        let value = if is_get { digest(&data) } else { digest(&data).wrapping_add(seed as i32) };
        let slot = {
            let mut out = self.out.lock().unwrap();
            let free = out.slots.iter().position(Option::is_none);
            if let (Some(free), true) = (free, kind >= 7) {
                out.slots[free] = Some(id);
            }
            out.requests.insert(id, value);
            free.filter(|_| kind >= 7)
        };
        let (b, e) = self.ends();
        let library = self.count * SLOTS * SLOT;
        match slot {
            Some(slot) if is_get => b.get(e, to as u32, GOT, (library + seed) as u64, (library + LIBRARY + slot * SLOT) as u64, length, &[id]).unwrap(),
            Some(slot) => b.request_bulk(e, to as u32, BULK, ((self.rank * SLOTS + slot) * SLOT) as u64, &data, &args).unwrap(),
            None if is_get => drop(self.out.lock().unwrap().requests.remove(&id)),
            None => b.request_medium(e, to as u32, MEDIUM, &data, &args).unwrap(),
        }
    }

    fn run(&mut self, time: Duration) {
        let end = Instant::now() + time;
        let mut id = 0;
        while Instant::now() < end {
            id += 1;
            self.request(id);
            if self.below(3) == 0 {
                self.side.bundle.poll().unwrap();
            }
        }
        let late = Instant::now() + PATIENCE;
        while !self.out.lock().unwrap().requests.is_empty() {
            self.side.bundle.poll().unwrap();
            assert!(Instant::now() < late, "process {} still waits for {:?}", self.rank, self.out.lock().unwrap().requests.keys());
        }
        assert_eq!(self.side.bundle.counters(self.side.endpoint).unwrap().returned, 0);
    }
}

fn hex(name: &Name) -> String {
    name.to_bytes().iter().map(|b| format!("{b:02x}")).collect()
}

fn from_hex(text: &str) -> Name {
    let mut bytes = [0; NAME_BYTES];
    for (i, b) in bytes.iter_mut().enumerate() {
        *b = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).unwrap();
    }
    Name::from_bytes(&bytes).unwrap()
}

/// One process: its name goes out, all names come in, then it storms; then it serves until its
/// input ends.
#[test]
#[ignore = "a process of the test below"]
fn storms() {
    let mut input = BufReader::new(std::io::stdin()).lines();
    let first = input.next().unwrap().unwrap();
    let [rank, count, millis] = first.split(' ').map(|w| w.parse::<usize>().unwrap()).collect::<Vec<_>>()[..] else { panic!("{first}") };
    let mut process = Process::new(rank, count);
    println!("\nname {}", hex(&process.side.bundle.name(process.side.endpoint).unwrap()));
    for to in 0..count {
        let name = from_hex(&input.next().unwrap().unwrap());
        process.side.bundle.map(process.side.endpoint, to as u32, name, common::TAG).unwrap();
    }
    process.run(Duration::from_millis(millis as u64));
    println!("\ndone {}", process.out.lock().unwrap().answered);
    std::io::stdout().flush().unwrap();
    let ended = std::thread::spawn(move || input.next().is_none());
    while !ended.is_finished() {
        if process.side.bundle.poll().unwrap() == 0 {
            process.side.bundle.wait(Some(Duration::from_millis(20))).unwrap();
        }
    }
}

fn said(lines: &mut std::io::Lines<BufReader<ChildStdout>>, what: &str) -> String {
    lines.map(|l| l.unwrap()).find_map(|l| l.strip_prefix(what).map(str::to_owned)).expect(what)
}

/// This program, where process `rank` is to run.
fn program(rank: usize) -> Command {
    let program = std::env::current_exe().unwrap();
    let Ok(hosts) = std::env::var("BELLWIRE_STORM_HOSTS") else { return Command::new(program) };
    let hosts: Vec<&str> = hosts.split(',').collect();
    let mut command = Command::new("ip");
    command.args(["netns", "exec", hosts[rank % hosts.len()]]).arg(program).env("BELLWIRE_ADDRESS", "eth0");
    command
}

#[test]
fn a_storm_of_processes() {
    let wish = std::env::var("BELLWIRE_STORM").unwrap_or("4,1".into());
    let (count, seconds) = wish.split_once(',').map(|(c, s)| (c.parse::<usize>().unwrap(), s.parse::<usize>().unwrap())).unwrap();
    let start = |rank: usize| -> Child {
        let mut child = program(rank).args(["--ignored", "--exact", "storms", "--nocapture"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{rank} {count} {}", seconds * 1000).unwrap();
        child
    };
    let mut children: Vec<Child> = (0..count).map(start).collect();
    let mut outputs: Vec<_> = children.iter_mut().map(|c| BufReader::new(c.stdout.take().unwrap()).lines()).collect();
    let names: Vec<String> = outputs.iter_mut().map(|o| said(o, "name ")).collect();
    for child in &mut children {
        for name in &names {
            writeln!(child.stdin.as_mut().unwrap(), "{name}").unwrap();
        }
    }
    let answered: u64 = outputs.iter_mut().map(|o| said(o, "done ").parse::<u64>().unwrap()).sum();
    for child in &mut children {
        drop(child.stdin.take());
    }
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    println!("{count} processes, {answered} requests answered");
    assert!(answered >= count as u64, "each got something done");
}
