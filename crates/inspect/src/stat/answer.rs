// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a NIC tells of itself, taken out of a JSON text that may hold anything.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use crate::error::Error;
use crate::error::printable;

/// Most VIs and links of one NIC that are shown.
const ITEMS_MAX: usize = 65_536;
/// Most counters that are not known by name, per NIC or VI.
const OTHERS_MAX: usize = 64;
/// Longest text, characters.
const TEXT_MAX: usize = 80;

/// One NIC.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Nic {
    /// Process.
    pub pid: u64,
    /// Number of the NIC in its process.
    pub nic: u64,
    /// Name of the program.
    pub program: String,
    /// `mapped` or `guarded`.
    pub mode: String,
    /// Its address.
    pub host: String,
    /// `shm`, `shm+udp`.
    pub wires: String,
    /// Where packets of other hosts arrive; empty without UDP.
    pub udp: String,
    /// Since it was opened, ms.
    pub uptime_ms: u64,
    /// Its VIs.
    pub vis: Vec<Vi>,
    /// VIs that it did not tell of, because there are so many.
    pub vis_left_out: u64,
    /// Its links, by name, with their counters.
    pub links: Vec<Link>,
    /// Links that failed last, oldest first; `why` says why, `ago_ms` is among the others.
    pub lost: Vec<Link>,
    /// Its completion queues.
    pub cqs: Vec<Cq>,
    /// Completion queues that it did not tell of.
    pub cqs_left_out: u64,
    /// Everything else that is a number.
    pub others: BTreeMap<String, u64>,
}

impl Nic {
    /// Its wires and where packets or peers reach it, as the end of a sentence; empty if it does
    /// not tell.
    pub fn wires_text(&self) -> String {
        let address = if self.udp.is_empty() { &self.host } else { &self.udp };
        if self.wires.is_empty() { String::new() } else { format!(", {} at {address}", self.wires) }
    }
}

/// One link to another NIC.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Link {
    /// Name.
    pub link: String,
    /// Process at the other end.
    pub peer_pid: u64,
    /// `shm`, `udp`.
    pub wire: String,
    /// Why this wire.
    pub why: String,
    /// Where packets go; empty if none do.
    pub address: String,
    /// Everything else that is a number or yes or no.
    pub others: BTreeMap<String, u64>,
}

/// Waits for something: calls that did not find it at once. Since it was made; those that go on are
/// in the time, not in the numbers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Waits {
    /// Waits that are over.
    pub waits: u64,
    /// Of these, those that slept.
    pub waits_slept: u64,
    /// Time of all waits together, microseconds.
    pub waited_us: u64,
    /// Threads that wait now.
    pub waiting: u64,
    /// How many of those that are over took less than [`wait_class_ends`] says, and not less than
    /// half of that.
    pub wait_times: [u64; WAIT_CLASSES],
}

/// Classes of times of waits.
pub const WAIT_CLASSES: usize = 24;

/// Nanoseconds that no wait of a class takes; the last has all that are longer.
pub fn wait_class_ends(class: usize) -> Option<u64> {
    (class + 1 < WAIT_CLASSES).then_some(1 << (class + 8))
}

/// The nanoseconds that so many of a hundred waits do not exceed, by the ends of their classes: at
/// most twice too long. `None`: there are no waits, or it is more than the classes tell.
pub fn percentile(times: &[u64; WAIT_CLASSES], percent: u64) -> Option<u64> {
    let all = times.iter().fold(0u64, |sum, count| sum.saturating_add(*count));
    let wanted = all / 100 * percent + (all % 100 * percent).div_ceil(100);
    let mut seen = 0u64;
    let class = times.iter().position(|count| {
        seen = seen.saturating_add(*count);
        all != 0 && seen >= wanted
    })?;
    wait_class_ends(class)
}

/// One completion queue.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Cq {
    /// Name.
    pub cq: String,
    /// Waits for an entry.
    #[serde(flatten)]
    pub waits: Waits,
    /// Everything else that is a number.
    pub others: BTreeMap<String, u64>,
}

/// One VI. Counters since it was made.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[allow(missing_docs)]
pub struct Vi {
    pub vi: String,
    pub state: String,
    pub link: String,
    pub reliability: String,
    /// Why its last connection broke; empty if it did not.
    pub broke: String,
    pub peer_pid: u64,
    pub sent: u64,
    pub sent_bytes: u64,
    pub received: u64,
    pub received_bytes: u64,
    #[serde(flatten)]
    pub waits: Waits,
    /// Everything else that is a number.
    pub others: BTreeMap<String, u64>,
}

/// Takes an answer apart.
///
/// # Errors
/// If it is no JSON object.
pub fn parse(text: &[u8]) -> Result<Nic, Error> {
    let Ok(Value::Object(mut fields)) = serde_json::from_slice(text) else { return Err(Error::failed("the answer is no JSON object")) };
    fields.remove("format");
    let list = |fields: &mut Map<String, Value>, key: &str| match fields.remove(key) {
        Some(Value::Array(items)) => {
            items.into_iter().take(ITEMS_MAX).filter_map(|item| if let Value::Object(item) = item { Some(item) } else { None }).collect()
        }
        _ => Vec::new(),
    };
    let vis = list(&mut fields, "vis").into_iter().map(vi).collect();
    let links = list(&mut fields, "links").into_iter().map(link).collect();
    let lost = list(&mut fields, "lost").into_iter().map(link).collect();
    let cqs = list(&mut fields, "cqs").into_iter().map(cq).collect();
    Ok(Nic {
        pid: number(&mut fields, "pid"),
        nic: number(&mut fields, "nic"),
        program: text_of(&mut fields, "program"),
        mode: text_of(&mut fields, "mode"),
        host: text_of(&mut fields, "host"),
        wires: text_of(&mut fields, "wires"),
        udp: text_of(&mut fields, "udp"),
        uptime_ms: number(&mut fields, "uptime_ms"),
        vis_left_out: number(&mut fields, "vis_left_out"),
        vis,
        links,
        lost,
        cqs_left_out: number(&mut fields, "cqs_left_out"),
        cqs,
        others: others(fields),
    })
}

fn vi(mut fields: Map<String, Value>) -> Vi {
    Vi {
        vi: text_of(&mut fields, "vi"),
        state: text_of(&mut fields, "state"),
        link: text_of(&mut fields, "link"),
        reliability: text_of(&mut fields, "reliability"),
        broke: text_of(&mut fields, "broke"),
        peer_pid: number(&mut fields, "peer_pid"),
        sent: number(&mut fields, "sent"),
        sent_bytes: number(&mut fields, "sent_bytes"),
        received: number(&mut fields, "received"),
        received_bytes: number(&mut fields, "received_bytes"),
        waits: waits(&mut fields),
        others: others(fields),
    }
}

fn cq(mut fields: Map<String, Value>) -> Cq {
    Cq { cq: text_of(&mut fields, "cq"), waits: waits(&mut fields), others: others(fields) }
}

fn waits(fields: &mut Map<String, Value>) -> Waits {
    Waits {
        waits: number(fields, "waits"),
        waits_slept: number(fields, "waits_slept"),
        waited_us: number(fields, "waited_us"),
        waiting: number(fields, "waiting"),
        wait_times: {
            let listed = fields.remove("wait_times");
            let listed = listed.as_ref().and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
            core::array::from_fn(|class| listed.get(class).and_then(Value::as_u64).unwrap_or(0))
        },
    }
}

fn link(mut fields: Map<String, Value>) -> Link {
    Link {
        link: text_of(&mut fields, "link"),
        peer_pid: number(&mut fields, "peer_pid"),
        wire: text_of(&mut fields, "wire"),
        why: text_of(&mut fields, "why"),
        address: text_of(&mut fields, "address"),
        others: others(fields),
    }
}

fn number(fields: &mut Map<String, Value>, key: &str) -> u64 {
    fields.remove(key).and_then(|value| as_number(&value)).unwrap_or(0)
}

fn as_number(value: &Value) -> Option<u64> {
    match value {
        Value::Bool(yes) => Some(u64::from(*yes)),
        Value::Number(number) => number.as_u64().or_else(|| number.as_f64().filter(|value| *value >= 0.0).map(|value| value as u64)),
        _ => None,
    }
}

fn text_of(fields: &mut Map<String, Value>, key: &str) -> String {
    let text = match fields.remove(key) {
        Some(Value::String(text)) => text,
        Some(Value::Number(number)) => number.to_string(),
        _ => String::new(),
    };
    printable(&text.chars().take(TEXT_MAX).collect::<String>())
}

fn others(fields: Map<String, Value>) -> BTreeMap<String, u64> {
    let short = |key: String| printable(&key.chars().take(TEXT_MAX).collect::<String>());
    fields.into_iter().filter_map(|(key, value)| Some((short(key), as_number(&value)?))).take(OTHERS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_and_unknown_fields() {
        let nic = parse(
            br#"{"format":1,"pid":41,"nic":0,"program":"kv","mode":"guarded","host":"127.0.0.1","uptime_ms":1500,"sleeps":7,"tune":"x",
                "wires":"shm+udp","udp":"10.0.0.1:4791",
                "links":[{"link":"0.1","peer_pid":9,"wire":"shm","mapped":true,"segments_mapped":3},{"link":"0.2","wire":"udp","why":"far","address":"10.0.0.2:5","resent":4}],
                "vis":[{"vi":"0.1","state":"connected","link":null,"peer_pid":9,"reliability":"delivery","sent":5,"sent_bytes":40,"direct":2,"newer":1e3,
                "waits":6,"waits_slept":4,"waited_us":900,"wait_times":[0,4,-1,2],"waiting":1}],"vis_left_out":2,"cqs":[{"cq":"0.3","entries":2,"waits":8},7],"cqs_left_out":3}"#,
        )
        .unwrap();
        assert_eq!((nic.pid, nic.program.as_str(), nic.mode.as_str(), nic.uptime_ms, nic.vis_left_out), (41, "kv", "guarded", 1500, 2));
        assert_eq!(nic.others, BTreeMap::from([("sleeps".to_owned(), 7)]));
        assert_eq!((nic.wires.as_str(), nic.udp.as_str(), nic.links[0].others["mapped"], nic.links[0].address.as_str()), ("shm+udp", "10.0.0.1:4791", 1, ""));
        assert_eq!((nic.links[1].why.as_str(), nic.links[1].address.as_str(), nic.links[1].others["resent"]), ("far", "10.0.0.2:5", 4));
        let mut wait_times = [0; WAIT_CLASSES];
        (wait_times[1], wait_times[3]) = (4, 2);
        assert_eq!(nic.vis[0].waits, Waits { waits: 6, waits_slept: 4, waited_us: 900, waiting: 1, wait_times });
        assert_eq!([0, 50, 67, 100].map(|percent| percentile(&wait_times, percent)), [Some(256), Some(512), Some(2048), Some(2048)]);
        assert_eq!((percentile(&[0; WAIT_CLASSES], 50), percentile(&[u64::MAX; WAIT_CLASSES], 100)), (None, Some(256)));
        wait_times[WAIT_CLASSES - 1] = 1;
        assert_eq!(percentile(&wait_times, 99), None);
        assert_eq!((nic.cqs.len(), nic.cqs[0].cq.as_str(), nic.cqs[0].waits.waits, nic.cqs[0].others["entries"], nic.cqs_left_out), (1, "0.3", 8, 2, 3));
        assert_eq!((nic.vis[0].sent, nic.vis[0].link.as_str(), nic.vis[0].others["direct"], nic.vis[0].others["newer"]), (5, "", 2, 1000));
    }

    #[test]
    fn nonsense_is_refused_or_tamed() {
        for text in [&b"[]"[..], b"", b"7", b"{\"pid\":", b"\xff\xfe"] {
            assert!(parse(text).is_err());
        }
        let nic = parse(br#"{"pid":"x","nic":-1,"program":"\u001b[31mred","vis":[1,null,{"sent":-5}],"links":7,"sleeps":1e300}"#).unwrap();
        assert_eq!((nic.pid, nic.nic, nic.program.as_str(), nic.vis.len(), nic.vis[0].sent), (0, 0, "?[31mred", 1, 0));
        assert_eq!(nic.others["sleeps"], u64::MAX);
        let deep = "[".repeat(100_000);
        assert!(parse(deep.as_bytes()).is_err());
    }
}
