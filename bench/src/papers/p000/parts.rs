// SPDX-License-Identifier: MIT OR Apache-2.0
//! A round trip taken apart: which span is which operation of the paper's Tables 3 and 4.
//!
//! A part takes as much of the time with marks as it has samples of all ([`crate::spans`]). The
//! whole is measured without marks too: how far the parts' sum is from that is a line of the
//! tables.

use super::paper::{CATEGORIES, Part};
use crate::papers::values::Round;
use crate::spans::{HANDLING, REPLIED, REQUESTED, SPANS, span, whole};
use bellwire_amvia::probe::Stage;

/// The operation of a span. Spans that are not listed are under no mark of the paper's operations.
fn part(span: usize) -> Part {
    const OF: [(Stage, Part); 16] = [
        (Stage::Allowed, Part::Bookkeeping),
        (Stage::Built, Part::Build),
        (Stage::Sent, Part::PostSend),
        (Stage::SendsLooked, Part::QueueSend),
        (Stage::SendFound, Part::FindVi),
        (Stage::SendDone, Part::SendDone),
        (Stage::SendRecycled, Part::RecycleSend),
        (Stage::ReceivesLooked, Part::QueueReceive),
        (Stage::ReceiveFound, Part::FindVi),
        (Stage::ReceiveDone, Part::RecvDone),
        (Stage::Read, Part::Read),
        (Stage::Sorted, Part::Process),
        (Stage::Acted, Part::Act),
        (Stage::Finished, Part::Act),
        (Stage::ReceiveArmed, Part::RecycleReceive),
        (Stage::ReceivePosted, Part::PostRecv),
    ];
    match span {
        HANDLING => Part::Act,
        REQUESTED | REPLIED => Part::Bookkeeping,
        _ => OF.iter().find(|(stage, _)| *stage as usize == span).map_or(Part::Rest, |(_, part)| *part),
    }
}

/// Ticks of an operation in a round trip with marks.
pub fn ticks(round: &Round<'_>, of: &str, wanted: Part) -> Option<f64> {
    let samples = |number| round.get(&span(of, number, "samples"));
    let all: f64 = (0..SPANS).map(samples).sum::<Option<f64>>()?;
    let own: f64 = (0..SPANS).filter(|number| part(*number) == wanted).map(samples).sum::<Option<f64>>()?;
    Some(with_marks(round, of)? * own / all)
}

/// Ticks of all operations of a category.
pub fn category(round: &Round<'_>, of: &str, name: &str) -> Option<f64> {
    let (_, parts) = CATEGORIES.iter().find(|(category, _)| *category == name)?;
    parts.iter().map(|part| ticks(round, of, *part)).sum()
}

/// Ticks of all categories together.
pub fn sum(round: &Round<'_>, of: &str) -> Option<f64> {
    CATEGORIES.iter().map(|(name, _)| category(round, of, name)).sum()
}

/// Ticks of the round trip, measured without marks.
pub fn measured(round: &Round<'_>, of: &str) -> Option<f64> {
    round.get(&whole(of, "no marks"))
}

/// The same with marks. This is `sum` if each sample is in one span.
pub fn with_marks(round: &Round<'_>, of: &str) -> Option<f64> {
    round.get(&whole(of, "marks"))
}

/// Per cent of all that is under marks.
pub fn share(round: &Round<'_>, of: &str, ticks: f64) -> Option<f64> {
    Some(100.0 * ticks / sum(round, of)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::values::Values;
    use crate::spans::{POLLED, PROGRAM};

    /// Each span has as many samples as its number.
    fn made_up() -> Values {
        let mut values = Values::default();
        (0..SPANS).for_each(|number| values.note(&span("v3", number, "samples"), 1, number as f64));
        values.note(&whole("v3", "marks"), 1, 1000.0);
        values
    }

    #[test]
    fn nothing_is_counted_twice_or_left_out() {
        let values = made_up();
        let of = |expression: &dyn Fn(&Round<'_>) -> Option<f64>| values.of(expression).map(|estimate| estimate.median.round());
        assert_eq!(of(&|round| sum(round, "v3")), Some(1000.0));
        let found = Stage::SendFound as usize + Stage::ReceiveFound as usize;
        assert_eq!(of(&|round| ticks(round, "v3", Part::FindVi)), Some((1000.0 * found as f64 / (0..SPANS).sum::<usize>() as f64).round()));
        assert_eq!([part(PROGRAM), part(POLLED), part(Stage::Entered as usize), part(Stage::Turned as usize)], [Part::Rest; 4]);
        let all: Vec<Part> = CATEGORIES.iter().flat_map(|(_, parts)| parts.iter().copied()).collect();
        assert!((0..SPANS).all(|span| all.contains(&part(span))));
    }
}
