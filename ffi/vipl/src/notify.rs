// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handlers of the program: for completions, CQ entries and asynchronous errors. They run on the
//! NIC's helper thread and may call anything.

use crate::handles::{self, Inside, Kind, NicKey};
use crate::status::{Outcome, VipReturn, call};
use crate::types::{
    CqCallback, ErrorHandler, VIP_FALSE, VIP_RESOURCE_CQ, VIP_RESOURCE_NIC, VIP_RESOURCE_VI, VIP_TRUE, ViCallback, VipBoolean, VipErrorDescriptor, VipHandle,
    VipUlong,
};
use crate::work::{descriptor_of, enter_vi};
use bellwire_via::event::{AsyncError, AsyncErrorCode};
use bellwire_via::{Status, ViHandle, WorkQueueKind};
use core::ffi::c_void;
use std::sync::Arc;

/// The program's context pointer, given back as it is.
#[derive(Clone, Copy)]
struct Context(*mut c_void);

// SAFETY: the library never looks through it; that handlers run on another thread is part of the
// interface.
unsafe impl Send for Context {}
// SAFETY: the library never looks through it; that handlers run on another thread is part of the
// interface.
unsafe impl Sync for Context {}

impl Context {
    /// A method, so that closures capture the whole.
    fn get(self) -> *mut c_void {
        self.0
    }
}

/// `VIP_TRUE` for the receive queue.
#[inline]
pub(crate) fn is_receive(queue: WorkQueueKind) -> VipBoolean {
    if queue == WorkQueueKind::Receive { VIP_TRUE } else { VIP_FALSE }
}

fn notify(vi: VipHandle, context: *mut c_void, handler: Option<ViCallback>, queue: WorkQueueKind) -> Outcome {
    let (nic, vi) = enter_vi(vi)?;
    let handler = handler.ok_or(VipReturn::InvalidParameter)?;
    if nic.nic.with(|e| e.is_bound(vi, queue))? {
        return Err(VipReturn::InvalidState);
    }
    ask(&nic, vi, Context(context), handler, queue)
}

fn ask(nic: &Inside, vi: ViHandle, context: Context, handler: ViCallback, queue: WorkQueueKind) -> Outcome {
    let key = nic.key();
    let run = move |vi: ViHandle, completion: bellwire_via::Completion| {
        if completion.descriptor == 0 {
            // A failed VipxSendInline has no descriptor to hand over: the handler goes on waiting,
            // unless the VI is gone.
            if let Ok((nic, vi)) = enter_vi(key.handle(Kind::Vi, vi)) {
                let _ = ask(&nic, vi, context, handler, queue);
            }
            return;
        }
        // SAFETY: the program's own function, with the arguments that the header promises.
        unsafe { handler(context.get(), key.nic(), key.handle(Kind::Vi, vi), descriptor_of(&completion)) };
    };
    Ok(nic.nic.notify(vi, queue, Box::new(run))?)
}

#[unsafe(no_mangle)]
pub extern "C" fn VipSendNotify(vi: VipHandle, context: *mut c_void, handler: Option<ViCallback>) -> VipReturn {
    call(|| notify(vi, context, handler, WorkQueueKind::Send))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipRecvNotify(vi: VipHandle, context: *mut c_void, handler: Option<ViCallback>) -> VipReturn {
    call(|| notify(vi, context, handler, WorkQueueKind::Receive))
}

#[unsafe(no_mangle)]
pub extern "C" fn VipCQNotify(cq: VipHandle, context: *mut c_void, handler: Option<CqCallback>) -> VipReturn {
    call(|| {
        let (nic, cq) = handles::enter_object(Kind::Cq, cq)?;
        let handler = handler.ok_or(VipReturn::InvalidParameter)?;
        let (key, context) = (nic.key(), Context(context));
        let run = move |vi: ViHandle, queue: WorkQueueKind| {
            // SAFETY: the program's own function, with the arguments that the header promises.
            unsafe { handler(context.get(), key.nic(), key.handle(Kind::Vi, vi), is_receive(queue)) };
        };
        Ok(nic.nic.notify_cq(cq, Box::new(run))?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn VipErrorCallback(nic: VipHandle, context: *mut c_void, handler: Option<ErrorHandler>) -> VipReturn {
    call(|| {
        let nic = handles::enter_nic(nic)?;
        let Some(handler) = handler else {
            nic.nic.ignore_errors();
            return Ok(());
        };
        let (key, context) = (nic.key(), Context(context));
        nic.nic.set_error_handler(Some(Arc::new(move |error| {
            let mut descriptor = describe(key, &error);
            // SAFETY: the program's own function; the descriptor lives for the call.
            unsafe { handler(context.get(), &raw mut descriptor) };
        })));
        Ok(())
    })
}

fn describe(key: NicKey, error: &AsyncError) -> VipErrorDescriptor {
    let operation = match error.code {
        AsyncErrorCode::ReceiveQueueEmpty | AsyncErrorCode::Overrun => Status::OP_RECEIVE,
        AsyncErrorCode::RdmaWriteProtection | AsyncErrorCode::RdmaWriteData | AsyncErrorCode::RdmaWriteAbort => Status::OP_RDMA_WRITE,
        AsyncErrorCode::RdmaReadProtection => Status::OP_RDMA_READ,
        _ => Status::empty(),
    };
    VipErrorDescriptor {
        nic: key.nic(),
        vi: error.vi.map_or(core::ptr::null_mut(), |vi| key.handle(Kind::Vi, vi)),
        cq: error.cq.map_or(core::ptr::null_mut(), |cq| key.handle(Kind::Cq, cq)),
        descriptor: core::ptr::null_mut(),
        op_code: VipUlong::from(operation.bits()),
        resource_code: match (error.cq, error.vi) {
            (Some(_), _) => VIP_RESOURCE_CQ,
            (None, Some(_)) => VIP_RESOURCE_VI,
            (None, None) => VIP_RESOURCE_NIC,
        },
        error_code: error.code as i32,
    }
}
