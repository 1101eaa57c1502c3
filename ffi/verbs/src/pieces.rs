// SPDX-License-Identifier: MIT OR Apache-2.0
//! The pieces of memory of a request, as programs list them.

use bellwire_verbs::{Error, Sge};
use core::cell::UnsafeCell;
use core::ffi::c_int;

/// The pieces of a request, valid until this thread asks for the next one's.
///
/// # Safety
/// V2.
#[inline]
pub(crate) unsafe fn pieces<'a>(list: *const Sge, count: c_int) -> Result<&'a [Sge], Error> {
    match count {
        0 => Ok(&[]),
        n if n > 0 && !list.is_null() && list.is_aligned() => {
            // SAFETY: V2, and it is aligned.
            Ok(unsafe { core::slice::from_raw_parts(list, n as usize) })
        }
        // SAFETY: V2.
        n if n > 0 && !list.is_null() => unsafe { realigned(list, n as usize) },
        _ => Err(Error::Invalid),
    }
}

/// Pieces at an odd address, copied: libiscsi keeps them in a packed structure.
///
/// # Safety
/// V2.
#[cold]
unsafe fn realigned<'a>(list: *const Sge, count: usize) -> Result<&'a [Sge], Error> {
    /// More than any device takes.
    const COUNT_MAX: usize = 1 << 12;
    thread_local! { static ROOM: UnsafeCell<Vec<Sge>> = const { UnsafeCell::new(Vec::new()) }; }
    if count > COUNT_MAX {
        return Err(Error::Invalid);
    }
    // SAFETY: V2, for each of them.
    let copies = (0..count).map(|i| unsafe { list.cast::<[u8; size_of::<Sge>()]>().add(i).cast::<Sge>().read_unaligned() });
    let room = ROOM.try_with(UnsafeCell::get).map_err(|_| Error::Invalid)?;
    // SAFETY: the room is this thread's, and what was lent of it before is no longer used: a
    // request is over before the next one is read.
    unsafe {
        (*room).clear();
        (*room).extend(copies);
        Ok(core::slice::from_raw_parts((*room).as_ptr(), count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_an_odd_address() {
        let list: Vec<Sge> = (0..5).map(|n| Sge { address: n, length: 7, key: n as u32 }).collect();
        let length = size_of_val(&list[..]);
        let mut bytes = vec![0u8; length + 1];
        // SAFETY: as many bytes are there on both sides, which are apart.
        unsafe { core::ptr::copy_nonoverlapping(list.as_ptr().cast(), bytes.as_mut_ptr().add(1), length) };
        // Both addresses, of which one is odd.
        for list_at in [list.as_ptr().cast::<u8>(), bytes.as_ptr().wrapping_add(1)] {
            // SAFETY: five pieces lie there.
            assert_eq!(unsafe { pieces(list_at.cast(), 5) }, Ok(&list[..]));
        }
        // SAFETY: refused before anything is read.
        let refused = |at: *const u8, count| unsafe { pieces(at.cast(), count) };
        assert_eq!(refused(bytes.as_ptr().wrapping_add(1), c_int::MAX), Err(Error::Invalid));
        assert_eq!(refused(list.as_ptr().cast(), -1), Err(Error::Invalid));
        assert_eq!(refused(core::ptr::null(), 1), Err(Error::Invalid));
        assert_eq!(refused(core::ptr::null(), 0), Ok(&[][..]));
    }
}
