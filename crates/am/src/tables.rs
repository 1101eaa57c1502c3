// SPDX-License-Identifier: MIT OR Apache-2.0
//! The tables of an endpoint: handlers, and entries that lead to others. Whatever carries the
//! messages has the same ones; `bellwire-amvia` does, too.
//!
//! Both are as long as any place that was ever set: most endpoints use few of their places, and
//! there may be thousands of endpoints.

/// Handlers of an endpoint; 0 is for messages that come back.
pub const HANDLERS: usize = 256;
/// Entries of the translation table at first, and at most.
pub const TRANSLATIONS_DEFAULT: usize = 256;
/// Most entries of a translation table.
pub const TRANSLATIONS_MAX: usize = 1 << 20;
/// The tag that accepts nothing.
pub const TAG_NONE: u64 = 0;
/// The tag that accepts everything.
pub const TAG_ALL: u64 = 1;

/// A place for a handler.
#[derive(Debug)]
pub enum Slot<H> {
    /// Nobody has set one.
    Free,
    /// It may run.
    Here(H),
    /// It runs.
    Out,
}

impl<H> Slot<H> {
    /// The handler, if it may run: it is out then.
    #[inline]
    pub fn take(&mut self) -> Option<H> {
        match core::mem::replace(self, Self::Out) {
            Self::Here(handler) => Some(handler),
            other => {
                *self = other;
                None
            }
        }
    }

    /// Puts a handler back that has run, unless another one is there by now, or the place is gone:
    /// then it is the caller's, to be dropped with no lock held.
    #[inline]
    pub fn put_back(slot: Option<&mut Self>, handler: H) -> Option<H> {
        match slot {
            Some(slot @ Self::Out) => {
                *slot = Self::Here(handler);
                None
            }
            _ => Some(handler),
        }
    }
}

/// The handlers of an endpoint; number 0 is for messages that come back.
#[derive(Debug)]
pub struct Handlers<H>(Vec<Slot<H>>);

impl<H> Default for Handlers<H> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<H> Handlers<H> {
    /// A handler's place, if anything was ever there.
    #[inline]
    pub fn slot(&mut self, index: u8) -> Option<&mut Slot<H>> {
        self.0.get_mut(usize::from(index))
    }

    /// A handler's place.
    pub fn slot_to_set(&mut self, index: u8) -> &mut Slot<H> {
        let index = usize::from(index);
        if index >= self.0.len() {
            self.0.resize_with(index + 1, || Slot::Free);
        }
        &mut self.0[index]
    }

    /// The first number of a handler of messages that is free.
    pub fn free(&self) -> Option<u8> {
        let used = self.0.iter().skip(1);
        let free = 1 + used.clone().position(|slot| matches!(slot, Slot::Free)).unwrap_or(used.len());
        u8::try_from(free).ok()
    }

    /// The handler that a message names, which is to run. None has number 0.
    #[inline]
    pub fn take_for_message(&mut self, index: u8) -> Option<H> {
        if index == 0 { None } else { self.slot(index).and_then(Slot::take) }
    }

    /// The handler of messages that come back, which is to run.
    pub fn take_for_return(&mut self) -> Option<H> {
        self.slot(0).and_then(Slot::take)
    }

    /// Whether a handler runs.
    pub fn is_out(&self, index: u8) -> bool {
        matches!(self.0.get(usize::from(index)), Some(Slot::Out))
    }

    /// The number of the handler that runs, if one does.
    pub fn out(&self) -> Option<u8> {
        self.0.iter().position(|slot| matches!(slot, Slot::Out)).and_then(|at| u8::try_from(at).ok())
    }

    /// All handlers, to be dropped with no lock held.
    pub fn take_all(&mut self) -> Vec<Slot<H>> {
        core::mem::take(&mut self.0)
    }
}

/// The translation table of an endpoint.
#[derive(Debug)]
pub struct Entries<T> {
    set: Vec<Option<T>>,
    count: usize,
}

impl<T> Default for Entries<T> {
    fn default() -> Self {
        Self { set: Vec::new(), count: TRANSLATIONS_DEFAULT }
    }
}

impl<T> Entries<T> {
    /// Where an entry leads, if it is mapped.
    #[inline]
    pub fn get(&self, index: u32) -> Option<&T> {
        self.set.get(index as usize)?.as_ref()
    }

    /// An entry, to be changed. `None`: the table has no entry of that number.
    pub fn get_mut(&mut self, index: u32) -> Option<&mut Option<T>> {
        let index = index as usize;
        if index >= self.count {
            return None;
        }
        if index >= self.set.len() {
            self.set.resize_with(index + 1, || None);
        }
        self.set.get_mut(index)
    }

    /// Entries of the table, mapped or not.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first entry that is free.
    pub fn free(&self) -> Option<u32> {
        let free = self.set.iter().position(Option::is_none).unwrap_or(self.set.len());
        (free < self.count).then_some(free as u32)
    }

    /// Changes the table's length. `false`: an entry that would go is mapped.
    pub fn set_count(&mut self, count: usize) -> bool {
        if self.set.iter().skip(count).any(Option::is_some) {
            return false;
        }
        self.set.truncate(count);
        self.count = count;
        true
    }
}

/// Whether an endpoint whose tag is `own` accepts a message with this one.
#[inline]
pub fn accepts(own: u64, tag: u64) -> bool {
    (own == tag && tag != TAG_NONE) || own == TAG_ALL
}

/// Whether `length` bytes at `offset` lie within a segment of `bytes`.
#[inline]
pub fn lies_within(offset: u64, length: u64, bytes: u64) -> bool {
    offset.checked_add(length).is_some_and(|end| end <= bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_message_names_the_handler_of_those_that_come_back() {
        let mut handlers = Handlers::default();
        *handlers.slot_to_set(0) = Slot::Here('e');
        *handlers.slot_to_set(2) = Slot::Here('m');
        assert_eq!((handlers.take_for_message(0), handlers.take_for_message(1), handlers.take_for_message(3)), (None, None, None));
        assert_eq!((handlers.take_for_return(), handlers.take_for_return()), (Some('e'), None), "it runs");
        assert_eq!((handlers.take_for_message(2), handlers.free()), (Some('m'), Some(1)));
        assert_eq!(Slot::put_back(handlers.slot(2), 'm'), None);
        *handlers.slot_to_set(0) = Slot::Here('n');
        assert_eq!((Slot::put_back(handlers.slot(0), 'e'), Slot::put_back(handlers.slot(9), 'x')), (Some('e'), Some('x')), "another one is there, and none");
    }

    #[test]
    fn tables_have_as_many_entries_as_they_say() {
        let mut entries = Entries::default();
        *entries.get_mut(3).unwrap() = Some(7);
        assert_eq!((entries.get(3), entries.get(2), entries.free(), entries.count()), (Some(&7), None, Some(0), TRANSLATIONS_DEFAULT));
        assert!(!entries.set_count(3) && entries.set_count(4) && entries.get_mut(4).is_none());
        (0..3).for_each(|n| *entries.get_mut(n).unwrap() = Some(n));
        assert_eq!(entries.free(), None);
    }
}
