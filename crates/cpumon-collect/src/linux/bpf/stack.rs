//! How much stack the programs take. The verifier adds up the frames of each chain of calls and refuses more than 512 bytes. Kernels
//! before 6.8 round each frame up to 32 bytes, newer ones to 16, so that an object that loads here may not load there: this reads it
//! from the object itself.

use std::collections::{BTreeMap, BTreeSet};

/// As the kernel has it (`MAX_BPF_STACK`, `MAX_CALL_FRAMES`).
const STACK_BYTES: u32 = 512;
const FRAMES: usize = 8;
/// Of the oldest kernels that this is for.
const ROUNDED_TO: u32 = 32;

const FRAME_POINTER: u8 = 10;
/// `call` of a function of the object, by the distance to it.
const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;
const RELOCATED_CALL: u64 = 10;

const SYMBOLS: u32 = 2;
const RELOCATIONS: u32 = 9;
const FUNCTION: u8 = 2;

type Place = (usize, usize);

struct Section<'a> {
    kind: u32,
    /// What relocations apply to.
    info: usize,
    bytes: &'a [u8],
}

#[derive(Default)]
struct Function {
    name: String,
    bytes: u32,
    calls: BTreeSet<Place>,
}

fn number(bytes: &[u8], at: usize, size: usize) -> u64 {
    bytes[at..at + size].iter().rev().fold(0, |all, byte| all << 8 | u64::from(*byte))
}

fn index(bytes: &[u8], at: usize, size: usize) -> usize {
    usize::try_from(number(bytes, at, size)).unwrap()
}

fn sections(object: &[u8]) -> Vec<Section<'_>> {
    let (first, size, count) = (index(object, 0x28, 8), index(object, 0x3a, 2), index(object, 0x3c, 2));
    let headers = (0..count).map(|at| &object[first + at * size..][..size]);
    let section = |header: &[u8]| {
        let (start, length) = (index(header, 0x18, 8), index(header, 0x20, 8));
        let kind = u32::try_from(number(header, 4, 4)).unwrap();
        Section {
            kind,
            info: index(header, 0x2c, 4),
            bytes: object.get(start..start + length).unwrap_or_default(),
        }
    };
    headers.map(section).collect()
}

/// What an instruction says of the stack: the lowest byte that it reaches.
fn reached(code: &[u8], copied: &mut [bool; 16]) -> u32 {
    let (to, from) = (code[1] & 15, code[1] >> 4);
    let offset = i32::from(i16::from_le_bytes([code[2], code[3]]));
    let constant = i32::from_le_bytes([code[4], code[5], code[6], code[7]]);
    let below = |offset: i32| offset.min(0).unsigned_abs();
    match code[0] {
        // A copy of the frame pointer, and what is added to it next.
        0xbf => {
            copied[usize::from(to)] = from == FRAME_POINTER;
            0
        }
        0x07 if std::mem::take(&mut copied[usize::from(to)]) => below(constant),
        load if load & 7 == 1 && from == FRAME_POINTER => below(offset),
        store if matches!(store & 7, 2 | 3) && to == FRAME_POINTER => below(offset),
        _ => 0,
    }
}

/// Each function by its section and first instruction.
fn functions(object: &[u8]) -> BTreeMap<Place, Function> {
    let sections = sections(object);
    let at = sections.iter().position(|section| section.kind == SYMBOLS).unwrap();
    // The names are in the section that the symbols' header links to.
    let header = index(object, 0x28, 8) + at * index(object, 0x3a, 2);
    let names = sections[index(object, header + 0x28, 4)].bytes;
    let symbols: Vec<&[u8]> = sections[at].bytes.chunks_exact(24).collect();
    let place = |symbol: &[u8]| (index(symbol, 6, 2), index(symbol, 8, 8) / 8);
    let mut found = BTreeMap::new();
    for symbol in symbols.iter().filter(|symbol| symbol[4] & 15 == FUNCTION) {
        let (section, first) = place(symbol);
        let name = names[index(symbol, 0, 4)..].split(|byte| *byte == 0).next().unwrap();
        let mut function =
            Function { name: String::from_utf8_lossy(name).into_owned(), ..Function::default() };
        let code = &sections[section].bytes[first * 8..][..index(symbol, 16, 8)];
        let relocations = sections.iter().filter(|other| other.kind == RELOCATIONS && other.info == section);
        let relocated: BTreeMap<usize, usize> = relocations
            .flat_map(|section| section.bytes.chunks_exact(16))
            .filter(|entry| number(entry, 8, 4) == RELOCATED_CALL)
            .map(|entry| (index(entry, 0, 8) / 8, index(entry, 12, 4)))
            .collect();
        let mut copied = [false; 16];
        for (at, code) in (first..).zip(code.chunks_exact(8)) {
            function.bytes = function.bytes.max(reached(code, &mut copied));
            if code[0] != CALL || code[1] >> 4 != PSEUDO_CALL {
                continue;
            }
            let distance = i64::from(i32::from_le_bytes([code[4], code[5], code[6], code[7]])) + 1;
            // Of a function that has a symbol the distance is 0, of one in a section it is that in the section.
            let (section, base) = relocated.get(&at).map_or((section, at), |symbol| place(symbols[*symbol]));
            // Section 0: a function of the kernel.
            if section != 0 {
                let called = i64::try_from(base).unwrap() + distance;
                function.calls.insert((section, usize::try_from(called).unwrap()));
            }
        }
        found.insert((section, first), function);
    }
    found
}

/// The chain of calls that takes the most stack, and how much.
fn deepest(functions: &BTreeMap<Place, Function>, at: Place) -> (u32, Vec<String>) {
    let function = &functions[&at];
    let (below, chain) =
        function.calls.iter().map(|call| deepest(functions, *call)).max().unwrap_or_default();
    let named = format!("{} {}", function.name, function.bytes);
    (function.bytes.max(1).next_multiple_of(ROUNDED_TO) + below, [vec![named], chain].concat())
}

fn check(object: &[u8], known: &str) {
    let functions = functions(object);
    let called: BTreeSet<Place> =
        functions.values().flat_map(|function| function.calls.iter().copied()).collect();
    let programs = functions.keys().filter(|at| !called.contains(at));
    let chains: Vec<_> = programs.map(|at| deepest(&functions, *at)).collect();
    for (bytes, chain) in &chains {
        assert!(*bytes <= STACK_BYTES && chain.len() <= FRAMES, "{bytes} bytes of stack: {chain:?}");
    }
    // Calls and frames were found.
    let known = chains.iter().find(|(_, chain)| chain[0].starts_with(known)).unwrap();
    println!("{known:?}");
    assert!(known.0 > 200 && known.1.len() > 2, "{known:?}");
}

#[test]
fn the_counting_programs_fit_the_stack_of_old_kernels() {
    check(include_bytes!(concat!(env!("OUT_DIR"), "/sched.bpf.o")), "each_task ");
}

#[test]
fn the_recording_programs_fit_the_stack_of_old_kernels() {
    check(include_bytes!(concat!(env!("OUT_DIR"), "/trace.bpf.o")), "on_switch_4 ");
}
