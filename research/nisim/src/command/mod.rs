// SPDX-License-Identifier: MIT OR Apache-2.0
//! `bellwire ni`: designs of network interfaces, simulated (`bellwire_nisim`). Each subcommand
//! makes a list of cases, has them run on all processors, and makes a report of what they gave.

mod figures;
mod html;
mod list;
mod speed;
mod sweep;
mod table5;
mod today;

use std::path::PathBuf;

use bellwire_nisim::experiment::figures::Figure;
use bellwire_nisim::experiment::plan::knob;
use bellwire_nisim::experiment::{Case, Measured, SEED};
use bellwire_nisim::machine::Parameters;
use bellwire_nisim::programs::Size;
use clap::{Args, Parser, Subcommand};

use bellwire_report::bars::{Bars, svg};
use bellwire_report::output;
use bellwire_report::{Report, plot, text, with_progress};

const LONG_ABOUT: &str = "\
Simulates designs of network interfaces on the memory bus of a node: the seven of Mukherjee and Hill, \"The Impact of Data Transfer and Buffering \
Alternatives on Network Interface Design\" (HPCA 1998), and those of today. What the paper measured stands beside what the simulation gives.

The simulator is deterministic: the same command gives the same bytes. It uses nothing of the engine.";

const AFTER_HELP: &str = "\
Examples:
  bellwire ni table5                                       the paper's Table 5 beside ours
  bellwire ni table5 --set memory_ns=60                    the same with memory twice as fast
  bellwire ni report                                       all tables and figures as HTML
  bellwire ni sweep plan.toml --plot plan.svg              what a plan asks for
  bellwire ni sweep --measure bandwidth:256 --design ni2w --design cni32qm --parameter buffers --values 1,2,4,8,inf

Plans, the model, and how to add a design: docs/ni-simulator.md.

Exit status:
  0 if all could be simulated; 1 if not, or something could not be read or written; 2 if the arguments were wrong.";

/// Simulate designs of network interfaces
// The name in usage texts is that of the command that finds this one.
#[derive(Debug, Parser)]
#[command(name = "bellwire-ni", bin_name = "bellwire ni", version, max_term_width = 100, arg_required_else_help = true, long_about = LONG_ABOUT, after_help = AFTER_HELP)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The designs
    Designs,
    /// Every size, time and cost of the machine, with its usual value and the reason for it
    Parameters,
    /// Round trips and bandwidths of all designs beside those of the paper's Table 5
    Table5(Common),
    /// Shares of messages by size of the macrobenchmarks, beside the paper's Table 4
    Histograms(Common),
    /// What data transfer and buffering cost on the CM-5's NI
    Figure1(Common),
    /// NIs with FIFOs by their buffers, and coherent NIs
    Figure3(Common),
    /// An NI in the processor's registers against CNI32Qm
    Figure4(Common),
    /// Designs of today beside each other on a machine of today
    Today(Common),
    /// All tables and figures beside the paper's, as one HTML file
    Report(html::Arguments),
    /// How many bus transactions are simulated in a second
    Speed(speed::Arguments),
    /// Any measures of any designs, with one parameter of the machine taking several values
    Sweep(sweep::Arguments),
}

/// What an experiment has to say.
struct Page {
    report: Report,
    bars: Vec<Bars>,
}

/// What all experiments may be told.
#[derive(Debug, Args)]
pub struct Common {
    /// Change the machine; "bellwire ni parameters" lists the names
    #[arg(long, value_name = "NAME=VALUE", value_parser = setting)]
    set: Vec<String>,

    /// One JSON object in place of the tables
    #[arg(long, conflicts_with = "csv")]
    json: bool,

    /// Comma-separated values in place of the tables
    #[arg(long)]
    csv: bool,

    /// Write the plots
    #[arg(long, value_name = "FILE.svg", value_parser = output::file_to_write)]
    plot: Option<PathBuf>,

    /// How large the inputs of the macrobenchmarks are: table4, or small
    #[arg(long, value_name = "SIZE", default_value = "table4", value_parser = Size::parse)]
    size: Size,

    /// What those inputs are drawn from
    #[arg(long, value_name = "N", default_value_t = SEED)]
    seed: u64,

    /// No progress on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// Does what was asked for.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(arguments: &Arguments) -> Result<(), String> {
    match &arguments.command {
        Command::Designs => output::print(&list::designs()),
        Command::Parameters => output::print(&text::plain(&list::parameters(&Parameters::default()))),
        Command::Table5(common) => common.tell("table5", &table5::simulate(common)?),
        Command::Histograms(common) => common.tell("histograms", &figures::histograms(common)?),
        Command::Figure1(common) => common.tell("figure1", &figures::figure(common, Figure::One)?),
        Command::Figure3(common) => common.tell("figure3", &figures::figure(common, Figure::Three)?),
        Command::Figure4(common) => common.tell("figure4", &figures::figure(common, Figure::Four)?),
        Command::Today(common) => common.tell("today", &today::simulate(common)?),
        Command::Report(arguments) => html::run(arguments),
        Command::Speed(arguments) => arguments.common.tell("speed", &Page { report: speed::report(arguments)?, bars: Vec::new() }),
        Command::Sweep(arguments) => arguments.common.tell("sweep", &Page { report: sweep::report(arguments)?, bars: Vec::new() }),
    }
}

/// Changes a machine by NAME=VALUE.
fn set(text: &str, machine: &mut Parameters) -> Result<(), String> {
    let (name, value) = text.split_once('=').ok_or("it is NAME=VALUE")?;
    let value = value.parse().map_err(|_| "the value is a number, or inf")?;
    knob(name).and_then(|knob| knob.set(machine, value)).map_err(|error| error.to_string())
}

/// An argument that does so.
fn setting(text: &str) -> Result<String, String> {
    set(text, &mut Parameters::default()).map(|()| text.to_owned())
}

impl Common {
    /// The machine: the paper's, with what is set.
    ///
    /// # Errors
    /// A setting is wrong.
    fn machine(&self, mut machine: Parameters) -> Result<Parameters, String> {
        for text in &self.set {
            set(text, &mut machine).map_err(|error| format!("--set {text}: {error}"))?;
        }
        machine.check().map(|()| machine)
    }

    /// Runs cases on all processors; what they gave, in their order.
    ///
    /// # Errors
    /// The first case, in their order, that gave nothing.
    fn each(&self, cases: &[Case]) -> Result<Vec<Measured>, String> {
        let work = |case: &Case| case.run().map_err(|error| format!("{case}: {error}"));
        with_progress(self.quiet, |listener| bellwire_report::cases::each(bellwire_report::cases::processors(), listener, cases, Case::to_string, work))
    }

    /// Prints a report, and writes its plots.
    ///
    /// # Errors
    /// Something cannot be written.
    fn tell(&self, name: &str, Page { report, bars }: &Page) -> Result<(), String> {
        output::print(&match (self.json, self.csv) {
            (true, _) => format!("{}\n", serde_json::json!({ "format": 1, "experiment": name, "set": self.set, "report": report })),
            (_, true) => text::csv(report),
            _ => text::plain(report),
        })?;
        let Some(path) = &self.plot else { return Ok(()) };
        if report.plots.is_empty() && !bars.is_empty() {
            return std::fs::write(path, svg(bars)).map_err(|error| format!("{}: {error}", path.display()));
        }
        plot::write(&report.plots, path)
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn arguments_go_together() {
        super::Arguments::command().debug_assert();
    }
}
