// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interrupts without and with data.

use crate::api::{Handle, Owned, call};
use crate::heard::{self, Hear, Listed};
use crate::{ADAPTER, Error, Sisci, USE_CALLBACK};
use std::sync::Arc;

/// Most bytes of a data interrupt.
pub const DATA_BYTES_MAX: usize = 4096;

/// An interrupt that others may trigger. Removed when dropped.
#[derive(Debug)]
pub struct Interrupt {
    _own: Owned,
    number: u32,
    _listed: Listed,
}

impl Interrupt {
    /// An interrupt with a number of the library's choice, of which `hear` is told.
    ///
    /// # Errors
    /// What the library says.
    pub fn create(sisci: &Arc<Sisci>, hear: Hear) -> Result<Self, Error> {
        let listed = Listed::new(hear);
        let (mut handle, mut number) = (Handle::NONE, 0);
        let create = sisci.api.create_interrupt;
        // SAFETY: C1.
        call(|e| unsafe {
            create(sisci.device, &raw mut handle, ADAPTER, &raw mut number, Some(heard::interrupt), listed.argument(), USE_CALLBACK, e);
        })?;
        Ok(Self { _own: Owned::new(sisci, handle, sisci.api.remove_interrupt, 0), number, _listed: listed })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// An interrupt of another process. Left when dropped.
#[derive(Debug)]
pub struct RemoteInterrupt {
    own: Owned,
}

impl RemoteInterrupt {
    /// Connects to an interrupt of a node; waits as long for it.
    ///
    /// # Errors
    /// What the library says.
    pub fn connect(sisci: &Arc<Sisci>, node: u32, number: u32, milliseconds: u32) -> Result<Self, Error> {
        let mut handle = Handle::NONE;
        // SAFETY: C1.
        call(|e| unsafe { (sisci.api.connect_interrupt)(sisci.device, &raw mut handle, node, ADAPTER, number, milliseconds, 0, e) })?;
        Ok(Self { own: Owned::new(sisci, handle, sisci.api.disconnect_interrupt, 0) })
    }

    /// Triggers it.
    ///
    /// # Errors
    /// What the library says.
    pub fn trigger(&self) -> Result<(), Error> {
        // SAFETY: C1.
        call(|e| unsafe { (self.own.sisci.api.trigger_interrupt)(self.own.handle, 0, e) })
    }
}

/// A data interrupt that others may trigger. Removed when dropped.
#[derive(Debug)]
pub struct DataInterrupt {
    _own: Owned,
    number: u32,
    _listed: Listed,
}

impl DataInterrupt {
    /// A data interrupt with a number of the library's choice, of which `hear` is told.
    ///
    /// # Errors
    /// What the library says.
    pub fn create(sisci: &Arc<Sisci>, hear: Hear) -> Result<Self, Error> {
        let listed = Listed::new(hear);
        let (mut handle, mut number) = (Handle::NONE, 0);
        let create = sisci.api.create_data_interrupt;
        // SAFETY: C1.
        call(|e| unsafe { create(sisci.device, &raw mut handle, ADAPTER, &raw mut number, Some(heard::data), listed.argument(), USE_CALLBACK, e) })?;
        Ok(Self { _own: Owned::new(sisci, handle, sisci.api.remove_data_interrupt, 0), number, _listed: listed })
    }

    /// Its number.
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// A data interrupt of another process. Left when dropped.
#[derive(Debug)]
pub struct RemoteDataInterrupt {
    own: Owned,
}

impl RemoteDataInterrupt {
    /// Connects to a data interrupt of a node; waits as long for it.
    ///
    /// # Errors
    /// What the library says.
    pub fn connect(sisci: &Arc<Sisci>, node: u32, number: u32, milliseconds: u32) -> Result<Self, Error> {
        let mut handle = Handle::NONE;
        // SAFETY: C1.
        call(|e| unsafe { (sisci.api.connect_data_interrupt)(sisci.device, &raw mut handle, node, ADAPTER, number, milliseconds, 0, e) })?;
        Ok(Self { own: Owned::new(sisci, handle, sisci.api.disconnect_data_interrupt, 0) })
    }

    /// Sends 1 to [`DATA_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// What the library says.
    pub fn trigger(&self, data: &[u8]) -> Result<(), Error> {
        let (from, length) = (data.as_ptr().cast_mut().cast(), data.len() as u32);
        // SAFETY: C1: the library reads so many bytes there.
        call(|e| unsafe { (self.own.sisci.api.trigger_data_interrupt)(self.own.handle, from, length, 0, e) })
    }
}
