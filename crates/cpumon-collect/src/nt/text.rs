//! Texts of Windows: UTF-16 in little-endian bytes, bounded, which other programs wrote.

use cpumon_model::Comm;

use super::{part, u64_at};

fn characters(bytes: &[u8]) -> impl Iterator<Item = char> {
    let units = bytes.as_chunks::<2>().0.iter().map(|two| u16::from_le_bytes(*two));
    char::decode_utf16(units).map(|one| one.unwrap_or(char::REPLACEMENT_CHARACTER))
}

/// The text; what is no UTF-16 becomes U+FFFD.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    characters(bytes).collect()
}

/// Appends the text to `into`.
pub(super) fn push_text(bytes: &[u8], into: &mut String) {
    into.extend(characters(bytes));
}

/// The beginning of the text that fits a thread's name, in whole characters.
#[must_use]
pub fn name_of_thread(bytes: &[u8]) -> Comm {
    let (mut name, mut length) = ([0; Comm::MAX_BYTES], 0);
    for character in characters(bytes) {
        let Some(space) = name.get_mut(length..length + character.len_utf8()) else { break };
        length += character.encode_utf8(space).len();
    }
    Comm::new(&name[..length])
}

/// The text of a `UNICODE_STRING` at the start of `bytes`, which the system wrote at `address`. `None`: the text is not inside them.
#[must_use]
pub fn counted_text(bytes: &[u8], address: u64) -> Option<&[u8]> {
    let length = usize::from(u16::from_le_bytes(part(bytes, 0)?));
    if length == 0 {
        return Some(&[]);
    }
    let from = usize::try_from(u64_at(bytes, 8)?.checked_sub(address)?).ok()?;
    bytes.get(from..from.checked_add(length)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf16(text: &str) -> Vec<u8> {
        text.encode_utf16().flat_map(u16::to_le_bytes).collect()
    }

    #[test]
    fn a_threads_name_is_cut_between_characters() {
        for (whole, cut) in [
            ("", ""),
            ("größe", "größe"),
            ("漢字漢字漢字", "漢字漢字漢"),
            ("ThreadPoolForegroundWorker", "ThreadPoolForeg"),
            ("0123456789abcd\u{1f600}", "0123456789abcd"),
        ] {
            assert_eq!(name_of_thread(&utf16(whole)).to_str_lossy(), cut);
        }
        assert_eq!(name_of_thread(&[0x00, 0xd8, b'a', 0]).to_str_lossy(), "\u{fffd}a", "half of a character");
    }

    #[test]
    fn a_text_elsewhere_is_refused() {
        const ADDRESS: u64 = 0x1000;
        let made = |length: u16, at: u64| {
            let mut bytes = vec![0; 8];
            bytes[..2].copy_from_slice(&length.to_le_bytes());
            bytes.extend_from_slice(&at.to_le_bytes());
            bytes.extend(utf16("abc"));
            bytes
        };
        let whole = made(6, ADDRESS + 16);
        assert_eq!(counted_text(&whole, ADDRESS).map(text).as_deref(), Some("abc"));
        assert_eq!(counted_text(&made(0, 0), ADDRESS), Some(&[][..]), "without a name there is no address");
        for (length, at) in [(8, ADDRESS + 16), (6, ADDRESS + 18), (6, 0), (6, u64::MAX), (u16::MAX, ADDRESS)]
        {
            assert_eq!(counted_text(&made(length, at), ADDRESS), None, "{length} at {at:#x}");
        }
        assert_eq!(counted_text(&whole[..15], ADDRESS), None);
    }
}
