// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tracing a bundle notes which requests were sent, which are handled, and which handlers run,
//! since its state's token was let go last. The token of a bundle that is traced is watched
//! (`bellwire_memory::token`), so a bundle that is not traced has no code for it.
//!
//! Requests of a connection are numbered as they leave, and the peer says in each message how many
//! it has handled, in order. So each request has a time of its own: from the event that has its
//! number until one that has a higher number as handled.
//!
//! Of more than [`CONNECTIONS_EACH`] connections, so many are compared in turn.

use crate::connection::{Connection, ConnectionId, Record, Role, State};
use crate::endpoint::Endpoint;
use crate::name::EndpointId;
use crate::status::Operation;
use bellwire_trace::turns::Turns;
use bellwire_trace::{Kind, here};
use bellwire_via::handle::{Handle, Slab};

/// Connections compared each time.
const CONNECTIONS_EACH: usize = 64;
/// Requests of a connection that are told one by one; of more, the last ones.
const REQUESTS_EACH: u32 = 64;
/// Endpoints that are searched for a handler that runs.
const ENDPOINTS_EACH: usize = 256;

/// How far a connection was.
#[derive(Clone, Copy)]
struct Seen {
    id: ConnectionId,
    sent: u32,
    acked: u32,
}

impl Seen {
    const fn new(id: ConnectionId) -> Self {
        Self { id, sent: 0, acked: 0 }
    }
}

/// The state that was seen last.
#[derive(Default)]
pub(crate) struct Observed {
    /// By the connections' places.
    connections: Vec<Option<Seen>>,
    turns: Turns,
    /// Whether a handler ran.
    is_running: bool,
    /// The one that began to run last: its endpoint's, and its number.
    last: Option<(EndpointId, u8)>,
}

impl core::fmt::Debug for Observed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Observed").field("last", &self.last).finish_non_exhaustive()
    }
}

impl Observed {
    /// Takes what has been so far as seen.
    pub(crate) fn of(connections: &Slab<Connection>) -> Self {
        let mut seen = Self::default();
        seen.connections.resize(connections.places(), None);
        for (at, to) in seen.connections.iter_mut().enumerate() {
            let id = connections.handle_at(at);
            *to = id.and_then(|id| connections.get(id).map(|c| Seen { id, sent: c.credits.sent(), acked: c.credits.acked() }));
        }
        seen
    }

    /// Notes what has become of requests.
    pub(crate) fn requests(&mut self, connections: &Slab<Connection>) {
        let all = connections.places();
        self.connections.resize(all.max(self.connections.len()), None);
        for at in self.turns.take(all, CONNECTIONS_EACH) {
            let found = connections.handle_at(at).and_then(|id| Some((id, connections.get(id)?)));
            let Some((id, connection)) = found else {
                self.connections[at] = None;
                continue;
            };
            let Role::Client { index } = connection.role else { continue };
            let before = self.connections[at].filter(|seen| seen.id == id).unwrap_or(Seen::new(id));
            let (sent, acked) = (connection.credits.sent(), connection.credits.acked());
            if (before.sent, before.acked) == (sent, acked) {
                continue;
            }
            self.connections[at] = Some(Seen { id, sent, acked });
            for back in (1..=sent.wrapping_sub(before.sent).min(REQUESTS_EACH)).rev() {
                let number = sent.wrapping_sub(back);
                note_request(id.raw(), number, connection.record(number), connection.endpoint, index);
            }
            if acked != before.acked {
                let kind = if matches!(connection.state, State::Dead(_)) { Kind::AmReturned } else { Kind::AmHandled };
                here::note(kind, id.raw(), [acked.into(), connection.credits.outstanding().into()]);
            }
        }
    }

    /// Notes whether a handler runs.
    pub(crate) fn handlers<H>(&mut self, is_running: bool, endpoints: &Slab<Endpoint<H>>) {
        if core::mem::replace(&mut self.is_running, is_running) == is_running {
            return;
        }
        if !is_running {
            return here::note(Kind::AmHandlerEnd, self.last.map_or(0, |(id, _)| id.raw()), [0; 2]);
        }
        // Mostly it is the one that ran last.
        let again = self.last.filter(|(id, handler)| endpoints.get(Handle::from_raw(id.raw())).is_some_and(|e| e.handlers.is_out(*handler)));
        let search = || endpoints.iter().take(ENDPOINTS_EACH).find_map(|(id, e)| Some((EndpointId::from_raw(id.raw()), e.handlers.out()?)));
        let (id, handler) = again.or_else(search).unwrap_or((EndpointId::from_raw(0), 0));
        self.last = Some((id, handler));
        here::note(Kind::AmHandler, id.raw(), [handler.into(), 0]);
    }
}

fn note_request(connection: u32, number: u32, record: Option<&Record>, endpoint: EndpointId, index: u32) {
    let (operation, handler, bytes) = record.map_or((Operation::Request, 0, 0), |r| (r.operation, r.handler, r.length));
    let more = [operation as u64, handler.into(), index.into(), endpoint.raw().into()];
    here::note_more(Kind::AmRequest, connection, [number.into(), bytes.into()], &more);
}

#[cfg(test)]
mod tests {
    use super::*;
    use bellwire_trace::kinds::Form;

    /// The table of events has the words of these numbers.
    #[test]
    fn words_and_numbers() {
        let fields = Kind::AmRequest.about().fields;
        let Some(Form::Words(words)) = fields.iter().find(|field| field.name == "operation").map(|field| field.form) else { panic!("no words") };
        for (operation, word) in [
            (Operation::Request, "short"),
            (Operation::RequestMedium, "medium"),
            (Operation::RequestXfer, "bulk"),
            (Operation::Reply, "short reply"),
            (Operation::ReplyMedium, "medium reply"),
            (Operation::ReplyXfer, "bulk reply"),
            (Operation::Get, "get"),
        ] {
            assert_eq!(words[operation as usize], word);
        }
    }
}
