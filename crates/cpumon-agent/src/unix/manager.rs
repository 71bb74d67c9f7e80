//! [`Manager`]: reports to the service manager that started this process (`sd_notify(3)`): ready, alive, stopping.
//!
//! It opens its socket once, before the sandbox is entered, so that nothing has to be opened for a message later.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::process::Pulse;

const STACK_BYTES: usize = 64 << 10;

/// The socket of the service manager, and the time within which it wants a sign of life.
#[derive(Debug, Default)]
pub struct Manager {
    socket: Option<UnixDatagram>,
    watchdog: Option<Duration>,
}

impl Manager {
    /// Reads `NOTIFY_SOCKET` and `WATCHDOG_USEC`. Without a manager every report does nothing.
    pub fn find() -> Self {
        let text = |name| std::env::var(name).ok();
        let socket = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            connect(&name)
                .inspect_err(|error| {
                    log::warn!("cannot reach the service manager at {}: {error}", name.display());
                })
                .ok()
        });
        // sd_watchdog_enabled(3): a process that only inherited the variables must not report in the
        // service's place.
        let is_mine = text("WATCHDOG_PID").is_none_or(|pid| pid == std::process::id().to_string());
        let usec = text("WATCHDOG_USEC").filter(|_| is_mine).and_then(|usec| usec.parse().ok());
        Self { watchdog: usec.filter(|_| socket.is_some()).map(Duration::from_micros), socket }
    }

    /// Reports that the service is ready, so that units that wait for it start.
    pub fn ready(&self) {
        self.send("READY=1");
    }

    pub fn stopping(&self) {
        self.send("STOPPING=1");
    }

    fn send(&self, word: &str) {
        if let Some(socket) = &self.socket
            && let Err(error) = socket.send(word.as_bytes())
        {
            log::warn!("cannot report {word} to the service manager: {error}");
        }
    }

    /// Starts a thread that reports this process as alive while `pulse` is. It ends when the returned value is dropped.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn watch(&self, pulse: &Pulse) -> io::Result<WatchdogThread> {
        let (Some(every), Some(socket)) = (self.watchdog, &self.socket) else {
            return Ok(WatchdogThread::default());
        };
        let (socket, pulse, stop) = (socket.try_clone()?, pulse.clone(), Arc::new(AtomicBool::new(false)));
        let is_over = Arc::clone(&stop);
        let report = move || {
            while !is_over.load(Ordering::Relaxed) {
                if pulse.is_alive() {
                    // If the report fails, the manager ends this process after WatchdogSec.
                    let _ = socket.send(b"WATCHDOG=1");
                }
                // sd_watchdog_enabled(3) advises half of the time; a third leaves a margin for one late wake-
                // up.
                std::thread::park_timeout(every / 3);
            }
        };
        let thread =
            std::thread::Builder::new().name("watchdog".to_owned()).stack_size(STACK_BYTES).spawn(report)?;
        Ok(WatchdogThread { stop, thread: Some(thread) })
    }
}

/// The watchdog thread; dropping it ends the thread.
#[derive(Debug, Default)]
pub struct WatchdogThread {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for WatchdogThread {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // A panic of the thread loses only reports.
            let _ = thread.join();
        }
    }
}

/// Connects to a path, or to a name in the abstract namespace, which begins with @.
fn connect(name: &OsStr) -> io::Result<UnixDatagram> {
    let socket = UnixDatagram::unbound()?;
    match name.as_bytes().strip_prefix(b"@") {
        Some(name) => socket.connect_addr(&SocketAddr::from_abstract_name(name)?)?,
        None => socket.connect(name)?,
    }
    // A manager that does not read must not block measuring.
    socket.set_nonblocking(true)?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    const PATIENCE: Duration = Duration::from_mins(2);

    fn received(socket: &UnixDatagram) -> String {
        let mut bytes = [0; 64];
        loop {
            match socket.recv(&mut bytes) {
                // A socket with a time limit is not called again after a signal, which other tests cause (signal(7)).
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                received => return String::from_utf8_lossy(&bytes[..received.unwrap_or(0)]).into_owned(),
            }
        }
    }

    /// Whether a watchdog's thread has finished its work and sleeps (proc(5)).
    fn is_watchdog_asleep() -> bool {
        let tasks = std::fs::read_dir("/proc/self/task").unwrap();
        let mut stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
        stats.any(|stat| stat.contains("(watchdog) S "))
    }

    #[test]
    fn a_manager_receives_ready_alive_and_stopping_but_no_sign_of_life_from_a_hanging_thread() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let listening = UnixDatagram::bind(&path).unwrap();
        listening.set_read_timeout(Some(PATIENCE)).unwrap();
        let watchdog = Some(Duration::from_millis(30));
        let manager = Manager { socket: Some(connect(path.as_os_str()).unwrap()), watchdog };
        manager.ready();
        assert_eq!(received(&listening), "READY=1");
        let pulse = Pulse::default();
        pulse.beat(PATIENCE);
        let watch = manager.watch(&pulse).unwrap();
        assert_eq!((received(&listening), received(&listening)), ("WATCHDOG=1".into(), "WATCHDOG=1".into()));
        drop(watch);
        listening.set_nonblocking(true).unwrap();
        while !received(&listening).is_empty() {}

        let watch = manager.watch(&Pulse::default()).unwrap();
        let begin = Instant::now();
        while !is_watchdog_asleep() {
            assert!(begin.elapsed() < PATIENCE, "the watchdog does not sleep");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(watch);
        manager.stopping();
        assert_eq!(received(&listening), "STOPPING=1", "a hanging thread is not reported as alive");
    }

    #[test]
    fn a_name_in_the_abstract_namespace_is_reached_too() {
        let name = format!("cpumon-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let listening = UnixDatagram::bind_addr(&address).unwrap();
        connect(OsStr::new(&format!("@{name}"))).unwrap().send(b"x").unwrap();
        assert_eq!(received(&listening), "x");
    }
}
