//! How much stack the programs take. The verifier adds up the frames of each chain of calls and refuses more than 512 bytes. Kernels
//! before 6.8 round each frame up to 32 bytes, newer ones to 16, so that an object that loads here may not load there: this reads it
//! from the object itself.

use std::collections::{BTreeMap, BTreeSet};

use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};

/// The kernel's limits (`MAX_BPF_STACK`, `MAX_CALL_FRAMES`).
const STACK_BYTES: u32 = 512;
const FRAMES: usize = 8;
/// Rounding of the oldest supported kernels.
const ROUNDED_TO: u32 = 32;

const FRAME_POINTER: u8 = 10;
/// `call` of a function of the object, by the distance to it.
const CALL: u8 = 0x85;
const PSEUDO_CALL: u8 = 1;

/// Section index, and instruction index within the section.
type CodePlace = (usize, u64);

#[derive(Default)]
struct Function {
    name: String,
    bytes: u32,
    calls: BTreeSet<CodePlace>,
}

/// The lowest byte of the stack that an instruction reaches.
fn reached(code: &[u8], copied: &mut [bool; 16]) -> u32 {
    let (to, from) = (code[1] & 15, code[1] >> 4);
    let offset = i32::from(i16::from_le_bytes([code[2], code[3]]));
    let constant = i32::from_le_bytes([code[4], code[5], code[6], code[7]]);
    let below = |offset: i32| offset.min(0).unsigned_abs();
    match code[0] {
        // A copy of the frame pointer, and the next addition to it.
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

fn functions(object: &[u8]) -> BTreeMap<CodePlace, Function> {
    let file = object::File::parse(object).unwrap();
    let place = |symbol: &object::Symbol<'_, '_>| {
        symbol.section_index().map(|section| (section.0, symbol.address() / 8))
    };
    let mut found = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let Some((in_section, first)) = place(&symbol) else { continue };
        let section = file.section_by_index(object::SectionIndex(in_section)).unwrap();
        // `None`: a function of the kernel.
        let relocated: BTreeMap<u64, Option<CodePlace>> = section
            .relocations()
            .filter_map(|(at, relocation)| match relocation.target() {
                RelocationTarget::Symbol(symbol) => {
                    Some((at / 8, place(&file.symbol_by_index(symbol).unwrap())))
                }
                _ => None,
            })
            .collect();
        let mut function = Function { name: symbol.name().unwrap().to_owned(), ..Function::default() };
        let code = section.data_range(symbol.address(), symbol.size()).unwrap().unwrap();
        let mut copied = [false; 16];
        for (at, code) in (first..).zip(code.chunks_exact(8)) {
            function.bytes = function.bytes.max(reached(code, &mut copied));
            if code[0] != CALL || code[1] >> 4 != PSEUDO_CALL {
                continue;
            }
            let distance = i64::from(i32::from_le_bytes([code[4], code[5], code[6], code[7]])) + 1;
            // The distance is 0 for a function with a symbol, else its offset in the section.
            if let Some((section, base)) = relocated.get(&at).copied().unwrap_or(Some((in_section, at))) {
                function.calls.insert((section, base.checked_add_signed(distance).unwrap()));
            }
        }
        found.insert((in_section, first), function);
    }
    found
}

/// The chain of calls that takes the most stack, and how much.
fn deepest(functions: &BTreeMap<CodePlace, Function>, at: CodePlace) -> (u32, Vec<String>) {
    let function = &functions[&at];
    let (below, chain) =
        function.calls.iter().map(|call| deepest(functions, *call)).max().unwrap_or_default();
    let named = format!("{} {}", function.name, function.bytes);
    (function.bytes.max(1).next_multiple_of(ROUNDED_TO) + below, [vec![named], chain].concat())
}

fn check(object: &[u8], known: &str) {
    let functions = functions(object);
    let called: BTreeSet<CodePlace> =
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
