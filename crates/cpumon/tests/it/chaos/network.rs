//! A network between devices and receiver that can be cut, stalled and slowed down. In: the receiver's address. Out: another
//! address, behind which it is.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Faults of the network.
#[derive(Debug, Default)]
pub struct Trouble {
    /// Counts up: earlier connections are cut.
    pub cuts: AtomicU64,
    /// Nothing passes.
    pub is_stalled: AtomicBool,
    /// Delay of each piece.
    pub delay_ms: AtomicU64,
    stop: AtomicBool,
}

/// See the module.
pub struct Network {
    pub address: SocketAddr,
    pub trouble: Arc<Trouble>,
    thread: Option<JoinHandle<()>>,
}

impl Network {
    pub fn to(receiver: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let (address, trouble) = (listener.local_addr().unwrap(), Arc::new(Trouble::default()));
        let shared = Arc::clone(&trouble);
        let thread = std::thread::spawn(move || accept(&listener, receiver, &shared));
        Self { address, trouble, thread: Some(thread) }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.trouble.stop.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn accept(listener: &TcpListener, receiver: SocketAddr, trouble: &Arc<Trouble>) {
    let mut pumps: Vec<JoinHandle<()>> = Vec::new();
    while !trouble.stop.load(Ordering::Relaxed) {
        let Ok((device, _)) = listener.accept() else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let Ok(upstream) = TcpStream::connect(receiver) else { continue };
        let generation = trouble.cuts.load(Ordering::Relaxed);
        for (from, to) in [(&device, &upstream), (&upstream, &device)] {
            let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
            let trouble = Arc::clone(trouble);
            pumps.push(std::thread::spawn(move || carry(from, to, generation, &trouble)));
        }
        pumps.retain(|pump| !pump.is_finished());
    }
    for pump in pumps {
        pump.join().unwrap();
    }
}

fn carry(mut from: TcpStream, mut to: TcpStream, generation: u64, trouble: &Trouble) {
    from.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    to.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
    let mut bytes = [0; 4096];
    while trouble.cuts.load(Ordering::Relaxed) == generation && !trouble.stop.load(Ordering::Relaxed) {
        if trouble.is_stalled.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        }
        match from.read(&mut bytes) {
            Ok(0) => break,
            Ok(count) => {
                std::thread::sleep(Duration::from_millis(trouble.delay_ms.load(Ordering::Relaxed)));
                if to.write_all(&bytes[..count]).is_err() {
                    break;
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
    let _ = to.shutdown(Shutdown::Both);
}
