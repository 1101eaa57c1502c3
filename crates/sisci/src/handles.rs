// SPDX-License-Identifier: MIT OR Apache-2.0
//! Handles are checked numbers: kind, slot and generation. A handle of a removed object, of another
//! kind, or made up, finds nothing. An object that another thread uses lives until that use ends.
//!
//! ```text
//!  63..56       55..48   47..24       23..0
//!  1011 0101    kind     generation   slot
//! ```
//! The top bits make it differ from every address of the program.

use crate::error::Error;
use std::any::Any;
use std::collections::VecDeque;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

const TAG: u64 = 0xB5;
const PART_BITS: u32 = 24;
const PART: u64 = (1 << PART_BITS) - 1;
/// Objects of a kind.
const SLOTS_MAX: usize = 1 << 20;
/// A slot rests until so many others are free, so that a stale handle stays stale for long.
const REST: usize = 64;

/// Something that has a handle.
pub trait Object: Any + Send + Sync {
    /// A number for each type.
    const KIND: u8;
}

struct Slot {
    generation: u64,
    object: Option<Arc<dyn Any + Send + Sync>>,
}

#[derive(Default)]
struct Slots {
    slots: Vec<Slot>,
    free: VecDeque<usize>,
}

/// The objects of a process.
#[derive(Default)]
pub struct Table {
    slots: RwLock<Slots>,
}

impl Table {
    fn read(&self) -> RwLockReadGuard<'_, Slots> {
        self.slots.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Slots> {
        self.slots.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes an object that knows its own handle.
    ///
    /// # Errors
    /// [`Error::ApiNoSpace`], or what `make` says.
    pub fn insert<T: Object>(&self, make: impl FnOnce(u64) -> Result<Arc<T>, Error>) -> Result<u64, Error> {
        let (slot, generation) = {
            let mut all = self.write();
            let slot = if all.free.len() > REST { all.free.pop_front() } else { None };
            let slot = slot.unwrap_or_else(|| {
                all.slots.push(Slot { generation: 0, object: None });
                all.slots.len() - 1
            });
            if slot >= SLOTS_MAX {
                all.slots.pop();
                return Err(Error::ApiNoSpace);
            }
            all.slots[slot].generation = (all.slots[slot].generation + 1) & PART;
            (slot, all.slots[slot].generation)
        };
        let handle = TAG << 56 | u64::from(T::KIND) << 48 | generation << PART_BITS | slot as u64;
        match make(handle) {
            Ok(object) => {
                self.write().slots[slot].object = Some(object);
                Ok(handle)
            }
            Err(error) => {
                self.write().free.push_back(slot);
                Err(error)
            }
        }
    }

    /// The object of a handle.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if it names nothing.
    pub fn get<T: Object>(&self, handle: u64) -> Result<Arc<T>, Error> {
        let (slot, generation) = parts::<T>(handle).ok_or(Error::IllegalParameter)?;
        let found = self.read().slots.get(slot).filter(|s| s.generation == generation).and_then(|s| s.object.clone());
        found.and_then(|object| object.downcast().ok()).ok_or(Error::IllegalParameter)
    }

    /// Takes the object out; one caller gets it.
    ///
    /// # Errors
    /// [`Error::IllegalParameter`] if the handle names nothing.
    pub fn remove<T: Object>(&self, handle: u64) -> Result<Arc<T>, Error> {
        let (slot, generation) = parts::<T>(handle).ok_or(Error::IllegalParameter)?;
        let mut all = self.write();
        let is_it = |s: &&mut Slot| s.generation == generation && s.object.as_ref().is_some_and(|o| o.is::<T>());
        let found = all.slots.get_mut(slot).filter(is_it).and_then(|s| s.object.take());
        if found.is_some() {
            all.free.push_back(slot);
        }
        found.and_then(|object| object.downcast().ok()).ok_or(Error::IllegalParameter)
    }
}

fn parts<T: Object>(handle: u64) -> Option<(usize, u64)> {
    let is_one = handle >> 48 == TAG << 8 | u64::from(T::KIND);
    is_one.then_some(((handle & PART) as usize, handle >> PART_BITS & PART))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct One(u32);
    impl Object for One {
        const KIND: u8 = 1;
    }
    struct Two(u32);
    impl Object for Two {
        const KIND: u8 = 2;
    }

    #[test]
    fn stale_foreign_and_made_up_handles_find_nothing() {
        let table = Table::default();
        let one = table.insert(|_| Ok(Arc::new(One(1)))).unwrap();
        let two = table.insert(|_| Ok(Arc::new(Two(2)))).unwrap();
        assert_eq!((table.get::<One>(one).unwrap().0, table.get::<Two>(two).unwrap().0), (1, 2));
        // The other's handle, as if it were of this kind.
        let disguised = two ^ (1 ^ 2) << 48;
        for handle in [0, 1, two, disguised, one + 1, one ^ 1 << 30, u64::MAX, one ^ 1 << 60] {
            assert!(table.get::<One>(handle).is_err(), "{handle:#x}");
            assert!(table.remove::<One>(handle).is_err());
        }
        assert_eq!(table.remove::<One>(one).unwrap().0, 1);
        assert!(table.get::<One>(one).is_err() && table.remove::<One>(one).is_err());
        for _ in 0..1000 {
            let next = table.insert(|_| Ok(Arc::new(One(3)))).unwrap();
            assert_ne!(next, one);
            table.remove::<One>(next).unwrap();
        }
        assert!(table.get::<One>(one).is_err());
        assert_eq!(table.insert::<One>(|_| Err(Error::Busy)), Err(Error::Busy));
    }
}
