//! Two ranges side by side: one row a group of processes, the largest change first. The page, its file and the command line
//! all show these rows.

use std::collections::HashMap;

use cpumon_model::{Delta, Fields, Interval, ProcessKey};
use cpumon_store::Resolution;
use foldhash::fast::RandomState;

use crate::fields::Field;
use crate::group::{GroupBy, OTHERS, group_name};

/// Groups at most; what comes later is added up in one more.
const MAX_GROUPS: usize = 50_000;

/// Which of the two spans.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Side {
    /// The first.
    Before,
    /// The second.
    After,
}

/// What is known of one span.
#[derive(Copy, Clone, Debug)]
struct Covered {
    measured_ns: u64,
    /// Counters that every interval has.
    fields: Fields,
    resolution: Option<Resolution>,
}

impl Default for Covered {
    fn default() -> Self {
        Self { measured_ns: 0, fields: Fields::all(), resolution: None }
    }
}

/// A group; of processes one by one its process too.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Group {
    name: Box<str>,
    process: Option<ProcessKey>,
    /// Of before and of after.
    deltas: [Delta; 2],
}

/// Two spans being added up.
#[derive(Debug, Default)]
pub struct Comparison {
    by: GroupBy,
    groups: Vec<Group>,
    places: HashMap<(Box<str>, Option<ProcessKey>), usize, RandomState>,
    covered: [Covered; 2],
    others: [Delta; 2],
    folded: u64,
}

/// A row: what a group did before and after.
#[derive(Copy, Clone, Debug)]
pub struct Change<'c> {
    group: &'c Group,
    covered: &'c [Covered; 2],
}

impl Covered {
    /// Percent of one CPU; `None` where the span holds no data.
    fn cpu_pct(&self, delta: &Delta) -> Option<f64> {
        let is_known = self.measured_ns > 0 && self.fields.contains(Fields::RUN);
        is_known.then(|| delta.run_ns as f64 * 100.0 / self.measured_ns as f64)
    }

    fn ns(&self, needs: Fields, ns: i64) -> Option<i64> {
        (self.measured_ns > 0 && self.fields.contains(needs)).then_some(ns)
    }
}

impl Comparison {
    /// Nothing added yet.
    #[must_use]
    pub fn new(by: GroupBy) -> Self {
        Self { by, ..Self::default() }
    }

    /// Sets what a side is read from.
    pub fn read_from(&mut self, side: Side, resolution: Option<Resolution>) {
        self.covered[side as usize].resolution = resolution;
    }

    /// Adds an interval, or a sum of some, to one side.
    pub fn add(&mut self, side: Side, interval: &Interval) {
        let covered = &mut self.covered[side as usize];
        covered.measured_ns = covered.measured_ns.saturating_add(interval.duration_ns());
        covered.fields &= interval.fields;
        for row in &interval.processes {
            let name = group_name(self.by, interval.source, &row.info);
            let process = (self.by == GroupBy::Process).then_some(row.key);
            match self.place(&name, process) {
                Some(at) => self.groups[at].deltas[side as usize] += &row.delta,
                None => self.others[side as usize] += &row.delta,
            }
        }
    }

    fn place(&mut self, name: &str, process: Option<ProcessKey>) -> Option<usize> {
        // A lookup by a borrowed pair would need a type of its own; names are short.
        let key = (Box::from(name), process);
        if let Some(&at) = self.places.get(&key) {
            return Some(at);
        }
        if self.groups.len() >= MAX_GROUPS {
            self.folded += 1;
            return None;
        }
        self.groups.push(Group { name: key.0.clone(), process, deltas: [Delta::default(); 2] });
        self.places.insert(key, self.groups.len() - 1);
        Some(self.groups.len() - 1)
    }

    /// Groups that were met when there were too many already; an upper bound.
    #[must_use]
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Ends the adding up: rows, the largest change first. Where one span holds no data, the largest share of the other.
    pub fn sort(&mut self) {
        if self.folded > 0 {
            let (name, deltas) = (OTHERS.into(), std::mem::take(&mut self.others));
            self.groups.push(Group { name, process: None, deltas });
            self.folded = 0;
        }
        let covered = &self.covered;
        let weight = |group: &Group| Change { group, covered }.weight();
        self.groups.sort_by(|a, b| {
            let by_change = weight(b).total_cmp(&weight(a));
            by_change.then_with(|| (&a.name, a.process).cmp(&(&b.name, b.process)))
        });
        // After sorting its indices are wrong.
        self.places = HashMap::default();
    }

    /// The rows in the order of [`Comparison::sort`].
    #[must_use]
    pub fn rows(&self) -> impl ExactSizeIterator<Item = Change<'_>> {
        self.groups.iter().map(|group| Change { group, covered: &self.covered })
    }

    /// Measured time of a side, ns; 0: it holds no data.
    #[must_use]
    pub fn measured_ns(&self, side: Side) -> u64 {
        self.covered[side as usize].measured_ns
    }
}

/// `interval`, `minute`, `hour`; of sides that differ the coarser one.
fn coarser(covered: &[Covered; 2]) -> &'static str {
    let resolutions = covered.map(|side| {
        side.resolution.map_or((0, "interval"), |resolution| (resolution.length_ns(), resolution.name()))
    });
    resolutions
        .into_iter()
        .max_by_key(|resolution| resolution.0)
        .map_or("interval", |resolution| resolution.1)
}

impl Change<'_> {
    fn pct(self, side: Side) -> Option<f64> {
        self.covered[side as usize].cpu_pct(&self.group.deltas[side as usize])
    }

    fn change(self) -> Option<f64> {
        Some(self.pct(Side::After)? - self.pct(Side::Before)?)
    }

    fn weight(self) -> f64 {
        let known = self.change().or_else(|| self.pct(Side::After)).or_else(|| self.pct(Side::Before));
        known.unwrap_or(0.0).abs()
    }

    fn ns(self, side: Side, needs: Fields, part: fn(&Delta) -> i64) -> Option<i64> {
        self.covered[side as usize].ns(needs, part(&self.group.deltas[side as usize]))
    }

    fn length_ns(self, side: Side) -> u64 {
        self.covered[side as usize].measured_ns
    }

    /// Columns of a row.
    #[must_use]
    pub fn fields() -> [Field<'static, Self>; 17] {
        use Side::{After, Before};
        type Part = fn(&Delta) -> i64;
        let ns =
            |name, side, needs, part: Part| Field::int(name, move |row: &Self| row.ns(side, needs, part));
        [
            Field::text("name", |row: &Self| Some((&*row.group.name).into())),
            Field::int("pid", |row: &Self| row.group.process.map(|key| i64::from(key.pid))),
            Field::count("start_ns", |row: &Self| row.group.process.map(|key| key.start_ns)),
            Field::real("before_cpu_pct", |row: &Self| row.pct(Before)),
            Field::real("after_cpu_pct", |row: &Self| row.pct(After)),
            Field::real("change_cpu_pct", |row: &Self| row.change()),
            ns("before_run_ns", Before, Fields::RUN, |delta| delta.run_ns),
            ns("after_run_ns", After, Fields::RUN, |delta| delta.run_ns),
            ns("before_user_ns", Before, Fields::USER, |delta| delta.user_ns),
            ns("after_user_ns", After, Fields::USER, |delta| delta.user_ns),
            ns("before_system_ns", Before, Fields::SYSTEM, |delta| delta.system_ns),
            ns("after_system_ns", After, Fields::SYSTEM, |delta| delta.system_ns),
            ns("before_run_delay_ns", Before, Fields::RUN_DELAY, |delta| delta.run_delay_ns),
            ns("after_run_delay_ns", After, Fields::RUN_DELAY, |delta| delta.run_delay_ns),
            Field::count("before_duration_ns", |row: &Self| row.length_ns(Before)),
            Field::count("after_duration_ns", |row: &Self| row.length_ns(After)),
            Field::text("grain", |row: &Self| Some(coarser(row.covered).into())),
        ]
    }
}
