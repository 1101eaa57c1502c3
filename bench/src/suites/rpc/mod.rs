// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many clients of one server: `bellwire contend`. Single calls stand beside Active Messages in
//! `suites/am/layer/rpc.rs`.

pub mod contend;
