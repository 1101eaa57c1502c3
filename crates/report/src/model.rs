// SPDX-License-Identifier: MIT OR Apache-2.0
//! The result of an experiment: tables with typed columns, plots, a hash of what was simulated.
//! Data only.

use serde::{Serialize, Serializer};

/// The result of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// What was looked at.
    pub title: String,
    /// What it was looked at under, and what to make of it: a sentence or two each.
    pub about: Vec<String>,
    /// The figures.
    pub tables: Vec<Table>,
    /// Some of them as lines.
    pub plots: Vec<Plot>,
    /// Of every packet of every run, and of what programs noted. `None`: nothing was simulated.
    #[serde(serialize_with = "hexadecimal")]
    pub hash: Option<u64>,
}

fn hexadecimal<S: Serializer>(hash: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
    match hash {
        Some(hash) => serializer.collect_str(&format_args!("{hash:016x}")),
        None => serializer.serialize_none(),
    }
}

impl Report {
    /// Nothing yet.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), about: Vec::new(), tables: Vec::new(), plots: Vec::new(), hash: None }
    }
}

/// Rows under columns.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Table {
    /// What is in it.
    pub title: String,
    /// What stands in each place of a row.
    pub columns: Vec<Column>,
    /// The rows, each as long as the columns.
    pub rows: Vec<Vec<Cell>>,
}

impl Table {
    /// A table without rows.
    pub fn new(title: impl Into<String>, columns: impl IntoIterator<Item = Column>) -> Self {
        Self { title: title.into(), columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    /// Adds a row.
    ///
    /// # Panics
    /// When it is not as long as the columns.
    pub fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let row: Vec<Cell> = cells.into_iter().collect();
        assert_eq!(row.len(), self.columns.len(), "a row of {}", self.title);
        self.rows.push(row);
    }
}

/// What stands in a place of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// What its numbers are in.
    pub unit: Unit,
    /// Whether it was measured with a real clock or counter, so that it differs from run to run.
    pub measured: bool,
}

impl Column {
    /// A column of what a run of this seed always gives.
    pub fn new(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, measured: false }
    }

    /// A column of words or plain numbers.
    pub fn plain(name: impl Into<String>) -> Self {
        Self::new(name, Unit::None)
    }

    /// A column of what real time or a real counter gave.
    pub fn measured(name: impl Into<String>, unit: Unit) -> Self {
        Self { name: name.into(), unit, measured: true }
    }
}

/// What a number is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nothing: a count, a ratio, an index.
    None,
    /// Bytes.
    Bytes,
    /// Nanoseconds.
    Nanoseconds,
    /// Microseconds.
    Microseconds,
    /// Milliseconds.
    Milliseconds,
    /// Million bytes a second.
    MegabytesPerSecond,
    /// Thousand million bytes a second.
    GigabytesPerSecond,
    /// Thousand million bits a second.
    GigabitsPerSecond,
    /// A thousand a second: messages, packets.
    ThousandPerSecond,
    /// Nanoseconds for each byte.
    NanosecondsPerByte,
    /// Hundredths.
    Percent,
    /// Instructions of a processor.
    Instructions,
}

impl Unit {
    /// As it is written behind a number; empty for none.
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Bytes => "B",
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::MegabytesPerSecond => "MB/s",
            Self::GigabytesPerSecond => "GB/s",
            Self::GigabitsPerSecond => "Gbit/s",
            Self::ThousandPerSecond => "k/s",
            Self::NanosecondsPerByte => "ns/B",
            Self::Percent => "%",
            Self::Instructions => "instructions",
        }
    }
}

impl Serialize for Unit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.symbol())
    }
}

/// One place of a table.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Nothing to say.
    None,
    /// A whole number, shown whole.
    Count(u64),
    /// A number, shown with three or four digits.
    Number(f64),
    /// Words.
    Text(String),
}

impl From<u64> for Cell {
    fn from(count: u64) -> Self {
        Self::Count(count)
    }
}

impl From<usize> for Cell {
    fn from(count: usize) -> Self {
        Self::Count(count as u64)
    }
}

impl From<f64> for Cell {
    fn from(number: f64) -> Self {
        Self::Number(number)
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(cell: Option<T>) -> Self {
        cell.map_or(Self::None, Into::into)
    }
}

/// Lines between axes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plot {
    /// What is shown.
    pub title: String,
    /// From left to right.
    pub x: Axis,
    /// From bottom to top.
    pub y: Axis,
    /// The lines.
    pub lines: Vec<Line>,
}

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Axis {
    /// What runs along it.
    pub name: String,
    /// What its numbers are in.
    pub unit: Unit,
    /// How far apart numbers are.
    pub scale: Scale,
}

impl Axis {
    /// An axis.
    pub fn new(name: impl Into<String>, unit: Unit, scale: Scale) -> Self {
        Self { name: name.into(), unit, scale }
    }
}

/// How far apart numbers are on an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Scale {
    /// By their difference; begins at 0.
    Linear,
    /// By their quotient, with marks at powers of 2. Numbers that are not positive are left out.
    Log2,
    /// By their quotient, with marks at powers of 10. Numbers that are not positive are left out.
    Log10,
}

/// Points in a row.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What they are.
    pub name: String,
    /// x and y of each.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    /// A line.
    pub fn new(name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) -> Self {
        Self { name: name.into(), points: points.into_iter().collect() }
    }
}
