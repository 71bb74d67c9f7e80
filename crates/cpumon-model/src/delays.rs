//! Run-delay histograms: how long each single wait for a CPU took, of a process, a CPU or a thread.
//! Differences, sums and percentiles stay right however histograms are merged. Buckets are stored sparsely:
//! of 256 a busy process fills some thirty.
//!
//! The layout is that of the `histogram` crate with grouping power 3 and max value power 34, in ns: 8 buckets for each power of
//! two, so a value is known to within an eighth of itself, from 1 ns to 17 s, and a bucket's number is one byte. A histogram of
//! 32-bit counts is then 1 KiB in the kernel. The tests hold layout and percentiles against that crate; it is no dependency,
//! because its histograms bring their layout and two lists along for each one, and its layout cannot be asked for directly.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::sync::Arc;

use crate::{ProcessKey, ThreadKey};

/// Powers of the layout: buckets for each power of two (as a power), and the power that no value reaches.
const GROUPING_POWER: u32 = 3;
const MAX_VALUE_POWER: u32 = 34;

/// Buckets of a histogram.
pub const DELAY_BUCKETS: usize = ((MAX_VALUE_POWER - GROUPING_POWER + 1) as usize) << GROUPING_POWER;

/// The bucket of a delay, ns; beyond 17 s it is the last.
pub fn delay_bucket(ns: u64) -> u8 {
    let ns = ns.min((1 << MAX_VALUE_POWER) - 1);
    // `| 1`: 0 has no logarithm. Below 16 ns the shift is 0 and each value has a bucket of its own.
    let shift = (ns | 1).ilog2().saturating_sub(GROUPING_POWER);
    u8::try_from((u64::from(shift) << GROUPING_POWER) + (ns >> shift)).unwrap_or(u8::MAX)
}

/// The delays of a bucket, ns.
pub fn delay_range_ns(bucket: u8) -> RangeInclusive<u64> {
    let low = |bucket: u64| {
        let (group, part) = (bucket >> GROUPING_POWER, bucket & ((1 << GROUPING_POWER) - 1));
        if group == 0 { part } else { ((1 << GROUPING_POWER) + part) << (group - 1) }
    };
    low(bucket.into())..=low(u64::from(bucket) + 1) - 1
}

/// The owner of a histogram of run delays.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(
    feature = "json",
    derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema),
    serde(rename_all = "snake_case")
)]
pub enum DelayOf {
    /// Of every thread that got this CPU.
    Cpu(u32),
    /// Of a process's threads.
    Process(ProcessKey),
    /// Of a selected thread.
    Thread(ProcessKey, ThreadKey),
}

/// Counts by bucket: cumulative in a snapshot, differences in an interval.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DelayHistogram {
    /// Ascending, each bucket once, no count is 0.
    buckets: Vec<(u8, u64)>,
}

/// The longest delay of several histograms, which is known only if it is known of each.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct LongestDelay {
    longest_ns: u64,
    is_unknown: bool,
}

impl LongestDelay {
    /// Adds the longest delay of another histogram that is not empty.
    pub fn add(&mut self, longest_ns: Option<u64>) {
        self.longest_ns = self.longest_ns.max(longest_ns.unwrap_or(0));
        self.is_unknown |= longest_ns.is_none();
    }

    /// The longest, ns.
    pub fn ns(self) -> Option<u64> {
        (!self.is_unknown && self.longest_ns > 0).then_some(self.longest_ns)
    }
}

/// A histogram and whose it is. Shared, because most do not change from one snapshot to the next.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "json", derive(serde::Deserialize, serde::Serialize, utoipa::ToSchema))]
pub struct Delays {
    /// The CPU, process or thread whose delays these are.
    pub of: DelayOf,
    /// Number of delays by length: cumulative in a snapshot, differences in an interval.
    pub histogram: Arc<DelayHistogram>,
}

impl DelayHistogram {
    /// Adds to a bucket.
    pub fn add(&mut self, bucket: u8, count: u64) {
        if count == 0 {
            return;
        }
        match self.buckets.binary_search_by_key(&bucket, |row| row.0) {
            Ok(at) => self.buckets[at].1 = self.buckets[at].1.saturating_add(count),
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Puts a count in the place of the bucket's.
    pub fn set(&mut self, bucket: u8, count: u64) {
        match self.buckets.binary_search_by_key(&bucket, |row| row.0) {
            Ok(at) if count == 0 => drop(self.buckets.remove(at)),
            Ok(at) => self.buckets[at].1 = count,
            Err(_) if count == 0 => {}
            Err(at) => self.buckets.insert(at, (bucket, count)),
        }
    }

    /// Buckets with their counts, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u8, u64)> + Clone + '_ {
        self.buckets.iter().copied()
    }

    /// The count of a bucket.
    pub fn count(&self, bucket: u8) -> u64 {
        let at = self.buckets.binary_search_by_key(&bucket, |row| row.0);
        at.map_or(0, |at| self.buckets[at].1)
    }

    /// Number of delays in all buckets together.
    pub fn total(&self) -> u64 {
        self.iter().fold(0, |sum, (_, count)| sum.saturating_add(count))
    }

    /// Whether no delay was counted.
    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// Empties it, keeping the memory.
    pub fn clear(&mut self) {
        self.buckets.clear();
    }

    /// What was added since `earlier`; a bucket that fell counts 0.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let grown = |(bucket, count): (u8, u64)| (bucket, count.saturating_sub(earlier.count(bucket)));
        Self { buckets: self.iter().map(grown).filter(|(_, count)| *count > 0).collect() }
    }

    /// Upper end of the bucket that holds the delay of this rank, ns: `percent` of the delays were no longer. A known `longest_ns` is
    /// exact and caps that end: no percentile is above the longest delay. `None` if nothing was counted.
    pub fn percentile_ns(&self, percent: u32, longest_ns: Option<u64>) -> Option<u64> {
        // In 128 bits: a sum of 64-bit counts times 100 overflows 64.
        let total: u128 = self.iter().map(|(_, count)| u128::from(count)).sum();
        // At least 1: the percentile 0 is the shortest delay, and rank 0 would lie before the first delay.
        let rank = (total * u128::from(percent.min(100))).div_ceil(100).max(1);
        let mut seen = 0;
        let reaches = |(_, count): &(u8, u64)| {
            seen += u128::from(*count);
            seen >= rank
        };
        let (bucket, _) = self.iter().find(reaches)?;
        let (low, high) = delay_range_ns(bucket).into_inner();
        // Never below the bucket: the delays of threads whose exits were lost are counted here, but are not in the longest.
        // The last bucket has no end, so the longest delay is the only bound there.
        let high = if bucket == u8::MAX && longest_ns.is_some() { u64::MAX } else { high };
        Some(longest_ns.map_or(high, |longest| longest.clamp(low, high)))
    }

    /// The least and the most that all delays can come to, ns.
    pub fn sum_ns(&self) -> RangeInclusive<u64> {
        let sum = |end: fn(&RangeInclusive<u64>) -> u64| {
            let parts = self.iter().map(|(bucket, count)| end(&delay_range_ns(bucket)).saturating_mul(count));
            parts.fold(0, u64::saturating_add)
        };
        sum(|range| *range.start())..=sum(|range| *range.end())
    }
}

impl std::ops::AddAssign<&DelayHistogram> for DelayHistogram {
    fn add_assign(&mut self, other: &DelayHistogram) {
        for (bucket, count) in other.iter() {
            self.add(bucket, count);
        }
    }
}

impl FromIterator<(u8, u64)> for DelayHistogram {
    fn from_iter<I: IntoIterator<Item = (u8, u64)>>(counts: I) -> Self {
        let mut histogram = Self::default();
        for (bucket, count) in counts {
            histogram.add(bucket, count);
        }
        histogram
    }
}

/// The histogram of one owner in an ascending list.
pub fn find_delays(list: &[Delays], of: DelayOf) -> Option<&DelayHistogram> {
    let at = list.binary_search_by_key(&of, |row| row.of).ok()?;
    list.get(at).map(|row| &*row.histogram)
}

/// A text that is no histogram.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a run-delay histogram: expected [[up to ns, count], …]")]
pub struct ParseDelaysError;

/// As text: `[[5119,3],[11263,1]]`, the upper end of each bucket in ns and its count. A list of lists can be taken apart by whatever
/// reads JSON, SQL's `json_each` too, and a reader who knows nothing of the layout finds lengths, not numbers of buckets.
impl fmt::Display for DelayHistogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (at, (bucket, count)) in self.iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            write!(f, "{comma}[{},{count}]", delay_range_ns(bucket).end())?;
        }
        f.write_str("]")
    }
}

impl FromStr for DelayHistogram {
    type Err = ParseDelaysError;

    fn from_str(text: &str) -> Result<Self, ParseDelaysError> {
        let list = text.trim().strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
        let list = list.ok_or(ParseDelaysError)?.trim();
        if list.is_empty() {
            return Ok(Self::default());
        }
        let list = list.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).ok_or(ParseDelaysError)?;
        let pair = |pair: &str| {
            let (ns, count) = pair.split_once(',')?;
            // An upper end lies in its own bucket, so each bucket comes back as it was.
            Some((delay_bucket(ns.trim().parse().ok()?), count.trim().parse().ok()?))
        };
        let pairs = list.split("],[").map(|text| pair(text).ok_or(ParseDelaysError));
        pairs.collect()
    }
}

#[cfg(test)]
mod tests {
    use histogram::{Histogram, SparseHistogram};
    use proptest::prelude::*;

    use super::*;

    fn theirs() -> Histogram {
        let powers = [GROUPING_POWER, MAX_VALUE_POWER].map(|power| u8::try_from(power).unwrap());
        Histogram::new(powers[0], powers[1]).unwrap()
    }

    #[test]
    fn the_layout_is_that_of_the_histogram_crate() {
        let mut one_each = theirs();
        assert_eq!(one_each.config().total_buckets(), DELAY_BUCKETS);
        assert_eq!(DELAY_BUCKETS - 1, usize::from(u8::MAX), "a bucket's number is one byte");
        for bucket in 0..=u8::MAX {
            let range = delay_range_ns(bucket);
            assert_eq!((delay_bucket(*range.start()), delay_bucket(*range.end())), (bucket, bucket));
            one_each.increment(*range.start()).unwrap();
        }
        let ranges: Vec<_> = SparseHistogram::from(&one_each).iter().map(|bucket| bucket.range()).collect();
        assert_eq!(ranges, (0..=u8::MAX).map(delay_range_ns).collect::<Vec<_>>());
        assert_eq!((delay_bucket(u64::MAX), delay_bucket(0)), (u8::MAX, 0));
    }

    #[test]
    fn no_delays_have_no_percentile() {
        let none = DelayHistogram::default();
        assert_eq!((none.percentile_ns(50, None), none.total()), (None, 0));
        let one: DelayHistogram = [(delay_bucket(50_000), 1)].into_iter().collect();
        let end_ns = Some(*delay_range_ns(delay_bucket(50_000)).end());
        assert_eq!((one.percentile_ns(1, None), one.percentile_ns(100, None)), (end_ns, end_ns));
        assert!(one.sum_ns().contains(&50_000));
    }

    #[test]
    fn one_part_without_its_longest_delay_leaves_the_sum_uncapped() {
        let mut longest = LongestDelay::default();
        longest.add(Some(5));
        assert_eq!(longest.ns(), Some(5));
        longest.add(None);
        assert_eq!(longest.ns(), None);
        let beyond: DelayHistogram = [(delay_bucket(45_000_000_000), 1)].into_iter().collect();
        assert_eq!(
            beyond.percentile_ns(100, Some(45_000_000_000)),
            Some(45_000_000_000),
            "beyond the last bucket's end"
        );
    }

    fn any_histogram() -> impl Strategy<Value = DelayHistogram> {
        prop::collection::vec((any::<u8>(), 1_u64..1000), 0..30)
            .prop_map(|counts| counts.into_iter().collect())
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_histogram_crate(delays in prop::collection::vec(0_u64..1 << 34, 1..200)) {
            let mut reference = theirs();
            let mut ours = DelayHistogram::default();
            for &ns in &delays {
                reference.increment(ns).unwrap();
                ours.add(delay_bucket(ns), 1);
            }
            for percent in [0_u32, 50, 90, 99, 100] {
                let bucket = reference.quantile_bucket(f64::from(percent) / 100.0).unwrap().unwrap();
                prop_assert_eq!(ours.percentile_ns(percent, None), Some(bucket.end()), "p{}", percent);
            }
            let longest = *delays.iter().max().unwrap();
            let capped = [50, 90, 99, 100].map(|percent| ours.percentile_ns(percent, Some(longest)).unwrap());
            prop_assert!(capped.is_sorted() && capped[3] == longest, "{capped:?} of at most {longest}");
            prop_assert!(ours.sum_ns().contains(&delays.iter().sum::<u64>()));
        }

        /// However intervals are cut and merged again, nothing is lost and nothing counted twice.
        #[test]
        fn differences_add_up(earlier in any_histogram(), grown in any_histogram()) {
            let mut now = earlier.clone();
            now += &grown;
            prop_assert_eq!(&now.since(&earlier), &grown);
            prop_assert!(earlier.since(&now).is_empty());
            prop_assert_eq!(now.total(), earlier.total() + grown.total());
            let mut again = DelayHistogram::default();
            now.iter().for_each(|(bucket, count)| again.set(bucket, count));
            prop_assert_eq!(again, now);
        }
    }

    #[test]
    fn a_text_gives_lengths() {
        let histogram: DelayHistogram =
            [(delay_bucket(5_000), 3), (delay_bucket(11_000), 1)].into_iter().collect();
        assert_eq!(histogram.to_string(), "[[5119,3],[11263,1]]");
        assert_eq!(DelayHistogram::default().to_string(), "[]");
        for wrong in
            ["", "[", "5119,3", "[5119,3]", "[[5119]]", "[[5119,3],]", "[[-1,3]]", "[[5119,3],[1,x]]"]
        {
            assert_eq!(wrong.parse::<DelayHistogram>(), Err(ParseDelaysError), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn it_comes_back(counts in prop::collection::btree_map(any::<u8>(), 1..u64::MAX, 0..40)) {
            let histogram: DelayHistogram = counts.into_iter().collect();
            prop_assert_eq!(histogram.to_string().parse(), Ok(histogram));
        }

        #[test]
        fn no_text_panics(text in "[\\[\\],0-9 x-]{0,40}") {
            let _ = text.parse::<DelayHistogram>();
        }
    }
}
