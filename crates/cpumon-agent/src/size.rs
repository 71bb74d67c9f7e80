//! Sizes as people write them: `500`, `10GB`, `1.5GiB`.

/// Parses a size in bytes: `500`, `10GB` (10^9), `1.5GiB` (2^30). At most 2^63 bytes.
///
/// # Errors
/// The text is not a size, or is larger than any disk.
pub fn size(text: &str) -> Result<u64, String> {
    match parse_size::parse_size(text) {
        // Sizes are compared with signed columns of the store.
        Ok(bytes) if i64::try_from(bytes).is_ok() => Ok(bytes),
        Ok(_) | Err(parse_size::Error::PosOverflow) => Err(format!("{text:?} is more than any disk holds")),
        Err(_) => Err(format!("{text:?} is not a size; write 500MB, 10GB or 1.5GiB")),
    }
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
        for text in ["", "GB", "16 EB", "-1GB", "ten", "1.2.3MB", "9999999999999TB", "99999999999999.5TB"] {
            assert!(size(text).is_err(), "{text}");
        }
    }
}
