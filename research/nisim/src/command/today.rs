// SPDX-License-Identifier: MIT OR Apache-2.0
//! Today's designs beside each other on a machine of today.

use bellwire_nisim::experiment::today::{cases, measures};
use bellwire_nisim::experiment::{Case, Measure, Measured};
use bellwire_nisim::machine::Parameters;
use bellwire_report::Report;
use bellwire_report::model::{Cell, Column, Table, Unit};

use super::{Common, Page};
use bellwire_report::bars::Bars;

/// Simulates all of them.
///
/// # Errors
/// One of them cannot be simulated.
pub fn simulate(common: &Common) -> Result<Page, String> {
    let cases = cases(&common.machine(Parameters::today())?);
    let measured = common.each(&cases)?;
    Ok(page(&cases, &measured))
}

/// The table and its bars, from the cases in their order.
pub fn page(cases: &[Case], measured: &[Measured]) -> Page {
    let mut report = Report::new("Today's designs on a server of today");
    report.about.push(
        "A 3 GHz server: NICs on PCIe with doorbell and DMA descriptors (pcie), the same with direct cache injection (ddio), with inline descriptor writes \
         (blueflame), a coherent NIC on CXL.cache (cxl), a queue in shared memory between two cores (shared-queue); beside them two of the paper's designs \
         on the same machine. Nothing of this was measured by the paper. Sources of the latencies are among the parameters below."
            .into(),
    );
    let mut bars = Vec::new();
    for (title, unit) in [("Round trips", Unit::Microseconds), ("Bandwidths", Unit::MegabytesPerSecond)] {
        let is_of = |measure: &Measure| matches!(measure, Measure::RoundTrip(_)) == (unit == Unit::Microseconds);
        let names: Vec<String> = measures().filter(is_of).map(|measure| measure.to_string()).collect();
        let columns = names.iter().map(|name| Column::new(name.as_str(), unit));
        let mut table = Table::new(title, [Column::plain("design")].into_iter().chain(columns));
        let mut groups = Vec::new();
        for row in cases.iter().zip(measured).collect::<Vec<_>>().chunk_by(|a, b| a.0.design.name == b.0.design.name) {
            let values: Vec<f64> = row.iter().filter(|(case, _)| is_of(&case.measure)).map(|(_, measured)| measured.value).collect();
            let name = row[0].0.design.name;
            groups.push((name.to_owned(), values.iter().copied().map(Some).collect()));
            table.row([Cell::from(name)].into_iter().chain(values.into_iter().map(Cell::from)));
        }
        report.tables.push(table);
        bars.push(Bars { title: title.into(), unit: unit.symbol().into(), series: names, groups });
    }
    Page { report, bars }
}
