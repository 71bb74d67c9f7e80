//! The screens in a thread of their own. In: a feed. Out: how they ended.
//!
//! Why a thread: when a terminal goes away (its window is closed), the library that reads keys loops on its end of file
//! for ever (crossterm 0.29, `UnixInternalEventSource::try_read`), and no flag reaches it. Then the process ends without it.

use std::sync::atomic::Ordering;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use cpumon_tui::{Feed, Options};

/// How often the stop flag is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// How long the screens may take to end after they were asked to.
const GRACE: Duration = Duration::from_secs(1);

/// Shows the screens until the user quits, `options.stop` is set or the terminal fails.
pub fn show(mut feed: Box<dyn Feed + Send>, options: Options) -> anyhow::Result<()> {
    let stop = options.stop.clone();
    let (send, ended) = mpsc::channel();
    std::thread::Builder::new()
        .name("screen".to_owned())
        .spawn(move || {
            let result = cpumon_tui::run(&mut *feed, &options);
            // The feed's threads end before the process is told that it may.
            drop(feed);
            // Nobody listens any more if this came after the grace.
            let _ = send.send(result);
        })
        .context("cannot start the screen's thread")?;
    let mut deadline = None;
    loop {
        match ended.recv_timeout(LOOK) {
            Ok(result) => return result.map_err(Into::into),
            Err(RecvTimeoutError::Disconnected) => return Err(anyhow!("the screen ended by a panic")),
            Err(RecvTimeoutError::Timeout) => {}
        }
        if stop.load(Ordering::Relaxed)
            && Instant::now() > *deadline.get_or_insert_with(|| Instant::now() + GRACE)
        {
            return Ok(());
        }
    }
}
