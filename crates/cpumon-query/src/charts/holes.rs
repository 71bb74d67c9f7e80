//! Holes with reasons: recorded gaps, and points without data that no gap explains. Nothing is blank without
//! a reason.

use cpumon_store::Gap;

use super::chart::Hole;
use crate::history::BucketTimes;
use crate::time::{Available, to_ms};

/// Known holes, and points without data that none of them explains. `available`: what there is of the host.
pub(super) fn holes(times: &BucketTimes, gaps: &[Gap], available: Option<Available>) -> Vec<Hole> {
    let width_ms = times.width_ns as f64 / 1e6;
    let known = gaps.iter().map(|gap| Hole {
        begin_ms: to_ms(gap.begin_wall_ns),
        end_ms: to_ms(gap.end_wall_ns),
        reason: gap.reason.clone(),
    });
    let mut holes: Vec<Hole> = known.collect();
    // Only these are known reasons; holes added below must not explain the points after them.
    let gap_count = holes.len();
    let mut is_open = false;
    for (begin_ns, covered_ns) in times.begins_ns().zip(&times.covered_ns) {
        let begin_ms = to_ms(begin_ns);
        let end_ms = begin_ms + width_ms;
        let is_known = holes[..gap_count].iter().any(|gap| gap.begin_ms < end_ms && gap.end_ms > begin_ms);
        if *covered_ns > 0 || is_known {
            is_open = false;
            continue;
        }
        let reason = match available {
            // Data seldom begin or end exactly at a point's border, so one width is allowed.
            Some(known) if end_ms <= to_ms(known.first_ns) + width_ms => "before the first data",
            Some(known) if begin_ms >= to_ms(known.last_ns) - width_ms => "after the last data",
            _ => "no data",
        };
        match holes.last_mut().filter(|hole| is_open && hole.reason == reason) {
            Some(hole) => hole.end_ms = end_ms,
            None => holes.push(Hole { begin_ms, end_ms, reason: reason.to_owned() }),
        }
        is_open = true;
    }
    holes.sort_by(|a, b| a.begin_ms.total_cmp(&b.begin_ms));
    holes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_point_without_data_has_a_reason() {
        let times = BucketTimes {
            resolution: None,
            begin_ns: 0,
            width_ns: 1_000_000,
            covered_ns: vec![0, 0, 5, 0, 0, 5, 0, 0],
        };
        let gap = Gap {
            begin_wall_ns: 3_000_000,
            end_wall_ns: 4_000_000,
            intervals: 1,
            reason: "restart".into(),
            wall_shift_ns: 0,
        };
        let found = holes(&times, &[gap], Some(Available { first_ns: 2_000_000, last_ns: 6_000_000 }));
        let found: Vec<_> = found.iter().map(|hole| (hole.begin_ms, hole.end_ms, &*hole.reason)).collect();
        let expected = [
            (0.0, 2.0, "before the first data"),
            (3.0, 4.0, "restart"),
            (4.0, 5.0, "no data"),
            (6.0, 8.0, "after the last data"),
        ];
        assert_eq!(found, expected);
    }
}
