// SPDX-License-Identifier: MIT OR Apache-2.0
//! The functions, as the header declares them.

use crate::{Error, Sisci, code};
use std::ffi::{c_char, c_void};
use std::sync::Arc;

/// A handle, which is a number in pointer's clothing.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Handle(pub *mut c_void);

// SAFETY: C1: a number, which the library takes on any thread.
unsafe impl Send for Handle {}
// SAFETY: C1: the same for a shared one.
unsafe impl Sync for Handle {}

impl Handle {
    pub const NONE: Self = Self(core::ptr::null_mut());
}

pub(crate) type Out = *mut Handle;
pub(crate) type ErrorOut = *mut u32;
pub(crate) type Argument = *mut c_void;

/// `sci_cb_local_segment_t`.
pub(crate) type LocalFn = extern "C" fn(Argument, Handle, u32, u32, u32, u32) -> u32;
/// `sci_cb_remote_segment_t`.
pub(crate) type RemoteFn = extern "C" fn(Argument, Handle, u32, u32) -> u32;
/// `sci_cb_interrupt_t`, `sci_cb_dma_t`.
pub(crate) type PlainFn = extern "C" fn(Argument, Handle, u32) -> u32;
/// `sci_cb_data_interrupt_t`.
pub(crate) type DataFn = extern "C" fn(Argument, Handle, *mut c_void, u32, u32) -> u32;

/// `dis_dma_vec_t`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Vector {
    pub size: u32,
    pub local_offset: u32,
    pub remote_offset: u32,
    pub flags: u32,
}

macro_rules! api {
    ($($field:ident = $name:literal : fn($($type:ty),*) $(-> $return:ty)?;)*) => {
        /// The functions.
        #[derive(Clone, Copy, Debug)]
        pub(crate) struct Api {
            $(pub $field: unsafe extern "C" fn($($type),*) $(-> $return)?,)*
        }

        impl Api {
            pub fn resolve(library: &libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: C1: the names and types are those of the header.
                    $($field: *unsafe { library.get(concat!("_SISCI_PUBLIC_FUNC_MT_", $name).as_bytes()) }?,)*
                })
            }
        }
    };
}

api! {
    initialize = "SCIInitialize": fn(u32, ErrorOut);
    terminate = "SCITerminate": fn();
    open = "SCIOpen": fn(Out, u32, ErrorOut);
    close = "SCIClose": fn(Handle, u32, ErrorOut);
    get_local_node_id = "SCIGetLocalNodeId": fn(u32, *mut u32, u32, ErrorOut);
    get_node_id_by_adapter_name = "SCIGetNodeIdByAdapterName": fn(*mut c_char, *mut u32, *mut u32, u32, ErrorOut);
    create_segment = "SCICreateSegment": fn(Handle, Out, u32, usize, Option<LocalFn>, Argument, u32, ErrorOut);
    prepare_segment = "SCIPrepareSegment": fn(Handle, u32, u32, ErrorOut);
    set_segment_available = "SCISetSegmentAvailable": fn(Handle, u32, u32, ErrorOut);
    remove_segment = "SCIRemoveSegment": fn(Handle, u32, ErrorOut);
    get_local_segment_id = "SCIGetLocalSegmentId": fn(Handle) -> u32;
    map_local_segment = "SCIMapLocalSegment": fn(Handle, Out, usize, usize, *mut c_void, u32, ErrorOut) -> *mut c_void;
    connect_segment = "SCIConnectSegment": fn(Handle, Out, u32, u32, u32, Option<RemoteFn>, Argument, u32, u32, ErrorOut);
    disconnect_segment = "SCIDisconnectSegment": fn(Handle, u32, ErrorOut);
    get_remote_segment_size = "SCIGetRemoteSegmentSize": fn(Handle) -> usize;
    map_remote_segment = "SCIMapRemoteSegment": fn(Handle, Out, usize, usize, *mut c_void, u32, ErrorOut) -> *mut c_void;
    unmap_segment = "SCIUnmapSegment": fn(Handle, u32, ErrorOut);
    mem_cpy = "SCIMemCpy": fn(Handle, *mut c_void, Handle, usize, usize, u32, ErrorOut);
    create_dma_queue = "SCICreateDMAQueue": fn(Handle, Out, u32, u32, u32, ErrorOut);
    remove_dma_queue = "SCIRemoveDMAQueue": fn(Handle, u32, ErrorOut);
    abort_dma_queue = "SCIAbortDMAQueue": fn(Handle, u32, ErrorOut);
    wait_for_dma_queue = "SCIWaitForDMAQueue": fn(Handle, u32, u32, ErrorOut) -> u32;
    start_dma_transfer = "SCIStartDmaTransfer": fn(Handle, Handle, Handle, usize, usize, usize, Option<PlainFn>, Argument, u32, ErrorOut);
    start_dma_transfer_vec = "SCIStartDmaTransferVec": fn(Handle, Handle, Handle, usize, *mut Vector, Option<PlainFn>, Argument, u32, ErrorOut);
    create_interrupt = "SCICreateInterrupt": fn(Handle, Out, u32, *mut u32, Option<PlainFn>, Argument, u32, ErrorOut);
    remove_interrupt = "SCIRemoveInterrupt": fn(Handle, u32, ErrorOut);
    connect_interrupt = "SCIConnectInterrupt": fn(Handle, Out, u32, u32, u32, u32, u32, ErrorOut);
    disconnect_interrupt = "SCIDisconnectInterrupt": fn(Handle, u32, ErrorOut);
    trigger_interrupt = "SCITriggerInterrupt": fn(Handle, u32, ErrorOut);
    create_data_interrupt = "SCICreateDataInterrupt": fn(Handle, Out, u32, *mut u32, Option<DataFn>, Argument, u32, ErrorOut);
    remove_data_interrupt = "SCIRemoveDataInterrupt": fn(Handle, u32, ErrorOut);
    connect_data_interrupt = "SCIConnectDataInterrupt": fn(Handle, Out, u32, u32, u32, u32, u32, ErrorOut);
    disconnect_data_interrupt = "SCIDisconnectDataInterrupt": fn(Handle, u32, ErrorOut);
    trigger_data_interrupt = "SCITriggerDataInterrupt": fn(Handle, *mut c_void, u32, u32, ErrorOut);
}

/// A function that gives a handle back.
pub(crate) type GiveBack = unsafe extern "C" fn(Handle, u32, ErrorOut);

/// A handle that is given back when this is dropped, while its device is open still.
#[derive(Debug)]
pub(crate) struct Owned {
    pub handle: Handle,
    give_back: GiveBack,
    flags: u32,
    pub sisci: Arc<Sisci>,
}

impl Owned {
    pub fn new(sisci: &Arc<Sisci>, handle: Handle, give_back: GiveBack, flags: u32) -> Self {
        Self { handle, give_back, flags, sisci: Arc::clone(sisci) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: C1: the handle is this one's alone.
        let _ = call(|e| unsafe { (self.give_back)(self.handle, self.flags, e) });
    }
}

/// Makes a call, which writes its error.
pub(crate) fn call(make: impl FnOnce(ErrorOut)) -> Result<(), Error> {
    let mut error = code::OK;
    make(&raw mut error);
    if error == code::OK { Ok(()) } else { Err(Error(error)) }
}
