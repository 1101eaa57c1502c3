// SPDX-License-Identifier: MIT OR Apache-2.0
//! Maps, sequences, and copies through maps.

use crate::calls::{ErrorOut, Flags, Handle, Memory, Out, check, end};
use bellwire_memory::region::Access;
use bellwire_memory::view::At;
use bellwire_sisci::{Error, Map, Sequence, SequenceStatus, current, store_barrier};
use core::ffi::c_void;

const FIXED: Flags = 0x1;
const READ_ONLY: Flags = 0x2;
/// Loads that are atomic additions: nothing here sees each load.
const LOCK_OPERATION: Flags = 0x4;
/// Stores that interrupt: as triggers of conditional flags, or with their data.
const CONDITIONAL: Flags = 0x8;
const UNCONDITIONAL: Flags = 0x10;
/// Hints to adapters and caches, which mean nothing here.
const HINTS: Flags = 0x80 | 0x800 | 0x2000 | 0x0800_0000;
const NO_FLUSH: Flags = 0x1;
const NO_BARRIER: Flags = 0x2;
const FAST_BARRIER: Flags = 0x1;
const BLOCK_READ: Flags = 0x1;
const ERROR_CHECK: Flags = 0x2;
const CACHE: Flags = 0x10_0000 | 0x20_0000;

struct How {
    access: Access,
    at: At,
}

fn how(hint: Memory, flags: Flags, more: Flags) -> Result<How, Error> {
    check(flags, FIXED | READ_ONLY | HINTS | more, LOCK_OPERATION | CONDITIONAL & !more | UNCONDITIONAL & !more, 0)?;
    let access = if flags & READ_ONLY != 0 { Access::ReadOnly } else { Access::ReadWrite };
    let at = if flags & FIXED != 0 { At::Exactly(hint.address()) } else { At::Anywhere };
    Ok(How { access, at })
}

fn copy(memory: Memory, map: Handle, offset: usize, size: usize, read: bool) -> Result<(), Error> {
    let map = current()?.get::<Map>(map as u64)?;
    map.copy(memory.bytes(size)?, offset, read)
}

/// Sends what was stored through the map of a sequence; without one, through all.
fn flush(sequence: Handle) {
    store_barrier();
    // These calls have no errors: the check of a sequence tells.
    let Ok(library) = current() else { return };
    match library.get::<Sequence>(sequence as u64) {
        Ok(sequence) => drop(sequence.map().flush()),
        Err(_) => library.flush_stores(),
    }
}

calls! {
    fn SCIMapLocalSegment(segment: Handle, map: Out<Handle>, offset: usize, size: usize, hint: Memory, flags: Flags, error: ErrorOut) -> *mut c_void {
        let make = || {
            let how = how(hint, flags, 0)?;
            map.need()?;
            let (handle, base) = Map::of_local(current()?, segment as u64, offset, size, how.access, how.at)?;
            map.set(handle as Handle)?;
            Ok(base.cast())
        };
        end(error, core::ptr::null_mut(), make())
    }

    fn SCIMapRemoteSegment(segment: Handle, map: Out<Handle>, offset: usize, size: usize, hint: Memory, flags: Flags, error: ErrorOut) -> *mut c_void {
        let make = || {
            let how = how(hint, flags, CONDITIONAL | UNCONDITIONAL)?;
            map.need()?;
            let (library, segment) = (current()?, segment as u64);
            let (handle, base) = match flags & (CONDITIONAL | UNCONDITIONAL) {
                0 => Map::of_remote(library, segment, offset, size, how.access, how.at)?,
                one @ (CONDITIONAL | UNCONDITIONAL) if how.access == Access::ReadWrite => Map::of_flags(library, segment, offset, size, one == CONDITIONAL, how.at)?,
                _ => return Err(Error::IllegalFlag),
            };
            map.set(handle as Handle)?;
            Ok(base.cast())
        };
        end(error, core::ptr::null_mut(), make())
    }

    fn SCIUnmapSegment(map: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| Map::unmap(current()?, map as u64)));
    }

    fn SCICreateMapSequence(map: Handle, sequence: Out<Handle>, flags: Flags, error: ErrorOut) {
        let make = || {
            check(flags, FAST_BARRIER, 0, 0)?;
            sequence.need()?;
            sequence.set(Sequence::create(current()?, map as u64)? as Handle)
        };
        end(error, (), make());
    }

    fn SCIRemoveSequence(sequence: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| Sequence::remove(current()?, sequence as u64)));
    }
}

quick_calls! {
    fn SCIStartSequence(sequence: Handle, flags: Flags, error: ErrorOut) -> u32 {
        let start = || {
            check(flags, NO_FLUSH | NO_BARRIER, 0, 0)?;
            Ok(current()?.get::<Sequence>(sequence as u64)?.start() as u32)
        };
        end(error, SequenceStatus::NotRetriable as u32, start())
    }

    fn SCICheckSequence(sequence: Handle, flags: Flags, error: ErrorOut) -> u32 {
        let check_it = || {
            check(flags, NO_FLUSH | NO_BARRIER, 0, 0)?;
            Ok(current()?.get::<Sequence>(sequence as u64)?.check() as u32)
        };
        end(error, SequenceStatus::NotRetriable as u32, check_it())
    }

    fn SCIStoreBarrier(sequence: Handle, _flags: Flags) {
        flush(sequence);
    }

    fn SCIFlushReadBuffers(sequence: Handle) {
        store_barrier();
        // These calls have no errors: the check of a sequence tells.
        let _ = current().and_then(|l| l.get::<Sequence>(sequence as u64)).and_then(|s| s.map().fetch());
    }

    fn SCIFlush(sequence: Handle, _flags: Flags) {
        flush(sequence);
    }

    fn SCIMemCpy(sequence: Handle, memory: Memory, map: Handle, offset: usize, size: usize, flags: Flags, error: ErrorOut) {
        let run = || {
            check(flags, BLOCK_READ | ERROR_CHECK, 0, 0)?;
            // NULL is a copy without a check.
            let sequence = match sequence {
                0 if flags & ERROR_CHECK == 0 => None,
                handle => Some(current()?.get::<Sequence>(handle as u64)?),
            };
            copy(memory, map, offset, size, flags & BLOCK_READ != 0)?;
            match sequence.filter(|_| flags & ERROR_CHECK != 0).map(|s| s.check()) {
                None | Some(SequenceStatus::Ok) => Ok(()),
                Some(_) => Err(Error::TransferFailed),
            }
        };
        end(error, (), run());
    }

    fn SCIMemCopy(memory: Memory, map: Handle, offset: usize, size: usize, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, BLOCK_READ | ERROR_CHECK, 0, 0).and_then(|()| copy(memory, map, offset, size, flags & BLOCK_READ != 0)));
    }

    fn SCIMemWrite(memory: Memory, remote: Memory, size: usize, flags: Flags, error: ErrorOut) {
        let write = || {
            check(flags, 0, 0, 0)?;
            current()?;
            Ok(remote.bytes(size)?.copy_from(0, memory.bytes(size)?)?)
        };
        end(error, (), write());
    }

    fn SCICacheSync(map: Handle, address: Memory, length: usize, flags: Flags, error: ErrorOut) {
        let sync = || {
            check(flags, CACHE, 0, 0)?;
            let map = current()?.get::<Map>(map as u64)?;
            let base = map.part(0, 0)?.as_ptr().addr();
            map.part(address.address().checked_sub(base).ok_or(Error::OutOfRange)?, length)?;
            map.flush()
        };
        end(error, (), sync());
    }
}
