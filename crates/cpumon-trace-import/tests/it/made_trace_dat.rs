//! Makes a `trace.dat`: pages of records, in version 6 or 7.

use crate::made_tracepoints::{events, intro, page_layouts, systems};

pub const PAGE_BYTES: usize = 4096;
const PAGE: &str = "\tfield: u64 timestamp;\toffset:0;\tsize:8;\tsigned:0;\n\
    \tfield: local_t commit;\toffset:8;\tsize:8;\tsigned:1;\n\
    \tfield: char data;\toffset:16;\tsize:4080;\tsigned:0;\n";
/// Pages that are compressed together.
const CHUNK_PAGES: usize = 3;

/// Records of one CPU as pages.
pub fn pages(records: &[(u64, Vec<u8>)]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = records;
    while !rest.is_empty() {
        let count = rest.iter().scan(16, |bytes, (_, raw)| {
            *bytes += raw.len() + 16;
            (*bytes < PAGE_BYTES).then_some(())
        });
        let (now, later) = rest.split_at(count.count());
        out.extend(page(now, None));
        rest = later;
    }
    out
}

/// A page, with the number of records lost in front.
pub fn page(records: &[(u64, Vec<u8>)], missed: Option<u64>) -> Vec<u8> {
    let (mut at, mut data) = (records.first().map_or(0, |record| record.0), Vec::new());
    let mut page = at.to_le_bytes().to_vec();
    for (time, raw) in records {
        let passed = time - at;
        at = *time;
        let delta = u32::try_from(passed & ((1 << 27) - 1)).unwrap();
        if passed >> 27 > 0 {
            data.extend((0x1e | delta << 5).to_le_bytes());
            data.extend(u32::try_from(passed >> 27).unwrap().to_le_bytes());
        }
        let delta = if passed >> 27 > 0 { 0 } else { delta };
        let words = u32::try_from(raw.len().div_ceil(4)).unwrap();
        if words <= 28 && raw.len() % 4 == 0 {
            data.extend((words | delta << 5).to_le_bytes());
        } else {
            data.extend((delta << 5).to_le_bytes());
            data.extend((u32::try_from(raw.len()).unwrap() + 4).to_le_bytes());
        }
        data.extend(raw);
        data.resize(data.len().next_multiple_of(4), 0);
    }
    let flags = missed.map_or(0, |_| 0b11 << 30);
    page.extend((data.len() as u64 | flags).to_le_bytes());
    page.extend(data);
    page.extend(missed.unwrap_or(0).to_le_bytes());
    page.resize(PAGE_BYTES, 0);
    page
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    [(bytes.len() as u64).to_le_bytes().to_vec(), bytes.to_vec()].concat()
}

fn option(id: u16, data: &[u8]) -> Vec<u8> {
    let length = u32::try_from(data.len()).unwrap();
    [id.to_le_bytes().to_vec(), length.to_le_bytes().to_vec(), data.to_vec()].concat()
}

const NAMES: &[u8] = b"200 shell\n12 kworker/0:1\n";

/// Each buffer: the pages of each CPU.
pub type Buffers<'b> = &'b [Vec<Vec<u8>>];

/// Version 6. Its second and further buffers are those of instances.
pub fn version_6(buffers: Buffers<'_>, clock: &str) -> Vec<u8> {
    version_6_named(NAMES, buffers, clock)
}

/// Version 6 with these lines of thread ids and names.
pub fn version_6_named(names: &[u8], buffers: Buffers<'_>, clock: &str) -> Vec<u8> {
    let mut out = intro("6");
    out.extend(page_layouts(PAGE));
    out.extend(systems());
    out.extend([0; 8]);
    out.extend(sized(names));
    let cpus = buffers[0].len();
    out.extend(u32::try_from(cpus).unwrap().to_le_bytes());
    out.extend(b"options  \0");
    out.extend(option(4, clock.as_bytes()));
    out.extend(option(5, b"Linux device1 6.18.0 x86_64\0"));
    // Places are behind the options, data behind the places.
    let place_bytes = 10 + 16 * cpus;
    let begin = out.len() + (buffers.len() - 1) * (6 + 9) + 2;
    for number in 1..buffers.len() {
        let at = (begin + number * place_bytes) as u64;
        out.extend(option(3, &[&at.to_le_bytes()[..], b"\0"].concat()));
    }
    out.extend([0; 2]);
    assert_eq!(out.len(), begin);
    let mut at = begin + buffers.len() * place_bytes;
    for buffer in buffers {
        out.extend(b"flyrecord\0");
        for pages in buffer {
            out.extend((at as u64).to_le_bytes());
            out.extend((pages.len() as u64).to_le_bytes());
            at += pages.len();
        }
    }
    out.extend(buffers.concat().concat());
    out
}

fn chunks(pages: &[u8]) -> Vec<u8> {
    let chunks = pages.chunks(CHUNK_PAGES * PAGE_BYTES);
    let mut out = u32::try_from(chunks.len()).unwrap().to_le_bytes().to_vec();
    for chunk in chunks {
        out.extend(packed(chunk));
    }
    out
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let packed = zstd::bulk::compress(bytes, 1).unwrap();
    let sizes = [packed.len(), bytes.len()].map(|size| u32::try_from(size).unwrap().to_le_bytes());
    [sizes.concat(), packed].concat()
}

fn section(id: u16, is_packed: bool, content: &[u8]) -> Vec<u8> {
    let content = if is_packed { packed(content) } else { content.to_vec() };
    let mut out = [id.to_le_bytes(), u16::from(is_packed).to_le_bytes(), [0; 2], [0; 2]].concat();
    out.extend((content.len() as u64).to_le_bytes());
    out.extend(content);
    out
}

/// Version 7, with zstd or not. More options are behind those of the sections.
pub fn version_7(buffers: Buffers<'_>, clock: &str, is_packed: bool, more: &[u8]) -> Vec<u8> {
    version_7_named(NAMES, buffers, clock, is_packed, more)
}

/// Version 7 with these lines of thread ids and names.
pub fn version_7_named(
    names: &[u8],
    buffers: Buffers<'_>,
    clock: &str,
    is_packed: bool,
    more: &[u8],
) -> Vec<u8> {
    let mut out = intro("7");
    out.extend(if is_packed { &b"zstd\x001.5\0"[..] } else { b"none\0\0" });
    let options_at = out.len();
    out.extend([0; 8]);
    let mut options = option(5, b"Linux device1 6.18.0 x86_64\0");
    options.extend(more);
    for (id, content) in [(16, page_layouts(PAGE)), (18, events()), (21, sized(names))] {
        options.extend(option(id, &(out.len() as u64).to_le_bytes()));
        out.extend(section(id, is_packed, &content));
    }
    for buffer in buffers {
        let mut option_data = (out.len() as u64).to_le_bytes().to_vec();
        option_data.extend([b"\0", clock.as_bytes(), b"\0"].concat());
        option_data.extend(u32::try_from(PAGE_BYTES).unwrap().to_le_bytes());
        option_data.extend(u32::try_from(buffer.len()).unwrap().to_le_bytes());
        // Its data are not packed as a section is.
        let mut head = section(3, false, &[]);
        head[2] = is_packed.into();
        out.extend(head);
        for (cpu, pages) in buffer.iter().enumerate() {
            let data = if is_packed && !pages.is_empty() { chunks(pages) } else { pages.clone() };
            option_data.extend(u32::try_from(cpu).unwrap().to_le_bytes());
            option_data.extend((out.len() as u64).to_le_bytes());
            option_data.extend((data.len() as u64).to_le_bytes());
            out.extend(data);
        }
        options.extend(option(3, &option_data));
    }
    // Two sections: the first says where the second is.
    let first_at = out.len() as u64;
    let second_at = first_at + 16 + 14;
    out[options_at..options_at + 8].copy_from_slice(&first_at.to_le_bytes());
    out.extend(section(0, false, &option(0, &second_at.to_le_bytes())));
    options.extend(option(0, &0_u64.to_le_bytes()));
    out.extend(section(0, is_packed, &options));
    out
}

/// The option that says how to make ns of the counts of a clock.
pub fn tsc(factor: u32, shift: u32) -> Vec<u8> {
    option(14, &[factor.to_le_bytes(), shift.to_le_bytes(), [0; 4], [0; 4]].concat())
}
