use std::sync::Arc;

use cpumon_model::{
    BootId, DelayHistogram, DelayOf, Delays, Interval, IrqInterval, ProcessInfo, ProcessInterval, ProcessKey,
};

use super::*;

fn id(number: u64) -> [u8; 16] {
    u128::from(number).to_le_bytes()
}

/// The `boot`-th boot of a host, an interval without rows.
fn interval(host: u64, boot: u64) -> Interval {
    Interval { host: HostId(id(host)), boot: BootId(id(boot)), ..Interval::default() }
}

struct Flood {
    handle: WriterHandle,
    now: Instant,
}

fn handle(options: &QueueOptions) -> WriterHandle {
    WriterHandle { queue: Arc::new(WriterQueue::new(options)) }
}

impl Flood {
    fn new(max_intervals: usize) -> Self {
        let handle = handle(&QueueOptions { max_intervals, ..QueueOptions::default() });
        Self { now: handle.queue.started, handle }
    }

    fn put(&self, trust: Trust, interval: &Interval) -> Queued {
        let info = HostInfo { host: interval.host, ..HostInfo::default() };
        let offer = Offer { info: &info, trust, loss: None, interval, gap: None, receipt: None };
        self.handle.queue.try_put_at(&offer, self.now)
    }

    fn take(&self) -> Vec<QueueEntry> {
        let mut batch = Vec::new();
        self.handle.queue.lock().take(&mut batch);
        batch
    }
}

#[test]
fn a_stranger_with_a_boot_for_each_interval_delays_no_enrolled_device() {
    let mut flood = Flood::new(65_536);
    let (mut strangers, mut waited) = (0, 0);
    // Four seconds: 25,000 intervals a second of one stranger, and 100 of an enrolled device. The writer takes a batch each 100 ms.
    for number in 0..100_000_u64 {
        flood.now += Duration::from_micros(40);
        flood.put(Trust::Unauthenticated, &interval(1, number));
        if number % 250 == 0 {
            waited += 1;
            assert_eq!(flood.put(Trust::Authenticated, &interval(2, 1)), Queued::Yes);
        }
        if number % 2_500 == 2_499 {
            let batch = flood.take();
            let enrolled = batch.iter().take_while(|entry| entry.trust == Trust::Authenticated).count();
            assert_eq!(enrolled, std::mem::take(&mut waited), "all that wait, and before the others");
            strangers += batch.len() - enrolled;
        }
        assert!(flood.handle.has_ample_space(), "what gates acknowledgements");
    }
    assert!((7..=8).contains(&strangers), "4 boots at once, and one a second: {strangers}");
    let status = flood.handle.status();
    assert_eq!((status.refused_intervals, status.dropped_intervals), (100_000 - strangers as u64, 0));
    assert_eq!(flood.handle.dropped(HostId(id(1))), status.refused_intervals, "its host shows them");
    assert_eq!(flood.handle.dropped(HostId(id(2))), 0);
}

#[test]
fn strangers_have_at_most_half_of_the_queue_and_leave_the_rest() {
    let flood = Flood::new(1_000);
    let taken =
        |trust, host| (0..2_000).filter(|_| flood.put(trust, &interval(host, 1)) == Queued::Yes).count();
    assert_eq!(taken(Trust::Unauthenticated, 1), 500);
    assert!(
        flood.handle.has_ample_space(),
        "that strangers are many is no reason to make an enrolled device wait"
    );
    assert_eq!(taken(Trust::Encrypted, 2), 500);
    assert!(!flood.handle.has_ample_space());
    assert_eq!(flood.handle.dropped(HostId(id(2))), 1_500);
    // Trusted hosts may fill the whole queue.
    let flood = Flood::new(1_000);
    let taken =
        |trust, host| (0..2_000).filter(|_| flood.put(trust, &interval(host, 1)) == Queued::Yes).count();
    assert_eq!((taken(Trust::Authenticated, 1), taken(Trust::Unauthenticated, 2)), (1_000, 0));
}

#[test]
fn strangers_have_16_mib_of_the_queue() {
    let flood = Flood::new(65_536);
    let threads = vec![
        cpumon_model::ThreadInterval {
            delta: cpumon_model::Delta { run_ns: 1, ..Default::default() },
            ..Default::default()
        };
        10_000
    ];
    let large = |host| Interval { threads: threads.clone(), ..interval(host, 1) };
    let taken = |trust, host| (0..40).filter(|_| flood.put(trust, &large(host)) == Queued::Yes).count();
    assert!((5..=7).contains(&taken(Trust::Unauthenticated, 1)), "2.2 MB each");
    assert_eq!(taken(Trust::Authenticated, 2), 40);
}

#[test]
fn a_long_queue_of_trusted_hosts_does_not_stop_the_others() {
    let flood = Flood::new(65_536);
    for _ in 0..1_000 {
        assert_eq!(flood.put(Trust::Authenticated, &interval(1, 1)), Queued::Yes);
        assert_eq!(flood.put(Trust::Unauthenticated, &interval(2, 1)), Queued::Yes);
    }
    let batch = flood.take();
    assert!(batch[..256].iter().all(|entry| entry.trust == Trust::Authenticated));
    assert_eq!(batch.len(), 256 + 32);
    assert!(flood.take().len() == 256 + 32 && flood.take().len() == 256 + 32);
}

#[test]
fn a_batch_is_bounded_by_its_bytes() {
    let flood = Flood::new(65_536);
    let mut large = interval(1, 1);
    let key = ProcessKey { pid: 1, start_ns: 1 };
    let info = Arc::new(ProcessInfo { cmdline: "x".repeat(1 << 20).into(), ..ProcessInfo::default() });
    let delta = cpumon_model::Delta { run_ns: 1, ..Default::default() };
    large.processes = vec![ProcessInterval { key, info, delta, ..ProcessInterval::default() }];
    for _ in 0..15 {
        assert_eq!(flood.put(Trust::Unauthenticated, &large), Queued::Yes);
        assert_eq!(flood.put(Trust::Local, &large), Queued::Yes);
    }
    let trusted = |batch: &[QueueEntry]| batch.iter().filter(|entry| entry.trust.is_trusted()).count();
    let batch = flood.take();
    assert_eq!((trusted(&batch), batch.len()), (3, 4), "4 MiB, and of strangers one in any case");
}

#[test]
fn texts_interrupts_and_histograms_count_as_memory() {
    let bytes_with = |change: &dyn Fn(&mut Interval, &mut HostInfo)| {
        let (handle, mut interval) = (handle(&QueueOptions::default()), interval(1, 1));
        let mut info = HostInfo::default();
        change(&mut interval, &mut info);
        let trust = Trust::Local;
        let offer = Offer { info: &info, trust, loss: None, interval: &interval, gap: None, receipt: None };
        assert_eq!(handle.queue.try_put(&offer), Queued::Yes);
        handle.status().queued_bytes
    };
    let plain = bytes_with(&|_, _| {});
    assert!(plain >= size_of::<QueueEntry>() as u64);
    let texts = bytes_with(&|_, info| info.kernel = "k".repeat(5_000).into());
    assert_eq!(texts, plain + 5_000);
    let lines = bytes_with(&|interval, _| interval.irqs = vec![IrqInterval::default(); 10]);
    assert!(lines >= plain + 10 * size_of::<IrqInterval>() as u64);
    let delays = bytes_with(&|interval, _| {
        let mut histogram = DelayHistogram::default();
        (0..100).for_each(|bucket| histogram.add(bucket, 1));
        let (of, histogram) = (DelayOf::Cpu(0), Arc::new(histogram));
        interval.delays = vec![Delays { of, histogram }];
    });
    assert!(delays >= plain + 100 * 16);
}

#[test]
fn ids_of_strangers_take_a_bounded_amount_of_memory() {
    let mut flood = Flood::new(4);
    assert_eq!(flood.put(Trust::Authenticated, &interval(0, 1)), Queued::Yes);
    assert_eq!(flood.put(Trust::Authenticated, &interval(0, 1)), Queued::Yes);
    for number in 1..50_000 {
        flood.now += Duration::from_secs(1);
        flood.put(Trust::Unauthenticated, &interval(number, 1));
    }
    let mut inner = flood.handle.queue.lock();
    let known = |inner: &mut QueueState| inner.strangers.remembered();
    assert!(known(&mut inner) <= 2 * 8_192);
    let lost = std::mem::take(&mut inner.lost);
    assert!(lost.hosts() <= 32, "gaps of strangers");
}

#[test]
fn what_a_burst_took_is_given_back() {
    let flood = Flood::new(65_536);
    let mut large = interval(1, 1);
    large.irqs = vec![IrqInterval::default(); 20_000];
    for _ in 0..100 {
        assert_eq!(flood.put(Trust::Local, &large), Queued::Yes);
    }
    loop {
        let mut batch = flood.take();
        for entry in &mut batch {
            entry.copy.clear();
        }
        if batch.is_empty() {
            break;
        }
        flood.handle.queue.lock().recycle(&mut batch);
    }
    let inner = flood.handle.queue.lock();
    let bytes: usize = inner.pool.iter().map(ActiveCopy::capacity_bytes).sum();
    assert!(inner.pool_bytes == bytes && bytes <= POOL.bytes && !inner.pool.is_empty(), "{bytes}");
}
