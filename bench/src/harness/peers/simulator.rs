// SPDX-License-Identifier: MIT OR Apache-2.0
//! The simulator, asked as any other program: `bellwire sim SCENARIO --json`.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use super::process::{launcher, run_within};
use crate::error::Error;

/// How long a scenario may take.
const TIME_MAX: Duration = Duration::from_secs(120);

/// A table of a scenario's report.
#[derive(Debug)]
pub struct Table(Value);

impl Table {
    /// The numbers of a column, of all rows.
    ///
    /// # Errors
    /// There is no such column, or something in it is no number.
    pub fn column(&self, name: &str) -> Result<Vec<f64>, Error> {
        let list = |part: &str| self.0[part].as_array().map_or(&[][..], Vec::as_slice);
        let place = list("columns").iter().position(|column| column["name"] == name);
        let cells = place.and_then(|place| list("rows").iter().map(|row| row[place].as_f64()).collect::<Option<Vec<f64>>>());
        cells.ok_or_else(|| Error::failed(format!("the simulator's table has no numbers called {name:?}")))
    }
}

/// Runs a scenario with these options, and gives one of its tables. `own` is this executable,
/// beside which `bellwire` is.
///
/// # Errors
/// The program is not there, it fails, or it answers with something else.
pub fn table(own: &Path, scenario: &str, options: &[(&str, String)], seed: u64, table: usize) -> Result<Table, Error> {
    let mut command = Command::new(launcher(own));
    command.args(["sim", scenario, "--json", "--quiet", "--seed", &seed.to_string()]);
    for (name, value) in options {
        command.arg(format!("--{name}")).arg(value);
    }
    let text = run_within(&mut command, TIME_MAX).map_err(|error| error.within(&format!("bellwire sim {scenario}")))?;
    parse(&text, table)
}

fn parse(text: &str, table: usize) -> Result<Table, Error> {
    let mut answer: Value = serde_json::from_str(text).map_err(|error| Error::failed(format!("bellwire sim: {error}")))?;
    let table = answer.pointer_mut(&format!("/report/tables/{table}")).map(Value::take);
    table.map(Table).ok_or_else(|| Error::failed("bellwire sim: its answer has no such table"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let text = r#"{"report":{"tables":[{"columns":[{"name":"K"},{"name":"all"}],"rows":[[1,2.5],["x",3]]}]}}"#;
        let found = parse(text, 0).unwrap();
        assert_eq!(found.column("all").unwrap(), [2.5, 3.0]);
        assert!(found.column("K").is_err() && found.column("none").is_err());
        assert!(parse(text, 1).is_err() && parse("no", 0).is_err() && parse("[1]", 0).is_err());
    }
}
