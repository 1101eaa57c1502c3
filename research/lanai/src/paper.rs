// SPDX-License-Identifier: MIT OR Apache-2.0
//! What the paper says of its machines in numbers. Times are in microseconds, as there.

/// Half a round trip of its own VIs, from Table 1: LANai 4, LANai 7.
pub const RAW: [f64; 2] = [33.1, 30.2];

/// Table 2: the machine; half a round trip, delta, L, o_s, o_r, g.
pub const TABLE2: [(&str, [f64; 6]); 3] = [
    ("AMVIA v1 (LANai 4)", [53.0, 19.9, 45.0, 2.7, 5.3, 48.0]),
    ("AMVIA v1 (LANai 7)", [39.2, 9.0, 33.2, 3.2, 2.8, 34.7]),
    ("AMVIA v3 (LANai 7)", [35.6, 5.4, 29.6, 3.1, 2.9, 30.0]),
];

/// The columns of [`TABLE2`].
pub const COLUMNS: [&str; 6] = ["RTT/2", "delta", "L", "o_s", "o_r", "g"];

/// Table 3: per cent of the host's overhead for a request and a reply.
#[derive(Debug, Clone, Copy)]
#[allow(missing_docs, reason = "the table's own lines")]
pub struct Table3 {
    pub send_done: f64,
    pub post_send: f64,
    pub receive_done: f64,
    pub post_receive: f64,
    pub recycle_send: f64,
    pub recycle_receive: f64,
    pub build: f64,
    pub queue_send: f64,
    pub queue_receive: f64,
    pub bookkeeping: f64,
    pub process: f64,
    pub read: f64,
    pub act: f64,
}

/// See [`Table3`].
pub const TABLE3: Table3 = Table3 {
    send_done: 7.0,
    post_send: 6.1,
    receive_done: 7.4,
    post_receive: 4.8,
    recycle_send: 1.7,
    recycle_receive: 2.0,
    build: 3.5,
    queue_send: 22.1,
    queue_receive: 22.1,
    bookkeeping: 5.7,
    process: 8.7,
    read: 6.3,
    act: 2.6,
};

/// Table 5: what a NIC of the paper takes for a short message.
pub const SHORT_RECEIVE: f64 = 14.5;
