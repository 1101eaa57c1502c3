// SPDX-License-Identifier: MIT OR Apache-2.0
//! RDMA devices as the file `bellwire-device.toml` describes them: their number, names, addresses,
//! rates, limits and faults. Without a file there is one device, `bellwire0`.
//!
//! | file | concern |
//! |---|---|
//! | `device.rs` | a device and its limits |
//! | `device/imitated.rs` | the limits of known devices |
//! | `parse.rs` | the file's text; errors with their line |
//! | `find.rs` | where the file is |

#![forbid(unsafe_code)]

mod device;
mod find;
mod parse;

pub use device::{Atomics, DEVICES_MAX, Device, LIMITS_MAX, Limits, Model, Rate};
pub use find::{VARIABLE, find, load};
pub use parse::parse;
