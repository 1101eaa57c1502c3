// SPDX-License-Identifier: MIT OR Apache-2.0
//! The variants of the negative models (`tests/run_loom.sh`): `BELLWIRE_WEAKEN` names one ordering,
//! fence or rule, and the models then run without it. One build has all variants. Outside the
//! models nothing is ever weakened, which the compiler sees.

use crate::atomic::Ordering;

/// Whether this run of the models goes without `variant`.
#[cfg(loom)]
pub fn is(variant: &str) -> bool {
    static NAMED: std::sync::LazyLock<Option<String>> = std::sync::LazyLock::new(|| std::env::var("BELLWIRE_WEAKEN").ok());
    NAMED.as_deref() == Some(variant)
}

/// Never, outside the models.
#[cfg(not(loom))]
#[inline(always)]
pub fn is(_variant: &str) -> bool {
    false
}

/// `ordering`, or relaxed if this run of the models goes without `variant`.
#[inline(always)]
pub(crate) fn ordering(variant: &str, ordering: Ordering) -> Ordering {
    if is(variant) { Ordering::Relaxed } else { ordering }
}
