// SPDX-License-Identifier: MIT OR Apache-2.0
//! A ping-pong and a stream on MPICH: one built on UCX, as Debian has it, over the device, over
//! UCX's tcp and its shared memory; one built on libfabric, as PyPI has it, over Bellwire's
//! provider.

use std::path::Path;
use std::rc::Rc;

use super::Options;
use super::ucx::{UcxWay, ways};
use super::way::{Way, ucx_went_by};
use crate::error::Error;
use crate::mpi::{Flavour, Only, Points};
use crate::peers::installed::Installed;
use crate::peers::mpi::{Program, Run};
use crate::plan::series as s;
use crate::samples::Key;
use crate::turns::Turn;

pub(super) fn turns<'o>(options: &'o Options, bellwire: &Path, peers: &mut Vec<String>, missing: &mut Vec<String>) -> Result<Vec<Turn<'o>>, Error> {
    let mut found = Vec::new();
    for folders in [&[][..], &options.folders] {
        found.extend(Installed::find(Flavour::Mpich, folders).unwrap_or_default());
    }
    let mut program = |on_libfabric: bool, hint: &str| -> Result<Option<Rc<Program>>, Error> {
        let Some(installed) = found.iter().find(|mpich| mpich.has_libfabric() == on_libfabric) else {
            missing.push(hint.to_owned());
            return Ok(None);
        };
        peers.push(format!("{} on {}", installed.title(), if on_libfabric { "libfabric" } else { "UCX" }));
        Program::compile(installed.clone()).map(|program| Some(Rc::new(program)))
    };
    let on_ucx = program(false, "MPICH on UCX: apt-get install mpich libmpich-dev")?;
    let on_libfabric = program(true, "MPICH on libfabric: pip install mpich, and its folder by --mpi-folder")?;
    if let Err(why) = &options.provider {
        missing.push(format!("Bellwire's libfabric provider: {why}"));
    }
    let mut turns = Vec::new();
    if let Some(program) = on_ucx {
        for UcxWay { way, wanted, allowed, .. } in ways(bellwire) {
            turns.push(turn(options, Rc::clone(&program), way, Box::new(move |text| ucx_went_by(text, wanted, allowed))));
        }
    }
    if let (Some(program), Ok(variables)) = (on_libfabric, &options.provider) {
        // MPICH may use no other provider: FI_PROVIDER says which.
        turns.push(turn(options, program, Way::told(s::STACK_PROVIDER, variables.clone()), Box::new(|_| Ok(()))));
    }
    if turns.is_empty() { Err(Error::failed(format!("no MPICH is here:\n  {}", missing.join("\n  ")))) } else { Ok(turns) }
}

type Proof = Box<dyn Fn(&str) -> Result<(), Error>>;

fn turn(options: &Options, program: Rc<Program>, way: Way, proof: Proof) -> Turn<'_> {
    let points = Points { only: vec![Only::PingPong, Only::Bandwidth], ranks: vec![2], quick: options.quick };
    let (name, is_ours) = (way.series.name.to_owned(), way.is_ours());
    let measure = move || {
        let run = Run { prefix: &way.prefix(), environment: way.environment(), ranks: 2, pinning: options.session.pinning };
        let (text, figures) = program.run(&run, &points.arguments(2), points.budget_ms())?;
        proof(&text)?;
        Ok(figures.into_iter().map(|(metric, size, value)| (Key::new(metric, way.series, size), value)).collect())
    };
    Turn { name, is_ours, table: 0, measure: Box::new(measure) }
}
