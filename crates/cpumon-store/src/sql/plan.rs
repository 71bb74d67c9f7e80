//! What a query lets us skip: a [`ScanPlan`] of SQLite's constraints that survives as text, and the [`Bounds`] it makes of the
//! values. "One host, last hour" must not read the whole store. SQLite checks each constraint again, so a bound
//! may be too wide, never too narrow. Only `host = …` is not checked again: it means a host as everywhere else, by name or id.

use cpumon_model::{Column, ColumnId};
use rusqlite::types::{Value, ValueRef};
use rusqlite::vtab::{Filters, IndexConstraintOp, IndexInfo};

/// A clock set back by more than this within one interval makes a bound on `begin_ns` miss that interval. A day.
const MAX_CLOCK_STEP_NS: i64 = 86_400_000_000_000;

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Use {
    Host,
    Pid,
    Name,
    EndAtLeast,
    EndAtMost,
    BeginAtLeast,
}

impl Use {
    const LETTERS: [(Self, char); 6] = [
        (Self::Host, 'h'),
        (Self::Pid, 'p'),
        (Self::Name, 'n'),
        (Self::EndAtLeast, 'g'),
        (Self::EndAtMost, 'l'),
        (Self::BeginAtLeast, 'b'),
    ];

    /// All uses of one constraint; equality of times is two bounds.
    fn of(id: ColumnId, operator: &IndexConstraintOp) -> &'static [Self] {
        use IndexConstraintOp as Op;
        let is_equal = matches!(operator, Op::SQLITE_INDEX_CONSTRAINT_EQ);
        let is_least = matches!(operator, Op::SQLITE_INDEX_CONSTRAINT_GE | Op::SQLITE_INDEX_CONSTRAINT_GT);
        let is_most = matches!(operator, Op::SQLITE_INDEX_CONSTRAINT_LE | Op::SQLITE_INDEX_CONSTRAINT_LT);
        match id {
            ColumnId::Host if is_equal => &[Self::Host],
            ColumnId::Pid if is_equal => &[Self::Pid],
            ColumnId::Name | ColumnId::ProcessName if is_equal => &[Self::Name],
            ColumnId::EndNs if is_equal => &[Self::EndAtLeast, Self::EndAtMost],
            ColumnId::EndNs if is_least => &[Self::EndAtLeast],
            ColumnId::EndNs if is_most => &[Self::EndAtMost],
            // An interval may be of any length, so only a lower bound on its start says something of its end.
            ColumnId::BeginNs if is_equal || is_least => &[Self::BeginAtLeast],
            _ => &[],
        }
    }

    /// Rough share of the rows that is left to read.
    fn selectivity(self) -> f64 {
        match self {
            Self::Host | Self::Name => 0.1,
            Self::Pid => 0.05,
            Self::EndAtLeast | Self::EndAtMost | Self::BeginAtLeast => 0.2,
        }
    }
}

/// What SQLite shall hand over when the scan begins, and which columns it wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ScanPlan {
    /// Uses of each value that SQLite hands over.
    values: Vec<Vec<Use>>,
    /// Bit of each wanted column; the last bit is for all columns from there on.
    pub used: u64,
}

impl ScanPlan {
    /// Chooses the constraints that SQLite shall hand over. `names_processes`: the table's `name` is a process name.
    pub fn choose(info: &mut IndexInfo, columns: &[&'static Column], rows: f64) -> Self {
        let mut values = Vec::new();
        let mut chosen = Vec::new();
        for (at, constraint) in info.constraints().enumerate() {
            let Some(column) = usize::try_from(constraint.column()).ok().and_then(|at| columns.get(at))
            else {
                continue;
            };
            // In tables of threads this is the thread's name, but the reader filters by names of processes.
            let is_thread_name =
                column.id == ColumnId::Name && columns.iter().any(|other| other.id == ColumnId::ProcessName);
            let uses = Use::of(column.id, &constraint.operator());
            // Under another collation 'A' = 'a' may hold, which a bound would miss.
            let is_binary =
                info.collation(at).is_ok_and(|collation| collation.eq_ignore_ascii_case("BINARY"));
            // Not usable: the value comes from a table that this order of the join reads later.
            if constraint.is_usable() && is_binary && !is_thread_name && !uses.is_empty() {
                chosen.push(at);
                values.push(uses.to_vec());
            }
        }
        // SQLite counts from 1: 0 says that the value is not handed over.
        for ((argument, at), uses) in (1..).zip(chosen).zip(&values) {
            let mut usage = info.constraint_usage(at);
            usage.set_argv_index(argument);
            // The column has the name, so SQLite would refuse the rows of a host that is meant by its id.
            usage.set_omit(uses.contains(&Use::Host));
        }
        let share: f64 = values.iter().flatten().map(|one| one.selectivity()).product();
        info.set_estimated_cost((rows * share).max(1.0));
        #[expect(clippy::cast_possible_truncation, reason = "an estimate")]
        info.set_estimated_rows((rows * share).max(1.0) as i64);
        Self { values, used: info.col_used() }
    }

    /// Writes the plan as `hex;uses of value 1,uses of value 2`.
    pub fn to_text(&self) -> String {
        let letter = |one: &Use| Use::LETTERS.iter().find(|row| row.0 == *one).map_or('?', |row| row.1);
        let values: Vec<String> = self.values.iter().map(|uses| uses.iter().map(letter).collect()).collect();
        format!("{:x};{}", self.used, values.join(","))
    }

    /// The plan of a text; what is not understood asks for everything.
    pub fn from_text(text: &str) -> Self {
        let (used, values) = text.split_once(';').unwrap_or(("", ""));
        let use_of = |letter| Use::LETTERS.iter().find(|row| row.1 == letter).map(|row| row.0);
        let uses = |part: &str| part.chars().filter_map(use_of).collect();
        let values =
            if values.is_empty() { Vec::new() } else { values.split(',').map(uses).collect::<Vec<_>>() };
        Self { values, used: u64::from_str_radix(used, 16).unwrap_or(u64::MAX) }
    }

    pub fn wants(&self, at: usize) -> bool {
        self.used >> at.min(63) & 1 == 1
    }

    pub fn bounds(&self, arguments: &Filters<'_>) -> Bounds {
        let mut bounds = Bounds::default();
        for (uses, value) in self.values.iter().zip(arguments.iter()) {
            for one in uses {
                bounds.narrow(*one, value);
            }
        }
        bounds
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Each of them, by name or id, must mean the host.
    pub hosts: Vec<String>,
    pub pid: Option<u32>,
    pub name: Option<String>,
    pub end_at_least: Option<i64>,
    pub end_at_most: Option<i64>,
    /// Nothing can pass: a comparison with NULL, or a text where only numbers are.
    pub is_empty: bool,
}

/// Whole numbers around a number of any kind: `(floor, ceil)`.
fn around(value: ValueRef<'_>) -> Option<(i64, i64)> {
    match value {
        ValueRef::Integer(number) => Some((number, number)),
        #[expect(
            clippy::cast_possible_truncation,
            reason = "a float beyond i64 becomes its end, which bounds as well"
        )]
        ValueRef::Real(number) if !number.is_nan() => Some((number.floor() as i64, number.ceil() as i64)),
        _ => None,
    }
}

impl Bounds {
    fn narrow(&mut self, one: Use, value: ValueRef<'_>) {
        if matches!(value, ValueRef::Null) {
            self.is_empty = true;
            return;
        }
        match (one, Value::try_from(value), around(value)) {
            (Use::Host, Ok(Value::Text(text)), _) => self.hosts.push(text),
            // A column of texts makes a number a text before it compares.
            (Use::Host, Ok(Value::Integer(number)), _) => self.hosts.push(number.to_string()),
            (Use::Host, Ok(Value::Real(number)), _) => self.hosts.push(format!("{number:?}")),
            (Use::Host, ..) => self.is_empty = true,
            (Use::Name, Ok(Value::Text(text)), _) => self.name = Some(text),
            (Use::Pid, _, Some((low, high))) => match u32::try_from(low) {
                Ok(pid) if low == high => self.pid = Some(pid),
                // No process has such a pid: a fraction, a negative number or one above 32 bits.
                _ => self.is_empty = true,
            },
            (Use::EndAtLeast, _, Some((low, _))) => self.raise(low),
            (Use::BeginAtLeast, _, Some((low, _))) => self.raise(low.saturating_sub(MAX_CLOCK_STEP_NS)),
            (Use::EndAtMost, _, Some((_, high))) => {
                self.end_at_most = Some(self.end_at_most.map_or(high, |known| known.min(high)));
            }
            // A text may still become a number by the column's affinity: no bound.
            _ => {}
        }
    }

    fn raise(&mut self, low: i64) {
        self.end_at_least = Some(self.end_at_least.map_or(low, |known| known.max(low)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_survives_its_text() {
        let plan = ScanPlan {
            values: vec![vec![Use::Host], vec![Use::EndAtLeast, Use::EndAtMost]],
            used: 0x8000_0000_0000_0005,
        };
        assert_eq!(ScanPlan::from_text(&plan.to_text()), plan);
        assert!(plan.wants(0) && !plan.wants(1) && plan.wants(2) && plan.wants(63) && plan.wants(80));
        let none = ScanPlan { values: Vec::new(), used: 0 };
        assert_eq!(ScanPlan::from_text(&none.to_text()), none);
    }

    #[test]
    fn bounds_are_never_too_narrow() {
        let mut bounds = Bounds::default();
        bounds.narrow(Use::EndAtLeast, ValueRef::Real(10.5));
        bounds.narrow(Use::EndAtMost, ValueRef::Real(20.5));
        bounds.narrow(Use::EndAtMost, ValueRef::Integer(30));
        bounds.narrow(Use::Pid, ValueRef::Text(b"7"));
        assert_eq!((bounds.end_at_least, bounds.end_at_most, bounds.pid), (Some(10), Some(21), None));
        assert!(!bounds.is_empty);
        bounds.narrow(Use::Pid, ValueRef::Integer(-1));
        assert!(bounds.is_empty);
    }
}
