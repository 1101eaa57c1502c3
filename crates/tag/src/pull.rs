// SPDX-License-Identifier: MIT OR Apache-2.0
//! Long messages that a peer of the same host lends (`lent.rs`): the receiver copies them out of
//! the sender's process. So they take one copy, and only the receiver has to run: parts through
//! the link need a turn of both processes for each quarter of a MiB.
//!
//! A look of the endpoint pulls one piece, then takes a message, so that a long one holds nobody
//! up. Messages take turns after [`TURN_BYTES`].
//!
//! Which way is the faster one is timed (`trial.rs`).

use crate::connection::{Doing, OperationId};
use crate::core::Core;
use bellwire_via::wire::Wire;
use bellwire_via::{Engine, PULL_BYTES_MAX, TIMED_BYTES_MIN};

/// What a message pulls before another one has its turn.
const TURN_BYTES: usize = 8 * PULL_BYTES_MAX as usize;
/// The outcome of pulling a piece.
#[derive(Debug, PartialEq, Eq)]
enum Piece {
    Moved,
    /// It was the last one, and the sender still lent the message.
    Whole,
    Refused,
    /// The sender has taken the message back.
    TakenBack,
}

impl Core {
    pub(crate) fn is_pulling(&self) -> bool {
        !self.pulls.is_empty()
    }

    /// A receive has got a lent message. `false`: it is to come in parts.
    pub(crate) fn begin_pull<W: Wire>(&mut self, engine: &mut Engine<W>, own: OperationId, wanted: usize) -> bool {
        let Some(operation) = self.operations.get_mut(own) else { return false };
        let id = operation.connection;
        let Some(connection) = self.connections.get_mut(id) else { return false };
        let vi = connection.channel.vi();
        let now = engine.stopwatch();
        // A trial is long enough to be timed, though its messages may not be.
        if !connection.trial.begin(now, || engine.pulls_lent(vi, wanted.max(TIMED_BYTES_MIN as usize))) {
            return false;
        }
        operation.doing = Doing::Pulling;
        self.pulls.push_back(own);
        self.mark_unsent(id);
        true
    }

    /// All of a lent message is here, by either way.
    pub(crate) fn lent_came<W: Wire>(&mut self, engine: &mut Engine<W>, own: OperationId) {
        let Some(operation) = self.operations.get(own) else { return };
        let Some(connection) = self.connections.get_mut(operation.connection) else { return };
        let vi = connection.channel.vi();
        if let Some((bytes, ns)) = connection.trial.end(operation.wanted, engine.stopwatch()) {
            engine.has_moved_lent(vi, connection.trial.pulls(), bytes, ns);
        }
        if operation.doing == Doing::Pulling {
            engine.count_lent(vi);
        }
    }

    /// Pulls a piece of a message, if one is being pulled. As long as one is, its connection is
    /// among those that want to send, so that each look comes here.
    pub(crate) fn pull_next<W: Wire>(&mut self, engine: &mut Engine<W>) -> bool {
        let Some(own) = self.next_pull() else { return false };
        match self.pull_piece(engine, own) {
            Piece::Moved => {
                let is_turn_over = self.operations.get(own).is_none_or(|o| o.moved.is_multiple_of(TURN_BYTES));
                if is_turn_over { self.pulls.push_back(own) } else { self.pulls.push_front(own) }
            }
            Piece::Whole => self.received(engine, own),
            Piece::Refused => self.pull_failed(engine, own, true),
            Piece::TakenBack => self.pull_failed(engine, own, false),
        }
        if let Some(next) = self.next_pull() {
            let id = self.operations.get(next).map(|o| o.connection);
            self.pulls.push_front(next);
            id.into_iter().for_each(|id| self.mark_unsent(id));
        }
        true
    }

    /// Takes the first receive that is still pulling.
    fn next_pull(&mut self) -> Option<OperationId> {
        loop {
            let own = self.pulls.pop_front()?;
            if self.operations.get(own).is_some_and(|o| o.doing == Doing::Pulling) {
                return Some(own);
            }
        }
    }

    fn pull_piece<W: Wire>(&mut self, engine: &mut Engine<W>, own: OperationId) -> Piece {
        let Some(operation) = self.operations.get_mut(own) else { return Piece::Refused };
        let Some(connection) = self.connections.get(operation.connection) else { return Piece::Refused };
        let vi = connection.channel.vi();
        let found = operation.lent.as_ref().and_then(|(lent, _)| Some((lent, lent.at(operation.moved as u64)?)));
        let Some(((lent, (from, there)), (to, here))) = found.zip(operation.gather.piece_at(operation.moved)) else { return Piece::Refused };
        let most = here.min(operation.wanted - operation.moved).min(PULL_BYTES_MAX as usize);
        let n = usize::try_from(there).unwrap_or(usize::MAX).min(most);
        // SAFETY: G1: `to` is writable for `here` bytes, and `n` is not more.
        if !unsafe { engine.pull_lent(vi, from, to, n) } {
            return Piece::Refused;
        }
        operation.moved += n;
        if operation.moved != operation.wanted {
            return Piece::Moved;
        }
        // SAFETY: `holds` names memory of its own.
        if lent.holds(|from, to, n| unsafe { engine.pull_lent(vi, from, to, n) }) { Piece::Whole } else { Piece::TakenBack }
    }

    /// A message could not be pulled: it is to come in parts, from its beginning. If its sender is
    /// gone or has ended the connection, the notice of it ends the receive.
    fn pull_failed<W: Wire>(&mut self, engine: &mut Engine<W>, own: OperationId, is_refused: bool) {
        let Some(operation) = self.operations.get_mut(own) else { return };
        (operation.doing, operation.moved) = (Doing::Receiving, 0);
        let theirs = operation.lent.as_ref().map(|(_, theirs)| *theirs);
        if let Some(connection) = self.connections.get_mut(operation.connection) {
            connection.trial.give_up();
            if is_refused {
                engine.refuse_lent(connection.channel.vi());
            }
        }
        if let Some(theirs) = theirs {
            self.ask_for_parts(engine, own, theirs);
        }
    }
}
