//! [`Requests`]: users ask devices for a trace of the last seconds. The session of the device carries request and answer.

use std::collections::HashMap;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cpumon_model::HostId;
use cpumon_wire::connection::TraceAnswer;

/// How long a user waits for the answer of the device.
const ANSWER_LIMIT: Duration = Duration::from_secs(4);

/// Why there will be no trace.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// It is not connected over TLS.
    #[error("the device is not connected over TLS")]
    NotConnected,
    /// Its agent is older than the question.
    #[error("the device's agent is too old for requests: update it")]
    TooOld,
    /// No answer came in time.
    #[error("the device did not answer")]
    Silent,
    /// It runs none.
    #[error("the device runs no flight recorder (--flight-recorder)")]
    NoRecorder,
    /// The receiver's own machine runs none.
    #[error("this receiver runs no flight recorder (cpumon serve --flight-recorder 30s)")]
    NotHere,
    /// It limits requests.
    #[error("the device wrote a trace on request less than a minute ago: ask again later")]
    TooSoon,
}

impl AskError {
    /// What a user can do about it.
    pub(crate) fn how(self) -> &'static str {
        match self {
            Self::NotConnected => "The last seconds of a device can be taken while it is connected over TLS.",
            Self::TooOld => "Update the agent of this device: it is too old to be asked for a trace.",
            Self::Silent => "The device did not answer.",
            Self::NoRecorder => "Start the agent of this device with --flight-recorder 30s --flight-dir DIR.",
            Self::NotHere => "Start the receiver with --flight-recorder 30s.",
            Self::TooSoon => "A device writes one trace a minute on request.",
        }
    }
}

#[derive(Debug, Default)]
struct Device {
    /// Of connections, which may overlap for a moment.
    connections: usize,
    knows_requests: bool,
    /// Whether it runs a flight recorder, as far as it has shown.
    has_recorder: Option<bool>,
    /// To be sent.
    wanted: Option<u64>,
    answer: Option<(u64, TraceAnswer)>,
}

/// Devices that are connected, and what they are asked.
#[derive(Debug, Default)]
pub struct Requests {
    devices: Mutex<(u64, HashMap<HostId, Device>)>,
    answered: Condvar,
}

impl Requests {
    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<HostId, Device>)> {
        self.devices.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn connected(&self, host: HostId, knows_requests: bool) {
        let mut devices = self.lock();
        let device = devices.1.entry(host).or_default();
        device.connections += 1;
        device.knows_requests = knows_requests;
    }

    pub(crate) fn disconnected(&self, host: HostId) {
        let mut devices = self.lock();
        if let Some(device) = devices.1.get_mut(&host) {
            device.connections -= 1;
            if device.connections == 0 {
                devices.1.remove(&host);
            }
        }
    }

    /// What the session of a device is to send: the token of a request.
    pub(crate) fn take(&self, host: HostId) -> Option<u64> {
        self.lock().1.get_mut(&host)?.wanted.take()
    }

    pub(crate) fn answered(&self, host: HostId, token: u64, answer: TraceAnswer) {
        if let Some(device) = self.lock().1.get_mut(&host) {
            device.answer = Some((token, answer));
            device.has_recorder = Some(answer != TraceAnswer::NoRecorder);
        }
        self.answered.notify_all();
    }

    /// Whether a request may bring a trace; else the reason why not.
    pub(crate) fn may_ask(&self, host: HostId) -> Result<(), AskError> {
        match self.lock().1.get(&host) {
            None => Err(AskError::NotConnected),
            Some(device) if !device.knows_requests => Err(AskError::TooOld),
            Some(device) if device.has_recorder == Some(false) => Err(AskError::NoRecorder),
            Some(_) => Ok(()),
        }
    }

    /// Asks a device for a trace, and waits some seconds for what it answers.
    ///
    /// # Errors
    /// It will not write one.
    pub fn ask(&self, host: HostId) -> Result<(), AskError> {
        let end = Instant::now() + ANSWER_LIMIT;
        let mut devices = self.lock();
        let token = devices.0;
        devices.0 += 1;
        let device = devices.1.get_mut(&host).ok_or(AskError::NotConnected)?;
        if !device.knows_requests {
            return Err(AskError::TooOld);
        }
        device.wanted = Some(token);
        loop {
            let device = devices.1.get(&host).ok_or(AskError::NotConnected)?;
            if let Some((_, answer)) = device.answer.filter(|answer| answer.0 == token) {
                return match answer {
                    TraceAnswer::Writing => Ok(()),
                    TraceAnswer::NoRecorder => Err(AskError::NoRecorder),
                    _ => Err(AskError::TooSoon),
                };
            }
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(AskError::Silent);
            }
            devices = self.answered.wait_timeout(devices, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_request_reaches_the_device_and_its_answer_the_user() {
        let (requests, host) = (Arc::new(Requests::default()), HostId([1; 16]));
        assert_eq!(requests.ask(host), Err(AskError::NotConnected));
        requests.connected(host, false);
        assert_eq!(requests.ask(host), Err(AskError::TooOld));
        requests.connected(host, true);
        requests.disconnected(host);
        for (answer, result) in [
            (TraceAnswer::Writing, Ok(())),
            (TraceAnswer::TooSoon, Err(AskError::TooSoon)),
            (TraceAnswer::NoRecorder, Err(AskError::NoRecorder)),
        ] {
            let asking = std::thread::spawn({
                let requests = Arc::clone(&requests);
                move || requests.ask(host)
            });
            let token = loop {
                if let Some(token) = requests.take(host) {
                    break token;
                }
                std::thread::yield_now();
            };
            requests.answered(host, token + 100, TraceAnswer::Writing);
            requests.answered(host, token, answer);
            assert_eq!(asking.join().unwrap(), result);
            assert_eq!(requests.may_ask(host).is_err(), answer == TraceAnswer::NoRecorder);
        }
        requests.disconnected(host);
        assert_eq!(requests.ask(host), Err(AskError::NotConnected));
        assert_eq!(requests.may_ask(host), Err(AskError::NotConnected));
    }
}
