// SPDX-License-Identifier: MIT OR Apache-2.0
//! Statements of a paper's text, and whether they hold here.

use serde::Serialize;

use super::values::{Estimate, ROUNDS_MIN, Round, Values};
use bellwire_report::text::number;

/// Whether a statement holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It does, beyond the uncertainty.
    Holds,
    /// It does not, beyond the uncertainty.
    DoesNotHold,
    /// The reason says why neither can be said.
    NotComparable,
}

impl Verdict {
    /// As reports say it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Holds => "holds",
            Self::DoesNotHold => "does not hold",
            Self::NotComparable => "not comparable",
        }
    }
}

/// An expression of the figures of a round.
pub type Expression<'a> = Box<dyn Fn(&Round<'_>) -> Option<f64> + 'a>;

/// How a statement is tested.
pub enum Test<'a> {
    /// It says that an expression is positive.
    Positive {
        /// What the expression is.
        what: &'static str,
        /// What it is in.
        unit: &'static str,
        /// The expression.
        of: Expression<'a>,
    },
    /// It says that two figures are as good as equal: that a ratio is within a factor.
    Near {
        /// What the ratio is of.
        what: &'static str,
        /// How far it may be from 1, as a factor above 1.
        factor: f64,
        /// The ratio.
        of: Expression<'a>,
    },
    /// It is about something that is not here.
    Absent(&'static str),
}

/// A statement and its test.
pub struct Claim<'a> {
    /// Where the paper says it.
    pub place: &'static str,
    /// What it says, in short.
    pub text: &'static str,
    /// How that is tested.
    pub test: Test<'a>,
}

/// A statement that is judged.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Statement {
    /// Where the paper says it.
    pub place: &'static str,
    /// What it says, in short.
    pub text: &'static str,
    /// Whether that holds here.
    pub verdict: Verdict,
    /// Why.
    pub reason: String,
    /// The figure that was compared.
    pub estimate: Option<Estimate>,
}

impl Claim<'_> {
    /// Judges it.
    pub fn judge(&self, values: &Values) -> Statement {
        let (estimate, verdict, reason) = match &self.test {
            Test::Absent(why) => (None, Verdict::NotComparable, (*why).to_owned()),
            Test::Positive { what, unit, of } => judged(values.of(of), what, unit, (0.0, f64::INFINITY)),
            Test::Near { what, factor, of } => judged(values.of(of), what, "", (1.0 / factor, *factor)),
        };
        Statement { place: self.place, text: self.text, verdict, reason, estimate }
    }
}

/// Whether the median is between these, which the statement says.
fn judged(estimate: Option<Estimate>, what: &str, unit: &str, (least, most): (f64, f64)) -> (Option<Estimate>, Verdict, String) {
    let Some(of) = estimate else { return (None, Verdict::NotComparable, format!("{what}: this could not be measured")) };
    let figure = format!(
        "{what}: {}{}{unit} ({} to {}, {} rounds)",
        number(of.median),
        if unit.is_empty() { "" } else { " " },
        number(of.low),
        number(of.high),
        of.rounds
    );
    let wanted = if most.is_finite() { format!("between {} and {}", number(least), number(most)) } else { "above 0".to_owned() };
    let (verdict, why) = if of.rounds < ROUNDS_MIN {
        (Verdict::NotComparable, format!("; so few rounds say nothing of the uncertainty (wanted: {wanted})"))
    } else if of.low > least && of.high < most {
        (Verdict::Holds, format!("; wanted: {wanted}"))
    } else if of.high <= least || of.low >= most {
        (Verdict::DoesNotHold, format!("; wanted: {wanted}"))
    } else {
        (Verdict::NotComparable, format!("; the bound lies within the uncertainty (wanted: {wanted})"))
    };
    (Some(of), verdict, figure + &why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(figures: &[f64], test: impl FnOnce(Expression<'static>) -> Test<'static>) -> Verdict {
        let mut values = Values::default();
        figures.iter().enumerate().for_each(|(i, figure)| values.note("x", i + 1, *figure));
        Claim { place: "", text: "", test: test(Box::new(|round| round.get("x"))) }.judge(&values).verdict
    }

    #[test]
    fn what_is_within_the_uncertainty_is_not_judged() {
        let positive = |of| Test::Positive { what: "x", unit: "ns", of };
        assert_eq!(judge(&[1.0, 2.0, 3.0], positive), Verdict::Holds);
        assert_eq!(judge(&[-1.0, -2.0, -3.0], positive), Verdict::DoesNotHold);
        assert_eq!(judge(&[-1.0, 2.0, 3.0], positive), Verdict::NotComparable);
        assert_eq!(judge(&[1.0, 2.0], positive), Verdict::NotComparable, "two rounds");
        assert_eq!(judge(&[], positive), Verdict::NotComparable);
    }

    #[test]
    fn near_is_near_from_both_sides() {
        let near = |of| Test::Near { what: "x", factor: 1.1, of };
        assert_eq!(judge(&[0.95, 1.0, 1.05], near), Verdict::Holds);
        assert_eq!(judge(&[1.2, 1.3, 1.4], near), Verdict::DoesNotHold);
        assert_eq!(judge(&[0.5, 0.6, 0.7], near), Verdict::DoesNotHold);
        assert_eq!(judge(&[1.05, 1.08, 1.2], near), Verdict::NotComparable);
        let absent = Claim { place: "1", text: "t", test: Test::Absent("no NIC") }.judge(&Values::default());
        assert_eq!((absent.verdict, absent.reason.as_str()), (Verdict::NotComparable, "no NIC"));
    }
}
