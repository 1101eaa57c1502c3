// SPDX-License-Identifier: MIT OR Apache-2.0
//! A round trip taken apart: which span is which operation of the paper's Tables 3 and 4.
//!
//! What a mark costs is measured where the marks stand, by a second mark behind each, and taken off
//! for each mark of a span. The whole is measured without marks. So the operations need not add up
//! to the whole: how far they do not is a line of the tables.

use super::paper::{CATEGORIES, Part};
use super::steps::{marking_name, span, whole};
use crate::mapped::Marking;
use crate::papers::values::Round;
use crate::spans::{ACTED, HANDLING, REPLIED, REQUESTED, SPANS};
use bellwire_amvia::probe::Stage;

/// The operation of a span. Spans that are not listed are under no mark of the paper's operations.
fn part(span: usize) -> Part {
    const OF: [(Stage, Part); 15] = [
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
        (Stage::Finished, Part::Act),
        (Stage::ReceiveArmed, Part::RecycleReceive),
        (Stage::ReceivePosted, Part::PostRecv),
    ];
    match span {
        HANDLING | ACTED => Part::Act,
        REQUESTED | REPLIED => Part::Bookkeeping,
        _ => OF.iter().find(|(stage, _)| *stage as usize == span).map_or(Part::Rest, |(_, part)| *part),
    }
}

/// Ticks that a mark costs in this round.
pub fn mark_cost(round: &Round<'_>, of: &str) -> Option<f64> {
    let get = |what| round.get(&span(of, marking_name(Marking::Doubled), SPANS, what));
    let (ticks, marks) = (get("ticks")?, get("marks")?);
    (marks > 0.0).then(|| ticks / marks)
}

/// Ticks of an operation in a round trip, without the marks'.
pub fn ticks(round: &Round<'_>, of: &str, wanted: Part) -> Option<f64> {
    let (marking, cost) = (marking_name(Marking::On), mark_cost(round, of)?);
    let mut sum = 0.0;
    for number in (0..SPANS).filter(|number| part(*number) == wanted) {
        sum += round.get(&span(of, marking, number, "ticks"))? - cost * round.get(&span(of, marking, number, "marks"))?;
    }
    Some(sum)
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
    round.get(&whole(of, marking_name(Marking::Off)))
}

/// The same with marks, less what they cost. This is `sum` if each tick is in one span.
pub fn with_marks(round: &Round<'_>, of: &str) -> Option<f64> {
    let marking = marking_name(Marking::On);
    let marks: f64 = (0..SPANS).map(|number| round.get(&span(of, marking, number, "marks"))).sum::<Option<f64>>()?;
    Some(round.get(&whole(of, marking))? - marks * mark_cost(round, of)?)
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

    /// A mark costs 10 ticks; each span takes as many more as its number, and is passed twice.
    fn made_up() -> Values {
        let mut values = Values::default();
        let (on, doubled) = (marking_name(Marking::On), marking_name(Marking::Doubled));
        for number in 0..SPANS {
            values.note(&span("v3", on, number, "ticks"), 1, 2.0 * (10.0 + number as f64));
            values.note(&span("v3", on, number, "marks"), 1, 2.0);
        }
        values.note(&span("v3", doubled, SPANS, "ticks"), 1, 1000.0);
        values.note(&span("v3", doubled, SPANS, "marks"), 1, 100.0);
        values.note(&whole("v3", on), 1, (0..SPANS).map(|number| 2.0 * (10.0 + number as f64)).sum());
        values
    }

    #[test]
    fn nothing_is_counted_twice_or_left_out() {
        let values = made_up();
        let whole: f64 = (0..SPANS).map(|number| 2.0 * number as f64).sum();
        let of = |expression: &dyn Fn(&Round<'_>) -> Option<f64>| values.of(expression).map(|estimate| estimate.median);
        assert_eq!(of(&|round| mark_cost(round, "v3")), Some(10.0));
        assert_eq!(of(&|round| sum(round, "v3")), Some(whole));
        assert_eq!(of(&|round| with_marks(round, "v3")), Some(whole));
        assert_eq!(of(&|round| ticks(round, "v3", Part::FindVi)), Some(2.0 * (Stage::SendFound as usize + Stage::ReceiveFound as usize) as f64));
        assert_eq!([part(PROGRAM), part(POLLED), part(Stage::Entered as usize), part(Stage::Turned as usize)], [Part::Rest; 4]);
        let all: Vec<Part> = CATEGORIES.iter().flat_map(|(_, parts)| parts.iter().copied()).collect();
        assert!((0..SPANS).all(|span| all.contains(&part(span))));
    }
}
