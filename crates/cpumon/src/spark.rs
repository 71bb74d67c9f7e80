//! A small line of blocks for values over time.

const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// The same in a locale without UTF-8.
const ASCII_BLOCKS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];

/// A block for each value, the highest one for the largest of them; a space where there is none.
pub(crate) fn spark(values: &[Option<f64>], is_ascii: bool) -> String {
    let highest = values.iter().flatten().copied().fold(0.0, f64::max);
    spark_of(values, highest, is_ascii)
}

/// Likewise, with the highest block for this value.
pub(crate) fn spark_of(values: &[Option<f64>], highest: f64, is_ascii: bool) -> String {
    let blocks = if is_ascii { ASCII_BLOCKS } else { BLOCKS };
    let block = |value: f64| {
        let share = if highest > 0.0 { value / highest } else { 0.0 };
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 7")]
        let at = (share * 7.0).ceil() as usize;
        blocks[at.min(7)]
    };
    values.iter().map(|value| value.map_or(' ', block)).collect()
}
