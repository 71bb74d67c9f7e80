//! The measuring thread: this machine, without bytes in between. In: a [`Sampler`]. Out: intervals to the [`Sink`].

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use cpumon_agent::{Flight, Sampler};
use cpumon_model::{HostStatus, LossCounts, Trust};

use crate::clock;
use crate::heap::HeapWatch;
use crate::storing::Sink;

/// Measures until `stop` is set. A pass that fails is logged, once for each reason in a row, and tried again.
pub fn run(mut sampler: Sampler, sink: &Sink, mut flight: Option<Flight>, stop: &AtomicBool) {
    let mut status = HostStatus {
        info: sampler.info().clone(),
        trust: Trust::Local,
        source: sampler.kind(),
        ..HostStatus::default()
    };
    let (mut last_error, mut heap) = (String::new(), HeapWatch::new(Instant::now()));
    while !stop.load(Ordering::Relaxed) {
        match sampler.step(stop) {
            Ok(None) => break,
            Ok(Some(step)) => {
                last_error.clear();
                status.last = step.snapshot.end;
                status.received_wall_ns = clock::wall_ns();
                status.thread_count = step.snapshot.thread_count;
                status.process_count = step.snapshot.process_count;
                status.loss = LossCounts { snapshots: status.loss.snapshots + 1, ..status.loss };
                // The first snapshot has nothing to be compared with, so it ends no interval.
                if !step.is_first {
                    sink.take_local(&status, step.interval);
                    if let Some(flight) = &mut flight {
                        flight.check(step.interval);
                    }
                }
                heap.note(size_of_val(&*step.interval.threads) + sink.bytes_in_memory());
            }
            Err(error) => {
                let text = error.to_string();
                if text != last_error {
                    log::warn!("cannot measure this machine: {text}");
                    last_error = text;
                }
                // The schedule waits before each pass; this keeps a broken one from spinning all the same.
                std::thread::park_timeout(Duration::from_millis(50));
            }
        }
    }
}
