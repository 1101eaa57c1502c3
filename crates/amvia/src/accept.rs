// SPDX-License-Identifier: MIT OR Apache-2.0
//! The thread that answers requests for connections.

use crate::name::Ask;
use crate::shared::Shared;
use std::sync::Arc;

/// Answers until the NIC is closed.
pub(crate) fn accept(shared: &Arc<Shared>) {
    let at = shared.name(0).device_address();
    while let Ok((remote, request)) = shared.nic.connect_wait(&at) {
        let ask = Ask::parse(shared.mapping, &remote);
        let is_taken = ask.is_some_and(|ask| shared.bundle_of(ask.wanted).is_some_and(|bundle| bundle.asked(&ask, request)));
        if !is_taken {
            shared.nic.reject(request);
        }
    }
}
