// SPDX-License-Identifier: MIT OR Apache-2.0
//! `VipxQueryCause`: why the connection of a VI broke.

use crate::ext::size_of_info;
use crate::status::{VipReturn, call};
use crate::types::{VipHandle, VipxCauseInfo};
use crate::work::enter_vi;
use bellwire_via::Cause;
use bellwire_via::frame::DisconnectReason;
use bellwire_via::wire::LinkFailure;

// VIPX_BY_*.
const BY_LINK: u32 = 1;
const BY_PEER: u32 = 2;
const BY_HERE: u32 = 3;

/// `VIPX_CAUSE_*`.
const fn link_code(failure: LinkFailure) -> u32 {
    match failure {
        LinkFailure::PeerDied => 1,
        LinkFailure::PeerClosed => 2,
        LinkFailure::PeerRestarted => 3,
        LinkFailure::PeerForgot => 4,
        LinkFailure::PeerSilent => 5,
        LinkFailure::PeerMisbehaved | LinkFailure::BadFrame => 6,
        LinkFailure::PeerStalled => 7,
        LinkFailure::LocalLimit => 8,
        LinkFailure::NotAllowedHere => 10,
        LinkFailure::NotAllowedThere => 11,
        LinkFailure::NobodyThere | LinkFailure::Busy | LinkFailure::NotReachable => 9,
        LinkFailure::KeyWanted | LinkFailure::KeyMissing | LinkFailure::KeyOther | LinkFailure::KeyUnknown => 12,
        LinkFailure::OtherVersion => 13,
    }
}

/// `VIPX_CAUSE_*`.
const fn reason_code(reason: DisconnectReason) -> u32 {
    match reason {
        DisconnectReason::Requested => 16,
        DisconnectReason::ReceiveQueueEmpty => 17,
        DisconnectReason::TooLong => 18,
        DisconnectReason::WriteProtection => 19,
        DisconnectReason::ReadProtection => 20,
        DisconnectReason::PeerError => 21,
        DisconnectReason::Protocol => 22,
        DisconnectReason::ReceiveFault => 23,
    }
}

/// `VIPX_BY_*`, `VIPX_CAUSE_*`.
const fn codes(cause: Cause) -> (u32, u32) {
    match cause {
        Cause::Link(failure) => (BY_LINK, link_code(failure)),
        Cause::Peer(reason) => (BY_PEER, reason_code(reason)),
        Cause::Here(reason) => (BY_HERE, reason_code(reason)),
    }
}

#[unsafe(no_mangle)]
pub unsafe extern "C" fn VipxQueryCause(vi: VipHandle, info: *mut VipxCauseInfo) -> VipReturn {
    call(|| {
        let (nic, vi) = enter_vi(vi)?;
        let size = size_of_info(info, size_of::<VipxCauseInfo>())?;
        let cause = nic.nic.with(|e| {
            // As in VipQueryVi: a program that watches a VI may call nothing else.
            e.progress();
            e.vi_cause(vi)
        })?;
        let (by, code) = cause.map_or((0, 0), codes);
        let mut filled = VipxCauseInfo { size, cause: code, by, reserved: 0, text: [0; 112] };
        // All but the last byte, which stays 0.
        for (to, from) in filled.text[..111].iter_mut().zip(cause.map_or("", Cause::text).bytes()) {
            *to = from;
        }
        // SAFETY: C1, and Size says that the structure is no shorter.
        unsafe { info.write(filled) };
        Ok(())
    })
}
