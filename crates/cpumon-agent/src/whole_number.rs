//! Whole numbers within limits, as flags take them.

use std::ops::RangeInclusive;

/// From here on, a limit is that of a type rather than of what a flag means: it is named only for numbers that exceed it.
const TYPE_LIMIT: u64 = u32::MAX as u64;

/// Parses whole numbers in `range`.
///
/// # Errors
/// The text is no number, or one outside of `range`.
pub fn whole_number<T>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static
where
    T: TryFrom<u64> + 'static,
{
    move |text| {
        let number = text.trim().parse::<u128>().ok();
        let (least, most) = (*range.start(), *range.end());
        let fits =
            number.and_then(|number| u64::try_from(number).ok()).filter(|number| range.contains(number));
        fits.and_then(|number| T::try_from(number).ok()).ok_or_else(|| {
            let is_over = number.is_some_and(|number| number > u128::from(most));
            let end = if is_over || most < TYPE_LIMIT { format!("to {most}") } else { "up".to_owned() };
            format!("{text:?} is not a whole number from {least} {end}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_outside_is_refused_with_the_limits() {
        let count = whole_number::<u32>(1..=u64::from(u32::MAX));
        assert_eq!((count("1"), count(" 20 "), count("4294967295")), (Ok(1), Ok(20), Ok(u32::MAX)));
        for text in ["0", "-1", "1.5", "x", ""] {
            assert_eq!(count(text), Err(format!("{text:?} is not a whole number from 1 up")));
        }
        for text in ["4294967296", "99999999999999999999999"] {
            assert_eq!(count(text), Err(format!("{text:?} is not a whole number from 1 to 4294967295")));
        }
        let hops = whole_number::<u8>(1..=255);
        assert_eq!(
            (hops("255"), hops("0").unwrap_err()),
            (Ok(255), "\"0\" is not a whole number from 1 to 255".into())
        );
    }
}
