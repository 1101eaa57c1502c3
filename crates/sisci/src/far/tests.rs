// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two NICs stand for two hosts. Then a user, and an owner, send what none sends.

use super::*;
use crate::reason::Reason;
use std::net::Ipv4Addr;
use std::sync::Mutex;

/// A peer that is waited for, on a busy machine too.
const LONG: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Object(Mutex<Vec<Reason>>);

impl Export for Object {
    fn admit(&self, _: u32, _: u32) -> Result<(), Error> {
        Ok(())
    }

    fn hear(&self, _: u32, _: u32, said: Said<'_>) -> Handled {
        if let Said::Is(reason @ (Reason::Disconnect | Reason::Lost)) = said {
            self.0.lock().unwrap().push(reason);
        }
        if matches!(said, Said::Trigger) { Handled::Nonsense } else { Handled::Done }
    }
}

#[derive(Default)]
struct User(Mutex<Vec<News>>);

impl Import for User {
    fn told(&self, news: News) {
        self.0.lock().unwrap().push(news);
    }
}

fn host(node: u32) -> Far {
    Far::on(NicConfig { shm: false, udp: Some(Udp::default()), ..NicConfig::default() }, node).unwrap()
}

fn name(id: u32) -> Name {
    Name { what: What::Segment, node: 4, id: id ^ std::process::id() << 8, slot: 0 }
}

fn connect(far: &Far, id: u32) -> Result<Link, Error> {
    let links = far.connect(Ipv4Addr::LOCALHOST.into(), &[name(id)], Deadline::after(Some(LONG)), Error::NoSuchSegment)?;
    Ok(links[0])
}

/// Pages with a page of others before and behind.
fn memory() -> Arc<Memory> {
    Arc::new(Memory::create(8192).unwrap())
}

fn until(what: impl Fn() -> bool) {
    let end = Instant::now() + LONG;
    while !what() {
        assert!(Instant::now() < end, "in time");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Sends bytes as they are, without a credit.
fn send_raw(far: &Far, id: SessionId, bytes: &[u8]) -> bool {
    let sent = far.until(Deadline::after(Some(LONG)), |core, engine| {
        let Some(session) = core.sessions.get_mut(id) else { return Ok(Some(false)) };
        if !session.channel.is_open() {
            return Ok(Some(false));
        }
        // SAFETY: no body.
        let put = unsafe { session.channel.put(engine, bytes, (::core::ptr::null(), 0)) };
        session.channel.flush(engine);
        Ok(put.has_begun().then_some(true))
    });
    sent.unwrap()
}

#[test]
fn bytes_go_both_ways_and_no_further() {
    let (owner, user) = (host(4), host(8));
    let (object, shared, hidden) = (Arc::new(Object::default()), memory(), memory());
    let as_export = || Arc::downgrade(&object) as Weak<dyn Export>;
    let export = owner.export(name(1), as_export(), Some(Arc::clone(&shared))).unwrap();
    owner.export(name(2), as_export(), Some(Arc::clone(&hidden))).unwrap();
    let (link, other) = (connect(&user, 1).unwrap(), connect(&user, 2).unwrap());
    assert_eq!(link.granted.size, 8192);
    let mine = Memory::create(1 << 16).unwrap();
    for (len, at) in [(1, 0), (8192, 0), (100, 8092)] {
        mine.part(0, len).unwrap().copy_in(0, &vec![len as u8 | 1; len]).unwrap();
        user.transfer(link.id, mine.part(0, len).unwrap(), at, false).unwrap();
        mine.part(0, len).unwrap().copy_in(0, &vec![0; len]).unwrap();
        user.transfer(link.id, mine.part(0, len).unwrap(), at, true).unwrap();
        let (mut back, mut there) = (vec![0; len], vec![0; len]);
        mine.part(0, len).unwrap().copy_out(0, &mut back).unwrap();
        shared.part(at, len).unwrap().copy_out(0, &mut there).unwrap();
        assert!(back.iter().chain(&there).all(|b| *b == len as u8 | 1), "{len}");
    }
    assert_eq!(user.transfer(link.id, mine.part(0, 9).unwrap(), 8184, false), Err(Error::OutOfRange));
    // A user that lies to itself about what it was granted: the owner's engine refuses, and the
    // connection ends.
    for (address, handle) in [(link.granted.address + 8192, link.granted.handle), (other.granted.address, other.granted.handle)] {
        let lying = connect(&user, 1).unwrap();
        if let Some(Side::User { phase, .. }) = user.station.machine().sessions.get_mut(lying.id).map(|s| &mut s.side) {
            *phase = Phase::Granted(Granted { size: 1 << 30, address, handle });
        }
        assert_eq!(user.transfer(lying.id, mine.part(0, 8).unwrap(), 0, false), Err(Error::TransferFailed));
        user.disconnect(lying.id);
    }
    let mut bytes = [1; 8192];
    hidden.part(0, 8192).unwrap().copy_out(0, &mut bytes).unwrap();
    assert!(bytes.iter().all(|b| *b == 0));
    // The owner ends it: the user is told, and nothing arrives any more.
    let told = Arc::new(User::default());
    user.follow(link.id, Arc::downgrade(&told) as Weak<dyn Import>);
    owner.withdraw(export);
    until(|| *told.0.lock().unwrap() == [News::Ended]);
    assert_eq!(user.transfer(link.id, mine.part(0, 8).unwrap(), 0, false), Err(Error::TransferFailed));
    user.disconnect(other.id);
    until(|| object.0.lock().unwrap().contains(&Reason::Disconnect));
}

#[test]
fn liars_lose_their_connections_alone() {
    let (owner, user) = (host(4), host(8));
    let object = Arc::new(Object::default());
    owner.export(name(3), Arc::downgrade(&object) as Weak<dyn Export>, Some(memory())).unwrap();
    let good = connect(&user, 3).unwrap();
    let mine = Memory::create(4096).unwrap();
    let lies: Vec<Vec<u8>> = vec![
        vec![0],
        vec![0xFF; 40],
        vec![7; 5000],
        Head::of(Kind::Answer).bytes().to_vec(),
        Head::of(Kind::Count).bytes().to_vec(),
        Head::of(Kind::Trigger).bytes().to_vec(),
        Head::of(Kind::Data).bytes().to_vec(),
        Head { handled: 99, ..Head::of(Kind::Fence) }.bytes().to_vec(),
        [&Head::of(Kind::Fence).bytes()[..], &[0]].concat(),
    ];
    for (n, lie) in lies.iter().enumerate() {
        let lying = connect(&user, 3).unwrap();
        assert!(send_raw(&user, lying.id, lie), "{n}");
        until(|| {
            user.station
                .with(|core, engine| {
                    core.look(engine, clock());
                    Ok::<_, Error>(core.sessions.get(lying.id).is_none_or(|s| s.granted().is_err()))
                })
                .unwrap()
        });
        until(|| object.0.lock().unwrap().len() == n + 1);
        assert_eq!(object.0.lock().unwrap()[n], Reason::Lost, "{n}");
        user.disconnect(lying.id);
        user.transfer(good.id, mine.part(0, 100).unwrap(), 0, false).unwrap();
    }
    // An owner that lies.
    for (n, lie) in lies.iter().enumerate().filter(|(n, _)| *n != 4) {
        let link = connect(&user, 3).unwrap();
        let told = Arc::new(User::default());
        user.follow(link.id, Arc::downgrade(&told) as Weak<dyn Import>);
        let end = owner.station.machine().sessions.iter().map(|(id, _)| id).max_by_key(|id| id.index()).unwrap();
        send_raw(&owner, end, lie);
        until(|| !told.0.lock().unwrap().is_empty());
        assert_eq!(*told.0.lock().unwrap(), [News::Lost], "{n}");
        user.disconnect(link.id);
        until(|| owner.station.machine().sessions.len() == 1);
    }
    user.transfer(good.id, mine.part(0, 100).unwrap(), 0, false).unwrap();
}
