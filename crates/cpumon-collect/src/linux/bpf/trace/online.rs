//! Which CPUs are online: one that goes offline makes no last switch that a recorder sees, so the trace says from when to when it was away.

use std::fs::File;
use std::os::unix::fs::FileExt;

use cpumon_model::{SchedEvent, SchedEventKind};

use crate::now;

/// Lists of CPUs, such as `0-3,8`: 65,536 of them, each for itself, are shorter.
const MAX_LIST_BYTES: usize = 1 << 19;

/// As of the last pass.
pub(super) struct OnlineCpus {
    /// Kept open: later on the recorder may have no right to open it. `None`: this kernel has none.
    list: Option<File>,
    text: Vec<u8>,
    online: Vec<bool>,
    /// When the last pass was, and this one began.
    passed_ns: u64,
    now_ns: u64,
    /// Of the last event on each CPU.
    latest_ns: Vec<u64>,
}

/// CPUs that came and went since the last pass.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) came: Vec<u16>,
    pub(super) went: Vec<u16>,
}

impl OnlineCpus {
    pub(super) fn new() -> Self {
        let list = File::open("/sys/devices/system/cpu/online").ok();
        let now_ns = now().mono_ns;
        let (text, online, latest_ns) = (Vec::new(), Vec::new(), Vec::new());
        let mut cpus = Self { list, text, online, passed_ns: now_ns, now_ns, latest_ns };
        cpus.online = cpus.read().unwrap_or_default();
        cpus
    }

    /// Begins a pass.
    pub(super) fn begin(&mut self) -> Changes {
        self.now_ns = now().mono_ns;
        let Some(online) = self.read() else { return Changes::default() };
        let changes = changes(&self.online, &online);
        self.online = online;
        changes
    }

    /// The events of the pass were read.
    pub(super) fn end(&mut self) {
        self.passed_ns = self.now_ns;
    }

    pub(super) fn note(&mut self, event: &SchedEvent) {
        let cpu = usize::from(event.cpu);
        if cpu >= self.latest_ns.len() {
            self.latest_ns.resize(cpu + 1, 0);
        }
        self.latest_ns[cpu] = event.at_ns;
    }

    /// What the CPU did since its last event, or the last pass, is not known up to now: no event was lost.
    pub(super) fn mark(&self, cpu: u16) -> SchedEvent {
        let latest_ns = self.latest_ns.get(usize::from(cpu)).copied().unwrap_or(0);
        let kind = SchedEventKind::Lost { count: 0, until_ns: self.now_ns };
        SchedEvent { at_ns: latest_ns.max(self.passed_ns), cpu, kind }
    }

    /// `None`: it cannot be read, and nothing is known to have changed.
    fn read(&mut self) -> Option<Vec<bool>> {
        let list = self.list.as_ref()?;
        self.text.resize(4096, 0);
        let mut length = list.read_at(&mut self.text, 0).ok()?;
        while length == self.text.len() && length < MAX_LIST_BYTES {
            self.text.resize(2 * length, 0);
            length = list.read_at(&mut self.text, 0).ok()?;
        }
        parse(std::str::from_utf8(self.text.get(..length)?).ok()?)
    }
}

/// Of `0-3,8`: by number, up to the last one.
fn parse(text: &str) -> Option<Vec<bool>> {
    let mut online = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
        online.resize(online.len().max(usize::from(last) + 1), false);
        online.get_mut(first.into()..=last.into())?.fill(true);
    }
    Some(online)
}

fn changes(before: &[bool], after: &[bool]) -> Changes {
    let mut changes = Changes::default();
    for at in 0..before.len().max(after.len()) {
        let Ok(cpu) = u16::try_from(at) else { break };
        let is_in = |list: &[bool]| list.get(at).copied().unwrap_or(false);
        match (is_in(before), is_in(after)) {
            (false, true) => changes.came.push(cpu),
            (true, false) => changes.went.push(cpu),
            _ => {}
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse("0-2,4\n"), Some(vec![true, true, true, false, true]));
        assert_eq!(parse("0\n"), Some(vec![true]));
        for text in ["", "x", "3-1", "0-", "70000", "-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert!(OnlineCpus::new().online.iter().any(|online| *online), "this runs somewhere");
    }

    #[test]
    fn cpus_come_and_go() {
        let (two, one) = (parse("0-1").unwrap(), parse("0").unwrap());
        assert_eq!(changes(&two, &two), Changes::default());
        assert_eq!(changes(&two, &one), Changes { came: vec![], went: vec![1] });
        assert_eq!(changes(&one, &parse("1-2").unwrap()), Changes { came: vec![1, 2], went: vec![0] });
    }

    #[test]
    fn a_mark_is_behind_the_last_event_and_the_last_pass() {
        let mut cpus = OnlineCpus::new();
        (cpus.passed_ns, cpus.now_ns) = (100, 200);
        let mark =
            |at_ns, cpu| SchedEvent { at_ns, cpu, kind: SchedEventKind::Lost { count: 0, until_ns: 200 } };
        assert_eq!(cpus.mark(1), mark(100, 1));
        cpus.note(&mark(150, 1));
        assert_eq!((cpus.mark(1), cpus.mark(0)), (mark(150, 1), mark(100, 0)));
    }
}
