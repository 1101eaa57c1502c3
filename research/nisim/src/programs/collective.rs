// SPDX-License-Identifier: MIT OR Apache-2.0
//! Barriers, by messages without payload up and down a tree.

use std::cell::Cell;
use std::rc::Rc;

use crate::am::Am;

/// Handler numbers from here on are those of the library, not of programs.
pub const LIBRARY_HANDLERS: u16 = 0xff00;
const ARRIVE: u16 = LIBRARY_HANDLERS;
const RELEASE: u16 = LIBRARY_HANDLERS + 1;
/// Children of a node of the tree.
const CHILDREN: usize = 4;

/// A barrier of all nodes, used again and again.
#[derive(Clone)]
pub struct Barrier(Rc<Inner>);

struct Inner {
    am: Am,
    arrived: Cell<u64>,
    released: Cell<u64>,
    round: Cell<u64>,
}

impl Barrier {
    /// The barrier of a node; one for each node.
    pub fn new(am: &Am) -> Self {
        let inner = Rc::new(Inner { am: am.clone(), arrived: Cell::default(), released: Cell::default(), round: Cell::default() });
        let (arrived, released) = (inner.clone(), inner.clone());
        am.on(ARRIVE, move |_, _, _| {
            arrived.arrived.set(arrived.arrived.get() + 1);
            async {}
        });
        am.on(RELEASE, move |_, _, _| {
            released.released.set(released.released.get() + 1);
            async {}
        });
        Self(inner)
    }

    /// Waits until all nodes do; handlers run meanwhile.
    pub async fn wait(&self) {
        let Inner { am, arrived, released, round } = &*self.0;
        let (me, nodes) = (am.cpu().node(), am.cpu().nodes());
        let children: Vec<usize> = (me * CHILDREN + 1..=me * CHILDREN + CHILDREN).filter(|&child| child < nodes).collect();
        round.set(round.get() + 1);
        // A child arrives at the next round only after its release from this one, so sums tell the
        // rounds apart.
        am.wait(|| arrived.get() >= round.get() * children.len() as u64).await;
        if me > 0 {
            am.send((me - 1) / CHILDREN, ARRIVE, &[]).await;
            am.wait(|| released.get() >= round.get()).await;
        }
        for child in children {
            am.send(child, RELEASE, &[]).await;
        }
    }
}
