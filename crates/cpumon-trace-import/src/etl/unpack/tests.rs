//! The examples of [MS-XCA], and damaged input.

use super::{Codes, LZNT1, XPRESS, XPRESS_HUFFMAN, unpack};

const ALPHABET: &[u8] = b"abcdefghijklmnopqrstuvwxyz";
const SONG: &[u8] = b"F# F# G A A G F# E D D E F# F# E E F# F# G A A G F# E D D E F# E D D E E F# D E F# G F# D E F# G F# E D E A F# F# G A A G F# E D D E F# E D D\0";

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

/// The lengths of the codes of these symbols, two symbols a byte.
fn table(lengths: &[(usize, u8)]) -> Vec<u8> {
    let mut table = vec![0; 256];
    for (symbol, length) in lengths {
        table[symbol / 2] |= length << (4 * (symbol % 2));
    }
    table
}

/// Packed bytes with what they are.
fn examples() -> Vec<(u16, Vec<u8>, Vec<u8>)> {
    let song = "38b08846232000204720410010a24701a045204400084501507900c04520052413 8805b4024a44ef0358028c091601484500be009e00040118 9000";
    let abc = b"abc".repeat(100);
    let letters: Vec<_> = (97..123).map(|symbol| (symbol, if symbol < 119 { 5 } else { 4 })).collect();
    let letters = [&letters[..], &[(256, 4)]].concat();
    let mut packed_letters = table(&letters);
    packed_letters.extend(bytes("d8523ed794115be9195ff9d67cdf8d0400000000"));
    let mut packed_abc = table(&[(97, 3), (98, 3), (99, 2), (256, 2), (287, 2)]);
    packed_abc.extend(bytes("a8dc0000ff2601"));
    vec![
        (LZNT1, bytes(song), SONG.to_vec()),
        (XPRESS, [&bytes("3f000000")[..], ALPHABET].concat(), ALPHABET.to_vec()),
        (XPRESS, bytes("ffffff1f61626317000fff2601"), abc.clone()),
        (XPRESS_HUFFMAN, packed_letters, ALPHABET.to_vec()),
        (XPRESS_HUFFMAN, packed_abc, abc),
    ]
}

#[test]
fn the_examples_of_the_specification() {
    for (packing, packed, plain) in examples() {
        let mut out = Vec::new();
        assert!(
            unpack(packing, &packed, plain.len(), &mut out),
            "{packing} {:?}",
            out.escape_ascii().to_string()
        );
        assert!(out == plain, "{packing}: {}", out.escape_ascii());
        assert!(unpack(packing, &packed, 10, &mut out), "{packing}");
        assert_eq!(out, plain[..10], "no more than is wanted");
    }
}

#[test]
fn chunks_follow_each_other() {
    // A packed one of 4,096 equal bytes, a plain one of two, which is filled with zeros, and a packed one of three bytes.
    let mut packed = bytes("03b0 02 61 fc0f 0130 6262 03b0 00 636465 0000");
    let mut out = Vec::new();
    assert!(unpack(LZNT1, &packed, 8195, &mut out));
    let expected = [&[b'a'; 4096][..], b"bb", &[0; 4094], b"cde"].concat();
    assert!(out == expected);
    assert!(!unpack(LZNT1, &packed, 8196, &mut out), "the end comes before");
    // One byte more than a chunk has.
    packed[5] = 0xfd;
    assert!(!unpack(LZNT1, &packed, 8195, &mut out));
}

#[test]
fn a_block_of_codes_has_a_table_of_its_own() {
    // Two symbols: a, and a match of the last byte with a long length.
    let block = |length: u16| {
        let mut packed = table(&[(97, 1), (271, 1)]);
        // a, then the match: 0, 1.
        packed.extend(bytes("0040 0000 ff"));
        packed.extend(length.to_le_bytes());
        packed
    };
    let mut out = Vec::new();
    // 65,535 and one more are a block.
    let packed = [block(65_532), block(97)].concat();
    assert!(unpack(XPRESS_HUFFMAN, &packed, 65_536 + 101, &mut out));
    assert!(out == vec![b'a'; 65_536 + 101]);
}

#[test]
fn damaged_input_is_found_and_makes_no_more_than_the_limit() {
    let mut out = Vec::new();
    for (packing, packed, plain) in examples() {
        for length in 0..packed.len() {
            // The last bytes may say nothing that is wanted.
            let is_sound = unpack(packing, &packed[..length], plain.len(), &mut out);
            assert!(!is_sound || out == plain, "{packing} {length}");
            assert!(out.len() <= plain.len());
            let mut damaged = packed.clone();
            for bit in 0..8 {
                damaged[length] ^= 1 << bit;
                unpack(packing, &damaged, 4000, &mut out);
                assert!(out.len() <= 4000, "{packing} {length} {bit}");
            }
        }
    }
    assert!(!unpack(XPRESS, &bytes("ffffffff 0000"), 9, &mut out), "a match in front of the begin");
    assert!(!unpack(XPRESS_HUFFMAN, &[0x11; 300], 9, &mut out), "too many codes");
    assert!(!unpack(XPRESS_HUFFMAN, &[0; 300], 9, &mut out), "no codes");
    assert!(!unpack(5, ALPHABET, 9, &mut out), "no such algorithm");
    // A length of 4 GB stays within the limit.
    assert!(unpack(XPRESS, &bytes("00000040 61 0700 0f ff 0000 ffffffff"), 5000, &mut out));
    assert_eq!(out.len(), 5000);
}

/// Lengths of 1 made 8 million entries of each buffer of 328 bytes.
#[test]
fn too_many_codes_make_no_more_entries_than_a_table_has() {
    for length in 1..=15_u8 {
        let mut codes = Codes { by_bits: Vec::new() };
        assert!(codes.read(&[length << 4 | length; 256]).is_none() || length == 9, "{length}");
        assert!(codes.by_bits.capacity() <= 2 << 15, "{length}: {}", codes.by_bits.capacity());
    }
}
