//! Ctrl-C, Ctrl-Break, and the end of the console or the session. The system calls a function of this program for each, in a new
//! thread. When the console or the session ends, it ends the process as soon as that function returns, or after some seconds.

#![expect(unsafe_code, reason = "the standard library has no events of the console")]

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use windows_sys::Win32::System::Console::{CTRL_BREAK_EVENT, CTRL_C_EVENT, SetConsoleCtrlHandler};
use windows_sys::core::BOOL;

/// The exit code of a shell for a program that Ctrl-C ended, the same on all systems.
const INTERRUPTED: i32 = 130;

/// The argument of the first call of [`catch_stop`].
static STOPPED: OnceLock<Stopped> = OnceLock::new();

struct Stopped {
    stop: Arc<AtomicBool>,
    interrupted: Arc<AtomicBool>,
    sleeper: Thread,
}

/// The consequence of an event.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum ConsoleOutcome {
    /// The process continues, and ends by itself.
    Return,
    /// Ends the process at once.
    Exit,
    /// It ends by itself, or by the system if that takes too long; returning would end it now.
    Wait,
}

impl Stopped {
    fn take(&self, event: u32) -> ConsoleOutcome {
        let was_stopping = self.stop.swap(true, Ordering::Relaxed);
        let is_key = matches!(event, CTRL_C_EVENT | CTRL_BREAK_EVENT);
        if was_stopping && is_key {
            return ConsoleOutcome::Exit;
        }
        self.interrupted.store(true, Ordering::Relaxed);
        self.sleeper.unpark();
        if is_key { ConsoleOutcome::Return } else { ConsoleOutcome::Wait }
    }
}

/// From now on Ctrl-C, Ctrl-Break, and the end of the console or the session set `stop` and wake the calling thread, and a second Ctrl-C
/// ends the process.
pub(crate) fn catch_stop(stop: &Arc<AtomicBool>, interrupted: &Arc<AtomicBool>) -> io::Result<()> {
    let (stop, interrupted) = (Arc::clone(stop), Arc::clone(interrupted));
    let sleeper = std::thread::current();
    STOPPED
        .set(Stopped { stop, interrupted, sleeper })
        .map_err(|_| io::Error::other("Ctrl-C is handled already"))?;
    // SAFETY: the function is there as long as the process.
    let is_set = unsafe { SetConsoleCtrlHandler(Some(on_event), 1) };
    if is_set == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

extern "system" fn on_event(event: u32) -> BOOL {
    let Some(stopped) = STOPPED.get() else { return 0 };
    match stopped.take(event) {
        ConsoleOutcome::Return => 1,
        ConsoleOutcome::Exit => std::process::exit(INTERRUPTED),
        ConsoleOutcome::Wait => loop {
            std::thread::sleep(Duration::from_hours(1));
        },
    }
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::Console::{CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT};

    use super::*;

    fn stopped() -> Stopped {
        let flag = || Arc::new(AtomicBool::new(false));
        Stopped { stop: flag(), interrupted: flag(), sleeper: std::thread::current() }
    }

    #[test]
    fn the_first_ctrl_c_stops_and_the_second_ends_the_process() {
        for key in [CTRL_C_EVENT, CTRL_BREAK_EVENT] {
            let stopped = stopped();
            assert_eq!(stopped.take(key), ConsoleOutcome::Return);
            assert!(stopped.stop.load(Ordering::Relaxed) && stopped.interrupted.load(Ordering::Relaxed));
            assert_eq!(
                (stopped.take(CTRL_CLOSE_EVENT), stopped.take(key)),
                (ConsoleOutcome::Wait, ConsoleOutcome::Exit)
            );
        }
    }

    /// The system ended the process before it wrote its spool and its last line: the function had returned.
    #[test]
    fn the_end_of_the_console_waits_for_the_process() {
        for end in [CTRL_CLOSE_EVENT, CTRL_LOGOFF_EVENT, CTRL_SHUTDOWN_EVENT] {
            assert_eq!(stopped().take(end), ConsoleOutcome::Wait);
        }
        let [stop, interrupted] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        catch_stop(&stop, &interrupted).unwrap();
        assert!(catch_stop(&stop, &interrupted).is_err());
        let waits = std::thread::spawn(|| on_event(CTRL_CLOSE_EVENT));
        while !stop.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(200));
        assert!(!waits.is_finished() && interrupted.load(Ordering::Relaxed));
    }
}
