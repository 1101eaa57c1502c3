// SPDX-License-Identifier: MIT OR Apache-2.0
//! A key-value store in shards: the first processes of a job serve, each a part of the keys; the
//! others put, get, scan and delete, check every value, and say how fast that was.
//!
//! ```text
//! cargo build --release -p bellwire-rpc --example kv_store
//! bellwire run -n 4 target/release/examples/kv_store [SERVERS [CALLS]]        or mpiexec, mpirun, srun
//! ```

use bellwire_job::Job;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_rpc::{Address, CallError, Codec, Node, Peer, Procedure, signature};
use bellwire_spmd::Team;
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};
use std::error::Error;
use std::ops::Bound;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Key = u64;
type Value = Vec<u8>;

/// Keys and values, as a scan gives them: each key, the length of its value, the value.
struct Entries(Vec<(Key, Value)>);

impl Codec for Entries {
    const SIGNATURE: u64 = signature(b"entries", &[]);

    fn encode(&self, to: &mut Vec<u8>) {
        for (key, value) in &self.0 {
            to.extend(key.to_le_bytes());
            to.extend((value.len() as u64).to_le_bytes());
            to.extend(value);
        }
    }

    fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut entries = Vec::new();
        while !bytes.is_empty() {
            let (key, rest) = bytes.split_first_chunk()?;
            let (length, rest) = rest.split_first_chunk()?;
            let (value, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
            entries.push((u64::from_le_bytes(*key), value.to_vec()));
            bytes = rest;
        }
        Some(Self(entries))
    }
}

const PUT: Procedure<(Key, Value), ()> = Procedure::new("kv/put", 1);
const GET: Procedure<Key, Option<Value>> = Procedure::new("kv/get", 1);
const DELETE: Procedure<Key, u8> = Procedure::new("kv/delete", 1);
/// From a key on, so many entries.
const SCAN: Procedure<[u64; 2], Entries> = Procedure::new("kv/scan", 1);
const STOP: Procedure<(), ()> = Procedure::new("kv/stop", 1);

/// Longest that a call may take: more says that something hangs.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(60));
/// Calls under way when many are.
const WINDOW: usize = 16;
/// Keys of each client.
const KEYS: u64 = 1000;
/// One value in so many is large.
const LARGE_EVERY: u64 = 100;
const LARGE: usize = 300_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u32>());
    let (servers, calls) = (arguments.next().transpose()?.unwrap_or(2), arguments.next().transpose()?.unwrap_or(20_000));
    let team = Team::start(Job::join()?)?;
    if servers == 0 || servers >= team.size() {
        return Err(format!("{servers} servers of {} processes: there must be one at least, and a client", team.size()).into());
    }
    let node = Node::on(team.device())?;
    let addresses = team.all_gather(&node.address().to_bytes())?;
    let clients = team.size() - servers;
    if team.rank() < servers {
        serve(&node, clients)?;
        team.finish()?;
        return Ok(());
    }
    let shards = addresses[..servers as usize].iter().map(|bytes| node.connect(&Address::from_bytes(bytes)?)).collect::<Result<Vec<_>, _>>()?;
    let client = Client { node: &node, shards, first: u64::from(team.rank()) * KEYS };
    client.work(calls, team.rank() == servers)?;
    for shard in &client.shards {
        node.call(*shard, &STOP, &())?;
    }
    team.finish()?;
    Ok(())
}

/// Serves a shard until all clients have had enough.
fn serve(node: &Node, clients: u32) -> Result<(), Box<dyn Error>> {
    let store = Arc::new(Mutex::new(BTreeMap::<Key, Value>::new()));
    let [put, get, delete, scan] = [(); 4].map(|()| Arc::clone(&store));
    node.serve(&PUT, move |(key, value), _| {
        put.lock().expect("no handler panics").insert(key, value);
        Ok(())
    })?;
    node.serve(&GET, move |key, _| Ok(get.lock().expect("as above").get(&key).cloned()))?;
    node.serve(&DELETE, move |key, _| Ok(u8::from(delete.lock().expect("as above").remove(&key).is_some())))?;
    node.serve(&SCAN, move |[from, count], _| {
        let store = scan.lock().expect("as above");
        let range = store.range((Bound::Included(from), Bound::Unbounded));
        Ok(Entries(range.take(count as usize).map(|(key, value)| (*key, value.clone())).collect()))
    })?;
    let stopped = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&stopped);
    node.serve(&STOP, move |(), _| {
        // Relaxed: a count, read by the thread that polls.
        counted.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })?;
    // Relaxed: as above.
    node.drive(|| stopped.load(Ordering::Relaxed) == clients)?;
    Ok(())
}

struct Client<'n> {
    node: &'n Node,
    shards: Vec<Peer>,
    /// Its keys begin here.
    first: Key,
}

/// The value of a key: mostly short, now and then large.
fn value_of(key: Key, round: u64) -> Value {
    let length = if key % LARGE_EVERY == 99 { LARGE } else { (key * 37 % 200) as usize };
    (0..length).map(|i| (i as u64).wrapping_mul(31).wrapping_add(key).wrapping_add(round) as u8).collect()
}

impl Client<'_> {
    fn shard(&self, key: Key) -> Peer {
        self.shards[(key % self.shards.len() as u64) as usize]
    }

    fn put(&self, key: Key, round: u64) -> Result<(), CallError> {
        self.node.start(self.shard(key), &PUT, &(key, value_of(key, round)), PATIENCE)?.wait()
    }

    fn check(&self, key: Key, found: Option<Value>, expected: Option<Value>) -> Result<(), Box<dyn Error>> {
        if found == expected { Ok(()) } else { Err(format!("key {key} has another value").into()) }
    }

    fn work(&self, calls: u32, speaks: bool) -> Result<(), Box<dyn Error>> {
        let keys = self.first..self.first + KEYS;
        for key in keys.clone() {
            self.put(key, 0)?;
        }
        for key in keys.clone() {
            let found = self.node.call(self.shard(key), &GET, &key)?;
            self.check(key, found, Some(value_of(key, 0)))?;
        }
        self.measure(calls, speaks)?;
        // One in three is deleted, one in three replaced; then a scan of each shard finds exactly
        // what is left.
        for key in keys.clone() {
            match key % 3 {
                0 if self.node.call(self.shard(key), &DELETE, &key)? != 1 => return Err(format!("key {key} was not there").into()),
                1 => self.put(key, 1)?,
                _ => {}
            }
        }
        let mut left = BTreeMap::new();
        for shard in &self.shards {
            let Entries(entries) = self.node.call(*shard, &SCAN, &[self.first, KEYS])?;
            left.extend(entries.into_iter().filter(|(key, _)| keys.contains(key)));
        }
        for key in keys {
            let expected = (key % 3 != 0).then(|| value_of(key, u64::from(key % 3 == 1)));
            self.check(key, left.remove(&key), expected)?;
        }
        Ok(())
    }

    /// Gets of small values: one after the other, then many under way. Each is checked.
    fn measure(&self, calls: u32, speaks: bool) -> Result<(), Box<dyn Error>> {
        let key = |i: u32| {
            let key = self.first + u64::from(i).wrapping_mul(2_654_435_761) % KEYS;
            if key % LARGE_EVERY == 99 { key - 1 } else { key }
        };
        let mut times = Histogram::<u64>::new(3)?;
        let start = Instant::now();
        for i in 0..calls {
            let before = Instant::now();
            let found = self.node.call(self.shard(key(i)), &GET, &key(i))?;
            times.record(before.elapsed().as_nanos() as u64)?;
            self.check(key(i), found, Some(value_of(key(i), 0)))?;
        }
        let alone = f64::from(calls) / start.elapsed().as_secs_f64();
        let start = Instant::now();
        let mut under_way = VecDeque::new();
        for i in 0..calls {
            if under_way.len() == WINDOW {
                self.check_next(&mut under_way)?;
            }
            under_way.push_back((key(i), self.node.start(self.shard(key(i)), &GET, &key(i), None)?));
        }
        while !under_way.is_empty() {
            self.check_next(&mut under_way)?;
        }
        let many = f64::from(calls) / start.elapsed().as_secs_f64();
        if speaks {
            let us = |quantile| times.value_at_quantile(quantile) as f64 / 1000.0;
            println!(
                "{:.0} gets a second of one client, {:.0} with {WINDOW} under way; latency {:.2} us (median), {:.2} us (99 %)",
                alone,
                many,
                us(0.5),
                us(0.99)
            );
        }
        Ok(())
    }

    fn check_next(&self, under_way: &mut VecDeque<(Key, bellwire_rpc::Pending<'_, Option<Value>>)>) -> Result<(), Box<dyn Error>> {
        let Some((key, call)) = under_way.pop_front() else { return Ok(()) };
        self.check(key, call.wait()?, Some(value_of(key, 0)))
    }
}
