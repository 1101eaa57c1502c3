// SPDX-License-Identifier: MIT OR Apache-2.0
//! The terminal: keys one by one, an alternate screen that is drawn over, everything put back when it is dropped.

use std::io::{self, Read, Write};
use std::time::Instant;

use bellwire_inspect::cleanup;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

/// Alternate screen, cursor hidden.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Cursor shown, the usual screen.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Screen size where the terminal does not tell: columns, rows.
const SIZE_DEFAULT: (usize, usize) = (80, 24);

/// What was pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Nothing until the time was over.
    None,
    /// End.
    Quit,
    /// The next sort column.
    Sort,
    /// Look again at once.
    Refresh,
}

/// A terminal taken over.
#[derive(Debug)]
pub struct Screen {
    before: Termios,
}

impl Screen {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// If standard input is none.
    pub fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut own = before.clone();
        // Keys at once and unseen; Ctrl-C as a key too, so that the screen is put back.
        own.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO | LocalModes::ISIG);
        tcsetattr(io::stdin(), OptionalActions::Now, &own)?;
        let screen = Screen { before: before.clone() };
        cleanup::at_signal(move || put_back(&before));
        write(ENTER)?;
        Ok(screen)
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        match tcgetwinsize(io::stdout()) {
            Ok(size) if size.ws_col > 0 && size.ws_row > 1 => (usize::from(size.ws_col), usize::from(size.ws_row) - 1),
            _ => SIZE_DEFAULT,
        }
    }

    /// Draws over what was there; line ends are cleared rather than the screen, which would flicker.
    ///
    /// # Errors
    /// If the terminal is gone.
    pub fn draw(&mut self, text: &str) -> io::Result<()> {
        write(&format!("\x1b[H{}\x1b[J", text.replace('\n', "\x1b[K\n")))
    }

    /// The next key that means something, until `deadline`.
    pub fn key(&mut self, deadline: Instant) -> Key {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Key::None;
            }
            let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let stdin = io::stdin();
            match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], Some(&time)) {
                Ok(0) => return Key::None,
                Err(rustix::io::Errno::INTR) => return Key::Refresh,
                Err(_) => return Key::Quit,
                Ok(_) => {}
            }
            let mut keys = [0; 16];
            match stdin.lock().read(&mut keys) {
                Ok(0) | Err(_) => return Key::Quit,
                Ok(count) => {
                    if let Some(key) = keys[..count].iter().find_map(|&key| meaning(key)) {
                        return key;
                    }
                }
            }
        }
    }
}

fn meaning(key: u8) -> Option<Key> {
    match key {
        b'q' | b'Q' | 3 | 4 => Some(Key::Quit),
        b's' | b'S' => Some(Key::Sort),
        b' ' | b'\n' | b'\r' => Some(Key::Refresh),
        _ => None,
    }
}

fn put_back(before: &Termios) {
    let _ = write(LEAVE);
    let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Drop for Screen {
    fn drop(&mut self) {
        put_back(&self.before);
    }
}

/// Prints without a terminal; false when the reader has gone.
pub fn print_line(text: &str) -> bool {
    write(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys() {
        assert_eq!([b'q', 3, b's', b' ', b'x'].map(meaning), [Some(Key::Quit), Some(Key::Quit), Some(Key::Sort), Some(Key::Refresh), None]);
    }
}
