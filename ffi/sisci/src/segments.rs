// SPDX-License-Identifier: MIT OR Apache-2.0
//! Local and remote segments.

use crate::calls::{Argument, ErrorOut, Flags, Handle, Memory, Out, USE_CALLBACK, action, adapter, callback, check, end, timeout};
use bellwire_sisci::{Descriptor, Error, LocalCallback, LocalSegment, RemoteCallback, RemoteSegment, SegmentKind, current};
use core::ffi::c_void;

const EMPTY: Flags = 0x2;
const PRIVATE: Flags = 0x4;
const DMA_SOURCE_ONLY: Flags = 0x8;
const FORCE_REMOVE: Flags = 0x20;
const LOCK_USER_MEM: Flags = 0x400;
/// Physical memory, graphics cards, coprocessors, multicast.
const OF_HARDWARE: Flags = 0x1000 | 0x2000 | 0x4000 | 0x40000;
const AUTO_ID: Flags = 0x2000_0000;
const NOTIFY: Flags = 0x1;
const FORCE_DISCONNECT: Flags = 0x2;
const ASYNCHRONOUS_CONNECT: Flags = 0x2;
/// The reason that a failed wait returns: of no event.
const NO_REASON: u32 = 0;

type LocalFunction = extern "C" fn(*mut c_void, Handle, u32, u32, u32, u32) -> u32;
type RemoteFunction = extern "C" fn(*mut c_void, Handle, u32, u32) -> u32;

calls! {
    fn SCICreateSegment(descriptor: Handle, segment: Out<Handle>, id: u32, size: usize, function: Option<LocalFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let create = || {
            check(flags, USE_CALLBACK | EMPTY | PRIVATE | DMA_SOURCE_ONLY | AUTO_ID, 0, OF_HARDWARE)?;
            segment.need()?;
            let function = callback(flags, function)?;
            let kind = SegmentKind { empty: flags & EMPTY != 0, private: flags & PRIVATE != 0, dma_only: flags & DMA_SOURCE_ONLY != 0, auto_id: flags & AUTO_ID != 0 };
            let make = |handle: u64| function.map(|f| Box::new(move |(reason, node): bellwire_sisci::LocalEvent| action(f(argument.pointer(), handle as Handle, reason as u32, node, 0, 0))) as LocalCallback);
            segment.set(LocalSegment::create(current()?, descriptor as u64, id, size, kind, make)? as Handle)
        };
        end(error, (), create());
    }

    fn SCIAttachLocalSegment(descriptor: Handle, segment: Out<Handle>, id: u32, size: Out<usize>, _function: Option<LocalFunction>, _argument: Argument, flags: Flags, error: ErrorOut) {
        let attach = || {
            check(flags, 0, USE_CALLBACK, 0)?;
            segment.need()?;
            let library = current()?;
            let handle = LocalSegment::attach(library, descriptor as u64, id)?;
            segment.set(handle as Handle)?;
            // May be NULL.
            let _ = size.set(library.get::<LocalSegment>(handle)?.size());
            Ok(())
        };
        end(error, (), attach());
    }

    fn SCIShareSegment(segment: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.get::<LocalSegment>(segment as u64)?.share()));
    }

    fn SCIRegisterSegmentMemory(address: Memory, size: usize, segment: Handle, flags: Flags, error: ErrorOut) {
        let register = || {
            check(flags, LOCK_USER_MEM, 0, OF_HARDWARE)?;
            let segment = current()?.get::<LocalSegment>(segment as u64)?;
            // SAFETY: C1: memory of the program, which the header says nobody writes meanwhile.
            unsafe { segment.register(address.address(), size) }
        };
        end(error, (), register());
    }

    fn SCIPrepareSegment(segment: Handle, number: u32, flags: Flags, error: ErrorOut) {
        let prepare = || {
            check(flags, DMA_SOURCE_ONLY, 0, OF_HARDWARE)?;
            let segment = current()?.get::<LocalSegment>(segment as u64)?;
            adapter(number)?;
            segment.prepare()
        };
        end(error, (), prepare());
    }

    fn SCISetSegmentAvailable(segment: Handle, number: u32, flags: Flags, error: ErrorOut) {
        let set = || {
            check(flags, 0, 0, 0)?;
            let segment = current()?.get::<LocalSegment>(segment as u64)?;
            adapter(number)?;
            segment.set_available()
        };
        end(error, (), set());
    }

    fn SCISetSegmentUnavailable(segment: Handle, number: u32, flags: Flags, error: ErrorOut) {
        let set = || {
            check(flags, NOTIFY | FORCE_DISCONNECT, 0, 0)?;
            let segment = current()?.get::<LocalSegment>(segment as u64)?;
            adapter(number)?;
            segment.set_unavailable(flags & NOTIFY != 0, flags & FORCE_DISCONNECT != 0)
        };
        end(error, (), set());
    }

    fn SCIRemoveSegment(segment: Handle, flags: Flags, error: ErrorOut) {
        let remove = || {
            check(flags, FORCE_REMOVE, 0, 0)?;
            LocalSegment::remove(current()?, segment as u64, flags & FORCE_REMOVE != 0)
        };
        end(error, (), remove());
    }

    fn SCIWaitForLocalSegmentEvent(segment: Handle, node: Out<u32>, number: Out<u32>, milliseconds: u32, flags: Flags, error: ErrorOut) -> u32 {
        let wait = || {
            check(flags, 0, 0, 0)?;
            let (reason, from) = current()?.get::<LocalSegment>(segment as u64)?.wait(timeout(milliseconds))?;
            // Both may be NULL.
            let _ = (node.set(from), number.set(0));
            Ok(reason as u32)
        };
        end(error, NO_REASON, wait())
    }

    fn SCIGetLocalSegmentId(segment: Handle) -> u32 {
        current().and_then(|l| l.get::<LocalSegment>(segment as u64)).map_or(0, |s| s.id())
    }

    fn SCIGetLocalSegmentSize(segment: Handle) -> usize {
        current().and_then(|l| l.get::<LocalSegment>(segment as u64)).map_or(0, |s| s.size())
    }

    fn SCIConnectSegment(descriptor: Handle, segment: Out<Handle>, node: u32, id: u32, number: u32, function: Option<RemoteFunction>, argument: Argument, milliseconds: u32, flags: Flags, error: ErrorOut) {
        let connect = || {
            check(flags, USE_CALLBACK | ASYNCHRONOUS_CONNECT, 0, 0x40000)?;
            segment.need()?;
            let function = callback(flags, function)?;
            let make = |handle: u64| {
                let run = move |f: RemoteFunction, reason: bellwire_sisci::Reason, status: Option<Error>| f(argument.pointer(), handle as Handle, reason as u32, status.map_or(0, Error::code));
                function.map(|f| Box::new(move |(reason, status)| action(run(f, reason, status))) as RemoteCallback)
            };
            let library = current()?;
            library.get::<Descriptor>(descriptor as u64)?;
            adapter(number)?;
            let connected = if flags & ASYNCHRONOUS_CONNECT != 0 {
                RemoteSegment::begin_to_connect(library, descriptor as u64, node, id, timeout(milliseconds), make)
            } else {
                RemoteSegment::connect(library, descriptor as u64, node, id, timeout(milliseconds), make)
            };
            segment.set(connected? as Handle)
        };
        end(error, (), connect());
    }

    fn SCIDisconnectSegment(segment: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| RemoteSegment::disconnect(current()?, segment as u64)));
    }

    fn SCIWaitForRemoteSegmentEvent(segment: Handle, status: Out<u32>, milliseconds: u32, flags: Flags, error: ErrorOut) -> u32 {
        let wait = || {
            check(flags, 0, 0, 0)?;
            let (reason, why) = current()?.get::<RemoteSegment>(segment as u64)?.wait(timeout(milliseconds))?;
            // May be NULL.
            let _ = status.set(why.map_or(0, Error::code));
            Ok(reason as u32)
        };
        end(error, NO_REASON, wait())
    }

    fn SCIGetRemoteSegmentId(segment: Handle) -> u32 {
        current().and_then(|l| l.get::<RemoteSegment>(segment as u64)).map_or(0, |s| s.id())
    }

    fn SCIGetRemoteSegmentSize(segment: Handle) -> usize {
        current().and_then(|l| l.get::<RemoteSegment>(segment as u64)).map_or(0, |s| s.size())
    }
}
