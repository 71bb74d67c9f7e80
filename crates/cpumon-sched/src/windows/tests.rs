//! Payloads as a kernel wrote them: bytes and what they say, from the unit tests of two public readers (libtrace by F. Doray and
//! snail-server), which recorded them on Windows 7 to 11.

use cpumon_model::WaitReason;

use super::{Change, DamagedPayload, KernelEvent, Payload, TickClock, hook_of};
use crate::event::{Interrupt, Leaves};

fn read(
    hook: u16,
    version: u8,
    pointer_bytes: usize,
    bytes: &[u8],
) -> Result<Option<KernelEvent>, DamagedPayload> {
    Payload { hook, version, pointer_bytes, bytes }.read()
}

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn name<const N: usize>(text: &str) -> [u8; N] {
    let mut name = [0; N];
    name[..text.len()].copy_from_slice(text.as_bytes());
    name
}

#[test]
fn switches_of_all_versions() {
    for (version, pointer_bytes, hex, (old_tid, new_tid), leaves) in [
        (2, 4, "00000000 2c110000 00090000 17000100 12000000 26480000", (0x112c, 0), Leaves::Ready),
        (2, 8, "cc080000 00000000 08000100 00000204 01000000 876d8834", (0, 0x8cc), Leaves::Ready),
        (4, 8, "c03b0000 48550000 09080000 1f000102 1f000000 85530000", (21_832, 15_296), Leaves::Ready),
        // The same with other states: it waits for a queue, for a user's request, it has ended.
        (
            4,
            8,
            "c03b0000 48550000 09080000 0f000502 1f000000 85530000",
            (21_832, 15_296),
            Leaves::Asleep(WaitReason::windows(15)),
        ),
        (
            4,
            8,
            "c03b0000 48550000 09080000 06010502 1f000000 85530000",
            (21_832, 15_296),
            Leaves::Asleep(WaitReason::windows(6)),
        ),
        (4, 8, "c03b0000 48550000 09080000 16000402 1f000000 85530000", (21_832, 15_296), Leaves::Dead),
        (4, 8, "c03b0000 48550000 09080000 00000302 1f000000 85530000", (21_832, 15_296), Leaves::Ready),
        (4, 8, "c03b0000 48550000 09080000 00000702 1f000000 85530000", (21_832, 15_296), Leaves::Ready),
    ] {
        let switch = KernelEvent::Switch { old_tid, new_tid, leaves };
        assert_eq!(read(0x0524, version, pointer_bytes, &bytes(hex)), Ok(Some(switch)), "{hex}");
    }
    assert_eq!(WaitReason::windows(15).name(), "WrQueue");
}

#[test]
fn wakeups() {
    let ready = KernelEvent::Ready { tid: 0x8cc };
    assert_eq!(read(0x0532, 2, 8, &bytes("cc080000 01000100")), Ok(Some(ready)));
}

#[test]
fn interrupts_have_their_begin_and_their_vector() {
    for (hook, pointer_bytes, hex, began, interrupt) in [
        (0x0f32, 4, "f84fde91ab020000 0ea98c8b 01 b000 00 00000000", 0x2ab_91de_4ff8, Interrupt::Hard(0xb0)),
        (
            0x0f32,
            8,
            "ebed3aa866040000 207e930000f8ffff 01 9100 00 00000000",
            0x466_a83a_edeb,
            Interrupt::Hard(0x91),
        ),
        (0x0f43, 4, "d4c0b191ab020000 00efdc94 00 b200 00", 0x2ab_91b1_c0d4, Interrupt::Hard(0xb2)),
        (0x0f43, 8, "ac4d42a866040000 c015f90200f8ffff 00 8100 00", 0x466_a842_4dac, Interrupt::Hard(0x81)),
        (0x0f42, 4, "0a4dfd91ab020000 07718382", 0x2ab_91fd_4d0a, Interrupt::Soft(0x42)),
        (0x0f44, 4, "34c1b191ab020000 1deb0c90", 0x2ab_91b1_c134, Interrupt::Soft(0x44)),
        (0x0f44, 8, "cdec3aa866040000 e4bc967400f8ffff", 0x466_a83a_eccd, Interrupt::Soft(0x44)),
        (0x0f45, 8, "75243ca866040000 d804110300f8ffff", 0x466_a83c_2475, Interrupt::Soft(0x45)),
    ] {
        let expected = KernelEvent::Interrupt { interrupt, began };
        assert_eq!(read(hook, 2, pointer_bytes, &bytes(hex)), Ok(Some(expected)), "{hex}");
    }
}

#[test]
fn threads_and_their_names() {
    // Seven addresses; version 3 has priorities behind them, and maybe a name.
    let second = format!("a40f0000 b40f0000 {} 00000000", "00f8ffff0060f502".repeat(7));
    let third = format!("{second} 00050000");
    let named = format!("{third} 4d00 e400 6900 6e00 0000 7800");
    for (version, hex, called) in
        [(2, &second, ""), (3, &third, ""), (3, &named, "Mäin"), (4, &named, "Mäin")]
    {
        for (hook, change) in [
            (0x0501, Change::Begins),
            (0x0502, Change::Ends),
            (0x0503, Change::Lives),
            (0x0504, Change::Lives),
        ] {
            let thread = KernelEvent::Thread { change, tid: 0xfb4, pid: 0xfa4, name: name(called) };
            assert_eq!(read(hook, version, 8, &bytes(hex)), Ok(Some(thread)), "{hook:x} {version}");
        }
    }
    // On machines of 32 bits, in versions 1 (no addresses at the end) and 3.
    let short = format!("a40f0000 b40f0000 {} 00000000 00050000 4d000000", "0060f502".repeat(7));
    let thread = |name| KernelEvent::Thread { change: Change::Ends, tid: 0xfb4, pid: 0xfa4, name };
    assert_eq!(read(0x0502, 1, 4, &bytes("a40f0000 b40f0000")), Ok(Some(thread(name("")))));
    assert_eq!(read(0x0502, 3, 4, &bytes(&short)), Ok(Some(thread(name("M")))));
    let renamed =
        "0c4f0000 4c480000 43006f006e00700074007900 43006f006e006e00 65006300740069006f006e0020 000000";
    let called = KernelEvent::Called { tid: 18_508, name: name("ConptyConnectio") };
    assert_eq!(read(0x0548, 2, 8, &bytes(renamed)), Ok(Some(called)), "cut to what fits");
}

#[test]
fn processes_have_their_executable_behind_their_user() {
    let user = "4056622aa0f8ffff 000000000300ffff 0101000000000005 10000000";
    let third = format!(
        "808101030 0f8ffff 00000000 00000000 ffffffff 00000000 0070180000000000 {user} 49646c6500 0000"
    );
    let fourth = format!(
        "c053bb7400f8ffff 24010000 04000000 ffffffff 00000000 00801a0000000000 00000000 {user} 49646c6500 0000 0000 0000"
    );
    let without_user = "c053bb7400f8ffff 24010000 00000000 ffffffff 00000000 00801a0000000000 00000000 00000000 52656700 0000";
    for (version, hex, pid, parent_pid, program) in
        [(3, &third[..], 0, 0, "Idle"), (4, &fourth, 292, 4, "Idle"), (4, without_user, 292, 0, "Reg")]
    {
        for (hook, change) in [
            (0x0301, Change::Begins),
            (0x0302, Change::Ends),
            (0x0303, Change::Lives),
            (0x0304, Change::Lives),
            (0x0327, Change::Lives),
        ] {
            let process = KernelEvent::Process { change, pid, parent_pid, program: name(program) };
            assert_eq!(read(hook, version, 8, &bytes(hex)), Ok(Some(process)), "{hook:x} {version}");
        }
    }
}

#[test]
fn what_is_too_short_is_damaged_and_what_is_unknown_is_left_out() {
    let user = "4056622aa0f8ffff 000000000300ffff 0101000000000005 10000000";
    let process = format!("{}{user} 49646c6500", "00".repeat(36));
    for (hook, hex, least) in [
        (0x0524, "c03b0000 48550000 09080000 1f000102", 15),
        (0x0532, "cc080000", 4),
        (0x0f43, "ac4d42a866040000 c015f90200f8ffff 00 8100", 19),
        (0x0f44, "ac4d42a866040000", 8),
        (0x0503, "a40f0000 b40f0000", 8),
        (0x0548, "0c4f0000 4c480000", 8),
        (0x0303, &process, 36 + 28 + 5),
    ] {
        let whole = bytes(hex);
        for length in 0..whole.len() {
            let is_damaged = read(hook, 4, 8, &whole[..length]) == Err(DamagedPayload);
            assert_eq!(is_damaged, length < least, "{hook:x} {length}");
        }
        assert!(read(hook, 4, 8, &whole).is_ok(), "{hook:x}");
    }
    // The compressed switch, whose layout is not public; a sample; versions before Windows 7.
    for (hook, version) in [(0x0525, 2), (0x0f2e, 2), (0x0524, 1), (0x0503, 0), (0, 2)] {
        assert_eq!(read(hook, version, 8, &[]), Ok(None));
    }
}

#[test]
fn a_kind_is_known_by_provider_and_opcode() {
    let provider = |first: u8| {
        let mut guid = super::PROCESS;
        guid[0] = first;
        guid
    };
    assert_eq!([hook_of(&provider(0xd0), 1), hook_of(&provider(0xd1), 36)], [0x0301, 0x0524]);
    assert_eq!([hook_of(&super::PERF_INFO, 67), hook_of(&provider(0xd2), 36)], [0x0f43, 0]);
}

fn clock(ticks_a_second: u64, zero: u64) -> TickClock {
    TickClock::new(ticks_a_second, zero).unwrap()
}

#[test]
fn ticks_are_counted_to_the_ns_and_never_wrap() {
    let usual = clock(10_000_000, 0);
    assert_eq!([usual.ns(1), usual.ns(12_345_678), usual.ns(u64::MAX)], [100, 1_234_567_800, u64::MAX]);
    let odd = clock(1_656_445, 5);
    assert_eq!([odd.ns(4), odd.ns(6), odd.ns(5 + 1_656_445 * 7)], [0, 603, 7_000_000_000]);
    let fast = clock(TickClock::MAX_TICKS_A_SECOND, 0);
    assert_eq!(fast.ns(TickClock::MAX_TICKS_A_SECOND - 1), 999_999_999);
    assert_eq!([0, TickClock::MAX_TICKS_A_SECOND + 1].map(|ticks| TickClock::new(ticks, 0)), [None; 2]);
}
