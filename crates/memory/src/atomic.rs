// SPDX-License-Identifier: MIT OR Apache-2.0
//! The project's only door to atomics: the language's own, or loom's when the models are built
//! (`--cfg loom`).
//!
//! Everything else in the workspace imports from here (`clippy.toml` disallows the types
//! elsewhere), so a model sees every access. Loom's atomics are larger than the words they stand
//! for and cannot lie in mapped memory; code that is modelled is generic over its storage.

#[cfg(not(loom))]
pub use core::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicBool, AtomicPtr, AtomicU8, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence};

// Loom has none: it keeps program order anyway, and where a compiler fence is half of an asymmetric
// barrier the model needs a real one (see `membarrier::light`).
pub use core::sync::atomic::compiler_fence;
