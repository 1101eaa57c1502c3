// SPDX-License-Identifier: MIT OR Apache-2.0
//! Calls that need hardware which is emulated nowhere here: they say so.

use crate::calls::{Argument, ErrorOut, Flags, Handle, Memory, Out, end};
use bellwire_sisci::Error;

fn not_supported(error: ErrorOut) {
    end(error, (), Err(Error::NotSupported));
}

calls! {
    fn SCIAttachPhysicalMemory(_address: u64, _memory: Memory, _bus: u32, _size: usize, _segment: Handle, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIConnectSCISpace(_descriptor: Handle, _adapter: u32, _segment: Out<Handle>, _address: u64, _size: usize, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIGetCSRRegister(_descriptor: Handle, _adapter: u32, _node: u32, _offset: u32, _flags: Flags, error: ErrorOut) -> u32 {
        end(error, 0, Err(Error::NotSupported))
    }

    fn SCISetCSRRegister(_descriptor: Handle, _adapter: u32, _node: u32, _offset: u32, _value: u32, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIGetLocalCSR(_descriptor: Handle, _adapter: u32, _offset: u32, _flags: Flags, error: ErrorOut) -> u32 {
        end(error, 0, Err(Error::NotSupported))
    }

    fn SCISetLocalCSR(_descriptor: Handle, _adapter: u32, _offset: u32, _value: u32, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIphDmaEnqueue(_queue: Handle, _size: u32, _local: u64, _remote: u64, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIphDmaStart(_queue: Handle, _callback: Memory, _argument: Argument, _flags: Flags, error: ErrorOut) -> u32 {
        end(error, 5, Err(Error::NotSupported))
    }

    fn SCIRegisterPCIeRequester(_descriptor: Handle, _adapter: u32, _bus: u32, _device: u32, _function: u32, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIUnregisterPCIeRequester(_descriptor: Handle, _adapter: u32, _bus: u32, _device: u32, _function: u32, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIBorrowDevice(_descriptor: Handle, _device: Out<Handle>, _id: u64, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIReturnDevice(_device: Handle, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIConnectDeviceSegment(_device: Handle, _segment: Out<Handle>, _id: u32, _kind: u32, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCICreateDeviceSegment(_descriptor: Handle, _segment: Out<Handle>, _id: u32, _device: Handle, _size: usize, _access: u32, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIMapLocalSegmentForDevice(_segment: Handle, _device: Handle, _address: Out<u64>, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIMapRemoteSegmentForDevice(_segment: Handle, _device: Handle, _address: Out<u64>, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIGetDeviceList(_descriptor: Handle, _list: Memory, _count: Out<u32>, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }

    fn SCIGetFabricDeviceId(_descriptor: Handle, _adapter: u32, _id: Out<u64>, _flags: Flags, error: ErrorOut) {
        not_supported(error);
    }
}
