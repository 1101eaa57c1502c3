// SPDX-License-Identifier: MIT OR Apache-2.0
//! The listeners of callbacks. The library is given a number as the argument, under which an
//! object's owner is listed while the object lives: a late callback tells nobody.

use crate::api::{Argument, Handle};
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

/// What a callback tells.
#[derive(Clone, Copy, Debug)]
pub enum Told<'a> {
    /// An event of a segment: a value of [`reason`](crate::reason).
    Segment(u32),
    /// An interrupt.
    Interrupt,
    /// A data interrupt.
    Data(&'a [u8]),
    /// A transfer has ended, well or not.
    Done(bool),
}

/// A listener. It runs on a thread of the library's.
pub type Hear = Arc<dyn Fn(Told<'_>) + Send + Sync>;

struct Listeners {
    next: usize,
    by_number: BTreeMap<usize, Hear>,
}

static LISTENERS: Mutex<Listeners> = Mutex::new(Listeners { next: 1, by_number: BTreeMap::new() });

/// A place among the listeners, given up when dropped.
pub(crate) struct Listed(usize);

impl core::fmt::Debug for Listed {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "Listed({})", self.0)
    }
}

impl Listed {
    pub fn new(hear: Hear) -> Self {
        let mut listeners = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner);
        let number = listeners.next;
        listeners.next += 1;
        listeners.by_number.insert(number, hear);
        Self(number)
    }

    pub fn argument(&self) -> Argument {
        core::ptr::without_provenance_mut(self.0)
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let heard = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).by_number.remove(&self.0);
        // Without the lock: what the listener owns may be listed itself.
        drop(heard);
    }
}

/// `SCI_CALLBACK_CONTINUE`.
const CONTINUE: u32 = 2;

fn tell(argument: Argument, told: Told<'_>) -> u32 {
    let hear = LISTENERS.lock().unwrap_or_else(PoisonError::into_inner).by_number.get(&argument.addr()).cloned();
    if let Some(hear) = hear {
        hear(told);
    }
    CONTINUE
}

pub(crate) extern "C" fn remote(argument: Argument, _: Handle, reason: u32, _: u32) -> u32 {
    tell(argument, Told::Segment(reason))
}

pub(crate) extern "C" fn interrupt(argument: Argument, _: Handle, _: u32) -> u32 {
    tell(argument, Told::Interrupt)
}

pub(crate) extern "C" fn transfer(argument: Argument, _: Handle, error: u32) -> u32 {
    tell(argument, Told::Done(error == crate::code::OK))
}

pub(crate) extern "C" fn data(argument: Argument, _: Handle, data: *mut c_void, length: u32, _: u32) -> u32 {
    if data.is_null() {
        return CONTINUE;
    }
    // SAFETY: C1: so many bytes, of this callback alone while it runs.
    tell(argument, Told::Data(unsafe { core::slice::from_raw_parts(data.cast(), length as usize) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_callback_tells_nobody() {
        let count = Arc::new(Mutex::new(0));
        let listed = Listed::new({
            let count = Arc::clone(&count);
            Arc::new(move |_: Told<'_>| *count.lock().unwrap() += 1)
        });
        let argument = listed.argument();
        assert_eq!(interrupt(argument, Handle::NONE, 0), CONTINUE);
        drop(listed);
        assert_eq!(interrupt(argument, Handle::NONE, 0), CONTINUE);
        assert_eq!(*count.lock().unwrap(), 1);
        assert_eq!(Arc::strong_count(&count), 1);
    }
}
