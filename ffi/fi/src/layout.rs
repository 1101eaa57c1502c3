// SPDX-License-Identifier: MIT OR Apache-2.0
//! Whether our shapes and numbers are those of libfabric's own headers, where these are installed:
//! a C compiler is asked.

use crate::abi::{Fid, Iovec, Msg, MsgAtomic, MsgRma, MsgTagged, RmaIov, Table, class, command, error, wait};
use crate::atomic::{AtomicAttr, TYPES};
use crate::attributes::{DomainAttr, EpAttr, FabricAttr, Info, RxAttr, TxAttr};
use crate::av::AvAttr;
use crate::counter::CounterAttr;
use crate::cq::{CqAttr, ErrorEntry};
use crate::deferring::TriggeredContext;
use crate::endpoint::Alias;
use crate::eq::{EqAttr, EqErrorEntry};
use crate::host::Provider;
use crate::memory::MrAttr;
use crate::queue::Entry;
use crate::waitset::WaitAttr;
use crate::{eq, flags, hints};
use bellwire_tag::AtomicOp;
use core::mem::offset_of;
use std::io::Write;
use std::process::{Command, Stdio};

/// C expressions, and what we say that they are.
type Claims = Vec<(String, u64)>;

const HEADERS: [&str; 11] = [
    "rdma/fabric.h",
    "rdma/fi_atomic.h",
    "rdma/fi_cm.h",
    "rdma/fi_domain.h",
    "rdma/fi_endpoint.h",
    "rdma/fi_eq.h",
    "rdma/fi_errno.h",
    "rdma/fi_rma.h",
    "rdma/fi_tagged.h",
    "rdma/fi_trigger.h",
    "rdma/providers/fi_prov.h",
];

/// Where our fields are, by the names that they have in C; alike in both, or `ours = theirs`.
macro_rules! fields {
    ($claims:ident, $rust:ty, $c:literal, $($ours:ident $(= $theirs:literal)?),* $(,)?) => {
        $($claims.push((format!("offsetof({}, {})", $c, [$($theirs,)? stringify!($ours)][0]), offset_of!($rust, $ours) as u64));)*
    };
}

macro_rules! numbers {
    ($claims:ident, $($c:literal = $ours:expr),* $(,)?) => {
        $($claims.push(($c.to_owned(), $ours as u64));)*
    };
}

fn attributes(c: &mut Claims) {
    fields!(c, TxAttr, "struct fi_tx_attr", caps, mode, op_flags, msg_order, comp_order, inject_size, size, iov_limit, rma_iov_limit, tclass);
    fields!(c, RxAttr, "struct fi_rx_attr", caps, mode, op_flags, msg_order, comp_order, total_buffered_recv, size, iov_limit);
    fields!(c, EpAttr, "struct fi_ep_attr", kind = "type", protocol, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size);
    fields!(c, EpAttr, "struct fi_ep_attr", max_order_war_size, max_order_waw_size, mem_tag_format, tx_ctx_cnt, rx_ctx_cnt, auth_key_size, auth_key);
    fields!(c, DomainAttr, "struct fi_domain_attr", domain, name, threading, control_progress, data_progress, resource_mgmt, av_type, mr_mode, mr_key_size);
    fields!(c, DomainAttr, "struct fi_domain_attr", cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx, max_ep_rx_ctx, max_ep_stx_ctx);
    fields!(c, DomainAttr, "struct fi_domain_attr", max_ep_srx_ctx, cntr_cnt, mr_iov_limit, caps, mode, auth_key, auth_key_size, max_err_data, mr_cnt, tclass);
    fields!(c, FabricAttr, "struct fi_fabric_attr", fabric, name, prov_name, prov_version, api_version);
    fields!(c, Info, "struct fi_info", next, caps, mode, addr_format, src_addrlen, dest_addrlen, src_addr, dest_addr, handle, tx_attr, rx_attr);
    fields!(c, Info, "struct fi_info", ep_attr, domain_attr, fabric_attr, nic);
    fields!(c, AvAttr, "struct fi_av_attr", kind = "type", rx_ctx_bits, count, ep_per_node, name, map_addr, flags);
    fields!(c, CqAttr, "struct fi_cq_attr", size, flags, format, wait_obj, signaling_vector, wait_cond, wait_set);
    fields!(c, EqAttr, "struct fi_eq_attr", size, flags, wait_obj, signaling_vector, wait_set);
    fields!(c, CounterAttr, "struct fi_cntr_attr", events, wait_obj, wait_set, flags);
    fields!(c, WaitAttr, "struct fi_wait_attr", wait_obj, flags);
    fields!(c, MrAttr, "struct fi_mr_attr", iov = "mr_iov", count = "iov_count", access, offset, requested_key, context, auth_key_size, auth_key);
    fields!(c, MrAttr, "struct fi_mr_attr", interface = "iface");
    fields!(c, AtomicAttr, "struct fi_atomic_attr", count, size);
    fields!(c, Provider, "struct fi_provider", version, fi_version, context, name, getinfo, fabric, cleanup);
}

fn messages(c: &mut Claims) {
    fields!(c, Fid, "struct fid", class = "fclass", context, ops);
    fields!(c, Iovec, "struct iovec", at = "iov_base", length = "iov_len");
    fields!(c, Msg, "struct fi_msg", iov = "msg_iov", desc, count = "iov_count", address = "addr", context, data);
    fields!(c, MsgTagged, "struct fi_msg_tagged", iov = "msg_iov", desc, count = "iov_count", address = "addr", tag, ignore, context, data);
    fields!(c, RmaIov, "struct fi_rma_iov", address = "addr", length = "len", key);
    fields!(c, RmaIov, "struct fi_rma_ioc", address = "addr", length = "count", key);
    fields!(c, MsgRma, "struct fi_msg_rma", iov = "msg_iov", desc, count = "iov_count", address = "addr", rma = "rma_iov", rma_count = "rma_iov_count");
    fields!(c, MsgRma, "struct fi_msg_rma", context, data);
    fields!(c, MsgAtomic, "struct fi_msg_atomic", iov = "msg_iov", desc, count = "iov_count", address = "addr", rma = "rma_iov", context, data);
    fields!(c, MsgAtomic, "struct fi_msg_atomic", rma_count = "rma_iov_count", data_type = "datatype", op);
    fields!(c, TriggeredContext, "struct fi_triggered_context", event_type, counter = "trigger.threshold.cntr", threshold = "trigger.threshold.threshold");
    fields!(c, Alias, "struct fi_alias", fid, flags);
    fields!(c, Entry, "struct fi_cq_tagged_entry", context = "op_context", flags, length = "len", buffer = "buf", data, tag);
    fields!(c, ErrorEntry, "struct fi_cq_err_entry", excess = "olen", error = "err", provider_error = "prov_errno", error_data = "err_data");
    fields!(c, ErrorEntry, "struct fi_cq_err_entry", error_data_size = "err_data_size");
    fields!(c, EqErrorEntry, "struct fi_eq_err_entry", fid, context, data, error = "err", provider_error = "prov_errno", error_data = "err_data");
    fields!(c, EqErrorEntry, "struct fi_eq_err_entry", error_data_size = "err_data_size");
}

/// Tables of calls have as many as version 1.17 knows; the last of each by name.
fn tables(c: &mut Claims) {
    let size = |calls: usize| size_of::<Table<0>>() + calls * size_of::<*const ()>();
    for (table, last, calls) in [
        ("fi_ops", "ops_set", 6),
        ("fi_ops_atomic", "compwritevalid", 13),
        ("fi_ops_av", "av_set", 7),
        ("fi_ops_cm", "join", 9),
        ("fi_ops_cntr", "seterr", 7),
        ("fi_ops_cq", "strerror", 7),
        ("fi_ops_domain", "endpoint2", 11),
        ("fi_ops_ep", "tx_size_left", 7),
        ("fi_ops_eq", "strerror", 5),
        ("fi_ops_fabric", "domain2", 6),
        ("fi_ops_mr", "regattr", 3),
        ("fi_ops_msg", "injectdata", 9),
        ("fi_ops_poll", "poll_del", 3),
        ("fi_ops_rma", "injectdata", 9),
        ("fi_ops_tagged", "injectdata", 9),
        ("fi_ops_wait", "wait", 1),
    ] {
        c.push((format!("offsetof(struct {table}, {last})"), size(calls - 1) as u64));
    }
}

fn constants(c: &mut Claims) {
    numbers!(c, "FI_MSG" = flags::MSG, "FI_RMA" = flags::RMA, "FI_TAGGED" = flags::TAGGED, "FI_ATOMIC" = flags::ATOMIC, "FI_READ" = flags::READ);
    numbers!(c, "FI_WRITE" = flags::WRITE, "FI_RECV" = flags::RECV, "FI_SEND" = flags::SEND, "FI_REMOTE_READ" = flags::REMOTE_READ);
    numbers!(c, "FI_REMOTE_WRITE" = flags::REMOTE_WRITE, "FI_MULTI_RECV" = flags::MULTI_RECV, "FI_REMOTE_CQ_DATA" = flags::REMOTE_CQ_DATA);
    numbers!(
        c,
        "FI_TRIGGER" = flags::TRIGGER,
        "FI_MORE" = flags::MORE,
        "FI_PEEK" = flags::PEEK,
        "FI_FENCE" = flags::FENCE,
        "FI_COMPLETION" = flags::COMPLETION
    );
    numbers!(c, "FI_INJECT" = flags::INJECT, "FI_INJECT_COMPLETE" = flags::INJECT_COMPLETE, "FI_TRANSMIT_COMPLETE" = flags::TRANSMIT_COMPLETE);
    numbers!(c, "FI_MATCH_COMPLETE" = flags::MATCH_COMPLETE);
    numbers!(c, "FI_DELIVERY_COMPLETE" = flags::DELIVERY_COMPLETE, "FI_LOCAL_COMM" = flags::LOCAL_COMM, "FI_REMOTE_COMM" = flags::REMOTE_COMM);
    numbers!(c, "FI_RMA_EVENT" = flags::RMA_EVENT, "FI_SOURCE" = flags::SOURCE, "FI_DIRECTED_RECV" = flags::DIRECTED_RECV, "FI_CLAIM" = flags::CLAIM);
    numbers!(c, "FI_DISCARD" = flags::DISCARD, "FI_SELECTIVE_COMPLETION" = flags::SELECTIVE_COMPLETION, "FI_ADDR_NOTAVAIL" = flags::ADDR_NONE);
    numbers!(c, "FI_MR_BASIC" = flags::MR_BASIC, "FI_MR_SCALABLE" = flags::MR_SCALABLE, "FI_SHARED_CONTEXT" = hints::SHARED_CONTEXT);
    numbers!(c, "FI_EP_MSG" = hints::MSG_KIND, "FI_EP_DGRAM" = hints::DGRAM, "FI_EP_RDM" = hints::RDM);
    numbers!(c, "FI_CLASS_FABRIC" = class::FABRIC, "FI_CLASS_DOMAIN" = class::DOMAIN, "FI_CLASS_EP" = class::EP, "FI_CLASS_SRX_CTX" = class::SRX_CTX);
    numbers!(c, "FI_CLASS_STX_CTX" = class::STX_CTX, "FI_CLASS_PEP" = class::PEP, "FI_CLASS_AV" = class::AV, "FI_CLASS_MR" = class::MR);
    numbers!(c, "FI_CLASS_EQ" = class::EQ, "FI_CLASS_CQ" = class::CQ, "FI_CLASS_CNTR" = class::CNTR, "FI_CLASS_WAIT" = class::WAIT);
    numbers!(c, "FI_CLASS_SEP" = class::SEP, "FI_CLASS_RX_CTX" = class::RX_CTX, "FI_CLASS_TX_CTX" = class::TX_CTX);
    numbers!(c, "FI_SHARED_AV" = flags::SHARED_AV, "FI_NAMED_RX_CTX" = flags::NAMED_RX_CTX, "FI_MSG_PREFIX" = flags::MSG_PREFIX);
    numbers!(c, "FI_CLASS_POLL" = class::POLL, "FI_CLASS_CONNREQ" = class::CONNREQ);
    numbers!(c, "FI_GETOPSFLAG" = command::GETOPSFLAG, "FI_SETOPSFLAG" = command::SETOPSFLAG, "FI_ALIAS" = command::ALIAS, "FI_GETWAIT" = command::GETWAIT);
    numbers!(c, "FI_ENABLE" = command::ENABLE, "FI_BACKLOG" = command::BACKLOG, "FI_REFRESH" = command::REFRESH, "FI_GETWAITOBJ" = command::GETWAITOBJ);
    numbers!(
        c,
        "FI_WAIT_NONE" = wait::NONE,
        "FI_WAIT_UNSPEC" = wait::UNSPEC,
        "FI_WAIT_SET" = wait::SET,
        "FI_WAIT_FD" = wait::FD,
        "FI_WAIT_YIELD" = wait::YIELD
    );
    numbers!(c, "FI_ETOOSMALL" = error::TOO_SMALL, "FI_EOPBADSTATE" = error::BAD_STATE, "FI_EAVAIL" = error::AVAILABLE, "FI_EBADFLAGS" = error::BAD_FLAGS);
    numbers!(c, "FI_ENOCQ" = error::NO_CQ, "FI_ETRUNC" = error::TRUNCATED, "FI_ENOKEY" = error::NO_KEY, "FI_ENOAV" = error::NO_AV);
    numbers!(c, "FI_CONNREQ" = eq::CONNREQ, "FI_CONNECTED" = eq::CONNECTED, "FI_SHUTDOWN" = eq::SHUTDOWN, "FI_AV_COMPLETE" = eq::AV_COMPLETE);
    for (bits, name) in [
        "MIN",
        "MAX",
        "SUM",
        "PROD",
        "LOR",
        "LAND",
        "BOR",
        "BAND",
        "LXOR",
        "BXOR",
        "ATOMIC_READ",
        "ATOMIC_WRITE",
        "CSWAP",
        "CSWAP_NE",
        "CSWAP_LE",
        "CSWAP_LT",
        "CSWAP_GE",
        "CSWAP_GT",
        "MSWAP",
    ]
    .iter()
    .enumerate()
    {
        assert_eq!(AtomicOp::from_bits(bits as u8).map(|op| op as usize), Some(bits));
        c.push((format!("FI_{name}"), bits as u64));
    }
    let names = [
        "INT8",
        "UINT8",
        "INT16",
        "UINT16",
        "INT32",
        "UINT32",
        "INT64",
        "UINT64",
        "FLOAT",
        "DOUBLE",
        "FLOAT_COMPLEX",
        "DOUBLE_COMPLEX",
        "LONG_DOUBLE",
        "LONG_DOUBLE_COMPLEX",
    ];
    for (at, name) in names.iter().enumerate() {
        c.push((format!("FI_{name}"), at as u64));
    }
    c.push(("FI_INT128".to_owned(), TYPES.iter().position(|t| *t == bellwire_tag::DataType::I128).expect("it is there") as u64));
    #[cfg(target_arch = "x86_64")]
    c.push(("sizeof(long double)".to_owned(), TYPES[12].bytes() as u64));
}

fn program(claims: &Claims) -> String {
    let headers: String = HEADERS.iter().map(|header| format!("#include <{header}>\n")).collect();
    let asserts: String = claims.iter().map(|(of, is)| format!("_Static_assert((unsigned long long)({of}) == {is}ull, \"ours: {is}\");\n")).collect();
    format!("#include <stddef.h>\n#include <sys/uio.h>\n{headers}{asserts}")
}

/// What a C compiler has against a program; `None`: there is no compiler.
fn compile(program: &str) -> Option<String> {
    let mut compiler = Command::new("cc").args(["-x", "c", "-fsyntax-only", "-"]).stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().ok()?;
    compiler.stdin.take()?.write_all(program.as_bytes()).ok()?;
    let output = compiler.wait_with_output().ok()?;
    Some(if output.status.success() { String::new() } else { String::from_utf8_lossy(&output.stderr).into_owned() })
}

#[test]
fn shapes_and_numbers_are_those_of_the_headers() {
    if compile(&program(&Claims::new())).is_none_or(|said| !said.is_empty()) {
        println!("SKIPPED layout: no C compiler, or no libfabric-dev");
        return;
    }
    let mut claims = Claims::new();
    attributes(&mut claims);
    messages(&mut claims);
    tables(&mut claims);
    constants(&mut claims);
    assert_eq!(compile(&program(&claims)).as_deref(), Some(""));
    // The compiler would say so.
    claims.push(("sizeof(struct fid)".to_owned(), 7));
    assert_ne!(compile(&program(&claims)).as_deref(), Some(""));
}
