// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two bundles in one process, as two processes would be: short, medium, bulk, get.
//!
//! `cargo run -p bellwire-am --example echo`

use bellwire_am::{Bundle, Device, Error};
use bellwire_memory::atomic::{AtomicU32, Ordering};
use bellwire_via::nic::NicConfig;
use std::sync::Arc;

const GREET: u8 = 1;
const STORE: u8 = 2;
const ANSWER: u8 = 3;
const TAG: u64 = 42;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::open(NicConfig::from_env()?)?;
    let (served, asking) = (Bundle::new(&device)?, Bundle::new(&device)?);

    // The server: a tag that lets requests in, memory that they reach, what they run.
    let server = served.create_endpoint()?;
    served.set_tag(server, TAG)?;
    served.set_segment(server, Some(&device.allocate(1 << 16)?))?;
    served.set_handler(server, GREET, |message| {
        println!("server: {} bytes with {:?}", message.payload().len(), message.args());
        message.reply(ANSWER, &[message.args()[0] + 1]).expect("one reply is allowed");
    })?;
    served.set_handler(server, STORE, |message| println!("server: {} bytes are in the segment", message.payload().len()))?;

    // The client: the server's name, and a handler of requests that come back.
    let client = asking.create_endpoint()?;
    asking.map(client, 0, served.name(server)?, TAG)?;
    let own = device.allocate(1 << 16)?;
    asking.set_segment(client, Some(&own))?;
    let answers = Arc::new(AtomicU32::new(0));
    let heard = Arc::clone(&answers);
    asking.set_handler(client, ANSWER, move |message| {
        println!("client: answer {:?}, {} bytes", message.args(), message.payload().len());
        // Relaxed: a count, read by a thread that polls.
        heard.fetch_add(1, Ordering::Relaxed);
    })?;
    asking.set_error_handler(client, |back| eprintln!("client: came back: {:?}", back.status))?;

    std::thread::scope(|scope| -> Result<(), Error> {
        scope.spawn(|| {
            // Relaxed: as above.
            while answers.load(Ordering::Relaxed) < 3 {
                served.poll().expect("not within a handler");
            }
        });
        asking.request(client, 0, GREET, &[1, 2, 3])?;
        asking.request_medium(client, 0, GREET, b"some bytes", &[10])?;
        asking.request_bulk(client, 0, STORE, 100, &[7; 1000], &[])?;
        asking.get(client, 0, ANSWER, 100, 0, 1000, &[])?;
        // Relaxed: as above.
        while answers.load(Ordering::Relaxed) < 3 {
            asking.poll()?;
        }
        let mut bytes = [0; 1000];
        own.read(0, &mut bytes)?;
        assert_eq!(bytes, [7; 1000]);
        Ok(())
    })?;
    Ok(())
}
