// SPDX-License-Identifier: MIT OR Apache-2.0
//! Answers requests for /metrics, by as much of HTTP/1.1 as a scraper needs: one request for each
//! connection. (Small HTTP servers among Rust's crates had their last releases years ago, and the
//! others bring a runtime.)

use std::fs;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

/// How long a client may take for its request, and for taking the answer.
const TIME_MAX: Duration = Duration::from_secs(2);
/// Between two attempts to accept a client, after one that failed.
const PAUSE: Duration = Duration::from_millis(100);
/// Longest request.
const REQUEST_MAX: usize = 8 << 10;
const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Where requests come in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A port of loopback.
    Port(SocketAddr),
    /// A UNIX socket.
    Path(PathBuf),
}

/// A client. Its time is over at one moment, however slowly it sends.
trait Client: Read + Write {
    fn let_wait(&self, time: Duration) -> io::Result<()>;
}

impl Client for TcpStream {
    fn let_wait(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

impl Client for UnixStream {
    fn let_wait(&self, time: Duration) -> io::Result<()> {
        self.set_read_timeout(Some(time))?;
        self.set_write_timeout(Some(time))
    }
}

/// Answers requests by what `text` gives, until a signal ends it.
///
/// # Errors
/// A sentence: the place cannot be had.
pub fn run(place: &Place, text: impl Fn() -> String) -> Result<(), String> {
    match place {
        Place::Port(address) => {
            let listener = TcpListener::bind(address).map_err(|e| format!("{address}: {e}"))?;
            let bound = listener.local_addr().map_err(|e| format!("{address}: {e}"))?;
            eprintln!("bellwire: metrics at http://{bound}/metrics");
            serve(listener.incoming(), text);
        }
        Place::Path(path) => {
            let listener = bind(path).map_err(|e| format!("{}: {e}", path.display()))?;
            remove_at_end(path.clone())?;
            eprintln!("bellwire: metrics at unix:{}", path.display());
            serve(listener.incoming(), text);
        }
    }
    Ok(())
}

/// Answers one client after another.
fn serve<C: Client>(clients: impl Iterator<Item = io::Result<C>>, text: impl Fn() -> String) {
    for client in clients {
        match client {
            Ok(client) => _ = answer(client, &text),
            // No descriptor is free, say: asking again at once would only take the processor.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

/// A socket for this user alone. One that nobody listens at any more, after a kill, is replaced.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let is_left_over = fs::symlink_metadata(path).is_ok_and(|there| there.file_type().is_socket()) && UnixStream::connect(path).is_err();
    if is_left_over {
        fs::remove_file(path)?;
    }
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = UnixListener::bind(path);
    rustix::process::umask(before);
    let listener = bound?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

fn remove_at_end(path: PathBuf) -> Result<(), String> {
    let mut signals = signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(|e| format!("signals: {e}"))?;
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _ = fs::remove_file(&path);
            std::process::exit(128 + signal);
        }
    });
    Ok(())
}

fn answer(mut client: impl Client, text: impl Fn() -> String) -> io::Result<()> {
    let deadline = Instant::now() + TIME_MAX;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|end| end == b"\r\n\r\n") && !request.windows(2).any(|end| end == b"\n\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() || request.len() > REQUEST_MAX {
            return Ok(());
        }
        client.let_wait(left)?;
        match client.read(&mut part)? {
            0 => return Ok(()),
            n => request.extend_from_slice(&part[..n]),
        }
    }
    client.let_wait(TIME_MAX)?;
    client.write_all(&response(&request, text))?;
    client.flush()
}

/// The answer to a request, of which the first line alone counts.
fn response(request: &[u8], text: impl Fn() -> String) -> Vec<u8> {
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics") => ("200 OK", TYPE, text()),
        ("GET" | "HEAD", _) => ("404 Not Found", "text/plain", "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "text/plain", "GET /metrics\n".to_owned()),
    };
    let head = format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    let mut bytes = head.into_bytes();
    if method != "HEAD" {
        bytes.extend(body.into_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_answers() {
        let said = |request: &str| String::from_utf8(response(request.as_bytes(), || "x 1\n".to_owned())).unwrap();
        let well = said("GET /metrics?a=b HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(well.starts_with("HTTP/1.1 200 OK\r\n") && well.contains("Content-Length: 4\r\n") && well.ends_with("\r\n\r\nx 1\n"));
        assert!(said("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        assert!(said("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        for wrong in ["POST /metrics HTTP/1.1\r\n\r\n", "\r\n\r\n", "\u{fffd}"] {
            assert!(said(wrong).starts_with("HTTP/1.1 405 "), "{wrong}");
        }
    }

    #[test]
    fn a_socket_is_private_and_replaced_when_nobody_listens() {
        let path = std::env::temp_dir().join(format!("bellwire-metrics-test-{}", std::process::id()));
        let listener = bind(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(bind(&path).is_err(), "somebody listens");
        drop(listener);
        drop(bind(&path).unwrap());
        fs::remove_file(&path).unwrap();
        fs::write(&path, "a file").unwrap();
        assert!(bind(&path).is_err(), "a file stays");
        fs::remove_file(&path).unwrap();
    }

    /// As when no descriptor is free.
    #[test]
    fn after_a_client_that_cannot_be_accepted_comes_a_pause() {
        let (near, mut far) = UnixStream::pair().unwrap();
        far.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").unwrap();
        let begun = Instant::now();
        serve([Err(io::ErrorKind::Other.into()), Ok(near)].into_iter(), || "z 3\n".to_owned());
        assert!(begun.elapsed() >= PAUSE);
        let mut said = String::new();
        far.read_to_string(&mut said).unwrap();
        assert!(said.ends_with("\r\n\r\nz 3\n"));
    }

    #[test]
    fn a_client_gets_an_answer() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let asking = std::thread::spawn(move || {
            let mut stream = TcpStream::connect(address).unwrap();
            // In two parts.
            stream.write_all(b"GET /metrics HT").unwrap();
            stream.write_all(b"TP/1.1\r\n\r\n").unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        });
        answer(listener.accept().unwrap().0, || "y 2\n".to_owned()).unwrap();
        assert!(asking.join().unwrap().ends_with("\r\n\r\ny 2\n"));
    }
}
