// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ways of messages: between which steps which work is done, and of what kind it is. The kinds
//! are the categories of the AMVIA paper's Table 3.

use bellwire_am::probe::Stage;
use serde::Serialize;

use crate::marks::{CALLED, REPLYING, RETURNED};

/// What some time goes for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Calls of virtual interfaces, and what prepares them.
    BaseVi,
    /// Learning that something has come.
    Notification,
    /// Credits, order, and what is kept to be able to return a message.
    FlowControl,
    /// What an Active Message is: tables, tags, handlers, locks.
    Semantics,
    /// The measuring program.
    Program,
    /// From one process's having sent until the other has noticed.
    Transfer,
}

impl Kind {
    /// In the order of the tables.
    pub const ALL: [Kind; 6] = [Kind::BaseVi, Kind::Notification, Kind::FlowControl, Kind::Semantics, Kind::Program, Kind::Transfer];

    /// As tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Kind::BaseVi => "Base VI",
            Kind::Notification => "Event notification",
            Kind::FlowControl => "Flow control",
            Kind::Semantics => "Semantics",
            Kind::Program => "Measuring program",
            Kind::Transfer => "Transfer",
        }
    }
}

/// Which call does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Primitive {
    /// The call that sends a request.
    Request,
    /// The poll that runs the request's handler, without the reply.
    PollRequest,
    /// The call that replies.
    Reply,
    /// The poll that runs the reply's handler.
    PollReply,
    /// None.
    Between,
}

impl Primitive {
    /// In the order of the tables.
    pub const ALL: [Primitive; 4] = [Primitive::Request, Primitive::PollRequest, Primitive::Reply, Primitive::PollReply];

    /// As tables call it.
    pub fn title(self) -> &'static str {
        match self {
            Primitive::Request => "request",
            Primitive::PollRequest => "poll (request)",
            Primitive::Reply => "reply",
            Primitive::PollReply => "poll (reply)",
            Primitive::Between => "",
        }
    }
}

/// A piece of a message's way.
#[derive(Debug, Clone, Copy)]
pub struct Leg {
    /// Whether in the first process, and after which step.
    pub from: (bool, usize),
    /// The same, until which step.
    pub to: (bool, usize),
    /// What it is.
    pub what: &'static str,
    /// Of what kind.
    pub kind: Kind,
    /// In which call.
    pub of: Primitive,
    /// Whether the round trip waits for it; else it is done while a message is on its way.
    pub waited_for: bool,
}

const FIRST: bool = true;
const SECOND: bool = false;

const fn at(process: bool, stage: Stage) -> (bool, usize) {
    (process, stage as usize)
}

const fn leg(from: (bool, usize), to: (bool, usize), what: &'static str, kind: Kind, of: Primitive) -> Leg {
    Leg { from, to, what, kind, of, waited_for: true }
}

const fn beside(from: (bool, usize), to: (bool, usize), what: &'static str, kind: Kind, of: Primitive) -> Leg {
    Leg { from, to, what, kind, of, waited_for: false }
}

use Kind::{BaseVi, FlowControl, Program, Semantics, Transfer};
use Primitive::{Between, PollReply, PollRequest, Reply, Request};

const LOCK: &str = "take the locks";
const UNLOCK: &str = "leave the locks";
const BUILD: &str = "build the message";
/// The copy of a bulk request's data.
pub const COPY: &str = "data into the segment";
const SEND: &str = "send";
const FLIGHT: &str = "until it is noticed";
const TAKE: &str = "take the message";
const READ: &str = "read the message";
const CHOOSE: &str = "check the tag, find the handler";
const ACT: &str = "handler of the program";
const PUT_BACK: &str = "handler back in its place";
const LOOP: &str = "loop";

/// From the receiver's notice of a request on, the same for all requests.
const ANSWERED: [Leg; 16] = [
    leg(at(SECOND, Stage::Found), at(SECOND, Stage::Taken), TAKE, BaseVi, PollRequest),
    leg(at(SECOND, Stage::Taken), at(SECOND, Stage::Parsed), READ, Semantics, PollRequest),
    leg(at(SECOND, Stage::Parsed), at(SECOND, Stage::Chosen), CHOOSE, Semantics, PollRequest),
    leg(at(SECOND, Stage::Chosen), at(SECOND, Stage::Handling), UNLOCK, Semantics, PollRequest),
    leg(at(SECOND, Stage::Handling), (SECOND, REPLYING), ACT, Program, PollRequest),
    leg((SECOND, REPLYING), at(SECOND, Stage::ReplyEntered), LOCK, Semantics, Reply),
    leg(at(SECOND, Stage::ReplyEntered), at(SECOND, Stage::ReplyBuilt), BUILD, Semantics, Reply),
    leg(at(SECOND, Stage::ReplyBuilt), at(SECOND, Stage::ReplySent), SEND, BaseVi, Reply),
    leg(at(SECOND, Stage::ReplySent), at(FIRST, Stage::Found), FLIGHT, Transfer, Between),
    leg(at(FIRST, Stage::Found), at(FIRST, Stage::Taken), TAKE, BaseVi, PollReply),
    leg(at(FIRST, Stage::Taken), at(FIRST, Stage::Parsed), READ, Semantics, PollReply),
    leg(at(FIRST, Stage::Parsed), at(FIRST, Stage::Credited), "credits back", FlowControl, PollReply),
    leg(at(FIRST, Stage::Credited), at(FIRST, Stage::Chosen), CHOOSE, Semantics, PollReply),
    leg(at(FIRST, Stage::Chosen), at(FIRST, Stage::Handling), UNLOCK, Semantics, PollReply),
    leg(at(FIRST, Stage::Handling), at(FIRST, Stage::Handled), ACT, Program, PollReply),
    leg(at(FIRST, Stage::Handled), at(FIRST, Stage::Finished), PUT_BACK, Semantics, PollReply),
];

/// What is done while messages are on their way.
const MEANWHILE: [Leg; 5] = [
    beside(at(FIRST, Stage::Sent), at(FIRST, Stage::Noted), "note the request", FlowControl, Request),
    beside(at(FIRST, Stage::Noted), (FIRST, RETURNED), UNLOCK, Semantics, Request),
    beside(at(SECOND, Stage::ReplySent), at(SECOND, Stage::ReplyNoted), "count the reply", Semantics, Reply),
    beside(at(SECOND, Stage::ReplyNoted), at(SECOND, Stage::Handled), UNLOCK, Semantics, Reply),
    beside(at(SECOND, Stage::Handled), at(SECOND, Stage::Finished), PUT_BACK, Semantics, PollRequest),
];

/// A short or medium request.
const SHORT_REQUEST: [Leg; 6] = [
    leg((FIRST, CALLED), at(FIRST, Stage::Entered), LOCK, Semantics, Request),
    leg(at(FIRST, Stage::Entered), at(FIRST, Stage::LookedUp), "find entry and connection", Semantics, Request),
    leg(at(FIRST, Stage::LookedUp), at(FIRST, Stage::Allowed), "credit and order", FlowControl, Request),
    leg(at(FIRST, Stage::Allowed), at(FIRST, Stage::Built), BUILD, Semantics, Request),
    leg(at(FIRST, Stage::Built), at(FIRST, Stage::Sent), SEND, BaseVi, Request),
    leg(at(FIRST, Stage::Sent), at(SECOND, Stage::Found), FLIGHT, Transfer, Between),
];

/// A bulk request.
const BULK_REQUEST: [Leg; 6] = [
    leg((FIRST, CALLED), at(FIRST, Stage::Entered), LOCK, Semantics, Request),
    leg(at(FIRST, Stage::Entered), at(FIRST, Stage::Allowed), "find entry and connection; credit, order", Semantics, Request),
    leg(at(FIRST, Stage::Allowed), at(FIRST, Stage::Written), COPY, BaseVi, Request),
    leg(at(FIRST, Stage::Written), at(FIRST, Stage::Built), BUILD, Semantics, Request),
    leg(at(FIRST, Stage::Built), at(FIRST, Stage::Sent), SEND, BaseVi, Request),
    leg(at(FIRST, Stage::Sent), at(SECOND, Stage::Found), FLIGHT, Transfer, Between),
];

const fn joined(request: [Leg; 6]) -> [Leg; 27] {
    let mut way = [ANSWERED[0]; 27];
    let mut i = 0;
    while i < 27 {
        way[i] = if i < 6 {
            request[i]
        } else if i < 22 {
            ANSWERED[i - 6]
        } else {
            MEANWHILE[i - 22]
        };
        i += 1;
    }
    way
}

/// A short or medium request and its short reply.
pub static SHORT: [Leg; 27] = joined(SHORT_REQUEST);
/// A bulk request and its short reply.
pub static BULK: [Leg; 27] = joined(BULK_REQUEST);

/// The sender's part of a bulk request in a stream, where the receiver works at the same time.
pub static BULK_STREAM: [Leg; 5] = [
    leg((FIRST, CALLED), at(FIRST, Stage::Allowed), "find entry and connection; credit, order", FlowControl, Request),
    leg(at(FIRST, Stage::Allowed), at(FIRST, Stage::Written), COPY, BaseVi, Request),
    leg(at(FIRST, Stage::Written), at(FIRST, Stage::Built), BUILD, Semantics, Request),
    leg(at(FIRST, Stage::Built), at(FIRST, Stage::Sent), SEND, BaseVi, Request),
    leg(at(FIRST, Stage::Sent), (FIRST, RETURNED), "note the request, leave the locks", Semantics, Request),
];

/// A message of the raw VI and its answer, as the C interface shows them: what a call does inside
/// is one piece.
pub static RAW: [Leg; 11] = [
    leg((FIRST, CALLED), at(FIRST, Stage::Built), "build the descriptor", BaseVi, Request),
    leg(at(FIRST, Stage::Built), at(FIRST, Stage::Sent), SEND, BaseVi, Request),
    leg(at(FIRST, Stage::Sent), at(SECOND, Stage::Taken), FLIGHT, Transfer, Between),
    leg(at(SECOND, Stage::Taken), at(SECOND, Stage::Parsed), ACT, Program, PollRequest),
    leg(at(SECOND, Stage::Parsed), (SECOND, CALLED), LOOP, Program, PollRequest),
    leg((SECOND, CALLED), at(SECOND, Stage::Built), "build the descriptor", BaseVi, Reply),
    leg(at(SECOND, Stage::Built), at(SECOND, Stage::Sent), SEND, BaseVi, Reply),
    leg(at(SECOND, Stage::Sent), at(FIRST, Stage::Taken), FLIGHT, Transfer, Between),
    leg(at(FIRST, Stage::Taken), at(FIRST, Stage::Parsed), ACT, Program, PollReply),
    beside(at(FIRST, Stage::Sent), (FIRST, RETURNED), "send done, receive posted again", BaseVi, Request),
    beside(at(SECOND, Stage::Sent), (SECOND, RETURNED), "send done, receive posted again", BaseVi, Reply),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_has_no_gap() {
        for way in [&SHORT[..], &BULK[..], &RAW[..], &BULK_STREAM[..]] {
            let waited: Vec<&Leg> = way.iter().filter(|leg| leg.waited_for).collect();
            assert!(waited.windows(2).all(|pair| pair[0].to == pair[1].from), "what a leg ends with the next begins with");
            assert_eq!(waited[0].from, (FIRST, CALLED));
            assert!(way.iter().all(|leg| (leg.kind == Transfer) == (leg.from.0 != leg.to.0)), "only a transfer crosses");
        }
    }
}
