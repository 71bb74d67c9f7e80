//! Sizes as people write them. In: `10GB`. Out: bytes, or an error with an example.

/// Bytes in each unit, longest names first.
const SIZES: [(&str, u64); 13] = [
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1_000),
    ("m", 1_000_000),
    ("g", 1_000_000_000),
    ("t", 1_000_000_000_000),
    ("b", 1),
];

/// Reads a size: `500`, `10GB` (10^9), `1.5GiB` (2^30). At most 2^63 bytes.
pub fn size(text: &str) -> Result<u64, String> {
    let lower = text.trim().to_ascii_lowercase();
    let wrong = || format!("{text:?} is not a size; write 500MB, 10GB or 1.5GiB");
    let (number, unit) = SIZES
        .iter()
        .find_map(|(name, bytes)| lower.strip_suffix(name).map(|number| (number.trim(), *bytes)))
        .unwrap_or((&lower, 1));
    if number.is_empty() || !number.bytes().all(|b| b.is_ascii_digit() || b == b'.') {
        return Err(wrong());
    }
    if let Ok(whole) = number.parse::<u64>() {
        let bytes = whole.checked_mul(unit).filter(|bytes| i64::try_from(*bytes).is_ok());
        return bytes.ok_or_else(|| format!("{text:?} is more than any disk holds"));
    }
    let part: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = part * unit as f64;
    if bytes >= i64::MAX as f64 {
        return Err(format!("{text:?} is more than any disk holds"));
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked: 0 ≤ bytes < 2^63")]
    Ok(bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_in_both_systems() {
        for (text, bytes) in [
            ("0", 0),
            ("500", 500),
            ("500B", 500),
            ("10GB", 10_000_000_000),
            ("10g", 10_000_000_000),
            ("1.5 GiB", 1_610_612_736),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text}");
        }
        for text in
            ["", "GB", "8 EB", "-1GB", "1e9", "ten", "1.2.3MB", "9999999999999TB", "99999999999999.5TB"]
        {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
