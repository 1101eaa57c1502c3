// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scenarios as commands: each is a subcommand, made with its options from the list that `bellwire_sim` has; runs one and writes its report.

use std::fmt::Write;
use std::path::PathBuf;

use bellwire_sim::scenario::{self, OptionSpec, Report, Run, Scenario, Values};
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches, Subcommand};

use bellwire_report::output;
use bellwire_report::{self as report, plot, text};

/// The name under which the scenarios are listed.
const LIST: &str = "list";

/// What was asked for.
#[derive(Debug)]
pub enum Chosen {
    /// Which scenarios there are.
    List,
    /// One of them.
    Scenario(Box<Asked>),
}

/// A scenario with its options.
#[derive(Debug)]
pub struct Asked {
    scenario: &'static Scenario,
    given: Vec<(&'static str, String)>,
    seed: u64,
    json: bool,
    plot: Option<PathBuf>,
    quiet: bool,
}

impl FromArgMatches for Chosen {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let (name, matches) = matches.subcommand().ok_or_else(|| Error::new(clap::error::ErrorKind::MissingSubcommand))?;
        let Some(scenario) = scenario::find(name) else { return Ok(Self::List) };
        let given = scenario.options.iter().filter_map(|option| Some((option.name, matches.get_one::<String>(option.name)?.clone()))).collect();
        Ok(Self::Scenario(Box::new(Asked {
            scenario,
            given,
            seed: matches.get_one("seed").copied().unwrap_or(1),
            json: matches.get_flag("json"),
            plot: matches.get_one("plot").cloned(),
            quiet: matches.get_flag("quiet"),
        })))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for Chosen {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommand(Command::new(LIST).about("Which scenarios there are, with their options")).subcommands(scenario::ALL.iter().map(command_of))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        name == LIST || scenario::find(name).is_some()
    }
}

fn command_of(scenario: &'static Scenario) -> Command {
    let common = [
        Arg::new("seed").long("seed").value_name("N").value_parser(clap::value_parser!(u64)).default_value("1").help("All that is random is drawn from it"),
        Arg::new("json").long("json").action(ArgAction::SetTrue).help("One JSON object in place of the tables"),
        Arg::new("plot").long("plot").value_name("FILE.svg").value_parser(output::file_to_write).help("Write the plots"),
        Arg::new("quiet").long("quiet").short('q').action(ArgAction::SetTrue).help("No progress on standard error"),
    ];
    Command::new(scenario.name)
        .about(scenario.summary)
        .long_about(format!("{}.\n\n{}", capital(scenario.summary), scenario.about))
        .args(scenario.options.iter().map(argument_of))
        .next_help_heading("All scenarios")
        .args(common)
}

fn argument_of(option: &'static OptionSpec) -> Arg {
    let placeholder = option.kind.placeholder();
    Arg::new(option.name)
        .long(option.name)
        .value_name(placeholder)
        .value_parser(move |text: &str| option.read(text).map(|_| text.to_owned()))
        .default_value(option.default)
        .hide_default_value(option.default.is_empty())
        .help(if option.several { format!("{}; several with commas between", option.help) } else { option.help.to_owned() })
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Runs the scenario and writes its report.
///
/// # Errors
/// What the exit status is about, as text.
pub fn run(chosen: &Chosen) -> Result<(), String> {
    match chosen {
        Chosen::List => output::print(&list()),
        Chosen::Scenario(asked) => run_one(asked),
    }
}

/// All scenarios with their options.
fn list() -> String {
    let mut text = String::new();
    for scenario in scenario::ALL {
        let _ = writeln!(text, "{}  {}", scenario.name, scenario.summary);
        let row = |option: &OptionSpec| vec![format!("--{}", option.name), option.default.to_owned(), option.help.to_owned()];
        text += &left(&scenario.options.iter().map(row).collect::<Vec<_>>());
        text.push('\n');
    }
    text + "More: bellwire sim SCENARIO --help\n"
}

/// Columns padded to their widest cell, all to the left.
fn left(rows: &[Vec<String>]) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (first, second) = (width(0), width(1));
    rows.iter().map(|row| format!("    {:<first$}  {:<second$}  {}\n", row[0], row[1], row[2])).collect()
}

fn run_one(asked: &Asked) -> Result<(), String> {
    let given: Vec<(&str, &str)> = asked.given.iter().map(|(name, text)| (*name, text.as_str())).collect();
    let values = Values::read(asked.scenario.options, &given).map_err(|error| error.to_string())?;
    let report = report::with_progress(asked.quiet, |progress| (asked.scenario.run)(&Run { seed: asked.seed, values, progress }));
    let report = report.map_err(|error| format!("{}: {error}", asked.scenario.name))?;
    output::print(&if asked.json { json(asked, &report)? } else { text::render(asked.seed, &report) })?;
    asked.plot.as_deref().map_or(Ok(()), |path| plot::write(&report.plots, path))
}

fn json(asked: &Asked, report: &Report) -> Result<String, String> {
    let options: serde_json::Map<String, serde_json::Value> = asked.given.iter().map(|(name, text)| ((*name).to_owned(), text.clone().into())).collect();
    let object = serde_json::json!({ "format": 1, "scenario": asked.scenario.name, "seed": asked.seed, "options": options, "report": report });
    Ok(format!("{object}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(arguments: &[&str]) -> Result<Chosen, Error> {
        let command = Chosen::augment_subcommands(Command::new("sim"));
        Chosen::from_arg_matches(&command.try_get_matches_from([&["sim"], arguments].concat())?)
    }

    #[test]
    fn each_scenario_is_a_command() {
        let command = Chosen::augment_subcommands(Command::new("sim"));
        command.debug_assert();
        for scenario in scenario::ALL {
            let Ok(Chosen::Scenario(asked)) = parsed(&[scenario.name, "--seed", "7", "--json"]) else { panic!("{}", scenario.name) };
            assert!(asked.seed == 7 && asked.json && asked.given.len() == scenario.options.len());
        }
        assert!(matches!(parsed(&[LIST]), Ok(Chosen::List)));
        assert!(parsed(&["logp", "--sizes", "x"]).unwrap_err().to_string().contains('x'));
    }
}
