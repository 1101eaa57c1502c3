// SPDX-License-Identifier: MIT OR Apache-2.0
//! How endpoints are enabled: what they are bound to is settled then.

use crate::abi::{Outcome, error};
use crate::object::{Addressing, Bound, EpObject};
use crate::{flags, hints};
use bellwire_tag::{Bindings, Counted, Queue};
use std::sync::Arc;

/// `FI_ENABLE`.
pub(crate) fn enable(ep: &EpObject) -> Outcome {
    let mut b = ep.binding();
    if ep.bound.get().is_some() {
        return Err(error::BAD_STATE);
    }
    if b.av.is_none() {
        b.av = ep.scalable.as_ref().and_then(|whole| whole.av());
    }
    let addressing = match &b.av {
        _ if ep.connector.is_some() => Addressing::Pair,
        Some(av) if av.context_bits() != 0 => Addressing::Contexts(av.context_bits()),
        Some(_) => Addressing::Plain,
        None => return Err(error::NO_AV),
    };
    let sends = ep.caps & hints::PRIMARY != 0 && ep.caps & (flags::SEND | flags::READ | flags::WRITE) != 0;
    let receives = ep.caps & (flags::MSG | flags::TAGGED) != 0 && ep.caps & flags::RECV != 0;
    let counted = |which: &[Counted]| which.iter().any(|w| b.counters[*w as usize].is_some());
    let has_tx = b.tx.is_some() || counted(&[Counted::Send, Counted::Read, Counted::Write]);
    let has_rx = b.rx.is_some() || counted(&[Counted::Receive]);
    // An endpoint that only serves remote memory needs no queue for messages.
    let serves = ep.caps & (flags::RMA | flags::ATOMIC) != 0;
    if (sends && !has_tx) || (receives && !serves && !has_rx) {
        return Err(error::NO_CQ);
    }
    let shared = &ep.shared;
    // Whom a connected endpoint reaches, its connection says.
    if let Some(av) = b.av.as_ref().filter(|_| ep.connector.is_none()) {
        av.bind(shared);
    }
    let is_one = matches!((&b.tx, &b.rx), (Some(tx), Some(rx)) if Arc::ptr_eq(tx, rx));
    let tx = b.tx.as_ref().map(|cq| cq.outlet());
    let rx = if is_one { tx.clone() } else { b.rx.as_ref().map(|cq| cq.outlet()) };
    let counters = b.counters.each_ref().map(|counter| counter.as_ref().map(|of| Arc::clone(&of.counter)));
    shared.endpoint.bind(Bindings { queues: [tx.clone(), rx.clone()], counters });
    for (cq, outlet, queue) in [(&b.tx, &tx, Queue::Sends), (&b.rx, &rx, Queue::Receives)] {
        if let (Some(cq), Some(outlet)) = (cq, outlet)
            && !(is_one && queue == Queue::Receives)
        {
            cq.bind(shared, queue, outlet);
        }
    }
    let (tx_selective, rx_selective, shares_receives) = (b.tx_selective, b.rx_selective, b.receives.is_some());
    if ep.bound.set(Bound { addressing, tx_selective, rx_selective, shares_receives, av: b.av.clone() }).is_err() {
        return Err(error::BAD_STATE);
    }
    let serves = ep.domain.add(shared);
    b.receives.iter().for_each(|receives| receives.add(shared, rx_selective));
    // A program that reads the queue of one context waits for what another sends.
    if serves || ep.domain.is_automatic || ep.scalable.is_some() || b.tx.iter().chain(&b.rx).any(|cq| cq.waker().is_some()) {
        shared.endpoint.stand_in();
    }
    if ep.connector.as_ref().and_then(|c| c.eq()).is_some_and(|eq| eq.has_descriptor()) {
        shared.endpoint.stand_in_at_once();
    }
    Ok(())
}
