//! Runs the terminal screens in a thread of their own. When a terminal goes away (its window is closed), the library that reads keys
//! loops on the end of file for ever (crossterm 0.29, `UnixInternalEventSource::try_read`) and ignores every flag. The process then
//! ends without that thread.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cpumon_tui::{Feed, Options};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGCONT, SIGTSTP};
use signal_hook::{flag, low_level};

use crate::feeds::LOCAL_TIME;

/// Time between two checks of the stop flag.
const CHECK_EVERY: Duration = Duration::from_millis(100);
/// Time that the screens have to end after a request to stop.
const GRACE: Duration = Duration::from_secs(1);

/// Shows the screens until the user quits, `options.stop` is set or the terminal fails.
pub fn show(mut feed: Box<dyn Feed + Send>, options: Options) -> anyhow::Result<()> {
    let options = Options { suspend: Some(suspend), time: LOCAL_TIME, ..options };
    flag::register(SIGCONT, options.continued.clone()).context("cannot handle signals")?;
    let stop = options.stop.clone();
    let (send, ended) = mpsc::channel();
    std::thread::Builder::new()
        .name("screen".to_owned())
        .spawn(move || {
            let result = cpumon_tui::run(&mut *feed, &options);
            // The feed's threads must end before the main thread ends the process.
            drop(feed);
            // The receiving end is gone if the grace period is over.
            let _ = send.send(result);
        })
        .context("cannot start the screen's thread")?;
    let mut deadline = None;
    loop {
        match ended.recv_timeout(CHECK_EVERY) {
            Ok(result) => return result.map_err(Into::into),
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the screen thread panicked")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if (stop.load(Ordering::Relaxed) || is_terminal_gone())
            && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + GRACE)
        {
            return Ok(());
        }
    }
}

/// Whether the terminal was closed. A program without a controlling terminal, as `su -c` starts it, gets no SIGHUP then.
fn is_terminal_gone() -> bool {
    let input = std::io::stdin();
    let mut polled = [PollFd::new(&input, PollFlags::empty())];
    let is_polled = poll(&mut polled, Some(&Timespec::default())).is_ok();
    is_polled && polled[0].revents().intersects(PollFlags::HUP | PollFlags::ERR)
}

/// Stops all threads until the shell continues them. Without a shell that could, the kernel ignores the signal.
fn suspend() {
    // It fails for no signal that exists.
    let _ = low_level::raise(SIGTSTP);
}
