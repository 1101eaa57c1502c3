// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server: replies to every request, until the controller closes the line.

use std::sync::Arc;
use std::time::Duration;

use bellwire_am::{Bundle, Device, EndpointId};
use bellwire_memory::atomic::{AtomicBool, Ordering};
use bellwire_via::nic::NicConfig;

use super::protocol::{Answer, Ask, PING, PONG, Serving, TAG};
use crate::channel::Channel;
use crate::error::Error;

/// Longest sleep before a thread looks whether it is to end.
const SLICE: Duration = Duration::from_millis(50);

fn failed(error: impl core::fmt::Display) -> Error {
    Error::failed(format!("server: {error}"))
}

fn device() -> Result<Arc<Device>, Error> {
    Device::open(NicConfig::from_env().map_err(failed)?).map_err(failed)
}

/// An endpoint more in `bundle`, which answers; its name as bytes.
pub(super) fn add_endpoint(bundle: &Bundle) -> Result<(EndpointId, Vec<u8>), Error> {
    let endpoint = bundle.create_endpoint().map_err(failed)?;
    bundle.set_tag(endpoint, TAG).map_err(failed)?;
    let answer = |message: &mut bellwire_am::Message<'_>| {
        let args = [message.args()[0], message.args()[1]];
        // A client that is gone needs no reply.
        let _ = message.reply(PONG, &args);
    };
    bundle.set_handler(endpoint, PING, answer).map_err(failed)?;
    Ok((endpoint, bundle.name(endpoint).map_err(failed)?.to_bytes().to_vec()))
}

/// Serves until the line closes.
pub(super) fn run(mut channel: Channel, serving: Serving) -> Result<(), Error> {
    let mut bundles = Vec::new();
    let mut names = Vec::new();
    if serving.threads || serving.nics {
        // A device for each: bundles that share one set aside what they find for others.
        for _ in 0..serving.endpoints {
            let bundle = Bundle::new(&device()?).map_err(failed)?;
            names.push(add_endpoint(&bundle)?.1);
            bundles.push(bundle);
        }
    } else {
        let bundle = Bundle::new(&device()?).map_err(failed)?;
        for _ in 0..serving.endpoints {
            names.push(add_endpoint(&bundle)?.1);
        }
        bundles.push(bundle);
    }
    channel.send(&Answer::Names(names))?;
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let _ = channel.receive::<Ask>();
            // Relaxed: nothing else is handed over.
            ends.store(true, Ordering::Relaxed);
        });
        let (first, others) = bundles.split_first().expect("at least one");
        if !serving.threads {
            return poll(&bundles, &ends);
        }
        let serve = |bundle: &Bundle| wait_and_serve(bundle, &ends);
        let threads: Vec<_> = others.iter().map(|bundle| scope.spawn(move || serve(bundle))).collect();
        let mut outcome = serve(first);
        for thread in threads {
            outcome = outcome.and(thread.join().unwrap_or_else(|_| Err(Error::failed("a thread of the server panicked"))));
        }
        outcome
    })
}

fn poll(bundles: &[Bundle], ends: &AtomicBool) -> Result<(), Error> {
    // Relaxed: nothing else is handed over.
    while !ends.load(Ordering::Relaxed) {
        bundles.iter().try_for_each(|bundle| bundle.poll().map(drop)).map_err(failed)?;
    }
    Ok(())
}

fn wait_and_serve(bundle: &Bundle, ends: &AtomicBool) -> Result<(), Error> {
    // Relaxed: as above.
    while !ends.load(Ordering::Relaxed) {
        if bundle.wait(Some(SLICE)).map_err(failed)? {
            while bundle.poll().map_err(failed)? != 0 {}
        }
    }
    Ok(())
}
