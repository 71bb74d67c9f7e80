//! Makes a trace of Perfetto field by field.

use cpumon_model::varint::push as push_varint;

/// A number in seven bits a byte.
pub fn varint(value: u64) -> Vec<u8> {
    let mut out = Vec::new();
    push_varint(&mut out, value);
    out
}

pub fn number(field: u64, value: u64) -> Vec<u8> {
    [varint(field << 3), varint(value)].concat()
}

pub fn bytes(field: u64, bytes: &[u8]) -> Vec<u8> {
    [varint(field << 3 | 2), varint(bytes.len() as u64), bytes.to_vec()].concat()
}

pub fn packet(fields: &[u8]) -> Vec<u8> {
    bytes(1, fields)
}

/// Packets that are compressed together.
pub fn compressed(packets: &[u8]) -> Vec<u8> {
    use std::io::Write;
    let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(packets).unwrap();
    packet(&bytes(50, &encoder.finish().unwrap()))
}

/// The clock of events and the time of day.
pub fn clocks(boot_ns: u64, wall_ns: u64) -> Vec<u8> {
    let clock = |id, ns| bytes(1, &[number(1, id), number(2, ns)].concat());
    packet(&bytes(6, &[clock(6, boot_ns), clock(1, wall_ns)].concat()))
}

pub fn release(text: &str) -> Vec<u8> {
    packet(&bytes(45, &bytes(1, &bytes(3, text.as_bytes()))))
}

/// The bundle of a CPU: events, or the columns of events.
pub fn bundle(cpu: u64, has_lost: bool, content: &[u8]) -> Vec<u8> {
    packet(&bytes(1, &[content, &number(1, cpu), &number(3, has_lost.into())].concat()))
}

/// An event, with the thread that was there.
pub fn event(at_ns: u64, current: u64, kind: u64, fields: &[u8]) -> Vec<u8> {
    bytes(2, &[number(1, at_ns), number(2, current), bytes(kind, fields)].concat())
}

pub fn switch(at_ns: u64, prev: (u64, &str), state: u64, next: (u64, &str)) -> Vec<u8> {
    let prev_fields = [bytes(1, prev.1.as_bytes()), number(2, prev.0), number(4, state)].concat();
    let next_fields = [bytes(5, next.1.as_bytes()), number(6, next.0), number(7, 120)].concat();
    event(at_ns, prev.0, 4, &[prev_fields, next_fields].concat())
}

/// 17 wakeup, 20 waking, 114 the first one.
pub fn waking(at_ns: u64, kind: u64, waker: u64, task: (u64, &str), cpu: u64) -> Vec<u8> {
    event(at_ns, waker, kind, &[bytes(1, task.1.as_bytes()), number(2, task.0), number(5, cpu)].concat())
}

pub fn new_task(at_ns: u64, parent: u64, task: (u64, &str), flags: u64) -> Vec<u8> {
    event(at_ns, parent, 235, &[number(1, task.0), bytes(2, task.1.as_bytes()), number(3, flags)].concat())
}

/// A row of columns: time, thread, place of its name, and the state or the CPU.
pub type Row = [u64; 4];

/// `CompactSched` with these names.
pub fn compact(names: &[&str], switches: &[Row], wakings: &[Row]) -> Vec<u8> {
    let mut out: Vec<u8> = names.iter().flat_map(|name| bytes(5, name.as_bytes())).collect();
    for (rows, fields) in [(switches, [1, 3, 6, 2]), (wakings, [7, 8, 11, 9])] {
        let mut columns: [Vec<u8>; 4] = Default::default();
        let mut before = 0;
        for row in rows {
            let passed = [row[0].wrapping_sub(before), row[1], row[2], row[3]];
            before = row[0];
            for (column, value) in columns.iter_mut().zip(passed) {
                column.extend(varint(value));
            }
        }
        out.extend(columns.iter().zip(fields).flat_map(|(column, field)| bytes(field, column)));
    }
    bytes(4, &out)
}

/// Processes (id, parent, command) and threads (id, process, name).
pub fn processes(at_ns: u64, processes: &[(u64, u64, &str)], threads: &[(u64, u64, &str)]) -> Vec<u8> {
    let mut tree = Vec::new();
    for (pid, parent, command) in processes {
        tree.extend(bytes(1, &[number(1, *pid), number(2, *parent), bytes(3, command.as_bytes())].concat()));
    }
    for (tid, pid, name) in threads {
        tree.extend(bytes(2, &[number(1, *tid), bytes(2, name.as_bytes()), number(3, *pid)].concat()));
    }
    packet(&[number(8, at_ns), bytes(2, &tree)].concat())
}
