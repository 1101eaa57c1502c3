// SPDX-License-Identifier: MIT OR Apache-2.0
//! The text form of a plan, as users write it (docs/simulator.md): parsed with plain errors,
//! printed so that it reads back the same.
//!
//! ```text
//!   plan  = group *( ";" group )
//!   group = [ way ":" ] clause *( "," clause )        faults of this way's links; without a way: of all links, and of the rest
//! ```

use crate::names::{Names, Way};
use crate::plan::{Burst, Corrupt, FaultPlan, LinkFaults, Outage, Removal, Reorder, SkewRule, Span, Squeeze, When};
use crate::probability::Probability;
use crate::skew::Clock;
use crate::units::{self, Bytes, Rate, Time};
use bellwire_time::{Duration, Instant};
use core::fmt;
use core::str::FromStr;

/// Longest text that is read, bytes.
const TEXT_BYTES_MAX: usize = 64 * 1024;

/// Why a text is no plan: the clause, and a sentence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanError {
    clause: String,
    why: String,
}

impl fmt::Display for PlanError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "faults: in \"{}\": {}", self.clause, self.why)
    }
}

impl std::error::Error for PlanError {}

impl FromStr for FaultPlan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Self, PlanError> {
        let mut plan = Self::default();
        if text.len() > TEXT_BYTES_MAX {
            return Err(PlanError { clause: text.chars().take(20).collect(), why: format!("longer than {TEXT_BYTES_MAX} bytes") });
        }
        for group in text.split(';').map(str::trim).filter(|g| !g.is_empty()) {
            plan.read_group(group)?;
        }
        Ok(plan)
    }
}

impl FaultPlan {
    fn read_group(&mut self, group: &str) -> Result<(), PlanError> {
        let fail = |clause: &str, why: String| PlanError { clause: clause.into(), why };
        let (way, clauses) = split_way(group).map_err(|why| fail(group, why))?;
        let mut faults = LinkFaults::default();
        let mut said = Vec::new();
        for clause in clauses.split(',').map(str::trim).filter(|c| !c.is_empty()) {
            let (key, value) = clause.split_once('=').ok_or_else(|| fail(clause, "a clause is name=value".into()))?;
            let (key, value) = (key.trim_end(), value.trim_start());
            let once = !matches!(key, "partition" | "down" | "crash" | "port" | "skew");
            if once && said.contains(&key) {
                return Err(fail(clause, format!("{key} is said twice")));
            }
            said.push(key);
            if faults.set(key, value).map_err(|why| fail(clause, why))? {
                continue;
            }
            if way.is_some() && KEYS.split(", ").any(|k| k == key) {
                return Err(fail(clause, format!("{key} is nothing that one link has: say it without a way in front")));
            }
            if !self.set(key, value).map_err(|why| fail(clause, why))? {
                return Err(fail(clause, format!("no fault is called {key}; there are {KEYS}")));
            }
        }
        match way {
            Some(way) => self.links.push((way, faults)),
            None if self.every_link == LinkFaults::default() => self.every_link = faults,
            None if faults == LinkFaults::default() => {}
            None => return Err(fail(group, "faults of all links stand in one group".into())),
        }
        Ok(())
    }
}

const KEYS: &str =
    "loss, burst, dup, reorder, corrupt, delay, jitter, rate, rnr, unanswered, denied, qp, death, partition, down, crash, port, remove, skew, during, seed";

/// Splits `a>b:loss=1` into way and clauses. A name may have colons of its own (an address), so the
/// last one before the first `=` counts.
fn split_way(group: &str) -> Result<(Option<Way>, &str), String> {
    let head = &group[..group.find('=').unwrap_or(group.len())];
    match head.rfind(':') {
        Some(colon) => Ok((Some(head[..colon].trim().parse()?), &group[colon + 1..])),
        None => Ok((None, group)),
    }
}

impl LinkFaults {
    /// Sets one clause; says whether links have such a fault.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "loss" => self.loss = Probability::parse(value)?,
            "burst" => self.burst = Some(burst(value)?),
            "dup" => self.duplicate = Probability::parse(value)?,
            "reorder" => self.reorder = reorder(value)?,
            "corrupt" => self.corrupt = corrupt(value)?,
            "delay" => self.delay = units::parse_time(value)?,
            "jitter" => self.jitter = units::parse_time(value)?,
            "rate" => self.squeeze = Some(squeeze(value)?),
            _ => return self.requests.set(key, value),
        }
        Ok(true)
    }
}

impl FaultPlan {
    /// Sets one clause that is not a link's; says whether there is such a one.
    fn set(&mut self, key: &str, value: &str) -> Result<bool, String> {
        match key {
            "seed" => self.seed = Some(value.parse().map_err(|_| format!("{value}: a seed is a whole number up to 2^64 - 1"))?),
            "during" => self.during = Some(span(value)?),
            "partition" | "down" => {
                let (when, way) = outage(value, str::parse)?;
                self.outages.push(if key == "down" { Outage::Down(when, way) } else { Outage::Partition(when, way) });
            }
            "crash" => {
                let (when, nodes) = outage(value, str::parse)?;
                if nodes.is_none() && matches!(when, When::At(_)) {
                    return Err("a crash at a given time needs names: crash=1s..2s:a".into());
                }
                self.outages.push(Outage::Crash(when, nodes));
            }
            "port" => self.ports.push(parse_when(value)?),
            "remove" => self.removal = Some(removal(value)?),
            "skew" => self.skews.push(skew(value)?),
            _ => return Ok(false),
        }
        Ok(true)
    }
}

/// `enter:leave` or `enter:leave:loss`.
fn burst(value: &str) -> Result<Burst, String> {
    let mut parts = value.split(':');
    let (Some(enter), Some(leave)) = (parts.next(), parts.next()) else {
        return Err("a burst is the probabilities to enter and to leave it, 0.1:0.3, and perhaps the loss inside, 0.1:0.3:0.9".into());
    };
    let loss = parts.next().map_or(Ok(Probability::ALWAYS), Probability::parse)?;
    match parts.next() {
        Some(more) => Err(format!("{more}: a burst has three numbers at most")),
        None => Ok(Burst { enter: Probability::parse(enter)?, leave: Probability::parse(leave)?, loss }),
    }
}

/// `probability` or `probability:late_max`.
fn reorder(value: &str) -> Result<Reorder, String> {
    let (probability, late) = split(value);
    let late_max = late.map_or(Ok(Reorder::default().late_max), units::parse_time)?;
    if late_max == Duration::ZERO {
        return Err("a late packet is at least 1ns late".into());
    }
    Ok(Reorder { probability: Probability::parse(probability)?, late_max })
}

/// `probability` or `probability:bits_max`.
fn corrupt(value: &str) -> Result<Corrupt, String> {
    let (probability, bits) = split(value);
    let bits_max = bits.map_or(Ok(Corrupt::BITS_MAX), |b| match b.parse() {
        Ok(n) if (1..=Corrupt::BITS_MAX).contains(&n) => Ok(n),
        _ => Err(format!("{b}: 1 to {} bits are flipped", Corrupt::BITS_MAX)),
    })?;
    Ok(Corrupt { probability: Probability::parse(probability)?, bits_max })
}

/// `bits_per_second` or `bits_per_second:queue_bytes`.
fn squeeze(value: &str) -> Result<Squeeze, String> {
    let (rate, queue) = split(value);
    let bits_per_second = units::parse_rate(rate)?;
    if bits_per_second == 0 {
        return Err("a rate of 0 lets nothing through; say down=... for that".into());
    }
    Ok(Squeeze { bits_per_second, queue_bytes: queue.map_or(Ok(Squeeze::QUEUE_BYTES), units::parse_bytes)? })
}

/// `when` or `when:names`.
fn outage<T>(value: &str, names: impl Fn(&str) -> Result<T, String>) -> Result<(When, Option<T>), String> {
    let (when, who) = split(value);
    Ok((parse_when(when)?, who.map(names).transpose()?))
}

/// `1s..3s`, or `10s/1s` for random ones.
fn parse_when(text: &str) -> Result<When, String> {
    let Some((between, length)) = text.split_once('/') else { return span(text).map(When::At) };
    let (between, length) = (units::parse_time(between)?, units::parse_time(length)?);
    if between == Duration::ZERO {
        return Err("there must be time between random outages".into());
    }
    Ok(When::Random { between, length })
}

/// `2s`, or `1s..3s` for a moment between.
fn removal(text: &str) -> Result<Removal, String> {
    let (from, to) = text.split_once("..").unwrap_or((text, text));
    if to.is_empty() {
        return Err(format!("{text}: a device is removed for good: at {from}, or at a moment within {from}..TIME"));
    }
    let (from, to) = (Instant(units::parse_time(from)?.0), Instant(units::parse_time(to)?.0));
    if from > to {
        return Err(format!("{text}: it ends before it begins"));
    }
    Ok(Removal { from, to })
}

/// `1s..3s` or `1s..`.
fn span(text: &str) -> Result<Span, String> {
    let Some((from, to)) = text.split_once("..") else {
        return Err(format!("{text}: a span is 1s..3s, or 1s.. without end"));
    };
    let from = Instant(units::parse_time(from)?.0);
    let to = if to.is_empty() { Instant::NEVER } else { Instant(units::parse_time(to)?.0) };
    if from >= to {
        return Err(format!("{text}: it ends before it begins"));
    }
    Ok(Span { from, to })
}

/// `drift/offset` or `drift/offset:names`, with `~` in front if each node draws its own within
/// these limits.
fn skew(value: &str) -> Result<SkewRule, String> {
    let (clock, who) = split(value);
    let drawn = clock.starts_with('~');
    let (drift, offset) = clock.trim_start_matches('~').split_once('/').unwrap_or((clock.trim_start_matches('~'), "0"));
    let what = "a drift is a number of millionths, 50ppm or -50ppm";
    let drift_ppm = drift.strip_suffix("ppm").and_then(|n| n.parse().ok()).ok_or_else(|| format!("{drift}: {what}"))?;
    if !(-Clock::DRIFT_MAX_PPM..=Clock::DRIFT_MAX_PPM).contains(&drift_ppm) {
        return Err(format!("{drift}: no clock drifts by more than {}ppm", Clock::DRIFT_MAX_PPM));
    }
    let time = |text: &str| units::parse_time(text).and_then(|t| i64::try_from(t.0).map_err(|_| format!("{text}: too large")));
    let offset_ns = match offset.strip_prefix('-') {
        Some(back) => -time(back)?,
        None => time(offset)?,
    };
    let nodes = who.map_or(Ok(Names::all()), str::parse)?;
    Ok(SkewRule { clock: Clock { drift_ppm, offset_ns }, drawn, nodes })
}

fn split(value: &str) -> (&str, Option<&str>) {
    value.split_once(':').map_or((value, None), |(a, b)| (a, Some(b)))
}

impl fmt::Display for FaultPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut clauses = self.every_link.clauses();
        clauses.extend(self.outages.iter().map(ToString::to_string));
        clauses.extend(self.ports.iter().map(|when| format!("port={when}")));
        clauses.extend(self.removal.map(|removal| format!("remove={removal}")));
        clauses.extend(self.skews.iter().map(|rule| format!("skew={rule}")));
        clauses.extend(self.during.map(|span| format!("during={span}")));
        clauses.extend(self.seed.map(|seed| format!("seed={seed}")));
        f.write_str(&clauses.join(","))?;
        for (i, (way, faults)) in self.links.iter().enumerate() {
            let separator = if i == 0 && clauses.is_empty() { "" } else { ";" };
            write!(f, "{separator}{way}:{}", faults.clauses().join(","))?;
        }
        Ok(())
    }
}

impl LinkFaults {
    /// The clauses of what is not as usual.
    fn clauses(&self) -> Vec<String> {
        let usual = Self::default();
        let Self { loss, burst, duplicate, reorder, corrupt, delay, jitter, squeeze, requests } = *self;
        let mut clauses = Vec::new();
        let mut say = |unusual: bool, clause: String| clauses.extend(unusual.then_some(clause));
        say(loss != usual.loss, format!("loss={loss}"));
        if let Some(Burst { enter, leave, loss }) = burst {
            let inside = if loss == Probability::ALWAYS { String::new() } else { format!(":{loss}") };
            say(true, format!("burst={enter}:{leave}{inside}"));
        }
        say(duplicate != usual.duplicate, format!("dup={duplicate}"));
        say(reorder != usual.reorder, format!("reorder={}:{}", reorder.probability, Time(reorder.late_max)));
        say(corrupt != usual.corrupt, format!("corrupt={}:{}", corrupt.probability, corrupt.bits_max));
        say(delay != usual.delay, format!("delay={}", Time(delay)));
        say(jitter != usual.jitter, format!("jitter={}", Time(jitter)));
        if let Some(Squeeze { bits_per_second, queue_bytes }) = squeeze {
            say(true, format!("rate={}:{}", Rate(bits_per_second), Bytes(queue_bytes)));
        }
        clauses.extend(requests.clauses());
        clauses
    }
}

impl fmt::Display for Outage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, who) = match self {
            Self::Partition(_, way) => ("partition", way.as_ref().map(ToString::to_string)),
            Self::Down(_, way) => ("down", way.as_ref().map(ToString::to_string)),
            Self::Crash(_, nodes) => ("crash", nodes.as_ref().map(ToString::to_string)),
        };
        write!(f, "{name}={}", self.when())?;
        who.map_or(Ok(()), |who| write!(f, ":{who}"))
    }
}

impl fmt::Display for When {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::At(span) => write!(f, "{span}"),
            Self::Random { between, length } => write!(f, "{}/{}", Time(*between), Time(*length)),
        }
    }
}

impl fmt::Display for Removal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Time(Duration(self.from.0)))?;
        if self.to == self.from { Ok(()) } else { write!(f, "..{}", Time(Duration(self.to.0))) }
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..", Time(Duration(self.from.0)))?;
        if self.to == Instant::NEVER { Ok(()) } else { write!(f, "{}", Time(Duration(self.to.0))) }
    }
}

impl fmt::Display for SkewRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Clock { drift_ppm, offset_ns } = self.clock;
        let sign = if offset_ns < 0 { "-" } else { "" };
        write!(f, "{}{drift_ppm}ppm/{sign}{}", if self.drawn { "~" } else { "" }, Time(Duration(offset_ns.unsigned_abs())))?;
        if self.nodes == Names::all() { Ok(()) } else { write!(f, ":{}", self.nodes) }
    }
}
