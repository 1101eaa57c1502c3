// SPDX-License-Identifier: MIT OR Apache-2.0
//! Plans: which measures of which designs on which machine, one parameter of it taking several
//! values. Read from TOML; errors name the line.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{Case, Measure, SEED};
use crate::machine::{Knob, Parameters, knobs};
use crate::ni::{self, Design};
use crate::programs::Size;

/// The most values that a parameter takes in a plan.
const VALUES_MAX: usize = 1000;

/// The error of a plan without measures or designs.
const NOTHING: &str = "there is nothing to measure: measures and designs must not be empty";

/// The cases to run.
#[derive(Clone)]
pub struct Plan {
    /// The machine, but for what is swept.
    pub machine: Parameters,
    /// The measurements.
    pub measures: Vec<Measure>,
    /// Of which designs.
    pub designs: Vec<&'static Design>,
    /// The parameter that takes several values, and these.
    pub sweep: Option<(&'static Knob, Vec<f64>)>,
    /// How large the inputs of macrobenchmarks are.
    pub size: Size,
    /// What they are drawn from.
    pub seed: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    measures: Spanned<Vec<Spanned<String>>>,
    designs: Option<Spanned<Vec<Spanned<String>>>>,
    #[serde(default)]
    machine: BTreeMap<Spanned<String>, f64>,
    sweep: Option<Sweep>,
    #[serde(default)]
    size: Size,
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Sweep {
    parameter: Spanned<String>,
    values: Spanned<Vec<f64>>,
}

/// The knob of a name.
///
/// # Errors
/// There is none.
pub fn knob(name: &str) -> Result<&'static Knob, String> {
    knobs::find(name).ok_or_else(|| format!("\"{name}\" is no parameter: \"bellwire ni parameters\" lists them"))
}

/// The design of a name.
///
/// # Errors
/// There is none.
pub fn design(name: &str) -> Result<&'static Design, String> {
    ni::find(name).ok_or_else(|| format!("\"{name}\" is no design: \"bellwire ni designs\" lists them"))
}

impl Plan {
    /// From TOML.
    ///
    /// # Errors
    /// The error, with its line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(1, |span| line_of(text, span.start));
            format!("line {line}: {}", error.message())
        })?;
        let at = |place: usize| move |error: String| format!("line {}: {error}", line_of(text, place));
        let mut machine = Parameters::default();
        for (name, value) in &file.machine {
            let place = name.span().start;
            knob(name.get_ref()).and_then(|knob| knob.set(&mut machine, *value)).map_err(at(place))?;
        }
        // Two settings may contradict each other: the line is that of one which the error names.
        machine.check().map_err(|error| {
            let named = file.machine.keys().find(|name| error.contains(name.get_ref().trim_end_matches("_ns")));
            let place = named.or(file.machine.keys().next()).map_or(0, |name| name.span().start);
            at(place)(error)
        })?;
        let mut lists = [(file.measures.get_ref(), file.measures.span())].into_iter().chain(file.designs.iter().map(|names| (names.get_ref(), names.span())));
        if let Some((_, span)) = lists.find(|(list, _)| list.is_empty()) {
            return Err(at(span.start)(NOTHING.to_owned()));
        }
        let measures = file.measures.get_ref().iter().map(|measure| Measure::parse(measure.get_ref()).map_err(at(measure.span().start)));
        let measures: Vec<Measure> = measures.collect::<Result<_, _>>()?;
        let designs = match &file.designs {
            Some(names) => names.get_ref().iter().map(|name| design(name.get_ref()).map_err(at(name.span().start))).collect::<Result<_, _>>()?,
            None => ni::DESIGNS.iter().collect(),
        };
        let sweep = file.sweep.map(|sweep| {
            let knob = knob(sweep.parameter.get_ref()).map_err(at(sweep.parameter.span().start))?;
            check_sweep(&machine, knob, sweep.values.get_ref()).map_err(at(sweep.values.span().start))?;
            Ok::<_, String>((knob, sweep.values.into_inner()))
        });
        let plan = Self { machine, measures, designs, sweep: sweep.transpose()?, size: file.size, seed: file.seed.unwrap_or(SEED) };
        let places: Vec<usize> = file.measures.get_ref().iter().map(|measure| measure.span().start).collect();
        for (case, &place) in plan.cases().iter().zip(places.iter().cycle()) {
            case.measure.fits(case.machine.nodes, case.size).map_err(at(place))?;
        }
        plan.checked()
    }

    /// The plan, if there is something to do in it and each of its machines can be built.
    ///
    /// # Errors
    /// The error.
    pub fn checked(self) -> Result<Self, String> {
        if self.measures.is_empty() || self.designs.is_empty() {
            return Err(NOTHING.into());
        }
        match &self.sweep {
            Some((knob, values)) => check_sweep(&self.machine, knob, values)?,
            None => self.machine.check()?,
        }
        self.cases().iter().try_for_each(|case| case.measure.fits(case.machine.nodes, case.size))?;
        Ok(self)
    }

    /// Its simulations: for each value of the swept parameter (or once), each design, each measure.
    pub fn cases(&self) -> Vec<Case> {
        let machines = match &self.sweep {
            None => vec![self.machine.clone()],
            Some((knob, values)) => values.iter().filter_map(|&value| with(&self.machine, knob, value).ok()).collect(),
        };
        let mut cases = Vec::new();
        for machine in machines {
            for &design in &self.designs {
                cases.extend(self.measures.iter().map(|&measure| Case { size: self.size, seed: self.seed, ..Case::new(measure, design, machine.clone()) }));
            }
        }
        cases
    }
}

fn with(machine: &Parameters, knob: &Knob, value: f64) -> Result<Parameters, String> {
    let mut machine = machine.clone();
    knob.set(&mut machine, value)?;
    machine.check().map(|()| machine)
}

fn check_sweep(machine: &Parameters, knob: &Knob, values: &[f64]) -> Result<(), String> {
    if values.is_empty() || values.len() > VALUES_MAX {
        return Err(format!("{} takes 1 to {VALUES_MAX} values", knob.name));
    }
    values.iter().try_for_each(|&value| with(machine, knob, value).map(drop))
}

fn line_of(text: &str, place: usize) -> usize {
    text.as_bytes()[..place.min(text.len())].iter().filter(|&&byte| byte == b'\n').count() + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "measures = [\"round-trip:8\", \"bandwidth:4096\"]\ndesigns = [\"ni2w\"]\n[machine]\nmemory_ns = 80\nnodes = 31\n[sweep]\nparameter = \"buffers\"\nvalues = [1, 2, inf]\n";

    #[test]
    fn a_plan_gives_its_cases_in_order() {
        let plan = Plan::parse(GOOD).unwrap();
        let cases = plan.cases();
        assert_eq!(cases.len(), 6);
        assert_eq!(cases[1].to_string(), "ni2w bandwidth:4096");
        assert_eq!((cases[0].machine.buffers, cases[5].machine.buffers), (Some(1), None));
        assert!(cases.iter().all(|case| case.machine.memory == crate::time::Time::from_ns(80)));
    }

    #[test]
    fn errors_name_the_line() {
        let changed = |from: &str, to: &str| {
            assert!(GOOD.contains(from));
            Plan::parse(&GOOD.replace(from, to)).err().unwrap_or_else(|| panic!("{to} is refused"))
        };
        for (from, to, line) in [
            ("round-trip:8", "round-trip:0", 1),
            ("round-trip:8", "ping:8", 1),
            ("ni2w", "ni3w", 2),
            ("memory_ns = 80", "memory_ms = 80", 4),
            ("memory_ns = 80", "memory_ns = -1", 4),
            ("memory_ns = 80", "cache_ways = 1.5", 4),
            ("memory_ns = 80", "bus_bytes = 32\ncache_bytes = 1000", 5),
            ("memory_ns = 80", "buffers = 0", 4),
            ("parameter = \"buffers\"", "parameter = \"x\"", 7),
            ("[1, 2, inf]", "[1, 0]", 8),
            ("[1, 2, inf]", "[]", 8),
            ("[machine]", "[machines]", 3),
            ("[1, 2, inf]", "[1, ", 8),
            // Wrong types.
            ("[\"round-trip:8\", \"bandwidth:4096\"]", "8", 1),
            ("[\"ni2w\"]", "\"ni2w\"", 2),
            ("memory_ns = 80", "memory_ns = \"fast\"", 4),
            ("[1, 2, inf]", "3", 8),
            ("[1, 2, inf]", "[1, \"2\"]", 8),
            ("[machine]", "size = \"huge\"\n[machine]", 3),
            ("[machine]", "seed = -1\n[machine]", 3),
            // Unknown keys, and one that is there twice.
            ("parameter =", "parametr =", 7),
            ("designs =", "design =", 2),
            ("memory_ns = 80", "memory_ns = 80\nmemory_ns = 90", 5),
            // Sizes that cannot be.
            ("round-trip:8", "round-trip:2000000", 1),
            ("memory_ns = 80", "block_bytes = 48", 4),
            ("nodes = 31", "nodes = 1", 5),
            ("memory_ns = 80", "cache_bytes = 1073741824", 4),
            ("memory_ns = 80", "cycle_ns = 0", 4),
            ("\"round-trip:8\", \"bandwidth:4096\"", "\"round-trip:8\",\n\"appbt\"", 2),
            ("[1, 2, inf]", "[1, nan]", 8),
            ("[\"round-trip:8\", \"bandwidth:4096\"]", "[]", 1),
            ("[\"ni2w\"]", "[]", 2),
        ] {
            let error = changed(from, to);
            assert!(error.starts_with(&format!("line {line}: ")), "{to}: {error}");
        }
    }
}
