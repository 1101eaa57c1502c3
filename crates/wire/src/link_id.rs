// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of links.

use crate::handle::Handle;

/// Marks link handles.
#[derive(Debug)]
pub struct LinkTag;
/// Names a link of a wire, with a generation.
pub type LinkId = Handle<LinkTag>;
