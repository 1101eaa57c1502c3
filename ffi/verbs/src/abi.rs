// SPDX-License-Identifier: MIT OR Apache-2.0
//! The shapes of `infiniband/verbs.h`, as programs have been compiled with them: sizes and offsets are compared with the public header by `tests/verbs/layout.c`, by the same numbers as below.

mod asked;

pub use asked::{IbvDeviceAttr, IbvGidEntry, IbvPortAttr};
use core::ffi::{c_char, c_int, c_uint, c_void};

/// A call in a table that nothing here fills.
pub(crate) type Hole = *const c_void;
/// A call in a table. Its type is that of the place in the public header.
pub(crate) type Call = *const c_void;

/// `pthread_mutex_t` and `pthread_cond_t` in objects: programs do not touch them, nor do we.
pub(crate) type Mutex = [u64; 5];
pub(crate) type Condition = [u64; 6];

/// `struct ibv_device`.
#[repr(C)]
pub struct IbvDevice {
    pub(crate) ops: [Hole; 2],
    pub(crate) node_type: c_int,
    pub(crate) transport_type: c_int,
    pub(crate) name: [c_char; 64],
    pub(crate) dev_name: [c_char; 64],
    pub(crate) dev_path: [c_char; 256],
    pub(crate) ibdev_path: [c_char; 256],
}

/// `struct ibv_context_ops`, by the numbers of its places.
pub(crate) const OP_ALLOC_MW: usize = 7;
pub(crate) const OP_BIND_MW: usize = 8;
pub(crate) const OP_DEALLOC_MW: usize = 9;
pub(crate) const OP_POLL_CQ: usize = 11;
pub(crate) const OP_REQ_NOTIFY_CQ: usize = 12;
pub(crate) const OP_POST_SRQ_RECV: usize = 20;
pub(crate) const OP_POST_SEND: usize = 25;
pub(crate) const OP_POST_RECV: usize = 26;

/// `struct ibv_context`.
#[repr(C)]
pub struct IbvContext {
    pub(crate) device: *mut IbvDevice,
    pub(crate) ops: [Call; 32],
    pub(crate) cmd_fd: c_int,
    pub(crate) async_fd: c_int,
    pub(crate) num_comp_vectors: c_int,
    pub(crate) mutex: Mutex,
    pub(crate) abi_compat: *mut c_void,
}

/// `struct verbs_context`: found in front of the `ibv_context` that ends it.
#[repr(C)]
pub(crate) struct VerbsContext {
    pub query_port: Call,
    pub advise_mr: Call,
    pub counters: [Hole; 5],
    pub reg_dm_mr: Call,
    pub alloc_dm: Call,
    pub free_dm: Call,
    pub flow_actions: [Hole; 4],
    pub alloc_parent_domain: Call,
    pub dealloc_td: Call,
    pub alloc_td: Call,
    pub work_queues: [Hole; 7],
    pub query_rt_values: Hole,
    pub create_cq_ex: Call,
    pub private: Hole,
    pub query_device_ex: Call,
    pub flows: [Hole; 4],
    pub open_qp: Call,
    pub create_qp_ex: Call,
    pub get_srq_num: Call,
    pub create_srq_ex: Call,
    pub open_xrcd: Call,
    pub close_xrcd: Call,
    pub placeholder: u64,
    pub size: usize,
    pub context: IbvContext,
}

/// `struct ibv_pd`.
#[repr(C)]
pub struct IbvPd {
    pub(crate) context: *mut IbvContext,
    pub(crate) handle: u32,
}

/// `struct ibv_mr`.
#[repr(C)]
pub struct IbvMr {
    pub(crate) context: *mut IbvContext,
    pub(crate) pd: *mut IbvPd,
    pub(crate) addr: *mut c_void,
    pub(crate) length: usize,
    pub(crate) handle: u32,
    pub(crate) lkey: u32,
    pub(crate) rkey: u32,
}

/// `struct ibv_mw`.
#[repr(C)]
pub struct IbvMw {
    pub(crate) context: *mut IbvContext,
    pub(crate) pd: *mut IbvPd,
    pub(crate) rkey: u32,
    pub(crate) handle: u32,
    pub(crate) kind: u32,
}

/// `struct ibv_mw_bind_info`.
#[repr(C)]
pub struct IbvMwBindInfo {
    pub(crate) mr: *const IbvMr,
    pub(crate) addr: u64,
    pub(crate) length: u64,
    pub(crate) access: c_uint,
}

/// `struct ibv_mw_bind`.
#[repr(C)]
pub struct IbvMwBind {
    pub(crate) wr_id: u64,
    pub(crate) send_flags: c_uint,
    pub(crate) info: IbvMwBindInfo,
}

/// `struct ibv_td`.
#[repr(C)]
pub struct IbvTd {
    pub(crate) context: *mut IbvContext,
}

/// `struct ibv_parent_domain_init_attr`.
#[repr(C)]
pub struct IbvParentDomainInitAttr {
    pub(crate) pd: *mut IbvPd,
    pub(crate) td: *mut IbvTd,
    pub(crate) comp_mask: u32,
    pub(crate) alloc: *const c_void,
    pub(crate) free: *const c_void,
    pub(crate) pd_context: *mut c_void,
}

/// `struct ibv_xrcd`.
#[repr(C)]
pub struct IbvXrcd {
    pub(crate) context: *mut IbvContext,
}

/// `struct ibv_xrcd_init_attr`.
#[repr(C)]
pub struct IbvXrcdInitAttr {
    pub(crate) comp_mask: u32,
    pub(crate) fd: c_int,
    pub(crate) oflags: c_int,
}

/// `struct ibv_dm`.
#[repr(C)]
pub struct IbvDm {
    pub(crate) context: *mut IbvContext,
    pub(crate) copy_in: Call,
    pub(crate) copy_out: Call,
    pub(crate) comp_mask: u32,
    pub(crate) handle: u32,
}

/// `struct ibv_alloc_dm_attr`.
#[repr(C)]
pub struct IbvAllocDmAttr {
    pub(crate) length: usize,
    pub(crate) log_align_req: u32,
    pub(crate) comp_mask: u32,
}

/// `struct ibv_comp_channel`.
#[repr(C)]
pub struct IbvCompChannel {
    pub(crate) context: *mut IbvContext,
    pub(crate) fd: c_int,
    pub(crate) refcnt: c_int,
}

/// `struct ibv_cq_ex`, which begins as `struct ibv_cq`.
#[repr(C)]
pub struct IbvCq {
    pub(crate) context: *mut IbvContext,
    pub(crate) channel: *mut IbvCompChannel,
    pub(crate) cq_context: *mut c_void,
    pub(crate) handle: u32,
    pub(crate) cqe: c_int,
    pub(crate) mutex: Mutex,
    pub(crate) cond: Condition,
    pub(crate) comp_events_completed: u32,
    pub(crate) async_events_completed: u32,
    pub(crate) comp_mask: u32,
    pub(crate) status: u32,
    pub(crate) wr_id: u64,
    pub(crate) calls: [Call; 18],
}

/// `struct ibv_srq`.
#[repr(C)]
pub struct IbvSrq {
    pub(crate) context: *mut IbvContext,
    pub(crate) srq_context: *mut c_void,
    pub(crate) pd: *mut IbvPd,
    pub(crate) handle: u32,
    pub(crate) mutex: Mutex,
    pub(crate) cond: Condition,
    pub(crate) events_completed: u32,
}

/// `struct ibv_qp_ex`, which begins as `struct ibv_qp`.
#[repr(C)]
pub struct IbvQp {
    pub(crate) context: *mut IbvContext,
    pub(crate) qp_context: *mut c_void,
    pub(crate) pd: *mut IbvPd,
    pub(crate) send_cq: *mut IbvCq,
    pub(crate) recv_cq: *mut IbvCq,
    pub(crate) srq: *mut IbvSrq,
    pub(crate) handle: u32,
    pub(crate) qp_num: u32,
    pub(crate) state: u32,
    pub(crate) qp_type: u32,
    pub(crate) mutex: Mutex,
    pub(crate) cond: Condition,
    pub(crate) events_completed: u32,
    pub(crate) comp_mask: u64,
    pub(crate) wr_id: u64,
    pub(crate) wr_flags: c_uint,
    pub(crate) calls: [Call; 21],
}

impl IbvQp {
    /// One of nothing.
    pub(crate) const EMPTY: Self = Self {
        context: core::ptr::null_mut(),
        qp_context: core::ptr::null_mut(),
        pd: core::ptr::null_mut(),
        send_cq: core::ptr::null_mut(),
        recv_cq: core::ptr::null_mut(),
        srq: core::ptr::null_mut(),
        handle: 0,
        qp_num: 0,
        state: 0,
        qp_type: 0,
        mutex: [0; 5],
        cond: [0; 6],
        events_completed: 0,
        comp_mask: 0,
        wr_id: 0,
        wr_flags: 0,
        calls: [core::ptr::null(); 21],
    };
}

/// `struct ibv_ah`.
#[repr(C)]
pub struct IbvAh {
    pub(crate) context: *mut IbvContext,
    pub(crate) pd: *mut IbvPd,
    pub(crate) handle: u32,
}

/// `struct ibv_global_route` and `struct ibv_ah_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct IbvAhAttr {
    pub(crate) dgid: [u64; 2],
    pub(crate) flow_label: u32,
    pub(crate) sgid_index: u8,
    pub(crate) hop_limit: u8,
    pub(crate) traffic_class: u8,
    pub(crate) dlid: u16,
    pub(crate) sl: u8,
    pub(crate) src_path_bits: u8,
    pub(crate) static_rate: u8,
    pub(crate) is_global: u8,
    pub(crate) port_num: u8,
    pub(crate) rest: [u8; 1],
}

/// `struct ibv_qp_cap`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct IbvQpCap {
    pub(crate) max_send_wr: u32,
    pub(crate) max_recv_wr: u32,
    pub(crate) max_send_sge: u32,
    pub(crate) max_recv_sge: u32,
    pub(crate) max_inline_data: u32,
}

/// `struct ibv_qp_init_attr_ex`, which begins as `struct ibv_qp_init_attr`.
#[repr(C)]
pub struct IbvQpInitAttr {
    pub(crate) qp_context: *mut c_void,
    pub(crate) send_cq: *mut IbvCq,
    pub(crate) recv_cq: *mut IbvCq,
    pub(crate) srq: *mut IbvSrq,
    pub(crate) cap: IbvQpCap,
    pub(crate) qp_type: u32,
    pub(crate) sq_sig_all: c_int,
    // What follows is not in `struct ibv_qp_init_attr`.
    pub(crate) comp_mask: u32,
    pub(crate) pd: *mut IbvPd,
    pub(crate) xrcd: *mut IbvXrcd,
    pub(crate) create_flags: u32,
    pub(crate) max_tso_header: u16,
    pub(crate) rwq_ind_tbl: *mut c_void,
    pub(crate) rx_hash_conf: [u64; 3],
    pub(crate) source_qpn: u32,
    pub(crate) send_ops_flags: u64,
}

/// `struct ibv_qp_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct IbvQpAttr {
    pub(crate) qp_state: u32,
    pub(crate) cur_qp_state: u32,
    pub(crate) path_mtu: u32,
    pub(crate) path_mig_state: u32,
    pub(crate) qkey: u32,
    pub(crate) rq_psn: u32,
    pub(crate) sq_psn: u32,
    pub(crate) dest_qp_num: u32,
    pub(crate) qp_access_flags: u32,
    pub(crate) cap: IbvQpCap,
    pub(crate) ah_attr: IbvAhAttr,
    pub(crate) alt_ah_attr: IbvAhAttr,
    pub(crate) pkey_index: u16,
    pub(crate) alt_pkey_index: u16,
    pub(crate) en_sqd_async_notify: u8,
    pub(crate) sq_draining: u8,
    pub(crate) max_rd_atomic: u8,
    pub(crate) max_dest_rd_atomic: u8,
    pub(crate) min_rnr_timer: u8,
    pub(crate) port_num: u8,
    pub(crate) timeout: u8,
    pub(crate) retry_cnt: u8,
    pub(crate) rnr_retry: u8,
    pub(crate) alt_port_num: u8,
    pub(crate) alt_timeout: u8,
    pub(crate) rate_limit: u32,
}

/// `struct ibv_send_wr`. The unions lie as words: remote address, compared or added, swapped, key; or address handle, queue pair, key.
#[repr(C)]
pub struct IbvSendWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut IbvSendWr,
    pub(crate) sg_list: *const bellwire_verbs::Sge,
    pub(crate) num_sge: c_int,
    pub(crate) opcode: u32,
    pub(crate) send_flags: c_uint,
    pub(crate) imm_data: u32,
    pub(crate) wr: [u64; 4],
    /// Of an extended reliable connection: the peer's receive queue.
    pub(crate) remote_srq: u32,
    pub(crate) bind: IbvSendBind,
}

/// What a request binds, in `struct ibv_send_wr`.
#[repr(C)]
pub struct IbvSendBind {
    pub(crate) mw: *mut IbvMw,
    pub(crate) rkey: u32,
    pub(crate) info: IbvMwBindInfo,
}

/// `struct ibv_recv_wr`.
#[repr(C)]
pub struct IbvRecvWr {
    pub(crate) wr_id: u64,
    pub(crate) next: *mut IbvRecvWr,
    pub(crate) sg_list: *const bellwire_verbs::Sge,
    pub(crate) num_sge: c_int,
}

/// `struct ibv_wc`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct IbvWc {
    pub(crate) wr_id: u64,
    pub(crate) status: u32,
    pub(crate) opcode: u32,
    pub(crate) vendor_err: u32,
    pub(crate) byte_len: u32,
    pub(crate) imm_data: u32,
    pub(crate) qp_num: u32,
    pub(crate) src_qp: u32,
    pub(crate) wc_flags: c_uint,
    pub(crate) pkey_index: u16,
    pub(crate) slid: u16,
    pub(crate) sl: u8,
    pub(crate) dlid_path_bits: u8,
}

/// `struct ibv_srq_attr`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct IbvSrqAttr {
    pub(crate) max_wr: u32,
    pub(crate) max_sge: u32,
    pub(crate) srq_limit: u32,
}

/// `struct ibv_srq_init_attr`.
#[repr(C)]
pub struct IbvSrqInitAttr {
    pub(crate) srq_context: *mut c_void,
    pub(crate) attr: IbvSrqAttr,
}

/// `struct ibv_srq_init_attr_ex`, which begins as `struct ibv_srq_init_attr`.
#[repr(C)]
pub struct IbvSrqInitAttrEx {
    pub(crate) srq_context: *mut c_void,
    pub(crate) attr: IbvSrqAttr,
    pub(crate) comp_mask: u32,
    pub(crate) srq_type: u32,
    pub(crate) pd: *mut IbvPd,
    pub(crate) xrcd: *mut IbvXrcd,
    pub(crate) cq: *mut IbvCq,
    pub(crate) tags: [u32; 2],
}

/// `struct ibv_qp_open_attr`.
#[repr(C)]
pub struct IbvQpOpenAttr {
    pub(crate) comp_mask: u32,
    pub(crate) qp_num: u32,
    pub(crate) xrcd: *mut IbvXrcd,
    pub(crate) qp_context: *mut c_void,
    pub(crate) qp_type: u32,
}

/// `struct ibv_async_event`.
#[repr(C)]
pub struct IbvAsyncEvent {
    pub(crate) element: *mut c_void,
    pub(crate) event_type: u32,
}

/// `struct ibv_cq_init_attr_ex`.
#[repr(C)]
pub struct IbvCqInitAttr {
    pub(crate) cqe: u32,
    pub(crate) cq_context: *mut c_void,
    pub(crate) channel: *mut IbvCompChannel,
    pub(crate) comp_vector: u32,
    pub(crate) wc_flags: u64,
    pub(crate) comp_mask: u32,
    pub(crate) flags: u32,
    pub(crate) parent_domain: *mut IbvPd,
}

macro_rules! layout {
    ($($type:ident $size:literal { $($field:ident $offset:literal),* };)*) => {
        $(const _: () = assert!(size_of::<$type>() == $size); $(const _: () = assert!(core::mem::offset_of!($type, $field) == $offset);)*)*
    };
}
include!("layout.in");
