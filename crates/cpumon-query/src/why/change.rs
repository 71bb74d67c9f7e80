//! [`slow_from`]: when something became slow, from the shares of time that it waited in parts of a range.

/// By how much the share of waiting grows at least.
const MIN_STEP: f64 = 0.15;
/// And at least to this multiple.
const MIN_FACTOR: f64 = 1.5;
/// Share of the scatter that a step must explain.
const MIN_EXPLAINED: f64 = 0.5;
/// Parts on each side at least.
const MIN_PARTS: usize = 2;

/// The part from which on the share is higher than before, where one step explains most of how the shares differ; `None`: no such step.
/// Parts without a share were not measured.
pub(super) fn slow_from(shares: &[Option<f64>]) -> Option<usize> {
    let known: Vec<(usize, f64)> =
        shares.iter().enumerate().filter_map(|(at, share)| share.map(|share| (at, share))).collect();
    let values: Vec<f64> = known.iter().map(|(_, share)| *share).collect();
    let split = |at: usize| {
        let (before, after) = values.split_at(at);
        (at, scatter(before) + scatter(after))
    };
    let ends = MIN_PARTS..=values.len().saturating_sub(MIN_PARTS);
    let (at, left) = ends.map(split).min_by(|one, other| one.1.total_cmp(&other.1))?;
    let (before, after) = values.split_at(at);
    let (from, to) = (mean(before), mean(after));
    let is_step = to - from >= MIN_STEP && to >= from * MIN_FACTOR;
    let is_explained = left <= scatter(&values) * (1.0 - MIN_EXPLAINED);
    known.get(at).filter(|_| is_step && is_explained).map(|(part, _)| *part)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// Sum of the squared distances from the mean.
fn scatter(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_up_is_found_where_it_is_and_noise_is_none() {
        let step = [0.05, 0.1, 0.02, 0.9, 0.85, 0.88].map(Some);
        assert_eq!(slow_from(&step), Some(3));
        let with_hole = [Some(0.05), None, Some(0.1), Some(0.9), None, Some(0.8)];
        assert_eq!(slow_from(&with_hole), Some(3));
        assert_eq!(slow_from(&[0.9, 0.8, 0.85, 0.1, 0.05, 0.02].map(Some)), None, "it became fast");
        assert_eq!(slow_from(&[0.5; 8].map(Some)), None);
        assert_eq!(slow_from(&[0.1, 0.5, 0.1, 0.5, 0.1, 0.5].map(Some)), None);
        assert_eq!(slow_from(&[Some(0.1), Some(0.9)]), None, "too few");
        assert_eq!(slow_from(&[]), None);
    }
}
