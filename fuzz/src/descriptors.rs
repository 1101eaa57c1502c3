// SPDX-License-Identifier: MIT OR Apache-2.0
//! Arbitrary bytes as descriptors, posted to VIs in every state.

use crate::input::Input;
use crate::program::Program;
use crate::scripted::Scripted;
use bellwire_via::descriptor::DescriptorRef;
use bellwire_via::{Engine, MemAttributes};

const STEPS_MAX: usize = 64;
const BYTES: usize = 64 * 64;

/// Memory for descriptors, aligned as they must be.
#[repr(align(64))]
struct Place([u8; BYTES]);

/// Runs one input.
pub fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut engine = Engine::new(Scripted::new(), 1);
    let mut program = Program::new(&mut engine);
    engine.progress();
    let mut place = Box::new(Place([0; BYTES]));
    let base = place.0.as_mut_ptr().expose_provenance();
    let rights = MemAttributes { ptag: Some(program.tag), ..Default::default() };
    // SAFETY: U0: the place outlives all that the engine is asked to do.
    let handle = unsafe { engine.register(base as u64, BYTES as u64, &rights) }.unwrap();
    input.drive(STEPS_MAX, |input| {
        let slot = usize::from(input.u8()) % 64;
        let which = usize::from(input.u8()) % program.vis.len();
        let form = input.u8();
        let bytes = fill(input, &program, form);
        let room = BYTES - slot * 64;
        let n = bytes.len().min(room);
        // SAFETY: within the box; the engine holds no reference to it, and this thread is the only one.
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), (base as *mut u8).add(slot * 64), n) };
        let misplaced = if form & 64 == 0 { 0 } else { usize::from(input.u8()) };
        let descriptor =
            DescriptorRef { address: (base + slot * 64).wrapping_add(misplaced), handle: if form & 128 == 0 { handle.raw() } else { input.u32() } };
        let vi = program.vis[which].vi;
        if form & 1 == 0 {
            program.vis[which].sends += u32::from(engine.post_send_descriptor(vi, descriptor).is_ok());
        } else {
            program.vis[which].receives += u32::from(engine.post_receive_descriptor(vi, descriptor).is_ok());
        }
        if form & 2 != 0 {
            program.collect(&mut engine);
        }
    });
    for i in 0..program.vis.len() {
        program.disconnect(&mut engine, i);
    }
    engine.deregister(base as u64, handle).unwrap();
    program.finish(&mut engine);
}

/// A descriptor: mostly in VIA's form.
fn fill(input: &mut Input<'_>, program: &Program, form: u8) -> Vec<u8> {
    if form & 32 != 0 {
        return (0..600).map(|_| input.u8()).collect();
    }
    let mut b = vec![0u8; 32];
    let segments = input.u8() % 40;
    b[12] = segments;
    b[14..16].copy_from_slice(&u16::to_le_bytes(if form & 4 == 0 { u16::from(input.u8() % 16) } else { input.u16() }));
    b[20..24].copy_from_slice(&input.u32().to_le_bytes());
    let mut total = 0u32;
    for _ in 0..segments {
        let s = program.segment(input);
        total = total.wrapping_add(s.length);
        b.extend(s.address.to_le_bytes());
        b.extend(s.handle.to_le_bytes());
        b.extend(s.length.to_le_bytes());
    }
    let length = if form & 8 == 0 { total } else { input.u32() };
    b[24..28].copy_from_slice(&length.to_le_bytes());
    if form & 16 != 0 {
        b[28] = input.u8();
    }
    b
}
