// SPDX-License-Identifier: MIT OR Apache-2.0
//! The client against servers that say what they like.

use super::*;
use proptest::prelude::*;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;

const SHORT: Duration = Duration::from_secs(1);

/// A client whose launcher answers its requests with these lines, one after the other, and then
/// closes or is silent.
fn against(answers: Vec<Vec<u8>>, then_close: bool) -> (Result<Client, Error>, std::thread::JoinHandle<Option<UnixStream>>) {
    let (theirs, ours) = UnixStream::pair().unwrap();
    let server = std::thread::spawn(move || {
        let mut reader = BufReader::new(theirs.try_clone().unwrap());
        let mut writer = theirs;
        for answer in answers {
            let mut request = String::new();
            if reader.read_line(&mut request).unwrap_or(0) == 0 || writer.write_all(&answer).is_err() {
                return None;
            }
        }
        (!then_close).then_some(writer)
    });
    (Client::join(inherited(ours), 0, SHORT), server)
}

/// As a launcher leaves it: without the mark that std sets.
fn inherited(stream: UnixStream) -> RawFd {
    fcntl_setfd(&stream, FdFlags::empty()).unwrap();
    stream.into_raw_fd()
}

fn lines(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| format!("{text}\n").into_bytes()).collect()
}

const INIT: &str = "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0";
const MAXES: &str = "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024";
const NAME: &str = "cmd=my_kvsname kvsname=kvs_1_0";

#[test]
fn blocks_are_cut_as_the_launcher_likes_them() {
    let (client, _server) = against(lines(&[INIT, MAXES, NAME]), false);
    let client = client.unwrap();
    assert!(client.name() == "kvs_1_0" && (800..1000).contains(&client.value_max), "{}", client.value_max);
    let (client, _server) = against(lines(&[INIT, &format!("{MAXES} {VALUE_MAX_KEY}=99999999999"), NAME]), false);
    assert_eq!(client.unwrap().value_max, VALUE_MAX_BYTES);
    let (client, _server) = against(lines(&[INIT, "cmd=maxes kvsname_max=8 keylen_max=64 vallen_max=16", NAME]), false);
    assert!(client.unwrap_err().to_string().contains("at least 32"));
}

#[test]
fn nonsense_is_an_error_that_says_what_was_expected() {
    for (answers, said) in [
        (&["cmd=response_to_init rc=-1"][..], "response_to_init rc=0"),
        (&["cmd=maxes"], "response_to_init"),
        (&["\u{1b}[2J"], "response_to_init"),
        (&[INIT, "cmd=maxes vallen_max=x keylen_max=64"], "vallen_max"),
        (&[INIT, "cmd=maxes vallen_max=1024 keylen_max=8"], "vallen_max"),
        (&[INIT, MAXES, "cmd=my_kvsname kvsname="], "my_kvsname"),
    ] {
        let (client, _server) = against(lines(answers), false);
        let error = client.unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\u{1b}'), "{error}");
    }
    let (client, _server) = against(vec![vec![b'x'; 200_000]], false);
    assert!(client.unwrap_err().to_string().contains("96 KiB"));
}

#[test]
fn a_launcher_that_goes_or_is_silent() {
    let (client, _server) = against(lines(&[INIT]), true);
    assert_eq!(client.unwrap_err(), Error::LauncherGone);
    let (client, _server) = against(lines(&[INIT, MAXES]), false);
    assert!(matches!(client.unwrap_err(), Error::Timeout { after: SHORT, .. }));
    // In a barrier there is a deadline only if one is asked for.
    let (client, server) = against(lines(&[INIT, MAXES, NAME]), false);
    let mut client = client.unwrap();
    let mut theirs = server.join().unwrap().unwrap();
    client.barrier_start().unwrap();
    assert_eq!(client.barrier_done(Some(Instant::now() + Duration::from_millis(20))), Ok(false));
    theirs.write_all(b"cmd=barr").unwrap();
    assert_eq!(client.barrier_done(Some(Instant::now())), Ok(false));
    theirs.write_all(b"ier_out\n").unwrap();
    assert_eq!(client.barrier_done(None), Ok(true));
    drop(theirs);
    client.barrier_start().map_or_else(|error| assert_eq!(error, Error::LauncherGone), |()| assert_eq!(client.barrier_done(None), Err(Error::LauncherGone)));
}

#[test]
fn values_that_are_no_blocks() {
    for value in ["x", "1.", "9999999.AAAA", "4.Zm9v", "1.Zh"] {
        let (client, _server) = against(lines(&[INIT, MAXES, NAME, &format!("cmd=get_result rc=0 value={value}"), "cmd=get_result rc=-1"]), false);
        assert!(matches!(client.unwrap().get(1, "k"), Err(Error::Protocol { .. })), "{value}");
    }
    let (client, _server) = against(lines(&[INIT, MAXES, NAME, "cmd=get_result rc=-1 msg=key_not_found"]), false);
    assert_eq!(client.unwrap().get(1, "k"), Ok(None));
    let (client, _server) = against(lines(&[INIT, MAXES, NAME, "cmd=put_result rc=-1 msg=full"]), false);
    assert_eq!(client.unwrap().put("k", b"x").unwrap_err().to_string(), "the launcher refused a block under \"k\": full");
}

#[test]
fn many_blocks_in_one_answer() {
    let maxes = format!("{MAXES} {GET_ALL_KEY}=1");
    let got = |answers: &[&str]| against(lines(&[&[INIT, &maxes, NAME], answers].concat()), true).0.unwrap().get_all(3, "k");
    let [a, b] = [b"a", b"b"].map(|block| text::encode(block));
    let blocks = Ok(vec![Some(b"a".to_vec()), None, Some(b"b".to_vec())]);
    assert_eq!(got(&[&format!("cmd=bellwire_values rc=0 count=3 values={a},-,{b}")]), blocks);
    // In several answers, one of them a plain one.
    let first = format!("cmd=bellwire_values rc=0 count=1 values={a}");
    let [none, absent] = ["cmd=bellwire_values rc=0 count=0 values=", "cmd=get_result rc=-1 msg=key_not_found"];
    assert_eq!(got(&[&first, none, absent, &format!("cmd=bellwire_values rc=0 count=1 values={b}")]), blocks);
    for nonsense in ["count=4 values=1,2,3,4", "count=2 values=1", "count=1", "count=x values=", "values=1"] {
        assert!(matches!(got(&[&format!("cmd=bellwire_values rc=0 {nonsense}")]), Err(Error::Protocol { .. })), "{nonsense}");
    }
}

#[test]
fn the_second_copy_is_told() {
    let (_theirs, ours) = UnixStream::pair().unwrap();
    // std marks descriptors as a first copy would.
    assert_eq!(Client::join(ours.into_raw_fd(), 0, SHORT).unwrap_err(), Error::JoinedBefore);
    assert!(Client::join(-1, 0, SHORT).unwrap_err().to_string().contains("PMI_FD"));
    assert!(Client::join(999_999, 0, SHORT).unwrap_err().to_string().contains("PMI_FD"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_answers(gives_all in any::<bool>(), answers in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..6)) {
        let maxes = if gives_all { format!("{MAXES} {GET_ALL_KEY}=1") } else { MAXES.to_owned() };
        let mut all = lines(&[INIT, &maxes, NAME]);
        all.extend(answers.into_iter().map(|mut answer| { answer.push(b'\n'); answer }));
        let (client, _server) = against(all, true);
        let mut client = client.unwrap();
        let _ = client.get_all(3, "k");
        let _ = client.get(0, "k");
        let _ = client.put("k", b"block");
        let _ = client.finalize();
    }
}
