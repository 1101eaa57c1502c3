// SPDX-License-Identifier: MIT OR Apache-2.0
//! The public C interface of libsisci, `sisci_api.h`, found and loaded at run time, for the wire
//! that is made of it alone (`crates/wire/src/sisci`). Nothing of the library's source is linked
//! in. The functions are called by the names that programs with threads have for them
//! (`_SISCI_PUBLIC_FUNC_MT_*`), which other implementations of the interface have, too.
//!
//! Invariant C1: the functions are those of the header, for the library's name promises its ABI; it
//! is never unloaded. A pointer that is passed is to a live object of the type that the header
//! names. Handles are opaque; each is used by its owner alone, until it is given back.
//!
//! A callback gets a number, not a pointer, so one that comes late finds nobody (`heard.rs`).

mod api;
mod dma;
mod heard;
mod interrupts;
mod segments;

pub use dma::{DmaQueue, Part};
pub use heard::{Hear, Told};
pub use interrupts::{DATA_BYTES_MAX, DataInterrupt, Interrupt, RemoteDataInterrupt, RemoteInterrupt};
pub use segments::{Remote, Segment};

use api::{Api, Handle, call};
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::Arc;

/// `SCI_ERR_*` values that callers tell apart.
pub mod code {
    #![allow(missing_docs)]
    pub const OK: u32 = 0;
    pub const TIMEOUT: u32 = 0x4000_090A;
    pub const NO_SUCH_SEGMENT: u32 = 0x4000_090C;
    pub const CONNECTION_REFUSED: u32 = 0x4000_090E;
    pub const MAX_ENTRIES: u32 = 0x4000_0913;
    pub const SEGMENTID_USED: u32 = 0x4000_0918;
    pub const NO_SUCH_NODEID: u32 = 0x4000_0A00;
    pub const NODE_NOT_RESPONDING: u32 = 0x4000_0A02;
}

/// `sci_segment_cb_reason_t` values.
pub mod reason {
    #![allow(missing_docs)]
    pub const CONNECT: u32 = 1;
    pub const DISCONNECT: u32 = 2;
    pub const NOT_OPERATIONAL: u32 = 3;
    pub const OPERATIONAL: u32 = 4;
    pub const LOST: u32 = 5;
}

/// An error of the library: a value of `SCI_ERR_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(pub u32);

/// The variable that names the library's file.
pub const FILE: &str = "BELLWIRE_LIBSISCI";
const NAMES: [&str; 2] = ["libsisci.so.1", "libsisci.so"];

/// An opened virtual device of the library.
#[derive(Debug)]
pub struct Sisci {
    api: Api,
    device: Handle,
    node: u32,
}

/// The files that may be the library: the one that is named, else those of the loader.
fn candidates(named: Option<PathBuf>) -> Vec<PathBuf> {
    named.map_or_else(|| NAMES.iter().map(PathBuf::from).collect(), |file| vec![file])
}

fn load() -> Result<Api, String> {
    let mut tried = Vec::new();
    for path in candidates(std::env::var_os(FILE).filter(|f| !f.is_empty()).map(PathBuf::from)) {
        // SAFETY: C1: it is the library that is meant, where it is looked for.
        match unsafe { libloading::Library::new(&path) } {
            Ok(library) => {
                let api = Api::resolve(&library).map_err(|e| format!("{}: {e}", path.display()))?;
                std::mem::forget(library);
                return Ok(api);
            }
            Err(error) => tried.push(error.to_string()),
        }
    }
    Err(format!("libsisci is not found ({FILE} may name its file): {}", tried.join("; ")))
}

impl Sisci {
    /// Loads the library, starts it, and opens a device.
    ///
    /// # Errors
    /// Why not, for people.
    pub fn open() -> Result<Arc<Self>, String> {
        let api = load()?;
        let said = |what: &str, e: Error| format!("{what} gives {:#x}", e.0);
        // SAFETY: C1.
        call(|e| unsafe { (api.initialize)(0, e) }).map_err(|e| said("SCIInitialize", e))?;
        let mut device = Handle::NONE;
        // SAFETY: C1.
        let opened = call(|e| unsafe { (api.open)(&raw mut device, 0, e) });
        let mut sisci = Self { api, device, node: 0 };
        opened.map_err(|e| said("SCIOpen", e))?;
        let mut node = 0;
        // SAFETY: C1.
        call(|e| unsafe { (api.get_local_node_id)(ADAPTER, &raw mut node, 0, e) }).map_err(|e| said("SCIGetLocalNodeId", e))?;
        sisci.node = node;
        Ok(Arc::new(sisci))
    }

    /// This node.
    pub fn node(&self) -> u32 {
        self.node
    }

    /// The node of an address, if the library knows one.
    ///
    /// # Errors
    /// What the library says.
    pub fn node_of(&self, address: &str) -> Result<u32, Error> {
        let mut name = CString::new(address).unwrap_or_default().into_bytes_with_nul();
        let (mut node, mut kind) = (0, 0);
        // SAFETY: C1.
        call(|e| unsafe { (self.api.get_node_id_by_adapter_name)(name.as_mut_ptr().cast(), &raw mut node, &raw mut kind, 0, e) }).map(|()| node)
    }
}

impl Drop for Sisci {
    fn drop(&mut self) {
        // Everything that was made on the device holds it, so nothing is left on it.
        // SAFETY: C1.
        let _ = call(|e| unsafe { (self.api.close)(self.device, 0, e) });
        // SAFETY: C1: the start that open() has made.
        unsafe { (self.api.terminate)() };
    }
}

/// The only adapter.
const ADAPTER: u32 = 0;
/// `SCI_FLAG_USE_CALLBACK`.
const USE_CALLBACK: u32 = 1;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_named_library_is_the_only_one() {
        assert_eq!(candidates(Some("/x.so".into())), [PathBuf::from("/x.so")]);
        assert_eq!(candidates(None).len(), 2);
    }
}
