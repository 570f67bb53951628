//! A program in a terminal of its own, and what that terminal shows.

use std::{
    fs::File,
    io::{Read as _, Write as _},
    os::{
        fd::{AsRawFd as _, FromRawFd as _, OwnedFd},
        unix::process::CommandExt as _,
    },
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Condvar, Mutex, PoisonError},
    time::{Duration, Instant},
};

/// What is waited at most, on a machine however busy.
const LONG: Duration = Duration::from_mins(2);

/// A terminal and the program in it.
pub(crate) struct Pty {
    master: File,
    child: Child,
    output: Arc<Output>,
}

#[derive(Default)]
struct Output {
    bytes: Mutex<(Vec<u8>, bool)>,
    more: Condvar,
}

/// What can be seen.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    pub(crate) text: String,
    pub(crate) alternate: bool,
    pub(crate) cursor: bool,
}

/// The modes of a terminal that raw mode changes.
pub(crate) type Modes = [libc::tcflag_t; 4];

impl Pty {
    /// Starts it. Where the terminal is not `read`, it takes no more than it has room for.
    pub(crate) fn start(mut command: Command, columns: u16, lines: u16, read: bool) -> (Self, Modes) {
        let (master, slave) = open(columns, lines);
        let before = modes(&master);
        let end = || Stdio::from(slave.try_clone().expect("a descriptor"));
        command.stdin(end()).stdout(end()).stderr(end());
        // SAFETY: both calls are async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                if libc::setsid() < 0 || libc::ioctl(0, libc::TIOCSCTTY, 0) < 0 {
                    return Err(std::io::Error::last_os_error());
                }
                Ok(())
            });
        }
        let child = command.spawn().expect("it starts");
        let output = Arc::new(Output::default());
        if read {
            let (mut from, to) = (master.try_clone().expect("a descriptor"), output.clone());
            std::thread::spawn(move || {
                let mut buffer = [0; 4096];
                loop {
                    // EIO: nobody has the other end any more.
                    let count = from.read(&mut buffer).unwrap_or(0);
                    let mut bytes = to.bytes.lock().unwrap_or_else(PoisonError::into_inner);
                    bytes.0.extend_from_slice(&buffer[..count]);
                    bytes.1 = count == 0;
                    to.more.notify_all();
                    if count == 0 {
                        return;
                    }
                }
            });
        }
        // Gone with `command`, so that its end is seen.
        drop((command, slave));
        (Self { master, child, output }, before)
    }

    /// Waits until what is shown is as wanted; a test that waits in vain fails.
    pub(crate) fn until(&self, what: &str, wanted: impl Fn(&Shown) -> bool) -> Shown {
        let until = Instant::now() + LONG;
        let mut bytes = self.output.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let shown = shown(&bytes.0);
            if wanted(&shown) {
                return shown;
            }
            let left = until.saturating_duration_since(Instant::now());
            assert!(!left.is_zero() && !bytes.1, "{what} is not seen:\n{}", shown.text);
            bytes = self.output.more.wait_timeout(bytes, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until this text is shown.
    pub(crate) fn sees(&self, text: &str) -> Shown {
        self.until(text, |shown| shown.text.contains(text))
    }

    /// Presses keys.
    pub(crate) fn press(&mut self, keys: &str) {
        self.master.write_all(keys.as_bytes()).expect("is taken");
    }

    /// The window is made larger or smaller.
    pub(crate) fn resize(&self, columns: u16, lines: u16) {
        let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: it reads `size` only.
        let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.child.id()).expect("a pid"));
        nix::sys::signal::kill(pid, signal).expect("is sent");
    }

    /// The terminal's modes.
    pub(crate) fn modes(&self) -> Modes {
        modes(&self.master)
    }

    /// Waits for the end, and says how it left the terminal.
    pub(crate) fn after_end(mut self) -> (Modes, Self) {
        self.child.wait().expect("it ends");
        (modes(&self.master), self)
    }

    /// Waits for the end. Also says all that was written.
    pub(crate) fn end(mut self) -> (ExitStatus, Vec<u8>) {
        let status = self.child.wait().expect("it ends");
        let mut bytes = self.output.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        // Where nobody reads the handle is the only one.
        while !bytes.1 && Arc::strong_count(&self.output) > 1 {
            bytes = self.output.more.wait_timeout(bytes, LONG).unwrap_or_else(PoisonError::into_inner).0;
        }
        (status, bytes.0.clone())
    }

    /// Waits until so many bytes wait to be read.
    pub(crate) fn until_waiting(&self, bytes: libc::c_int) {
        let until = Instant::now() + LONG;
        let mut count: libc::c_int = 0;
        while count < bytes {
            assert!(Instant::now() < until, "{count} bytes wait, and not {bytes}");
            std::thread::yield_now();
            // SAFETY: it writes `count` only.
            let done = unsafe { libc::ioctl(self.master.as_raw_fd(), libc::FIONREAD, &raw mut count) };
            assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
        }
    }
}

fn open(columns: u16, lines: u16) -> (File, OwnedFd) {
    let size = libc::winsize { ws_row: lines, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    let (mut master, mut slave) = (-1, -1);
    // SAFETY: the descriptors outlive the call, the size is only read, and no name or mode is given.
    let done = unsafe {
        libc::openpty(
            &raw mut master,
            &raw mut slave,
            std::ptr::null_mut(),
            std::ptr::null(),
            &raw const size,
        )
    };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    for fd in [master, slave] {
        // SAFETY: a number; the child gets what it is to have by `Command`.
        unsafe { libc::fcntl(fd, libc::F_SETFD, libc::FD_CLOEXEC) };
    }
    // SAFETY: both are open, and nobody else's.
    unsafe { (File::from_raw_fd(master), OwnedFd::from_raw_fd(slave)) }
}

fn modes(terminal: &File) -> Modes {
    // SAFETY: plain numbers, for which zero is a value.
    let mut found: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: it outlives the call.
    let done = unsafe { libc::tcgetattr(terminal.as_raw_fd(), &raw mut found) };
    assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    [found.c_iflag, found.c_oflag, found.c_cflag, found.c_lflag]
}

/// What a terminal shows after these bytes: of its commands those that move the cursor, clear and switch screens.
pub(crate) fn shown(bytes: &[u8]) -> Shown {
    let mut grid: Vec<Vec<char>> = Vec::new();
    let (mut row, mut column) = (0_usize, 0_usize);
    let (mut alternate, mut cursor) = (false, true);
    let text = String::from_utf8_lossy(bytes);
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' if chars.next_if_eq(&'[').is_some() => {
                let mut arguments = String::new();
                let command = loop {
                    match chars.next() {
                        Some(c) if c.is_ascii_digit() || "?;".contains(c) => arguments.push(c),
                        Some(c) => break c,
                        None => return finish(&grid, alternate, cursor),
                    }
                };
                let number = |at: usize| {
                    arguments.split(';').nth(at).and_then(|text| text.parse().ok()).unwrap_or(1_usize).max(1)
                };
                match (command, arguments.as_str()) {
                    ('H' | 'f', _) => (row, column) = (number(0) - 1, number(1) - 1),
                    ('A', _) => row = row.saturating_sub(number(0)),
                    ('B', _) => row += number(0),
                    ('C', _) => column += number(0),
                    ('D', _) => column = column.saturating_sub(number(0)),
                    ('J', _) => grid.clear(),
                    ('K', _) => grid.get_mut(row).into_iter().for_each(|line| line.truncate(column)),
                    ('h' | 'l', "?1049") => {
                        alternate = command == 'h';
                        grid.clear();
                    }
                    ('h' | 'l', "?25") => cursor = command == 'h',
                    _ => {}
                }
            }
            '\r' => column = 0,
            '\n' => row += 1,
            c => {
                if grid.len() <= row {
                    grid.resize(row + 1, Vec::new());
                }
                if grid[row].len() <= column {
                    grid[row].resize(column + 1, ' ');
                }
                grid[row][column] = c;
                column += 1;
            }
        }
    }
    finish(&grid, alternate, cursor)
}

fn finish(grid: &[Vec<char>], alternate: bool, cursor: bool) -> Shown {
    let mut text = String::new();
    for line in grid {
        text.push_str(line.iter().collect::<String>().trim_end());
        text.push('\n');
    }
    Shown { text, alternate, cursor }
}
