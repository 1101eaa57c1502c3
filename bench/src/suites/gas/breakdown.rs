// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an access consists of, by differences of figures of one run. The paper's Table 4 has the
//! operations of a get over a virtual interface; over shared memory there are none, so the rows are
//! what is there instead, and by packets the virtual interface is one row.

use serde::Serialize;

use super::steps::WAY;
use super::{LONG, series as g};
use crate::breakdown::path::Kind;
use crate::canary::Mode;
use crate::samples::{Key, Metric, Samples, Series};

/// What the steps of a get by packets are parts of.
pub(super) const STEPS: &str = "get of a long and its sync, by packets, by marks";

/// A part of an access.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Part {
    /// Of what.
    pub access: &'static str,
    /// Which part.
    pub part: &'static str,
    /// Its time.
    pub ns: f64,
    /// Per cent of the access.
    pub share: f64,
    /// Whether a figure has no near sample.
    pub far: bool,
}

/// All parts that can be told.
pub fn parts(samples: &Samples) -> Vec<Part> {
    let figure = |metric, series: Series| samples.figure(&Key::new(metric, series, LONG)).map(|figure| (figure.summary.median, figure.mode == Mode::Far));
    let plain = figure(Metric::GasRead, g::PLAIN);
    let sync = figure(Metric::GasGet, g::SYNC).map(|(ns, far)| (ns / 64.0, far));
    let put = figure(Metric::GasPut, g::GLOBAL);
    let mut all = Vec::new();
    let mut access = |access, whole: Option<(f64, bool)>, named: &[(&'static str, Option<(f64, bool)>)], rest: &'static str| {
        let Some((whole, mut far)) = whole else { return };
        let mut left = whole;
        let mut rows = Vec::new();
        for (part, figure) in named {
            let Some((ns, is_far)) = *figure else { return };
            far |= is_far;
            left -= ns;
            rows.push((*part, ns));
        }
        rows.push((rest, left));
        all.extend(rows.into_iter().map(|(part, ns)| Part { access, part, ns, share: 100.0 * ns / whole, far }));
    };
    let find = "finding the place: process, window";
    access("read of a long", figure(Metric::GasRead, g::GLOBAL), &[("load and store", plain)], find);
    access("get of a long", figure(Metric::GasGet, g::GLOBAL), &[("load and store", plain), ("completion, a 64th", sync)], find);
    access("store of a long", figure(Metric::GasStore, g::GLOBAL), &[("as a put", put)], "counting what arrives, no completion");
    let packets = |metric| figure(metric, g::PACKETS);
    access(
        "read of a long, by packets",
        packets(Metric::GasRead),
        &[("virtual interface: a round trip", figure(Metric::GasRead, g::RAW_UDP))],
        "flow control, meaning",
    );
    access(
        "store of a long, by packets",
        packets(Metric::GasStore),
        &[("virtual interface: a message of a stream", figure(Metric::GasStore, g::RAW_UDP))],
        "flow control, meaning",
    );
    all.extend(steps(samples));
    all
}

/// The pieces of a get by packets, marks taken off, and what they are together in parts of the
/// whole that was measured without marks.
fn steps(samples: &Samples) -> Vec<Part> {
    let figure = |metric, place| samples.figure(&Key::new(metric, g::PACKETS, place)).map(|figure| (figure.summary.median, figure.mode == Mode::Far));
    let found = || {
        let ((whole, mut far), (marked, _), (mark, _)) = (figure(Metric::GasTrip, 0)?, figure(Metric::GasTrip, 1)?, figure(Metric::Upkeep, 0)?);
        let (mut rows, mut stamped, mut together) = (Vec::new(), 0.0, 0.0);
        for (place, leg) in (0..).zip(&WAY) {
            let (ns, is_far) = figure(Metric::GasLeg, place)?;
            far |= is_far;
            let piece = if leg.kind == Kind::Transfer { ns } else { ns - mark };
            if leg.waited_for {
                (stamped, together) = (stamped + ns, together + piece);
            }
            rows.push((leg.what, piece));
        }
        let program = marked - stamped - mark;
        together += program;
        rows.push(("the measuring program", program));
        rows.push(("all that is waited for", together));
        rows.push(("the whole, measured apart without marks", whole));
        Some(rows.into_iter().map(|(part, ns)| Part { access: STEPS, part, ns, share: 100.0 * ns / whole, far }).collect())
    };
    found().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_put_beside_the_whole() {
        // 12 pieces are waited for, of which 2 are transfers; the program's loop takes 30 with its
        // mark.
        let legs = (0..WAY.len() as u64).map(|place| (Metric::GasLeg, place, 100.0));
        let cells = legs.chain([(Metric::Upkeep, 0, 10.0), (Metric::GasTrip, 0, 1100.0), (Metric::GasTrip, 1, 1230.0)]);
        let found = parts(&Samples::made_up(&cells.map(|(metric, place, value)| (metric, g::PACKETS, place, value)).collect::<Vec<_>>()));
        assert_eq!(found.len(), WAY.len() + 3);
        assert_eq!((found[0].ns, found[4].ns), (90.0, 100.0));
        let tail: Vec<f64> = found[WAY.len()..].iter().map(|part| part.ns).collect();
        assert_eq!(tail, [20.0, 1120.0, 1100.0]);
    }

    #[test]
    fn parts_add_up_to_the_access() {
        let cells = [(Metric::GasRead, g::PLAIN, LONG, 0.5), (Metric::GasGet, g::GLOBAL, LONG, 2.0), (Metric::GasGet, g::SYNC, LONG, 32.0)];
        let found = parts(&Samples::made_up(&cells));
        assert_eq!(found.iter().map(|part| part.ns).collect::<Vec<_>>(), [0.5, 0.5, 1.0]);
        assert_eq!(found.iter().map(|part| part.share).sum::<f64>(), 100.0);
    }
}
