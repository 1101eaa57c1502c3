// SPDX-License-Identifier: MIT OR Apache-2.0
//! Any measures of any designs, by a plan or by options, one parameter of the machine taking
//! several values.

use std::path::PathBuf;

use bellwire_nisim::experiment::plan::{self, Plan};
use bellwire_nisim::experiment::{Measure, Measured};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::ni;
use bellwire_report::Report;
use bellwire_report::model::{Axis, Cell, Column, Line, Plot, Scale, Table, Unit};
use clap::Args;

use super::Common;

/// What to run.
#[derive(Debug, Args)]
pub struct Arguments {
    /// A plan in TOML, in place of the options; --set changes its machine
    #[arg(value_name = "PLAN", conflicts_with_all = ["measure", "design", "parameter"])]
    plan: Option<PathBuf>,

    /// What to measure: round-trip:BYTES, bandwidth:BYTES, or a program: em3d, spsolve, ..
    #[arg(long, value_name = "MEASURE", required_unless_present = "plan")]
    measure: Vec<String>,

    /// Of which design [default: all]
    #[arg(long, value_name = "NAME")]
    design: Vec<String>,

    /// The parameter that takes several values
    #[arg(long, value_name = "NAME", requires = "values")]
    parameter: Option<String>,

    /// Its values
    #[arg(long, value_name = "N,N,..", requires = "parameter", value_delimiter = ',')]
    values: Vec<f64>,

    #[command(flatten)]
    pub common: Common,
}

impl Arguments {
    fn plan(&self) -> Result<Plan, String> {
        let mut plan = match &self.plan {
            Some(path) => {
                let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
                Plan::parse(&text).map_err(|error| format!("{}: {error}", path.display()))?
            }
            None => self.by_options()?,
        };
        plan.machine = self.common.machine(plan.machine)?;
        plan.checked()
    }

    fn by_options(&self) -> Result<Plan, String> {
        let measures = self.measure.iter().map(|text| Measure::parse(text)).collect::<Result<_, _>>()?;
        let named = self.design.iter().map(|name| plan::design(name)).collect::<Result<Vec<_>, _>>()?;
        let designs = if named.is_empty() { ni::DESIGNS.iter().collect() } else { named };
        let sweep = self.parameter.as_ref().map(|name| plan::knob(name).map(|knob| (knob, self.values.clone()))).transpose()?;
        Ok(Plan { machine: Parameters::default(), measures, designs, sweep, size: self.common.size, seed: self.common.seed })
    }
}

/// Runs it.
///
/// # Errors
/// The plan is wrong, or one of its cases cannot be simulated.
pub fn report(arguments: &Arguments) -> Result<Report, String> {
    let plan = arguments.plan()?;
    let measured = arguments.common.each(&plan.cases())?;
    let mut report = Report::new(match &plan.sweep {
        Some((knob, _)) => format!("By {}: {}", knob.name, knob.reason),
        None => "Measures of designs".to_owned(),
    });
    for (index, measure) in plan.measures.iter().enumerate() {
        let of_measure: Vec<&Measured> = measured.iter().skip(index).step_by(plan.measures.len()).collect();
        let title = format!("{measure} [{}]", measure.unit());
        report.tables.push(table(&plan, &title, &of_measure));
        report.plots.extend(plot(&plan, &title, &of_measure));
    }
    Ok(report)
}

/// A row for each value, a column for each design.
fn table(plan: &Plan, title: &str, measured: &[&Measured]) -> Table {
    let first = plan.sweep.as_ref().map_or("", |(knob, _)| knob.name);
    let columns = [first].into_iter().chain(plan.designs.iter().map(|design| design.name)).map(Column::plain);
    let mut table = Table::new(title, columns);
    let values: Vec<String> = plan.sweep.as_ref().map_or(vec![String::new()], |(_, values)| values.iter().map(f64::to_string).collect());
    for (value, row) in values.into_iter().zip(measured.chunks(plan.designs.len())) {
        table.row([Cell::from(value)].into_iter().chain(row.iter().map(|measured| measured.value.into())));
    }
    table
}

fn plot(plan: &Plan, title: &str, measured: &[&Measured]) -> Option<Plot> {
    let (knob, values) = plan.sweep.as_ref()?;
    let lines = plan.designs.iter().enumerate().map(|(index, design)| {
        let points = values.iter().zip(measured.chunks(plan.designs.len())).filter(|(value, _)| value.is_finite());
        Line::new(design.name, points.map(|(value, row)| (*value, row[index].value)))
    });
    let positive = values.iter().all(|value| *value > 0.0);
    let x = Axis::new(knob.name, Unit::None, if positive { Scale::Log2 } else { Scale::Linear });
    Some(Plot { title: title.into(), x, y: Axis::new("", Unit::None, Scale::Linear), lines: lines.collect() })
}
