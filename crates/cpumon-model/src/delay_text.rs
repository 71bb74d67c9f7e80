//! A [`DelayHistogram`] as text, and back: `[[5119,3],[11263,1]]`, the upper end of each bucket in ns and its
//! count. A list of lists can be taken apart by whatever reads JSON, SQL's `json_each` too, and a reader who
//! knows nothing of the layout finds lengths, not numbers of buckets.

use std::fmt;
use std::str::FromStr;

use crate::{DelayHistogram, delay_bucket, delay_range_ns};

/// A text that is no histogram.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a run-delay histogram: expected [[up to ns, count], …]")]
pub struct ParseDelaysError;

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
    use proptest::prelude::*;

    use super::*;

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
