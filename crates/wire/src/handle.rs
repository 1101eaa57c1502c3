// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tables of objects named by handles with generations.
//!
//! A handle is an index and a generation in 32 bits, never 0. A slot whose generations are used up
//! is set aside, and comes back only when there is no other; so a stale handle names a new object
//! only after four thousand million creations.

use core::marker::PhantomData;

const INDEX_BITS: u32 = 20;
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
const GENERATION_LAST: u16 = (1 << (32 - INDEX_BITS)) - 1;

/// Objects that one table can hold at a time.
pub const HANDLES_MAX: usize = 1 << INDEX_BITS;

/// Names an object of type `T`. Never 0.
pub struct Handle<T>(u32, PhantomData<fn() -> T>);

impl<T> Handle<T> {
    /// The handle as a number.
    #[inline]
    pub const fn raw(self) -> u32 {
        self.0
    }

    /// A handle from a number that may mean nothing; every use checks it.
    #[inline]
    pub const fn from_raw(raw: u32) -> Self {
        Self(raw, PhantomData)
    }

    /// The slot's index.
    #[inline]
    pub const fn index(self) -> usize {
        (self.0 & INDEX_MASK) as usize
    }

    const fn new(index: usize, generation: u16) -> Self {
        Self(index as u32 | (generation as u32) << INDEX_BITS, PhantomData)
    }
}

impl<T> Clone for Handle<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Handle<T> {}
impl<T> PartialEq for Handle<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T> Eq for Handle<T> {}
impl<T> PartialOrd for Handle<T> {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Handle<T> {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T> core::hash::Hash for Handle<T> {
    fn hash<H: core::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<T> core::fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}", self.0 & INDEX_MASK, self.0 >> INDEX_BITS)
    }
}

#[derive(Debug)]
struct Slot<T> {
    /// The handle of the object in it, 0 while there is none.
    raw: u32,
    generation: u16,
    value: Option<T>,
}

/// A table of objects. Their handles are of type `N`, so that code which only names an object need
/// not know what it is.
#[derive(Debug)]
pub struct Slab<T, N = T> {
    names: PhantomData<fn() -> N>,
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    spent: std::collections::VecDeque<u32>,
    count: usize,
    limit: usize,
}

impl<T, N> Slab<T, N> {
    /// An empty table for at most `limit` objects at a time.
    pub fn new(limit: usize) -> Self {
        Self { names: PhantomData, slots: Vec::new(), free: Vec::new(), spent: std::collections::VecDeque::new(), count: 0, limit: limit.min(HANDLES_MAX) }
    }

    /// Adds an object; `None` when the table is full.
    pub fn insert(&mut self, value: T) -> Option<Handle<N>> {
        if self.count >= self.limit {
            return None;
        }
        let index = if let Some(i) = self.free.pop() {
            i as usize
        } else if self.slots.len() < HANDLES_MAX {
            self.slots.push(Slot { raw: 0, generation: 0, value: None });
            self.slots.len() - 1
        } else {
            self.spent.pop_front()? as usize
        };
        let slot = &mut self.slots[index];
        slot.generation = if slot.generation == GENERATION_LAST { 1 } else { slot.generation + 1 };
        slot.value = Some(value);
        self.count += 1;
        let handle = Handle::new(index, slot.generation);
        slot.raw = handle.0;
        Some(handle)
    }

    /// Removes an object.
    pub fn remove(&mut self, handle: Handle<N>) -> Option<T> {
        let slot = self.slots.get_mut(handle.index())?;
        if slot.raw != handle.0 {
            return None;
        }
        let value = slot.value.take()?;
        slot.raw = 0;
        self.count -= 1;
        if slot.generation == GENERATION_LAST {
            self.spent.push_back(handle.index() as u32);
        } else {
            self.free.push(handle.index() as u32);
        }
        Some(value)
    }

    /// The object, if the handle is not stale.
    #[inline(always)]
    pub fn get(&self, handle: Handle<N>) -> Option<&T> {
        let slot = self.slots.get(handle.index())?;
        if slot.raw != handle.0 {
            return None;
        }
        slot.value.as_ref()
    }

    /// The object, if the handle is not stale.
    #[inline(always)]
    pub fn get_mut(&mut self, handle: Handle<N>) -> Option<&mut T> {
        let slot = self.slots.get_mut(handle.index())?;
        if slot.raw != handle.0 {
            return None;
        }
        slot.value.as_mut()
    }

    /// The object at an index that the engine itself keeps.
    #[inline]
    pub fn at(&mut self, index: usize) -> Option<&mut T> {
        self.slots.get_mut(index)?.value.as_mut()
    }

    /// The object at an index that the engine itself keeps, with its handle.
    #[inline(always)]
    pub fn entry_at(&mut self, index: usize) -> Option<(Handle<N>, &mut T)> {
        let slot = self.slots.get_mut(index)?;
        let handle = Handle::new(index, slot.generation);
        slot.value.as_mut().map(|v| (handle, v))
    }

    /// The handle of the object at `index`.
    pub fn handle_at(&self, index: usize) -> Option<Handle<N>> {
        let slot = self.slots.get(index)?;
        slot.value.as_ref()?;
        Some(Handle::new(index, slot.generation))
    }

    /// All objects with their handles, by rising index.
    pub fn iter(&self) -> impl Iterator<Item = (Handle<N>, &T)> {
        self.slots.iter().enumerate().filter_map(|(i, s)| s.value.as_ref().map(|v| (Handle::new(i, s.generation), v)))
    }

    /// All objects with their handles, by rising index.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (Handle<N>, &mut T)> {
        self.slots.iter_mut().enumerate().filter_map(|(i, s)| s.value.as_mut().map(|v| (Handle::new(i, s.generation), v)))
    }

    /// Indices that have been given away: each object's is below.
    pub fn places(&self) -> usize {
        self.slots.len()
    }

    /// Objects in the table.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stale_handles_fail_and_zero_is_never_given() {
        let mut s: Slab<u32> = Slab::new(4);
        let mut seen = std::collections::HashSet::new();
        for i in 0..20_000u32 {
            let h = s.insert(i).unwrap();
            assert_ne!(h.raw(), 0);
            assert!(seen.insert(h.raw()), "handle {h:?} given twice");
            assert_eq!(s.remove(h), Some(i));
            assert_eq!(s.get(h), None);
            assert_eq!(s.remove(h), None);
        }
        assert!(s.get(Handle::from_raw(0)).is_none());
        assert!(s.get(Handle::from_raw(u32::MAX)).is_none());
    }

    #[test]
    fn limit() {
        let mut s: Slab<i32> = Slab::new(2);
        let a = s.insert(1).unwrap();
        s.insert(2).unwrap();
        assert!(s.insert(3).is_none());
        s.remove(a);
        assert!(s.insert(3).is_some());
        assert_eq!(s.iter().map(|(_, v)| *v).collect::<Vec<_>>(), [3, 2]);
    }
}
