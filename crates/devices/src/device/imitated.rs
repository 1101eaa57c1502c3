// SPDX-License-Identifier: MIT OR Apache-2.0
//! The limits and names of known devices, as their drivers tell them. A limit beyond Bellwire's own
//! is Bellwire's.

use super::{LIMITS_MAX, Limits, Rate};

/// A device to be imitated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Model {
    /// Bellwire's own.
    Bellwire,
    /// Adapters of the mlx5 driver.
    Mlx5,
    /// The kernel's software device.
    Rxe,
}

impl Model {
    /// Their names in the file.
    pub const NAMES: [&'static str; 3] = ["bellwire", "mlx5", "rxe"];

    /// A model by its name.
    pub fn named(name: &str) -> Option<Self> {
        [Self::Bellwire, Self::Mlx5, Self::Rxe].into_iter().zip(Self::NAMES).find(|(_, n)| *n == name).map(|(model, _)| model)
    }

    /// `vendor_id`, `vendor_part_id` and `hw_ver`.
    pub fn numbers(self) -> (u32, u32, u32) {
        match self {
            Self::Bellwire => (0x0000_b311, 1, 1),
            Self::Mlx5 => (0x02c9, 4119, 0),
            Self::Rxe => (0x00ff_ffff, 0, 0),
        }
    }

    /// The firmware's version; Bellwire's own says its version instead.
    pub fn firmware(self) -> Option<&'static str> {
        match self {
            Self::Bellwire => None,
            Self::Mlx5 => Some("16.35.4030"),
            Self::Rxe => Some(""),
        }
    }

    /// The type and the board, as `/sys` names them.
    pub fn board(self) -> (&'static str, &'static str) {
        match self {
            Self::Bellwire => ("bellwire", "BELLWIRE"),
            Self::Mlx5 => ("MT4119", "MT_0000000012"),
            Self::Rxe => ("rxe", "RXE"),
        }
    }

    /// `local_ca_ack_delay`.
    pub fn acknowledge_delay(self) -> u8 {
        if self == Self::Rxe { 15 } else { 16 }
    }

    pub(crate) fn rate(self) -> Rate {
        Rate::ALL[if self == Self::Rxe { 0 } else { 5 }]
    }

    pub(crate) fn limits(self) -> Limits {
        let own = LIMITS_MAX;
        match self {
            Self::Bellwire => own,
            Self::Mlx5 => Limits { max_inline: 828, max_cqe: 4_194_303, max_qp_rd_atom: 16, max_qp_init_rd_atom: 16, max_srq_wr: 32_767, ..own },
            Self::Rxe => Limits { max_inline: 512, max_cqe: 32_767, max_ah: 32_767, ..own },
        }
    }
}
