// SPDX-License-Identifier: MIT OR Apache-2.0
//! What an access consists of, by differences of figures of one run. The paper's Table 4 has the operations of a get over a virtual interface; over shared memory there are none, so the rows are what is there
//! instead, and by packets the virtual interface is one row.

use serde::Serialize;

use super::{LONG, series as g};
use crate::canary::Mode;
use crate::samples::{Key, Metric, Samples, Series};

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
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canary::Canary;
    use crate::samples::Sample;

    #[test]
    fn parts_add_up_to_the_access() {
        let mut samples = Samples::default();
        samples.best.note(50.0);
        let canary = Canary { before_ns: 50.0, after_ns: 50.0 };
        for (metric, series, value) in [(Metric::GasRead, g::PLAIN, 0.5), (Metric::GasGet, g::GLOBAL, 2.0), (Metric::GasGet, g::SYNC, 32.0)] {
            samples.add(Key::new(metric, series, LONG), Sample { round: 1, value, canary });
        }
        let found = parts(&samples);
        assert_eq!(found.iter().map(|part| part.ns).collect::<Vec<_>>(), [0.5, 0.5, 1.0]);
        assert_eq!(found.iter().map(|part| part.share).sum::<f64>(), 100.0);
    }
}
