// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracing a node notes which calls have begun and ended, and which procedures run, since its
//! state's token was let go last. The token of a node that is traced is watched
//! (`bellwire_memory::token`), so a node that is not traced has no code for it. Of more than
//! [`CALLS_EACH`] calls, so many are compared in turn.

use crate::calls::{Calls, Stage};
use crate::error::CallError;
use crate::route::{Route, To};
use bellwire_trace::turns::Turns;
use bellwire_trace::{Kind, here};

/// Calls compared each time.
const CALLS_EACH: usize = 64;

/// How an outcome is told: its index among the words of the table of events.
fn number(error: Option<&CallError>) -> u64 {
    match error {
        None => 0,
        Some(CallError::Failed(_)) => 1,
        Some(CallError::UnknownProcedure) => 2,
        Some(CallError::WrongType) => 3,
        Some(CallError::BadArguments) => 4,
        Some(CallError::BadReply) => 5,
        Some(CallError::Overloaded) => 6,
        Some(CallError::TooLarge) => 7,
        Some(CallError::Dropped) => 8,
        Some(CallError::Gone(_)) => 9,
        Some(CallError::Incompatible) => 10,
        Some(CallError::Deadline) => 11,
        Some(CallError::Cancelled) => 12,
        Some(CallError::NotStarted(_)) => 13,
    }
}

/// The calls and procedures that were seen last.
#[derive(Debug, Default)]
pub(crate) struct Observed {
    /// By place: which use of it, and whether that was under way.
    calls: Vec<(u32, bool)>,
    turns: Turns,
    under_way: u64,
    /// By procedure: whether it ran.
    running: Vec<bool>,
}

impl Observed {
    /// Notes what has become of calls.
    pub(crate) fn calls(&mut self, calls: &Calls, routes: &[Option<Route>]) {
        let all = calls.places();
        self.calls.resize(all.max(self.calls.len()), (0, false));
        for at in self.turns.take(all, CALLS_EACH) {
            let Some(now) = calls.place(at) else { continue };
            let (generation, was_under_way) = self.calls[at];
            let is_under_way = matches!(now.stage, Stage::UnderWay);
            if (generation, was_under_way) == (now.generation, is_under_way) {
                continue;
            }
            self.calls[at] = (now.generation, is_under_way);
            let object = at as u32;
            if generation != now.generation {
                if was_under_way {
                    // It has ended, and its outcome was taken, since its turn.
                    self.end(object, 0);
                }
                self.under_way += 1;
                let route = routes.get(now.route as usize).and_then(Option::as_ref);
                here::note_text(Kind::RpcCall, object, [now.route.into(), self.under_way], route.map_or("", |route| name(route, now.known)));
            }
            match now.stage {
                Stage::UnderWay => {}
                Stage::Over(error) => self.end(object, number(error)),
                Stage::Taken => self.end(object, 0),
            }
        }
    }

    fn end(&mut self, object: u32, outcome: u64) {
        self.under_way = self.under_way.saturating_sub(1);
        here::note(Kind::RpcResult, object, [outcome, self.under_way]);
    }

    /// Notes which procedures run: of each its name, and whether it does. `callers` have been heard
    /// of, and so many calls are answered later.
    pub(crate) fn procedures<'a>(&mut self, all: impl ExactSizeIterator<Item = (&'a str, bool)>, callers: usize, deferred: usize) {
        self.running.resize(all.len().max(self.running.len()), false);
        for (at, ((name, runs), ran)) in all.zip(&mut self.running).enumerate() {
            if core::mem::replace(ran, runs) == runs {
                continue;
            }
            if runs {
                here::note_text(Kind::RpcServe, at as u32, [callers as u64, deferred as u64], name);
            } else {
                here::note(Kind::RpcServeEnd, at as u32, [0; 2]);
            }
        }
    }
}

/// The name of a procedure that was called.
fn name(route: &Route, known: u32) -> &str {
    match &route.to {
        To::Peer { known: names, .. } => names.get(known as usize).map_or("", |known| &known.name),
        To::Caller(_) => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwire_trace::kinds::Form;

    /// The table of events has the words of these numbers.
    #[test]
    fn words_and_numbers() {
        let Form::Words(words) = Kind::RpcResult.about().fields[0].form else { panic!("no words") };
        for (error, word) in [
            (None, "result"),
            (Some(CallError::UnknownProcedure), "unknown procedure"),
            (Some(CallError::Dropped), "dropped"),
            (Some(CallError::Deadline), "deadline"),
            (Some(CallError::Cancelled), "cancelled"),
            (Some(CallError::NotStarted(crate::Error::Busy)), "not started"),
        ] {
            assert_eq!(words[number(error.as_ref()) as usize], word);
        }
    }
}
