// SPDX-License-Identifier: MIT OR Apache-2.0
//! DMA queues and block transfers.

use crate::calls::{Argument, ErrorOut, Flags, Handle, Memory, Out, USE_CALLBACK, action, adapter, callback, check, end, timeout};
use bellwire_sisci::{Block, BlockTransfer, Descriptor, DmaQueue, DoneCallback, Error, Library, Local, Part, QueueState, current};
use core::ffi::c_void;

const WAIT: Flags = 0x4;
const POST: Flags = 0x8;
const READ: Flags = 0x10;
const PHYSICAL: Flags = 0x20;
const RESET: Flags = 0x1000;
/// Which engine is to copy: here they are one.
const ENGINES: Flags = 0x1 | 0x40 | 0x80 | 0x100 | 0x200 | 0x800;
const TRANSFER: Flags = USE_CALLBACK | WAIT | READ | ENGINES;
const VECTOR_MAX: usize = 128;

type DmaFunction = extern "C" fn(*mut c_void, Handle, u32) -> u32;

/// `dis_dma_vec_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Vector {
    size: u32,
    local_offset: u32,
    remote_offset: u32,
    flags: u32,
}

fn done(function: Option<DmaFunction>, argument: Argument, handle: Handle) -> Option<DoneCallback> {
    function.map(|f| Box::new(move |result: Result<(), Error>| action(f(argument.pointer(), handle, result.err().map_or(0, Error::code)))) as DoneCallback)
}

struct Start<'a> {
    queue: Handle,
    local: Local,
    remote: Handle,
    parts: &'a [Part],
    function: Option<DmaFunction>,
    argument: Argument,
    flags: Flags,
}

impl Start<'_> {
    fn go(self, library: &'static Library) -> Result<(), Error> {
        check(self.flags, TRANSFER, 0, PHYSICAL)?;
        let function = callback(self.flags, self.function)?;
        let queue = library.get::<DmaQueue>(self.queue as u64)?;
        let call = done(function, self.argument, self.queue);
        queue.start(&self.local, self.remote as u64, self.parts, self.flags & READ != 0, call, self.flags & WAIT != 0)
    }
}

calls! {
    fn SCICreateDMAQueue(descriptor: Handle, queue: Out<Handle>, number: u32, max: u32, flags: Flags, error: ErrorOut) {
        let make = || {
            check(flags, ENGINES, 0, PHYSICAL)?;
            queue.need()?;
            let library = current()?;
            library.get::<Descriptor>(descriptor as u64)?;
            adapter(number)?;
            queue.set(DmaQueue::create(library, descriptor as u64, max as usize)? as Handle)
        };
        end(error, (), make());
    }

    fn SCIRemoveDMAQueue(queue: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| DmaQueue::remove(current()?, queue as u64)));
    }

    fn SCIEnqueueDMATransfer(queue: Handle, local: Handle, remote: Handle, local_offset: usize, remote_offset: usize, size: usize, flags: Flags, error: ErrorOut) -> u32 {
        let run = || {
            check(flags, POST | WAIT | READ | RESET | ENGINES, 0, PHYSICAL)?;
            let queue = current()?.get::<DmaQueue>(queue as u64)?;
            if flags & RESET != 0 {
                queue.reset()?;
            }
            let state = queue.enqueue(local as u64, remote as u64, Part { size, local_offset, remote_offset }, flags & READ != 0)?;
            if flags & POST == 0 {
                return Ok(state as u32);
            }
            queue.post(None, flags & WAIT != 0)?;
            Ok(queue.state() as u32)
        };
        end(error, QueueState::Error as u32, run())
    }

    fn SCIPostDMAQueue(queue: Handle, function: Option<DmaFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let post = || {
            check(flags, USE_CALLBACK | WAIT, 0, 0)?;
            let function = callback(flags, function)?;
            current()?.get::<DmaQueue>(queue as u64)?.post(done(function, argument, queue), flags & WAIT != 0)
        };
        end(error, (), post());
    }

    fn SCIAbortDMAQueue(queue: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.get::<DmaQueue>(queue as u64)?.abort()));
    }

    fn SCIResetDMAQueue(queue: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.get::<DmaQueue>(queue as u64)?.reset()));
    }

    fn SCIDMAQueueState(queue: Handle) -> u32 {
        current().and_then(|l| l.get::<DmaQueue>(queue as u64)).map_or(QueueState::Error as u32, |q| q.state() as u32)
    }

    fn SCIWaitForDMAQueue(queue: Handle, milliseconds: u32, flags: Flags, error: ErrorOut) -> u32 {
        let wait = || {
            check(flags, 0, 0, 0)?;
            Ok(current()?.get::<DmaQueue>(queue as u64)?.wait(timeout(milliseconds))? as u32)
        };
        end(error, QueueState::Error as u32, wait())
    }

    fn SCIStartDmaTransfer(queue: Handle, local: Handle, remote: Handle, local_offset: usize, size: usize, remote_offset: usize, function: Option<DmaFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let parts = [Part { size, local_offset, remote_offset }];
        let start = Start { queue, local: Local::Segment(local as u64), remote, parts: &parts, function, argument, flags };
        end(error, (), current().and_then(|library| start.go(library)));
    }

    fn SCIStartDmaTransferMem(queue: Handle, address: Memory, remote: Handle, size: usize, remote_offset: usize, function: Option<DmaFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let run = || {
            let parts = [Part { size, local_offset: 0, remote_offset }];
            Start { queue, local: Local::Program(address.bytes(size)?), remote, parts: &parts, function, argument, flags }.go(current()?)
        };
        end(error, (), run());
    }

    fn SCIStartDmaTransferVec(queue: Handle, local: Handle, remote: Handle, count: usize, vector: Out<[Vector; VECTOR_MAX]>, function: Option<DmaFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let run = || {
            if count == 0 || count > VECTOR_MAX {
                return Err(Error::OutOfRange);
            }
            let mut parts = Vec::with_capacity(count);
            for i in 0..count {
                let part = vector.element(i)?;
                if part.flags != 0 {
                    return Err(Error::IllegalFlag);
                }
                parts.push(Part { size: part.size as usize, local_offset: part.local_offset as usize, remote_offset: part.remote_offset as usize });
            }
            Start { queue, local: Local::Segment(local as u64), remote, parts: &parts, function, argument, flags }.go(current()?)
        };
        end(error, (), run());
    }

    fn SCITransferBlock(from: Handle, from_offset: usize, to: Handle, to_offset: usize, size: usize, flags: Flags, error: ErrorOut) {
        let block = Block { from: from as u64, from_offset, to: to as u64, to_offset, size };
        end(error, (), check(flags, 0, 0, 0).and_then(|()| BlockTransfer::copy(current()?, block)));
    }

    fn SCITransferBlockAsync(from: Handle, from_offset: usize, to: Handle, to_offset: usize, size: usize, transfer: Out<Handle>, function: Option<DmaFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let start = || {
            check(flags, USE_CALLBACK, 0, 0)?;
            transfer.need()?;
            let function = callback(flags, function)?;
            let block = Block { from: from as u64, from_offset, to: to as u64, to_offset, size };
            transfer.set(BlockTransfer::start(current()?, block, |handle| done(function, argument, handle as Handle))? as Handle)
        };
        end(error, (), start());
    }

    fn SCIWaitForBlockTransfer(transfer: Handle, milliseconds: u32, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| BlockTransfer::wait(current()?, transfer as u64, timeout(milliseconds))));
    }

    fn SCIAbortBlockTransfer(transfer: Handle, flags: Flags, error: ErrorOut) {
        let abort = || {
            check(flags, 0, 0, 0)?;
            current()?.get::<BlockTransfer>(transfer as u64)?.abort();
            Ok(())
        };
        end(error, (), abort());
    }
}
