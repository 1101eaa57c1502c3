// SPDX-License-Identifier: MIT OR Apache-2.0
//! The ends of peers: why the last connection to each ended.

use crate::name::Name;
use crate::reason::Reason;
use std::collections::BTreeMap;

/// Peers whose end is remembered.
const LOST_MAX: usize = 1024;

/// Why the last connection to a peer ended. A request that is posted later finds nobody there; its
/// program is to learn what became of the peer.
#[derive(Debug, Default)]
pub(crate) struct Lost(BTreeMap<Name, Reason>);

impl Lost {
    /// The connection to a peer is over for this reason. Returns the reason that the peer's
    /// requests fail for: the earlier one, if this only says that nobody is there any more.
    pub(crate) fn note(&mut self, peer: Name, reason: Reason) -> Reason {
        if reason == Reason::NobodyThere {
            return self.0.get(&peer).copied().unwrap_or(reason);
        }
        if self.0.len() >= LOST_MAX && !self.0.contains_key(&peer) {
            self.0.pop_first();
        }
        self.0.insert(peer, reason);
        reason
    }

    /// A process at this place is connected.
    pub(crate) fn forget(&mut self, peer: &Name) {
        self.0.remove(peer);
    }
}

#[cfg(test)]
mod tests {
    use super::{LOST_MAX, Lost};
    use crate::name::Name;
    use crate::reason::Reason;

    fn peer(place: usize) -> Name {
        Name { gid: [place as u8; 16], place: place as u16 }
    }

    #[test]
    fn what_became_of_a_peer_is_remembered_until_another_is_there() {
        let mut lost = Lost::default();
        assert_eq!(lost.note(peer(1), Reason::NobodyThere), Reason::NobodyThere);
        assert_eq!(lost.note(peer(1), Reason::PeerDied), Reason::PeerDied);
        assert_eq!(lost.note(peer(1), Reason::NobodyThere), Reason::PeerDied);
        assert_eq!(lost.note(peer(2), Reason::NobodyThere), Reason::NobodyThere);
        lost.forget(&peer(1));
        assert_eq!(lost.note(peer(1), Reason::NobodyThere), Reason::NobodyThere);
        for place in 0..2 * LOST_MAX {
            lost.note(peer(place), Reason::PeerClosed);
        }
        assert!(lost.0.len() <= LOST_MAX);
    }
}
