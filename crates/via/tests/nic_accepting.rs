// SPDX-License-Identifier: MIT OR Apache-2.0
//! Askers of an acceptor are answered, however many ask at a time: with a VI, or with a no; and
//! when it has closed, by nobody.

mod nic_common;

use bellwire_via::wire::shm::ProtectionMode;
use bellwire_via::{Acceptor, Duration, Engine, Error, InboxHandle, NetAddress, Nic, Notice, Taken, ViAttributes, ViHandle};
use nic_common::*;
use std::collections::BTreeMap;

/// More than are awaited at a time in the beginning.
const FRIENDS: u64 = 40;
const STRANGERS: u64 = 3;
const PATIENCE: Duration = Duration(20_000_000_000);

/// A NIC with one inbox, and what came of each VI by its context.
struct Side {
    nic: Nic,
    inbox: InboxHandle,
    attributes: ViAttributes,
    heard: BTreeMap<u64, Result<u64, Error>>,
    accepted: Vec<(ViHandle, NetAddress)>,
}

impl Side {
    fn new(qos: u64) -> Self {
        let nic = open(ProtectionMode::Mapped);
        let (inbox, ptag) = nic.with(|e| (e.create_inbox().unwrap(), e.create_ptag().unwrap()));
        Self { nic, inbox, attributes: ViAttributes { ptag: Some(ptag), qos, ..ViAttributes::default() }, heard: BTreeMap::new(), accepted: Vec::new() }
    }

    fn poll(&mut self) {
        match self.nic.poll_with(|e| Ok(e.take(self.inbox, &mut [0; 7]))).unwrap() {
            Some(Taken::Notice(context, _, Notice::Connected(outcome))) => assert_eq!(self.heard.insert(context, outcome), None, "heard twice of {context}"),
            Some(Taken::Notice(_, vi, Notice::Accepted(_, remote))) => self.accepted.push((vi, *remote)),
            Some(other) => panic!("{other:?}"),
            None => {}
        }
    }

    fn ask(&self, context: u64, own: &str, at: &NetAddress) {
        self.nic.now();
        self.nic.with(|e| {
            let vi = e.create_vi_for_inbox(&self.attributes, self.inbox, 1, context).unwrap();
            e.connect_request(vi, &named(own), at, e.now() + PATIENCE).unwrap();
        });
    }
}

#[test]
fn who_asks_is_answered() {
    let (mut server, mut client, at) = (Side::new(7), Side::new(8), address());
    let mut acceptor = server.nic.with(|e| Acceptor::new(e, at)).unwrap();
    for i in 0..FRIENDS {
        client.ask(i, &format!("friend {i}"), &at);
    }
    for i in 0..STRANGERS {
        client.ask(FRIENDS + i, &format!("stranger {i}"), &at);
    }
    let (inbox, attributes) = (server.inbox, server.attributes);
    let vi_for = |e: &mut Engine<_>, address: &NetAddress| {
        address.discriminator().starts_with(b"friend").then(|| e.create_vi_for_inbox(&attributes, inbox, 1, 0).unwrap())
    };
    let begun = std::time::Instant::now();
    while client.heard.len() < (FRIENDS + STRANGERS) as usize || server.accepted.len() < FRIENDS as usize {
        client.poll();
        server.poll();
        server.nic.now();
        server.nic.with(|e| {
            if acceptor.is_asked(e) {
                acceptor.accept(e, vi_for);
                assert_eq!(acceptor.seen(), e.connection_requests());
            }
        });
        assert!(begun.elapsed() < LONG.unwrap(), "{} of {} were answered", client.heard.len(), FRIENDS + STRANGERS);
    }
    for (context, outcome) in &client.heard {
        assert_eq!(*outcome, if *context < FRIENDS { Ok(7) } else { Err(Error::Rejected) }, "{context}");
    }
    assert_eq!(server.accepted.len(), FRIENDS as usize);

    // Nobody waits there any more.
    server.nic.with(|e| {
        acceptor.close(e);
        assert!(!e.is_listening(&at));
        acceptor.accept(e, |_, _| panic!("asked after its end"));
        server.accepted.drain(..).for_each(|(vi, _)| e.end_vi(vi));
        e.end_vi(ViHandle::from_raw(0));
    });
}
