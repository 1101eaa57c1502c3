// SPDX-License-Identifier: MIT OR Apache-2.0
//! Start, end, nodes, queries.

use crate::calls::{ErrorOut, Flags, Handle, Memory, Out, adapter, check, end};
use bellwire_sisci::{Descriptor, Error, Library, LocalSegment, Map, RemoteSegment, current};
use core::ffi::{c_char, c_void};

const QUERY_VENDOR: u32 = 1;
const QUERY_API: u32 = 2;
const QUERY_ADAPTER: u32 = 3;
const QUERY_SYSTEM: u32 = 4;
const QUERY_LOCAL_SEGMENT: u32 = 5;
const QUERY_REMOTE_SEGMENT: u32 = 6;
const QUERY_MAP: u32 = 7;
const QUERY_DMA: u32 = 8;
/// `DIS_DMA_TYPE_SYSTEM`: processors copy.
const DMA_TYPE_SYSTEM: u32 = 4;

/// `sci_query_string_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct QueryString {
    text: *mut c_char,
    length: u32,
}

/// `sci_query_adapter_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct QueryAdapter {
    adapter: u32,
    port: u32,
    subcommand: u32,
    data: Out<u32>,
}

/// `sci_query_dma_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct QueryDma {
    adapter: u32,
    subcommand: u32,
    data: Out<u32>,
}

/// `sci_query_map_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct QueryMap {
    map: Handle,
    subcommand: u32,
    data: Out<usize>,
}

/// Two segments' queries alike, as far as they are looked at.
#[repr(C)]
#[derive(Clone, Copy)]
struct QuerySegment {
    segment: Handle,
    subcommand: u32,
}

fn put_text(data: Memory, text: &str) -> Result<(), Error> {
    let query = Out::<QueryString>::of(data).get()?;
    let room = Memory(query.text.cast()).bytes(query.length as usize)?;
    if text.len() >= room.len() {
        return Err(Error::OutOfRange);
    }
    room.copy_in(0, text.as_bytes())?;
    room.copy_in(text.len(), &[0])?;
    Ok(())
}

impl<T> Out<T> {
    fn of(memory: Memory) -> Self {
        // SAFETY: both are a pointer, transparently; its user checks it.
        unsafe { core::mem::transmute::<*mut c_void, Self>(memory.0) }
    }
}

fn query(library: &'static Library, command: u32, data: Memory) -> Result<(), Error> {
    match command {
        QUERY_VENDOR => put_text(data, "Bellwire"),
        QUERY_API => put_text(data, concat!("SISCI of Bellwire ", env!("CARGO_PKG_VERSION"))),
        QUERY_ADAPTER => {
            let query = Out::<QueryAdapter>::of(data).get()?;
            adapter(query.adapter)?;
            let value = match query.subcommand {
                1 => library.nodes.own,
                // The serial number: a node has one adapter.
                2 => library.nodes.own,
                // The card type: none that was ever sold.
                3 => 0,
                // Bytes that a DMA entry may have.
                4 => u32::MAX,
                5 | 6 => 1,
                7 => return Err(Error::NotSupported),
                _ => return Err(Error::IllegalQuery),
            };
            query.data.set(value)
        }
        QUERY_SYSTEM => Err(Error::NotSupported),
        QUERY_LOCAL_SEGMENT => {
            library.get::<LocalSegment>(Out::<QuerySegment>::of(data).get()?.segment as u64)?;
            Err(Error::NotSupported)
        }
        QUERY_REMOTE_SEGMENT => {
            library.get::<RemoteSegment>(Out::<QuerySegment>::of(data).get()?.segment as u64)?;
            Err(Error::NotSupported)
        }
        QUERY_MAP => {
            let query = Out::<QueryMap>::of(data).get()?;
            let map = library.get::<Map>(query.map as u64)?;
            if query.subcommand == 1 { query.data.set(map.size()) } else { Err(Error::IllegalQuery) }
        }
        QUERY_DMA => {
            let query = Out::<QueryDma>::of(data).get()?;
            adapter(query.adapter)?;
            if query.subcommand == 1 { query.data.set(1) } else { Err(Error::IllegalQuery) }
        }
        _ => Err(Error::IllegalQuery),
    }
}

calls! {
    fn SCIInitialize(flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| bellwire_sisci::initialize()));
    }

    fn SCITerminate() {
        bellwire_sisci::terminate();
    }

    fn SCIOpen(descriptor: Out<Handle>, flags: Flags, error: ErrorOut) {
        let open = || {
            check(flags, 1, 0, 0)?;
            descriptor.need()?;
            descriptor.set(current()?.open()? as Handle)
        };
        end(error, (), open());
    }

    fn SCIClose(descriptor: Handle, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| current()?.close(descriptor as u64)));
    }

    fn SCIGetErrorString(code: u32) -> *const c_char {
        Error::describe(code).as_ptr()
    }

    fn SCIQuery(command: u32, data: Memory, flags: Flags, error: ErrorOut) {
        end(error, (), check(flags, 0, 0, 0).and_then(|()| query(current()?, command, data)));
    }

    fn SCIProbeNode(descriptor: Handle, number: u32, node: u32, flags: Flags, error: ErrorOut) -> i32 {
        let probe = || {
            check(flags, 0, 0, 0)?;
            let library = current()?;
            library.get::<Descriptor>(descriptor as u64)?;
            adapter(number)?;
            library.probe(node).map(|()| 1)
        };
        end(error, 0, probe())
    }

    fn SCIGetLocalNodeId(number: u32, node: Out<u32>, flags: Flags, error: ErrorOut) {
        let get = || {
            check(flags, 0, 0, 0)?;
            adapter(number)?;
            node.set(current()?.nodes.own)
        };
        end(error, (), get());
    }

    fn SCIGetNodeIdByAdapterName(name: Memory, node: Out<u32>, kind: Out<u32>, flags: Flags, error: ErrorOut) {
        let get = || {
            check(flags, 0, 0, 0)?;
            let library = current()?;
            node.set(library.node_of(name.text()?)?)?;
            // May be NULL.
            let _ = kind.set(DMA_TYPE_SYSTEM);
            Ok(())
        };
        end(error, (), get());
    }
}
