// SPDX-License-Identifier: MIT OR Apache-2.0
//! Properties that do not change while a NIC is open, for the live view.

use crate::wire::shm::ProtectionMode;
use crate::wire::udp::socket_address;
use bellwire_memory::atomic::{AtomicU32, Ordering};
use std::time::Instant;

static OPENED: AtomicU32 = AtomicU32::new(0);

/// The properties that do not change while the NIC is open.
pub(super) struct Identity {
    /// Which of the process's NICs, from 0 in the order of opening.
    pub number: u32,
    pub mode: ProtectionMode,
    pub host: String,
    pub program: String,
    pub opened: Instant,
}

impl Identity {
    pub(super) fn new(mode: ProtectionMode, host: &[u8]) -> Self {
        let host = match socket_address(host) {
            Some(address) if address.port() == 0 => address.ip().to_string(),
            Some(address) => address.to_string(),
            None => host.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}")),
        };
        let program = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_string_lossy().into_owned()));
        // Relaxed: only distinct.
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        Self { number, mode, host, program: program.unwrap_or_default(), opened: Instant::now() }
    }
}
