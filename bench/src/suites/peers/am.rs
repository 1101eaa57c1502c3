// SPDX-License-Identifier: MIT OR Apache-2.0
//! Active Messages with many peers.

use std::sync::Arc;

use bellwire_am::{Bundle, Device, EndpointId, NAME_BYTES, Name};

use super::{Crowd, Talk};
use crate::am::Seen;
use crate::error::Error;

const TAG: u64 = 0x7065_6572;
/// Counts a number.
const NUMBER: u8 = 1;

struct End {
    bundle: Bundle,
    endpoint: EndpointId,
    /// What its handler has taken.
    taken: Arc<Seen>,
    name: Name,
}

fn failed(error: impl core::fmt::Display) -> Error {
    Error::failed(format!("active messages: {error}"))
}

fn open() -> Result<End, Error> {
    let device = Device::open(bellwire_via::nic::NicConfig::from_env().map_err(failed)?).map_err(failed)?;
    let bundle = Bundle::new(&device).map_err(failed)?;
    let endpoint = bundle.create_endpoint().map_err(failed)?;
    bundle.set_tag(endpoint, TAG).map_err(failed)?;
    let taken = Arc::new(Seen::default());
    let of_handler = Arc::clone(&taken);
    bundle.set_handler(endpoint, NUMBER, move |message| of_handler.take(message.args()[0])).map_err(failed)?;
    let name = bundle.name(endpoint).map_err(failed)?;
    Ok(End { bundle, endpoint, taken, name })
}

/// Connects and measures.
pub fn run(crowd: &mut Crowd<'_>, count: u64) -> Result<Vec<f64>, Error> {
    let ends = (0..crowd.peers).map(|_| open()).collect::<Result<Vec<_>, _>>()?;
    let own: Vec<u8> = ends.iter().flat_map(|end| end.name.to_bytes()).collect();
    let others = crowd.exchange(&own)?;
    let main = &ends[0];
    for (index, name) in others.as_chunks::<NAME_BYTES>().0.iter().enumerate() {
        let name = Name::from_bytes(name).ok_or_else(|| Error::failed("the other process has no name"))?;
        main.bundle.map(main.endpoint, index as u32, name, TAG).map_err(failed)?;
    }
    // The first message to an endpoint connects with it, with all at a time. None is waited for:
    // the other process may wait for an idle endpoint of ours.
    let mut not_asked: Vec<u32> = (0..crowd.peers as u32).collect();
    crowd.look_until_both(|| {
        let mut trouble = None;
        not_asked.retain(|peer| match main.bundle.try_request(main.endpoint, *peer, NUMBER, &[0]) {
            Ok(()) => false,
            Err(bellwire_am::Error::NotSent) => true,
            Err(error) => {
                trouble = Some(failed(error));
                true
            }
        });
        if let Some(error) = trouble {
            return Err(error);
        }
        main.bundle.poll().map_err(failed)?;
        let mut waiting = ends.iter().filter(|end| end.taken.count() == 0).peekable();
        let is_done = not_asked.is_empty() && waiting.peek().is_none();
        for end in waiting {
            end.bundle.poll().map_err(failed)?;
        }
        Ok(is_done)
    })?;
    let mut talk = Main { end: main, given: main.taken.count() };
    crowd.measure(&mut talk, count)
}

struct Main<'e> {
    end: &'e End,
    /// Messages before those that are measured.
    given: u64,
}

impl Talk for Main<'_> {
    #[inline]
    fn send(&mut self, number: u64) -> Result<bool, Error> {
        self.end.bundle.request(self.end.endpoint, 0, NUMBER, &[(number + self.given) as i32]).map_err(failed)?;
        Ok(true)
    }

    #[inline]
    fn look(&mut self, seen: &Seen) -> Result<(), Error> {
        self.end.bundle.poll().map_err(failed)?;
        self.end.taken.check()?;
        while seen.count() + self.given < self.end.taken.count() {
            seen.take(seen.count() as i32);
        }
        Ok(())
    }
}
