//! [`Manager`]: a service manager that hears what a service reports (`sd_notify(3)`).

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// Hears from its begin on: the queue of a socket holds few messages, and a service drops what has no space there.
pub struct Manager {
    path: PathBuf,
    messages: Receiver<String>,
}

impl Manager {
    /// `path`: what the service has in `NOTIFY_SOCKET`.
    pub fn listen(path: &Path) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        let (say, messages) = channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 64];
            loop {
                match socket.recv(&mut bytes) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    // The manager is gone: see its end.
                    Ok(0) => return,
                    received => {
                        let _ = say.send(String::from_utf8_lossy(&bytes[..received.unwrap()]).into_owned());
                    }
                }
            }
        });
        Self { path: path.to_owned(), messages }
    }

    /// The next message.
    pub fn hear(&self) -> String {
        self.messages.recv_timeout(Duration::from_mins(2)).expect("a message of the service")
    }

    /// The first message that is not this one.
    pub fn hear_another_than(&self, message: &str) -> String {
        std::iter::from_fn(|| Some(self.hear())).find(|other| other != message).unwrap()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        // It may be gone with its directory: then the thread ends with the test.
        let _ = UnixDatagram::unbound().and_then(|socket| socket.send_to(b"", &self.path));
    }
}
