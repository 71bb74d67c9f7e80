//! Signals that wake a thread.

use std::io;
use std::sync::Arc;

use cpumon_collect::RetainedCapabilities;
use cpumon_model::SourceKind;
use signal_hook::consts::SIGXFSZ;

const SIGNAL_STACK_BYTES: usize = 64 << 10;

/// From now on a write beyond the limit of a file's size (`ulimit -f`) fails with EFBIG, as it fails on a full disk; SIGXFSZ would end the
/// process without a word. A handler and not `SIG_IGN`, which programs that this one starts would inherit.
///
/// # Errors
/// The system refuses a handler.
pub fn survive_file_limit() -> io::Result<()> {
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map(drop)
}

/// From now on each of these signals unparks the calling thread. Register flags that a signal sets before this call.
///
/// A thread of its own waits for the signals, so that a [`Sampler`](crate::Sampler) need not wake up to check its flag. A signal
/// handler alone is not enough: it can only set a flag, which a sleep that is about to begin would miss.
///
/// # Errors
/// The system refuses a handler or a thread.
pub fn wake_on(signals: &[i32]) -> io::Result<()> {
    let mut caught = signal_hook::iterator::Signals::new(signals)?;
    let sleeper = std::thread::current();
    let wake = move || {
        // The thread inherited the capabilities of its parent, and needs none.
        if let Err(error) =
            cpumon_collect::drop_capabilities(SourceKind::Unknown, RetainedCapabilities::NAMES)
        {
            log::debug!("the signal thread could not give up its capabilities: {error}");
        }
        caught.forever().for_each(|_| sleeper.unpark());
    };
    std::thread::Builder::new().name("signals".to_owned()).stack_size(SIGNAL_STACK_BYTES).spawn(wake)?;
    Ok(())
}
