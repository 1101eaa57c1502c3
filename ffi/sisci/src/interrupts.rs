// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts without and with data.

use crate::calls::{Argument, ErrorOut, Flags, Handle, Memory, Out, USE_CALLBACK, action, adapter, callback, check, end, timeout};
use bellwire_sisci::{
    DATA_MAX, DataCallback, DataInterrupt, Descriptor, Error, InterruptCallback, InterruptKind, LocalInterrupt, RemoteDataInterrupt, RemoteInterrupt, current,
};
use core::ffi::c_void;

const FIXED: Flags = 0x2;
const SHARED: Flags = 0x4;
/// Of a flag of a segment: stores to it are triggers.
const CONDITIONAL: Flags = 0x8;
const COUNTING: Flags = 0x20;
const SHARE_EXTERNAL: Flags = 0x40;

type InterruptFunction = extern "C" fn(*mut c_void, Handle, u32) -> u32;
type DataFunction = extern "C" fn(*mut c_void, Handle, *mut c_void, u32, u32) -> u32;

fn run(function: Option<InterruptFunction>, argument: Argument, handle: u64) -> Option<InterruptCallback> {
    function.map(|f| Box::new(move || action(f(argument.pointer(), handle as Handle, 0))) as InterruptCallback)
}

calls! {
    fn SCICreateInterrupt(descriptor: Handle, interrupt: Out<Handle>, adapter_number: u32, number: Out<u32>, function: Option<InterruptFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let create = || {
            check(flags, USE_CALLBACK | FIXED | SHARED | COUNTING | SHARE_EXTERNAL, CONDITIONAL, 0)?;
            interrupt.need()?;
            number.need()?;
            let function = callback(flags, function)?;
            let library = current()?;
            library.get::<Descriptor>(descriptor as u64)?;
            adapter(adapter_number)?;
            let chosen = if flags & FIXED != 0 { Some(number.get()?) } else { None };
            let kind = InterruptKind { number: chosen, shared: flags & SHARED != 0, counts: flags & COUNTING != 0 };
            let (handle, given) = LocalInterrupt::create(library, descriptor as u64, kind, |handle| run(function, argument, handle))?;
            number.set(given)?;
            interrupt.set(handle as Handle)
        };
        end(error, (), create());
    }

    fn SCIRegisterInterruptFlag(adapter_number: u32, interrupt: Out<Handle>, segment: Handle, offset: usize, function: Option<InterruptFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let register = || {
            check(flags, USE_CALLBACK | CONDITIONAL, 0, 0)?;
            interrupt.need()?;
            let function = callback(flags, function)?;
            adapter(adapter_number)?;
            interrupt.set(LocalInterrupt::of_flag(current()?, segment as u64, offset, flags & CONDITIONAL != 0, |handle| run(function, argument, handle))? as Handle)
        };
        end(error, (), register());
    }

    fn SCIEnableConditionalInterrupt(interrupt: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.get::<LocalInterrupt>(interrupt as u64)?.enable()));
    }

    fn SCIDisableConditionalInterrupt(interrupt: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.get::<LocalInterrupt>(interrupt as u64)?.disable()));
    }

    fn SCIGetConditionalInterruptTrigCounter(interrupt: Handle, counter: Out<u32>, flags: Flags, error: ErrorOut) {
        let get = || {
            check(flags, 0, 0, 0)?;
            counter.need()?;
            counter.set(current()?.get::<LocalInterrupt>(interrupt as u64)?.triggers()?)
        };
        end(error, (), get());
    }

    fn SCIRemoveInterrupt(interrupt: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| LocalInterrupt::remove(current()?, interrupt as u64)));
    }

    fn SCIWaitForInterrupt(interrupt: Handle, milliseconds: u32, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.get::<LocalInterrupt>(interrupt as u64)?.wait(timeout(milliseconds))));
    }

    fn SCIConnectInterrupt(descriptor: Handle, interrupt: Out<Handle>, node: u32, adapter_number: u32, number: u32, milliseconds: u32, flags: Flags, error: ErrorOut) {
        let connect = || {
            check(flags, 0, 0, 0x40000)?;
            interrupt.need()?;
            let library = current()?;
            library.get::<Descriptor>(descriptor as u64)?;
            adapter(adapter_number)?;
            interrupt.set(RemoteInterrupt::connect(library, descriptor as u64, node, number, timeout(milliseconds))? as Handle)
        };
        end(error, (), connect());
    }

    fn SCIDisconnectInterrupt(interrupt: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| RemoteInterrupt::disconnect(current()?, interrupt as u64)));
    }

    fn SCITriggerInterrupt(interrupt: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.get::<RemoteInterrupt>(interrupt as u64)?.trigger()));
    }

    fn SCICreateDataInterrupt(descriptor: Handle, interrupt: Out<Handle>, adapter_number: u32, number: Out<u32>, function: Option<DataFunction>, argument: Argument, flags: Flags, error: ErrorOut) {
        let create = || {
            check(flags, USE_CALLBACK | FIXED | COUNTING | SHARE_EXTERNAL, SHARED | CONDITIONAL, 0)?;
            interrupt.need()?;
            number.need()?;
            let function = callback(flags, function)?;
            let library = current()?;
            library.get::<Descriptor>(descriptor as u64)?;
            adapter(adapter_number)?;
            let chosen = if flags & FIXED != 0 { Some(number.get()?) } else { None };
            let make = |handle: u64| {
                function.map(|f| {
                    let run = move |data: &[u8]| {
                        // A copy: the program may write into it.
                        let mut copy = [0u8; DATA_MAX];
                        copy[..data.len()].copy_from_slice(data);
                        action(f(argument.pointer(), handle as Handle, copy.as_mut_ptr().cast(), data.len() as u32, 0))
                    };
                    Box::new(run) as DataCallback
                })
            };
            let (handle, given) = DataInterrupt::create(library, descriptor as u64, chosen, make)?;
            number.set(given)?;
            interrupt.set(handle as Handle)
        };
        end(error, (), create());
    }

    fn SCIRemoveDataInterrupt(interrupt: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| DataInterrupt::remove(current()?, interrupt as u64)));
    }

    fn SCIWaitForDataInterrupt(interrupt: Handle, data: Memory, length: Out<u32>, milliseconds: u32, flags: Flags, error: ErrorOut) {
        let wait = || {
            check(flags, 0, 0, 0)?;
            let interrupt = current()?.get::<DataInterrupt>(interrupt as u64)?;
            let room = data.bytes(length.get()? as usize)?;
            match interrupt.wait(room, timeout(milliseconds)) {
                Ok(len) => length.set(len as u32),
                Err((error, len)) => {
                    if error == Error::Overflow {
                        length.set(len as u32)?;
                    }
                    Err(error)
                }
            }
        };
        end(error, (), wait());
    }

    fn SCIConnectDataInterrupt(descriptor: Handle, interrupt: Out<Handle>, node: u32, adapter_number: u32, number: u32, milliseconds: u32, flags: Flags, error: ErrorOut) {
        let connect = || {
            check(flags, 0, 0, 0x40000)?;
            interrupt.need()?;
            let library = current()?;
            library.get::<Descriptor>(descriptor as u64)?;
            adapter(adapter_number)?;
            interrupt.set(RemoteDataInterrupt::connect(library, descriptor as u64, node, number, timeout(milliseconds))? as Handle)
        };
        end(error, (), connect());
    }

    fn SCIDisconnectDataInterrupt(interrupt: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| RemoteDataInterrupt::disconnect(current()?, interrupt as u64)));
    }

    fn SCITriggerDataInterrupt(interrupt: Handle, data: Memory, length: u32, flags: Flags, error: ErrorOut) {
        let trigger = || {
            check(flags, 0, 0, 0)?;
            let interrupt = current()?.get::<RemoteDataInterrupt>(interrupt as u64)?;
            interrupt.trigger(data.bytes(length as usize)?)
        };
        end(error, (), trigger());
    }
}
