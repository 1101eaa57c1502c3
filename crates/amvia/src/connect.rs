// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connecting to a peer: a thread for each attempt, since `VipConnectRequest` waits, and a program
//! that polls meanwhile must be able to.

use crate::lane::Lane;
use crate::map::State;
use crate::name::{Ask, Name};
use crate::objects::Inner;
use crate::record::End;
use crate::vipl::code;
use bellwire_am::Status;
use bellwire_memory::token::Claim;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long to look for somebody who waits there; for an answer, as a process that gets no
/// processor is not unreachable; and for an endpoint that refuses, since it may be asking itself.
const FIND_MS: u64 = 5_000;
const ANSWER_MAX: Duration = Duration::from_secs(60);
const REFUSED_MAX: Duration = Duration::from_secs(5);
/// Between two requests that are refused.
const PAUSE: Duration = Duration::from_millis(10);

/// Begins to connect MAP object `id`. Its bundle hears of the outcome.
pub(crate) fn begin(inner: &Arc<Inner>, id: u32) {
    let of = Arc::clone(inner);
    let thread = std::thread::Builder::new().name("bellwire-am-connect".into()).stack_size(1 << 18);
    if thread.spawn(move || connect(&of, id)).is_err() {
        fail(inner, id, End { text: "no thread to connect with".to_owned(), ..Status::Unreachable.into() });
    }
}

/// The two ends of a connection that is to be made, and this end's VIs.
struct Wish {
    own: Name,
    peer: Name,
    lanes: Vec<Lane>,
}

fn connect(inner: &Arc<Inner>, id: u32) {
    let Some(mut wish) = wish(inner, id) else {
        return fail(inner, id, End { text: "no memory for the connection".to_owned(), ..Status::Unreachable.into() });
    };
    let shared = &inner.shared;
    let to = wish.peer.device_address();
    let (start, mut refused): (Instant, Option<Instant>) = (Instant::now(), None);
    let mut at = 0;
    while let Some(lane) = wish.lanes.get(at) {
        let ask = Ask { from: wish.own, wanted: wish.peer.number(), lane: at as u8, credits: shared.credits };
        match shared.nic.connect(lane.vi.handle, &ask.address(), &to, FIND_MS) {
            Ok(_) if at + 1 < wish.lanes.len() => at += 1,
            Ok(offer) => {
                let mut core = inner.core.enter(Claim::Visit);
                let offer = u32::try_from(offer).unwrap_or(1).max(1);
                match core.maps.get_mut(&id) {
                    Some(map) if map.state == State::Asking => {
                        map.lanes = core::mem::take(&mut wish.lanes);
                        core.open(id, offer);
                    }
                    // The peer's own request was faster, or the endpoint is no more.
                    _ => drop(core),
                }
                return;
            }
            Err(code::REJECT) => {
                let since = *refused.get_or_insert_with(Instant::now);
                if !is_asking(inner, id) {
                    return;
                }
                if since.elapsed() > REFUSED_MAX {
                    return fail(inner, id, Status::BadEndpoint.into());
                }
                std::thread::sleep(PAUSE);
            }
            Err(code::TIMEOUT) if start.elapsed() < ANSWER_MAX && is_asking(inner, id) => {}
            Err(e) => {
                let said = lane.vi.cause().text;
                let text = match e {
                    _ if !said.is_empty() => said,
                    code::NO_MATCH => "nobody waits for connections there".to_owned(),
                    code::NOT_REACHABLE => "no wire leads there".to_owned(),
                    code::TIMEOUT => "it does not answer".to_owned(),
                    other => format!("VipConnectRequest gives {other}"),
                };
                return fail(inner, id, End { text, ..Status::Unreachable.into() });
            }
        }
    }
}

fn wish(inner: &Arc<Inner>, id: u32) -> Option<Wish> {
    let core = inner.core.enter(Claim::Visit);
    let map = core.maps.get(&id)?;
    let endpoint = core.endpoints.get(&map.endpoint)?;
    let (own, ptag, peer, queues) = (endpoint.name, endpoint.ptag, map.peer, Arc::clone(core.queues.first()?));
    drop(core);
    let shapes = inner.shared.mapping.shapes(u32::from(inner.shared.credits));
    let lanes = shapes.into_iter().map(|shape| Lane::new(&inner.shared, &queues, ptag, shape)).collect::<Result<_, _>>().ok()?;
    Some(Wish { own, peer, lanes })
}

fn is_asking(inner: &Arc<Inner>, id: u32) -> bool {
    inner.core.enter(Claim::Visit).maps.get(&id).is_some_and(|map| map.state == State::Asking)
}

/// The attempt has failed, unless the peer has connected meanwhile.
fn fail(inner: &Arc<Inner>, id: u32, end: End) {
    let mut core = inner.core.enter(Claim::Visit);
    if core.maps.get(&id).is_some_and(|map| map.state == State::Asking) {
        core.bury(id, &end);
    }
}
