// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whom a fault strikes: patterns of names, and ways between them. A name is a node's or a switch's
//! in the fabric, an address on a real wire.

use core::fmt;
use core::str::FromStr;

/// A name, or the beginning of one followed by `*`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pattern {
    start: String,
    open: bool,
}

impl Pattern {
    /// Whether it stands for this name.
    pub fn matches(&self, name: &str) -> bool {
        if self.open { name.starts_with(&self.start) } else { name == self.start }
    }
}

/// Some names: `a+b+rack1.*`. At least one pattern.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Names(Vec<Pattern>);

impl Names {
    /// Every name there is.
    pub fn all() -> Self {
        Self(vec![Pattern { start: String::new(), open: true }])
    }

    /// Whether one of the patterns stands for this name.
    pub fn matches(&self, name: &str) -> bool {
        self.0.iter().any(|p| p.matches(name))
    }

    /// The patterns, as they were written.
    pub fn patterns(&self) -> &[Pattern] {
        &self.0
    }
}

/// From some names to others: `a>b`, or `a<>b` for both directions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Way {
    /// Where it begins.
    pub from: Names,
    /// Where it ends.
    pub to: Names,
    /// Whether the way back is meant too.
    pub both: bool,
}

impl Way {
    /// Whether packets from one name to another go this way.
    pub fn matches(&self, from: &str, to: &str) -> bool {
        self.from.matches(from) && self.to.matches(to) || self.both && self.from.matches(to) && self.to.matches(from)
    }
}

impl FromStr for Pattern {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let open = text.ends_with('*');
        let start = text.strip_suffix('*').unwrap_or(text);
        if start.is_empty() && !open {
            return Err("a name is missing".into());
        }
        if start.contains(|c: char| c.is_whitespace() || c.is_control() || ",;<>=+*".contains(c)) {
            return Err(format!("{text}: no name (a * may stand at its end only)"));
        }
        Ok(Self { start: start.into(), open })
    }
}

impl FromStr for Names {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        text.split('+').map(str::parse).collect::<Result<_, _>>().map(Self)
    }
}

impl FromStr for Way {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let (from, to, both) = match (text.split_once("<>"), text.split_once('>')) {
            (Some((from, to)), _) => (from, to, true),
            (None, Some((from, to))) => (from, to, false),
            (None, None) => return Err(format!("{text}: a way is a>b for one direction, a<>b for both")),
        };
        Ok(Self { from: from.parse()?, to: to.parse()?, both })
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.start, if self.open { "*" } else { "" })
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, pattern) in self.0.iter().enumerate() {
            write!(f, "{}{pattern}", if i == 0 { "" } else { "+" })?;
        }
        Ok(())
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.from, if self.both { "<>" } else { ">" }, self.to)
    }
}
