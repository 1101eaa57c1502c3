// SPDX-License-Identifier: MIT OR Apache-2.0
//! Texts for numbers, and conversions of rates.

use core::ffi::{CStr, c_char, c_int};

fn text(names: &[&'static CStr], number: c_int, other: &'static CStr) -> *const c_char {
    usize::try_from(number).ok().and_then(|n| names.get(n)).unwrap_or(&other).as_ptr()
}

/// How a request ended.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_wc_status_str(status: c_int) -> *const c_char {
    const NAMES: [&CStr; 24] = [
        c"success",
        c"local length error",
        c"local QP operation error",
        c"local EE context operation error",
        c"local protection error",
        c"Work Request Flushed Error",
        c"memory management operation error",
        c"bad response error",
        c"local access error",
        c"remote invalid request error",
        c"remote access error",
        c"remote operation error",
        c"transport retry counter exceeded",
        c"RNR retry counter exceeded",
        c"local RDD violation error",
        c"remote invalid RD request",
        c"aborted error",
        c"invalid EE context number",
        c"invalid EE context state",
        c"fatal error",
        c"response timeout error",
        c"general error",
        c"TM error",
        c"TM software rendezvous",
    ];
    text(&NAMES, status, c"unknown")
}

/// The kind of a node.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_node_type_str(kind: c_int) -> *const c_char {
    const NAMES: [&CStr; 8] =
        [c"unknown", c"InfiniBand channel adapter", c"InfiniBand switch", c"InfiniBand router", c"iWARP NIC", c"usNIC", c"usNIC UDP", c"unspecified"];
    text(&NAMES, kind, c"unknown")
}

/// The state of a port.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_port_state_str(state: c_int) -> *const c_char {
    const NAMES: [&CStr; 6] = [c"no state change (NOP)", c"down", c"init", c"armed", c"active", c"active defer"];
    text(&NAMES, state, c"unknown")
}

/// What an asynchronous event is.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_event_type_str(kind: c_int) -> *const c_char {
    const NAMES: [&CStr; 20] = [
        c"CQ error",
        c"local work queue catastrophic error",
        c"invalid request local work queue error",
        c"local access violation work queue error",
        c"communication established",
        c"send queue drained",
        c"path migrated",
        c"path migration request error",
        c"local catastrophic error",
        c"port active",
        c"port error",
        c"LID change",
        c"P_Key change",
        c"SM change",
        c"SRQ catastrophic error",
        c"SRQ limit reached",
        c"last WQE reached",
        c"client reregistration",
        c"GID table change",
        c"WQ fatal",
    ];
    text(&NAMES, kind, c"unknown")
}

/// Rates of the interface: number, multiple of 2.5 Gb/s, Mb/s.
const RATES: [(c_int, c_int, c_int); 22] = [
    (2, 1, 2500),
    (5, 2, 5000),
    (3, 4, 10_000),
    (6, 8, 20_000),
    (4, 12, 30_000),
    (7, 16, 40_000),
    (8, 24, 60_000),
    (9, 32, 80_000),
    (10, 48, 120_000),
    (11, -1, 14_062),
    (12, -1, 56_250),
    (13, -1, 112_500),
    (14, -1, 168_750),
    (15, -1, 25_781),
    (16, -1, 103_125),
    (17, -1, 206_250),
    (18, -1, 309_375),
    (19, 11, 28_125),
    (20, 20, 50_000),
    (21, 160, 400_000),
    (22, 240, 600_000),
    (23, 320, 800_000),
];

/// A rate as a multiple of 2.5 Gb/s; -1: it is none.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mult(rate: c_int) -> c_int {
    RATES.iter().find(|r| r.0 == rate).map_or(-1, |r| r.1)
}

/// The rate of a multiple of 2.5 Gb/s; 0, the highest: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mult_to_ibv_rate(mult: c_int) -> c_int {
    RATES.iter().find(|r| r.1 == mult && mult > 0).map_or(0, |r| r.0)
}

/// A rate in Mb/s; -1: it is none.
#[unsafe(no_mangle)]
pub extern "C" fn ibv_rate_to_mbps(rate: c_int) -> c_int {
    RATES.iter().find(|r| r.0 == rate).map_or(-1, |r| r.2)
}

/// The rate of so many Mb/s; 0, the highest: there is none.
#[unsafe(no_mangle)]
pub extern "C" fn mbps_to_ibv_rate(mbps: c_int) -> c_int {
    RATES.iter().find(|r| r.2 == mbps).map_or(0, |r| r.0)
}
