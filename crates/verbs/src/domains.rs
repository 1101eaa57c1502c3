// SPDX-License-Identifier: MIT OR Apache-2.0
//! Domains: objects that others are made of, and that cannot end before these have. Protection
//! domains and XRC domains differ only in what uses them.

use crate::types::Error;
use bellwire_via::handle::{Handle, Slab};

/// A domain, as the number of its users.
#[derive(Debug)]
pub(crate) struct Users(u32);

/// The domains of one kind.
#[derive(Debug)]
pub(crate) struct Domains(Slab<Users>);

impl Domains {
    /// None yet, at most `most`.
    pub(crate) fn new(most: usize) -> Self {
        Self(Slab::new(most))
    }

    pub(crate) fn create(&mut self) -> Result<u32, Error> {
        self.0.insert(Users(0)).map(Handle::raw).ok_or(Error::NoMemory)
    }

    /// Ends a domain that nothing uses.
    pub(crate) fn destroy(&mut self, id: u32) -> Result<(), Error> {
        if self.0.get(Handle::from_raw(id)).ok_or(Error::Invalid)?.0 != 0 {
            return Err(Error::Busy);
        }
        self.0.remove(Handle::from_raw(id));
        Ok(())
    }

    /// Adds a user.
    pub(crate) fn hold(&mut self, id: u32) -> Result<(), Error> {
        self.0.get_mut(Handle::from_raw(id)).ok_or(Error::Invalid)?.0 += 1;
        Ok(())
    }

    /// A user that [`hold`](Self::hold) added has ended.
    pub(crate) fn release(&mut self, id: u32) {
        if let Some(Users(users)) = self.0.get_mut(Handle::from_raw(id)) {
            *users -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Domains;
    use crate::types::Error;

    #[test]
    fn a_domain_outlives_its_users() {
        let mut domains = Domains::new(1);
        let id = domains.create().unwrap();
        assert_eq!(domains.create(), Err(Error::NoMemory));
        domains.hold(id).unwrap();
        assert_eq!(domains.destroy(id), Err(Error::Busy));
        domains.release(id);
        assert_eq!(domains.destroy(id), Ok(()));
        assert_eq!((domains.hold(id), domains.destroy(id)), (Err(Error::Invalid), Err(Error::Invalid)));
    }
}
