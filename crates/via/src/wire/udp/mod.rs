// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP between hosts.

mod find;
mod packet;
