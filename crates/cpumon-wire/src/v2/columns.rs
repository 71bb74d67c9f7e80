//! The columns of v2 tables: their numbers on the wire and how each is coded. A column's number and meaning
//! must never change once frames with it were sent. [`Tally`] has the lengths of a column's values, from which the coding with the fewest
//! bits is chosen.

use cpumon_model::Counters;
use cpumon_model::varint::{unzigzag, zigzag};

use super::bits::{BitReader, BitWriter, bit_len};

/// Section types. A type that is not known here is skipped.
pub(crate) mod section {
    pub(crate) const HOST: u8 = 1;
    pub(crate) const TOTALS: u8 = 2;
    pub(crate) const CPUS: u8 = 3;
    pub(crate) const PROCESSES: u8 = 4;
    pub(crate) const THREADS: u8 = 5;
    pub(crate) const EXITS: u8 = 6;
    pub(crate) const GONE: u8 = 7;
    pub(crate) const IRQS: u8 = 8;
    pub(crate) const DELAYS: u8 = 9;
    pub(crate) const CGROUPS: u8 = 10;
    pub(crate) const WAITS_FOR: u8 = 11;
}

/// Bits that rows of a section have at least, on average over a frame. A row takes some 200 bytes of memory and some hundred ns,
/// however short it is here; one of a histogram less.
pub(crate) const fn average_bits(kind: u8) -> usize {
    if kind == section::DELAYS { 8 } else { 32 }
}

/// What the coding of a column depends on.
#[derive(Copy, Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each column has any of them")]
pub(crate) struct Properties {
    /// Its values are differences to the row before; others to their group's column, or to nothing ([`relative`]).
    follows_row: bool,
    /// The encoder searches for a common unit: numbers of ns often are whole µs or clock ticks.
    pub(crate) has_unit: bool,
    pub(crate) is_text: bool,
    /// It is written even if every text in it is empty: its presence says that the texts are sent.
    pub(crate) is_always_sent: bool,
    /// In a message about a value that it cannot have; `None`: it takes any.
    pub(crate) called: Option<&'static str>,
}

/// Each column: its number, its properties, and its name in messages where not every value is possible.
macro_rules! columns {
    ($($column:ident = $id:literal $([$($property:ident)+])? $($called:literal)?;)+) => {
        $(pub(crate) const $column: u8 = $id;)+

        /// Column numbers from here on are not known and skipped.
        pub(crate) const ID_LIMIT: usize = {
            let (mut limit, mut rest): (usize, &[usize]) = (0, &[$($id),+]);
            while let [id, others @ ..] = rest {
                (limit, rest) = (if *id < limit { limit } else { *id + 1 }, others);
            }
            limit
        };

        /// By number; those that are not known have none.
        static PROPERTIES: [Properties; 256] = {
            let none =
                Properties { follows_row: false, has_unit: false, is_text: false, is_always_sent: false, called: None };
            let mut all = [none; 256];
            $(
                $($(all[$id].$property = true;)+)?
                $(all[$id].called = Some($called);)?
            )+
            all
        };
    };
}

columns! {
    PID = 1 [follows_row] "a process id";
    PROCESS_START = 2 [follows_row has_unit];
    TID = 3 "a thread id";
    START = 4 [has_unit];
    CPU = 5 [follows_row] "the number of a CPU";
    RUN = 6 [has_unit];
    USER = 7 [has_unit];
    SYSTEM = 8 [has_unit];
    SYSTEM_REST = 9;
    RUN_DELAY = 10 [has_unit];
    VOLUNTARY = 11;
    INVOLUNTARY = 12;
    STATE = 13 "the state of a thread";
    NICE = 14 "the nice value of a thread";
    PRIORITY = 15 "the priority of a thread";
    LAST_CPU = 16 "the CPU of a thread";
    COMM = 17 [is_text is_always_sent];
    PARENT_PID = 18 "the id of a parent";
    UID = 19 "the id of a user";
    IS_KERNEL = 20;
    NAME = 21 [is_text is_always_sent];
    PROCESS_COMM = 22 [is_text];
    CMDLINE = 23 [is_text];
    CGROUP = 24 [is_text is_always_sent];
    CONTAINER = 25 [is_text];
    END = 26;
    ENDS_PROCESS = 27;
    THREAD_COUNT = 28 "the number of threads";
    PROCESS_COUNT = 29 "the number of processes";
    PASS_MONO = 30;
    PASS_BOOT = 31;
    PASS_WALL = 32;
    HOSTNAME = 40 [is_text is_always_sent];
    KERNEL = 41 [is_text];
    ARCH = 42 [is_text];
    AGENT = 43 [is_text];
    SOURCE_REASON = 44 [is_text];
    CPU_COUNT = 45 "the number of CPUs";
    INTERVAL = 46 [has_unit];
    HEALTH_0 = 48; HEALTH_1 = 49; HEALTH_2 = 50; HEALTH_3 = 51; HEALTH_4 = 52; HEALTH_5 = 53; HEALTH_6 = 54;
    HEALTH_7 = 55;
    MODE_0 = 64 [has_unit] "user time of a CPU";
    MODE_1 = 65 [has_unit] "nice time of a CPU";
    MODE_2 = 66 [has_unit] "system time of a CPU";
    MODE_3 = 67 [has_unit] "idle time of a CPU";
    MODE_4 = 68 [has_unit] "iowait time of a CPU";
    MODE_5 = 69 [has_unit] "irq time of a CPU";
    MODE_6 = 70 [has_unit] "softirq time of a CPU";
    MODE_7 = 71 [has_unit] "steal time of a CPU";
    MODE_8 = 72 [has_unit] "guest time of a CPU";
    MODE_9 = 73 [has_unit] "guest_nice time of a CPU";
    BLOCKED_REST = 80 [has_unit];
    DELAY_AFTER_WAKEUP = 81 [has_unit];
    WAKEUPS = 82;
    MIGRATIONS = 83;
    LONGEST_DELAY = 84 [has_unit];
    OPEN_WAIT = 85;
    WAIT_0 = 86; WAIT_1 = 87 [has_unit]; WAIT_2 = 88; WAIT_3 = 89 [has_unit]; WAIT_4 = 90;
    WAIT_5 = 91 [has_unit]; WAIT_6 = 92; WAIT_7 = 93 [has_unit]; WAIT_8 = 94; WAIT_9 = 95 [has_unit];
    WAIT_10 = 96; WAIT_11 = 97 [has_unit];
    UNKNOWN_TIME = 98 [has_unit];
    RUN_QUEUE = 99 [has_unit];
    RUN_QUEUE_MAX = 100 "the longest run queue of a CPU";
    CPU_SWITCHES = 101;
    SOFTIRQ_0 = 102 [has_unit]; SOFTIRQ_1 = 103 [has_unit]; SOFTIRQ_2 = 104 [has_unit];
    SOFTIRQ_3 = 105 [has_unit]; SOFTIRQ_4 = 106 [has_unit]; SOFTIRQ_5 = 107 [has_unit];
    SOFTIRQ_6 = 108 [has_unit]; SOFTIRQ_7 = 109 [has_unit]; SOFTIRQ_8 = 110 [has_unit];
    SOFTIRQ_9 = 111 [has_unit];
    IRQ = 112 [follows_row] "the number of an interrupt line";
    IRQ_TIME = 113 [has_unit];
    IRQ_COUNT = 114;
    IRQ_NAME = 115 [is_text is_always_sent];
    HEALTH_8 = 116; HEALTH_9 = 117;
    PROBES = 118;
    DELAY_CPU = 119 [follows_row] "the CPU of a run-delay histogram";
    DELAY_WHOLE = 120;
    DELAY_BUCKET = 121 "the bucket of a run-delay histogram";
    DELAY_COUNT = 122;
    HEALTH_10 = 123; HEALTH_11 = 124; HEALTH_12 = 125; HEALTH_13 = 126; HEALTH_14 = 127; HEALTH_15 = 128;
    HEALTH_16 = 129; HEALTH_17 = 130;
    USER_NAME = 131 [is_text];
    INTERPRETER = 132 [is_text];
    CGROUP_ID = 133 [follows_row];
    CGROUP_KNOWN = 134;
    CGROUP_LIMIT = 135;
    CGROUP_LIMITER = 136 "the group that limits a control group";
    PERIODS = 137;
    THROTTLED_PERIODS = 138;
    THROTTLED_TIME = 139 [has_unit];
    PRESSURE_SOME = 140 [has_unit];
    PRESSURE_FULL = 141 [has_unit];
    CGROUPS_LEFT_OUT = 142 "the number of control groups left out";
    SESSION = 143 "the session of a process";
    BASE_PRIORITY = 144 "the base priority of a process";
    PRODUCT = 145 [is_text];
    MINOR_FAULTS = 146;
    MAJOR_FAULTS = 147;
    WAIT_KIND = 148;
    WAITED_ON = 149;
    WAITED_TIME = 150 [has_unit];
    WAITED_COUNT = 151;
    HEALTH_18 = 152;
    ONE_CPU = 153;
}

/// Counters of a task in the order of every table that has them: run, user and system time, and what remains of system time without the
/// other two, which is 0 where that split is exact; then these.
macro_rules! counters {
    ($($column:ident $counter:ident)+) => {
        pub(crate) const COUNTERS: &[u8] = &[RUN, USER, SYSTEM, SYSTEM_REST, $($column),+];

        /// The values of [`COUNTERS`].
        pub(crate) fn counter_values(counters: &Counters) -> [u64; COUNTERS.len()] {
            let &Counters { run_ns, user_ns, system_ns, .. } = counters;
            // A column of zeros is not written at all.
            let rest = system_ns.wrapping_sub(run_ns.wrapping_sub(user_ns));
            [run_ns, user_ns, system_ns, zigzag(rest.cast_signed()), $(counters.$counter),+]
        }

        /// Counters from the values of their columns. `has_system`: system time was sent as it is.
        pub(crate) fn counters_of(value: impl Fn(u8) -> u64, has_system: bool) -> Counters {
            let (run_ns, user_ns) = (value(RUN), value(USER));
            let rest = unzigzag(value(SYSTEM_REST)).cast_unsigned();
            let split_ns = run_ns.wrapping_sub(user_ns).wrapping_add(rest);
            let system_ns = if has_system { value(SYSTEM) } else { split_ns };
            Counters { user_ns, system_ns, run_ns, $($counter: value($column)),+ }
        }
    };
}

counters! {
    RUN_DELAY run_delay_ns
    VOLUNTARY voluntary_switches
    INVOLUNTARY involuntary_switches
    MINOR_FAULTS minor_faults
    MAJOR_FAULTS major_faults
}

/// Those of a column, by its number.
#[inline]
pub(crate) fn properties(id: u8) -> &'static Properties {
    &PROPERTIES[usize::from(id)]
}

/// Which value a column's value is the difference to.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relative {
    /// None: the column has the value itself.
    No,
    /// The row before; 0 for the first row of a table.
    ToRowBefore,
    /// The row before; for the first row of a group the group's column with this number.
    ToGroup(u8),
}

/// How a column's value is coded, by its number.
#[inline]
pub(crate) fn relative(id: u8) -> Relative {
    match id {
        TID => Relative::ToGroup(PID),
        START => Relative::ToGroup(PROCESS_START),
        _ if properties(id).follows_row => Relative::ToRowBefore,
        _ => Relative::No,
    }
}

/// Units that a column's values may be multiples of, by their number on the wire. Each is a multiple of the one before.
pub(crate) const UNITS: [u64; 8] = [1, 10, 100, 1_000, 10_000, 1_000_000, 10_000_000, 1_000_000_000];

/// Whole µs share the unit 1,000, which saves 10 bits of each value.
pub(crate) fn whole_us(ns: u64) -> u64 {
    ns - ns % 1_000
}

/// A difference in units: not negative, or modulo 2^64 and folded.
#[inline]
pub(crate) fn difference(value: u64, before: u64, unit: u64, is_folded: bool) -> u64 {
    let difference = value.wrapping_sub(before);
    if is_folded {
        zigzag(difference.cast_signed() / unit.cast_signed())
    } else if unit == 1 {
        difference
    } else {
        difference / unit
    }
}

/// The inverse of [`difference`]; `None`: it is beyond 64 bits.
#[inline]
pub(crate) fn add_difference(before: u64, coded: u64, unit: u64, is_folded: bool) -> Option<u64> {
    if is_folded {
        let difference = unzigzag(coded).checked_mul(unit.cast_signed())?;
        return Some(before.wrapping_add(difference.cast_unsigned()));
    }
    before.checked_add(coded.checked_mul(unit)?)
}

/// How a column's bits are laid out.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnKind {
    /// Each value has `min` bits.
    Fixed,
    /// `prefix` bits that say how many significant bits follow; the topmost one is left out.
    Prefixed,
    /// A length coded as [`ColumnKind::Prefixed`]: 0 = the text of the row before, n + 1 = n bytes follow.
    Text,
    /// A signed number in zigzag form, stored as [`ColumnKind::Prefixed`].
    Folded,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreadable {
    Truncated,
    /// It needs more than 64 bits.
    Overflow,
}

#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(crate) struct ColumnDescription {
    pub(crate) id: u8,
    pub(crate) kind: ColumnKind,
    /// Width of the prefix, bits.
    pub(crate) prefix: u32,
    /// Width of all values, or significant bits of the shortest.
    pub(crate) min: u32,
    /// Prefix 0 means the value 0, and prefix n + 1 means `min` + n bits.
    pub(crate) zero_is_apart: bool,
    /// Index into [`UNITS`].
    pub(crate) unit: usize,
}

impl ColumnDescription {
    /// Length of a column's description, bytes.
    pub(crate) const BYTES: usize = 3;

    /// What each row has in this column, if its values take no bits.
    pub(crate) fn constant(&self) -> Option<u64> {
        match (self.kind, self.prefix) {
            (ColumnKind::Fixed, _) => (self.min == 0).then_some(0),
            (_, 0) if self.zero_is_apart || self.min == 0 => Some(0),
            (_, 0) => (self.min == 1).then_some(1),
            _ => None,
        }
    }

    /// Number, then bits 0–1 kind, 2–4 prefix, 5–11 min, 12 zero apart, 13–15 unit.
    pub(crate) fn to_bytes(self) -> [u8; Self::BYTES] {
        let kind = match self.kind {
            ColumnKind::Fixed => 0,
            ColumnKind::Prefixed => 1,
            ColumnKind::Text => 2,
            ColumnKind::Folded => 3,
        };
        let unit = u32::try_from(self.unit).unwrap_or(0);
        let bits = kind | self.prefix << 2 | self.min << 5 | u32::from(self.zero_is_apart) << 12 | unit << 13;
        let [low, high, ..] = bits.to_le_bytes();
        [self.id, low, high]
    }

    /// Decodes a description; `None` if its widths are not possible.
    pub(crate) fn from_bytes([id, low, high]: [u8; Self::BYTES]) -> Option<Self> {
        let bits = u32::from(u16::from_le_bytes([low, high]));
        let kind = match bits & 3 {
            0 => ColumnKind::Fixed,
            1 => ColumnKind::Prefixed,
            2 => ColumnKind::Text,
            _ => ColumnKind::Folded,
        };
        let column = Self {
            id,
            kind,
            prefix: bits >> 2 & 7,
            min: bits >> 5 & 127,
            zero_is_apart: bits >> 12 & 1 == 1,
            unit: (bits >> 13) as usize,
        };
        let has_prefix = column.prefix > 0 || column.zero_is_apart;
        (column.min <= 64 && !(kind == ColumnKind::Fixed && has_prefix)).then_some(column)
    }

    /// Writes a number. `None`: it does not fit the column.
    pub(crate) fn put(self, value: u64, bits: &mut BitWriter, out: &mut Vec<u8>) -> Option<()> {
        let len = bit_len(value);
        if self.kind == ColumnKind::Fixed {
            bits.put(out, value, (len <= self.min).then_some(self.min)?);
            return Some(());
        }
        let more = if self.zero_is_apart && len == 0 {
            0
        } else {
            len.checked_sub(self.min)? + u32::from(self.zero_is_apart)
        };
        bits.put(out, u64::from(more), (more >> self.prefix == 0).then_some(self.prefix)?);
        if len > 1 {
            bits.put(out, value & !(1 << (len - 1)), len - 1);
        }
        Some(())
    }

    #[inline]
    pub(crate) fn take(self, bits: &mut BitReader<'_>) -> Result<u64, Unreadable> {
        if self.kind == ColumnKind::Fixed {
            return bits.take(self.min).ok_or(Unreadable::Truncated);
        }
        let more = bits.take(self.prefix).ok_or(Unreadable::Truncated)?;
        let len = match (self.zero_is_apart, more) {
            (true, 0) => 0,
            (true, _) => more - 1 + u64::from(self.min),
            (false, _) => more + u64::from(self.min),
        };
        match len {
            0 => Ok(0),
            1..=64 => {
                let low = u32::try_from(len - 1).unwrap_or(0);
                Ok(1 << low | bits.take(low).ok_or(Unreadable::Truncated)?)
            }
            _ => Err(Unreadable::Overflow),
        }
    }
}

/// Statistics of a column's values, from which its widths are chosen.
#[derive(Copy, Clone, Debug)]
pub(crate) struct Tally {
    pub(crate) id: u8,
    /// Index of its values in a gathered row.
    pub(crate) slot: usize,
    /// Index into [`UNITS`].
    pub(crate) unit: usize,
    /// Some difference is negative, so all are folded.
    pub(crate) folded: bool,
    pub(crate) zeros: bool,
    /// Significant bits of the shortest value but 0, and of the longest.
    pub(crate) min_bits: u32,
    pub(crate) max_bits: u32,
    pub(crate) values: u64,
    /// Sum over all values of the bits below the topmost one.
    pub(crate) low_bits: u64,
}

impl Tally {
    pub(crate) fn new(id: u8, slot: usize) -> Self {
        Self {
            id,
            slot,
            unit: 0,
            folded: false,
            zeros: false,
            min_bits: 64,
            max_bits: 0,
            values: 0,
            low_bits: 0,
        }
    }

    /// Counts a value that will be written.
    pub(crate) fn add(&mut self, coded: u64) {
        self.cover(coded);
        self.values += 1;
        self.low_bits += u64::from(bit_len(coded).saturating_sub(1));
    }

    /// Widens the range for a value that may be written.
    pub(crate) fn cover(&mut self, coded: u64) {
        let bits = bit_len(coded);
        self.max_bits = self.max_bits.max(bits);
        if bits == 0 {
            self.zeros = true;
        } else {
            self.min_bits = self.min_bits.min(bits);
        }
    }

    /// Whether a code of its own for 0 makes the prefix narrower, and how wide that is.
    fn prefix(&self) -> (bool, u32) {
        let spread = self.max_bits.saturating_sub(self.min_bits);
        let apart = bit_len(u64::from(spread + 1));
        if !self.zeros {
            return (false, bit_len(u64::from(spread)));
        }
        let together = bit_len(u64::from(self.max_bits));
        (apart < together, apart.min(together))
    }

    fn fixed_cost(&self) -> u64 {
        // A folded column says so in its kind, which has a prefix.
        if self.folded { u64::MAX } else { self.values * u64::from(self.max_bits) }
    }

    fn prefixed_cost(&self) -> u64 {
        self.values * u64::from(self.prefix().1) + self.low_bits
    }

    pub(crate) fn cost(&self) -> u64 {
        self.fixed_cost().min(self.prefixed_cost())
    }

    pub(crate) fn column(&self) -> ColumnDescription {
        let (id, unit) = (self.id, self.unit);
        if !properties(id).is_text && self.fixed_cost() <= self.prefixed_cost() {
            let min = self.max_bits;
            return ColumnDescription {
                id,
                kind: ColumnKind::Fixed,
                prefix: 0,
                min,
                zero_is_apart: false,
                unit,
            };
        }
        let kind = match (properties(id).is_text, self.folded) {
            (true, _) => ColumnKind::Text,
            (false, true) => ColumnKind::Folded,
            (false, false) => ColumnKind::Prefixed,
        };
        let (zero_is_apart, prefix) = self.prefix();
        let min = if self.zeros && !zero_is_apart { 0 } else { self.min_bits };
        ColumnDescription { id, kind, prefix, min, zero_is_apart, unit }
    }
}

#[cfg(test)]
mod tests;
