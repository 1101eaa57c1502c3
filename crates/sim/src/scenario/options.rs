// SPDX-License-Identifier: MIT OR Apache-2.0
//! The options of scenarios: what each is called, what it may be, what it is usually; and their
//! values, read from text. The `bellwire` command makes its arguments of the same list.

use super::ScenarioError;
use bellwire_faults::units;
use bellwire_time::Duration;

/// What the value of an option is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A whole number within these limits.
    Count(u64, u64),
    /// Bytes, as `4k`.
    Size,
    /// A time, as `2us`.
    Time,
    /// Bits per second, as `10G`.
    Rate,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A fault plan; may be empty.
    Faults,
}

/// An option of a scenario.
#[derive(Clone, Copy, Debug)]
pub struct OptionSpec {
    /// What it is called, in small letters and hyphens.
    pub name: &'static str,
    /// What its value is.
    pub kind: Kind,
    /// Whether there may be several values, with commas between.
    pub several: bool,
    /// What it is unless somebody says otherwise.
    pub default: &'static str,
    /// One line: what it does.
    pub help: &'static str,
}

impl OptionSpec {
    /// An option with one value.
    pub const fn one(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Self {
        Self { name, kind, several: false, default, help }
    }

    /// An option with a list of values.
    pub const fn several(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Self {
        Self { name, kind, several: true, default, help }
    }

    /// Reads its value.
    ///
    /// # Errors
    /// The error in the text.
    pub fn read(&self, text: &str) -> Result<Value, String> {
        if self.kind == Kind::Faults {
            return text.parse::<bellwire_faults::FaultPlan>().map(|_| Value::Words(vec![text.to_owned()])).map_err(|error| error.to_string());
        }
        let parts: Vec<&str> = if self.several { text.split(',').map(str::trim).collect() } else { vec![text] };
        if let Kind::Word(words) = self.kind {
            let unknown = parts.iter().find(|part| !words.contains(part));
            return match unknown {
                Some(part) => Err(format!("{part:?} is none of {}", words.join(", "))),
                None => Ok(Value::Words(parts.into_iter().map(str::to_owned).collect())),
            };
        }
        parts.into_iter().map(|part| self.kind.number(part)).collect::<Result<_, _>>().map(Value::Numbers)
    }
}

impl Kind {
    fn number(self, text: &str) -> Result<u64, String> {
        match self {
            Self::Count(least, most) => {
                let number: u64 = text.parse().map_err(|_| format!("{text:?} is no whole number"))?;
                if (least..=most).contains(&number) { Ok(number) } else { Err(format!("{number} is not from {least} to {most}")) }
            }
            Self::Size => units::parse_bytes(text),
            Self::Time => units::parse_time(text).map(|time| time.0),
            Self::Rate => units::parse_rate(text),
            Self::Word(_) | Self::Faults => Err("no number".to_owned()),
        }
    }

    /// The name of a value in a help text.
    pub const fn placeholder(self) -> &'static str {
        match self {
            Self::Count(..) => "N",
            Self::Size => "BYTES",
            Self::Time => "TIME",
            Self::Rate => "RATE",
            Self::Word(_) => "WORD",
            Self::Faults => "PLAN",
        }
    }
}

/// The value given for an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Counts, bytes, nanoseconds, bits per second.
    Numbers(Vec<u64>),
    /// Words, or the text of a fault plan.
    Words(Vec<String>),
}

/// The options of one run. Asking for an option that the scenario does not have, or as something
/// else than it is, is a mistake in the scenario, and panics.
#[derive(Clone, Debug)]
pub struct Values(Vec<(&'static str, Value)>);

impl Values {
    /// Reads what is `given`, pairs of name and text; takes the usual values of all others.
    ///
    /// # Errors
    /// There is no such option, or its text is wrong.
    pub fn read(options: &[OptionSpec], given: &[(&str, &str)]) -> Result<Self, ScenarioError> {
        if let Some((name, _)) = given.iter().find(|(name, _)| options.iter().all(|option| option.name != *name)) {
            return Err(ScenarioError(format!("there is no option {name}")));
        }
        let read = |option: &OptionSpec| {
            let text = given.iter().rev().find(|(name, _)| *name == option.name).map_or(option.default, |(_, text)| *text);
            option.read(text).map(|value| (option.name, value)).map_err(|why| ScenarioError(format!("{}: {why}", option.name)))
        };
        options.iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    fn value(&self, name: &str) -> &Value {
        &self.0.iter().find(|(other, _)| *other == name).unwrap_or_else(|| panic!("the scenario has no option {name}")).1
    }

    /// Numbers: counts, bytes, nanoseconds, bits per second.
    pub fn numbers(&self, name: &str) -> &[u64] {
        let Value::Numbers(numbers) = self.value(name) else { panic!("{name} is not a number") };
        numbers
    }

    /// The number.
    pub fn number(&self, name: &str) -> u64 {
        self.numbers(name)[0]
    }

    /// The number, to count things of this process with.
    pub fn count(&self, name: &str) -> usize {
        usize::try_from(self.number(name)).unwrap_or(usize::MAX)
    }

    /// The time.
    pub fn time(&self, name: &str) -> Duration {
        Duration(self.number(name))
    }

    /// The words.
    pub fn words(&self, name: &str) -> &[String] {
        let Value::Words(words) = self.value(name) else { panic!("{name} is a number") };
        words
    }

    /// The word, or the text of the fault plan.
    pub fn word(&self, name: &str) -> &str {
        &self.words(name)[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: &[OptionSpec] = &[
        OptionSpec::one("nodes", Kind::Count(2, 100), "4", ""),
        OptionSpec::several("sizes", Kind::Size, "64,1k", ""),
        OptionSpec::one("latency", Kind::Time, "2us", ""),
        OptionSpec::several("patterns", Kind::Word(&["ring", "pairs"]), "ring", ""),
        OptionSpec::one("faults", Kind::Faults, "", ""),
    ];

    #[test]
    fn what_is_given_and_what_is_usual() {
        let values = Values::read(OPTIONS, &[("nodes", "7"), ("patterns", "pairs, ring"), ("faults", "loss=0.1,dup=0.1")]).unwrap();
        assert_eq!((values.count("nodes"), values.numbers("sizes"), values.time("latency")), (7, &[64, 1024][..], Duration(2_000)));
        assert_eq!((values.words("patterns"), values.word("faults")), (&["pairs".to_owned(), "ring".to_owned()][..], "loss=0.1,dup=0.1"));
    }

    #[test]
    fn mistakes_are_named() {
        for (name, text, why) in [
            ("nodes", "1", "not from 2 to 100"),
            ("nodes", "x", "no whole number"),
            ("sizes", "64,", "sizes"),
            ("latency", "3", "latency"),
            ("patterns", "star", "none of ring, pairs"),
            ("faults", "lose=1", "lose"),
            ("node", "3", "no option node"),
        ] {
            let error = Values::read(OPTIONS, &[(name, text)]).unwrap_err().to_string();
            assert!(error.contains(why), "{name} {text}: {error}");
        }
    }
}
