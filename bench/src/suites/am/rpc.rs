// SPDX-License-Identifier: MIT OR Apache-2.0
//! Remote procedure calls: the second process serves one procedure, which gives its argument back;
//! both compare the number with the one that is due.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use bellwire_rpc::{ADDRESS_BYTES, Address, Device, Node, Peer, Procedure};

use super::{ADDRESSES_OFFSET, Pair, Seen, failed};
use crate::clock::Patience;
use crate::endpoint::PATIENCE;
use crate::error::Error;
use crate::shared::LINE_BYTES;

const NUMBER: Procedure<u64, u64> = Procedure::new("number", 1);

/// This process's node, on a device of its own.
pub(super) struct Rpc {
    node: Node,
    peer: Peer,
    served: Arc<Seen>,
}

impl Rpc {
    fn open(pair: &Pair<'_>) -> Result<Self, Error> {
        let config = bellwire_via::nic::NicConfig::from_env().map_err(failed)?;
        let node = Node::on(&Device::open(config).map_err(failed)?).map_err(failed)?;
        let served = Arc::new(Seen::default());
        let seen = Arc::clone(&served);
        node.serve(&NUMBER, move |number, _| {
            seen.take(number as i32);
            Ok(number)
        })
        .map_err(failed)?;
        let at = |first: bool| ADDRESSES_OFFSET + if first { 0 } else { LINE_BYTES };
        for (i, word) in node.address().to_bytes().chunks(8).enumerate() {
            pair.map.word(at(pair.am.first) + 8 * i).put(u64::from_ne_bytes(word.try_into().unwrap_or_default()));
        }
        pair.meet(3)?;
        let mut address = [0; ADDRESS_BYTES];
        for (i, word) in address.chunks_mut(8).enumerate() {
            word.copy_from_slice(&pair.map.word(at(!pair.am.first) + 8 * i).get().to_ne_bytes());
        }
        let peer = node.connect(&Address::from_bytes(&address).map_err(failed)?).map_err(failed)?;
        Ok(Self { node, peer, served })
    }
}

/// `[ns for each call]`; the second process `[]`.
pub(super) fn calls(pair: &Pair<'_>, count: u64, window: usize) -> Result<Vec<f64>, Error> {
    if pair.am.rpc.get().is_none() {
        let _ = pair.am.rpc.set(Rpc::open(pair)?);
    }
    let rpc = pair.am.rpc.get().ok_or_else(|| Error::failed("no node"))?;
    rpc.served.reset();
    pair.meet(4)?;
    let warm_up = count / 8 + 1;
    let all = warm_up + count;
    if !pair.am.first {
        let mut patience = Patience::lasting(PATIENCE);
        while rpc.served.count() < all {
            if rpc.node.poll().map_err(failed)? == 0 {
                patience.tick()?;
            }
        }
        rpc.served.check()?;
        // The last answer has left, or leaves while this process waits for the next job.
        pair.meet(5)?;
        return Ok(Vec::new());
    }
    let mut start = Instant::now();
    let mut under_way = VecDeque::with_capacity(window);
    for number in 0..all + window as u64 {
        if number == warm_up {
            start = Instant::now();
        }
        if under_way.len() == window || number >= all {
            let Some((due, call)) = under_way.pop_front() else { break };
            let call: bellwire_rpc::Pending<'_, u64> = call;
            if call.wait().map_err(failed)? != due {
                return Err(Error::failed("a call gave another number than its own"));
            }
        }
        if number < all {
            under_way.push_back((number, rpc.node.start(rpc.peer, &NUMBER, &number, None).map_err(failed)?));
        }
    }
    let time = start.elapsed();
    pair.meet(5)?;
    Ok(vec![time.as_nanos() as f64 / count as f64])
}
