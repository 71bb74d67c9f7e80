//! The calls of Windows, as safe functions. Beside `etw::calls`, the only module for Windows with unsafe code; all pointers given to the system are to
//! values on this stack or to slices borrowed for the call.

#![expect(unsafe_code, reason = "the system is called here")]

use std::ffi::c_void;
use std::io;
use std::mem::zeroed;
use std::ptr::null_mut;

pub(super) use self::names::{CommandLines, ServiceManager, account_name, thread_name, user_sid};
pub(super) use self::version::{MAX_VERSION_BYTES, image_path, product_of};

use windows_sys::Wdk::System::SystemInformation::NtQuerySystemInformation;
use windows_sys::Wdk::System::SystemServices::RtlGetVersion;
use windows_sys::Win32::Foundation::{
    CloseHandle, ERROR_INVALID_PARAMETER, FILETIME, GetLastError, HANDLE, INVALID_HANDLE_VALUE, NTSTATUS,
    STATUS_INFO_LENGTH_MISMATCH,
};
use windows_sys::Win32::System::Diagnostics::ToolHelp::{
    CreateToolhelp32Snapshot, PROCESSENTRY32W, Process32FirstW, Process32NextW, TH32CS_SNAPPROCESS,
    TH32CS_SNAPTHREAD, THREADENTRY32, Thread32First, Thread32Next,
};
use windows_sys::Win32::System::LibraryLoader::{GetModuleHandleW, GetProcAddress};
use windows_sys::Win32::System::Performance::{QueryPerformanceCounter, QueryPerformanceFrequency};
use windows_sys::Win32::System::ProcessStatus::{K32GetProcessMemoryInfo, PROCESS_MEMORY_COUNTERS};
use windows_sys::Win32::System::Registry::{
    HKEY_LOCAL_MACHINE, RRF_RT_REG_SZ, RRF_SUBKEY_WOW6464KEY, RegGetValueW,
};
use windows_sys::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows_sys::Win32::System::SystemInformation::{
    ComputerNameDnsHostname, GetComputerNameExW, GetSystemTimeAdjustment, GetSystemTimeAsFileTime,
    OSVERSIONINFOW,
};
use windows_sys::Win32::System::Threading::{
    ALL_PROCESSOR_GROUPS, GetActiveProcessorCount, GetActiveProcessorGroupCount, GetCurrentProcess,
    GetProcessTimes, GetThreadTimes, OpenProcess, OpenThread, PROCESS_QUERY_LIMITED_INFORMATION,
    THREAD_QUERY_LIMITED_INFORMATION,
};

mod names;
mod version;

/// The longest answer: 500,000 threads with names are 64 MB.
const MAX_ANSWER_BYTES: usize = 256 << 20;

/// A handle that is closed on drop.
struct Handle(HANDLE);

impl Handle {
    fn new(handle: HANDLE) -> Option<Self> {
        (!handle.is_null() && handle != INVALID_HANDLE_VALUE).then_some(Self(handle))
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: it was opened, and is closed only here.
        unsafe { CloseHandle(self.0) };
    }
}

#[link(name = "ntdll", kind = "raw-dylib")]
unsafe extern "system" {
    /// `NtQuerySystemInformation` with an input buffer. Windows 7 has it; `windows-sys` does not.
    fn NtQuerySystemInformationEx(
        class: i32,
        about: *const c_void,
        about_size: u32,
        into: *mut c_void,
        size: u32,
        length: *mut u32,
    ) -> NTSTATUS;
}

/// Asks the kernel; the memory grows until the answer fits. Returns the answer's length.
pub(super) fn query(class: i32, buffer: &mut Vec<u8>) -> io::Result<usize> {
    ask(class, buffer, |into, size, length| {
        // SAFETY: the system writes at most `size` bytes into the buffer, and the length.
        unsafe { NtQuerySystemInformation(class, into, size, length) }
    })
}

/// [`query`] about the CPUs of one processor group.
pub(super) fn query_group(class: i32, group: u16, buffer: &mut Vec<u8>) -> io::Result<usize> {
    ask(class, buffer, |into, size, length| {
        // SAFETY: as above; the two bytes of the group's number are on this stack.
        unsafe { NtQuerySystemInformationEx(class, (&raw const group).cast(), 2, into, size, length) }
    })
}

fn ask(
    class: i32,
    buffer: &mut Vec<u8>,
    call: impl Fn(*mut c_void, u32, *mut u32) -> NTSTATUS,
) -> io::Result<usize> {
    loop {
        let mut length = 0_u32;
        let size = u32::try_from(buffer.len()).unwrap_or(u32::MAX);
        let status = call(buffer.as_mut_ptr().cast(), size, &raw mut length);
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if status >= 0 {
            return Ok(length.min(buffer.len()));
        }
        if status != STATUS_INFO_LENGTH_MISMATCH || buffer.len() >= MAX_ANSWER_BYTES {
            return Err(io::Error::other(format!(
                "NtQuerySystemInformation({class}): status {status:#010x}"
            )));
        }
        // An eighth more: processes begin between two calls.
        let wanted = (length + length / 8).max(buffer.len() * 2).min(MAX_ANSWER_BYTES);
        buffer.resize(wanted, 0);
    }
}

/// How many groups of up to 64 CPUs the system has.
pub(super) fn cpu_groups() -> u16 {
    // SAFETY: reads a number of the system.
    unsafe { GetActiveProcessorGroupCount() }.max(1)
}

/// Active CPUs of all processor groups.
pub(super) fn cpu_count() -> u32 {
    // SAFETY: reads a number of the system.
    unsafe { GetActiveProcessorCount(ALL_PROCESSOR_GROUPS) }.max(1)
}

/// Whether this is Wine, whose CPUs are those of the Linux below it, with all that it runs.
pub(super) fn is_wine() -> bool {
    // SAFETY: both names end with 0. `ntdll` is in every process, so its handle stays good.
    unsafe {
        let ntdll = GetModuleHandleW(wide("ntdll.dll").as_ptr());
        !ntdll.is_null() && GetProcAddress(ntdll, c"wine_get_version".as_ptr().cast()).is_some()
    }
}

/// Start and times of a process or thread, in units of 100 ns.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KernelUserTimes {
    pub(super) created: u64,
    pub(super) user: u64,
    pub(super) kernel: u64,
}

/// Why a process or thread could not be read.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Miss {
    Gone,
    Denied,
}

impl Miss {
    fn last() -> Self {
        // SAFETY: reads a number of this thread.
        if unsafe { GetLastError() } == ERROR_INVALID_PARAMETER { Self::Gone } else { Self::Denied }
    }
}

fn units(time: FILETIME) -> u64 {
    u64::from(time.dwHighDateTime) << 32 | u64::from(time.dwLowDateTime)
}

type ReadTimes =
    unsafe extern "system" fn(HANDLE, *mut FILETIME, *mut FILETIME, *mut FILETIME, *mut FILETIME) -> i32;

fn times(of: &Handle, read: ReadTimes) -> Result<KernelUserTimes, Miss> {
    let [mut created, mut ended, mut kernel, mut user] = [FILETIME::default(); 4];
    // SAFETY: the handle is open, and the four times are on this stack.
    let is_read = unsafe { read(of.0, &raw mut created, &raw mut ended, &raw mut kernel, &raw mut user) };
    if is_read == 0 {
        return Err(Miss::last());
    }
    Ok(KernelUserTimes { created: units(created), user: units(user), kernel: units(kernel) })
}

fn open_process(pid: u32) -> Result<Handle, Miss> {
    // SAFETY: takes numbers only.
    Handle::new(unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) }).ok_or_else(Miss::last)
}

pub(super) fn process_times(pid: u32) -> Result<KernelUserTimes, Miss> {
    times(&open_process(pid)?, GetProcessTimes)
}

pub(super) fn session_of(pid: u32) -> Option<u32> {
    let mut session = 0;
    // SAFETY: a number on this stack.
    let is_read = unsafe { ProcessIdToSessionId(pid, &raw mut session) };
    (is_read != 0).then_some(session)
}

pub(super) fn thread_times(tid: u32) -> Result<KernelUserTimes, Miss> {
    // SAFETY: takes numbers only.
    let thread = Handle::new(unsafe { OpenThread(THREAD_QUERY_LIMITED_INFORMATION, 0, tid) });
    times(&thread.ok_or_else(Miss::last)?, GetThreadTimes)
}

/// CPU time of this process, ns, and its memory, bytes.
pub(super) fn own_usage() -> (u64, u64) {
    // SAFETY: a constant for this process; closing it does nothing.
    let own = Handle(unsafe { GetCurrentProcess() });
    let spent = times(&own, GetProcessTimes).unwrap_or_default();
    let mut memory = PROCESS_MEMORY_COUNTERS::default();
    let size = u32::try_from(size_of_val(&memory)).unwrap_or(0);
    // SAFETY: the system writes at most `size` bytes into a value on this stack.
    unsafe { K32GetProcessMemoryInfo(own.0, &raw mut memory, size) };
    ((spent.user + spent.kernel).saturating_mul(100), memory.WorkingSetSize as u64)
}

#[derive(Copy, Clone)]
pub(super) struct ListedProcess {
    pub(super) pid: u32,
    pub(super) parent_pid: u32,
    pub(super) base_priority: i32,
    name: [u16; 260],
}

impl ListedProcess {
    pub(super) fn name(&self) -> String {
        String::from_utf16_lossy(self.name.split(|unit| *unit == 0).next().unwrap_or_default())
    }
}

#[derive(Copy, Clone)]
pub(super) struct ListedThread {
    pub(super) pid: u32,
    pub(super) tid: u32,
    pub(super) priority: i32,
}

fn toolhelp(flags: u32) -> io::Result<Handle> {
    // SAFETY: takes numbers only.
    Handle::new(unsafe { CreateToolhelp32Snapshot(flags, 0) }).ok_or_else(io::Error::last_os_error)
}

/// Replaces the list by all processes.
pub(super) fn list_processes(processes: &mut Vec<ListedProcess>) -> io::Result<()> {
    processes.clear();
    let snapshot = toolhelp(TH32CS_SNAPPROCESS)?;
    let mut process =
        PROCESSENTRY32W { dwSize: size_of_u32::<PROCESSENTRY32W>(), ..PROCESSENTRY32W::default() };
    // SAFETY: the handle is open, and the entry is on this stack and says its size.
    let mut is_there = unsafe { Process32FirstW(snapshot.0, &raw mut process) };
    while is_there != 0 {
        let (pid, parent_pid) = (process.th32ProcessID, process.th32ParentProcessID);
        let base_priority = process.pcPriClassBase;
        processes.push(ListedProcess { pid, parent_pid, base_priority, name: process.szExeFile });
        // SAFETY: as above.
        is_there = unsafe { Process32NextW(snapshot.0, &raw mut process) };
    }
    Ok(())
}

/// Replaces the list by all threads.
pub(super) fn list_threads(threads: &mut Vec<ListedThread>) -> io::Result<()> {
    threads.clear();
    let snapshot = toolhelp(TH32CS_SNAPTHREAD)?;
    let mut thread = THREADENTRY32 { dwSize: size_of_u32::<THREADENTRY32>(), ..THREADENTRY32::default() };
    // SAFETY: the handle is open, and the entry is on this stack and says its size.
    let mut is_there = unsafe { Thread32First(snapshot.0, &raw mut thread) };
    while is_there != 0 {
        let (pid, tid) = (thread.th32OwnerProcessID, thread.th32ThreadID);
        threads.push(ListedThread { pid, tid, priority: thread.tpBasePri });
        // SAFETY: as above.
        is_there = unsafe { Thread32Next(snapshot.0, &raw mut thread) };
    }
    Ok(())
}

fn size_of_u32<T>() -> u32 {
    u32::try_from(size_of::<T>()).unwrap_or(0)
}

fn before_nul(units: &[u16]) -> String {
    String::from_utf16_lossy(units.split(|unit| *unit == 0).next().unwrap_or_default())
}

fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

/// `MachineGuid` of the registry, which setup makes.
pub(super) fn machine_guid() -> Option<String> {
    let (key, value) = (wide("SOFTWARE\\Microsoft\\Cryptography"), wide("MachineGuid"));
    let mut text = [0_u16; 64];
    let mut bytes = u32::try_from(size_of_val(&text)).ok()?;
    // SAFETY: both names end with 0; the system writes at most `bytes` bytes of text.
    let status = unsafe {
        RegGetValueW(
            HKEY_LOCAL_MACHINE,
            key.as_ptr(),
            value.as_ptr(),
            RRF_RT_REG_SZ | RRF_SUBKEY_WOW6464KEY,
            null_mut(),
            text.as_mut_ptr().cast(),
            &raw mut bytes,
        )
    };
    Some(before_nul(&text)).filter(|text| status == 0 && !text.is_empty())
}

/// The machine's name; empty if the system does not report it.
pub(super) fn computer_name() -> String {
    let mut text = [0_u16; 256];
    let mut length = 256;
    // SAFETY: the system writes at most `length` units.
    let is_read = unsafe { GetComputerNameExW(ComputerNameDnsHostname, text.as_mut_ptr(), &raw mut length) };
    if is_read == 0 { String::new() } else { before_nul(&text) }
}

/// Version of Windows: major, minor, build.
pub(super) fn version() -> (u32, u32, u32) {
    // SAFETY: all-zero bytes are a valid value (numbers).
    let mut version: OSVERSIONINFOW = unsafe { zeroed() };
    version.dwOSVersionInfoSize = size_of_u32::<OSVERSIONINFOW>();
    // SAFETY: a value on this stack that says its size.
    unsafe { RtlGetVersion(&raw mut version) };
    (version.dwMajorVersion, version.dwMinorVersion, version.dwBuildNumber)
}

/// The clock in the steps that start times have, since 1601.
pub(super) fn coarse_time() -> u64 {
    let mut time = FILETIME::default();
    // SAFETY: a value on this stack.
    unsafe { GetSystemTimeAsFileTime(&raw mut time) };
    units(time)
}

/// The counter that lengths are measured with. It runs on during sleep.
pub(super) fn counter() -> u64 {
    let mut count = 0_i64;
    // SAFETY: a value on this stack. The call succeeds on every Windows since XP.
    unsafe { QueryPerformanceCounter(&raw mut count) };
    count.unsigned_abs()
}

/// Ticks of the counter per second.
pub(super) fn counter_frequency() -> u64 {
    let mut frequency = 0_i64;
    // SAFETY: as above.
    unsafe { QueryPerformanceFrequency(&raw mut frequency) };
    frequency.unsigned_abs().max(1)
}

/// The counter in ns since the system's start.
pub(super) fn counter_ns() -> u64 {
    let (count, frequency) = (u128::from(counter()), u128::from(counter_frequency()));
    u64::try_from(count * 1_000_000_000 / frequency).unwrap_or(u64::MAX)
}

/// The time stamp counter, by which Windows counts the cycles of threads, and [`counter_ns`] at the same instant.
pub(super) fn stamp_and_counter_ns() -> (u64, u64) {
    // Between two readings of the counter, as near as a few tries get: another thread may run in between.
    let tries = (0..8).map(|_| {
        let before = counter_ns();
        let stamp = time_stamp();
        let after = counter_ns();
        (after.saturating_sub(before), stamp, before)
    });
    tries.min().map_or((0, 0), |(_, stamp, at)| (stamp, at))
}

/// 0 where the CPU does not promise one rate in every state of power.
#[cfg(target_arch = "x86_64")]
fn time_stamp() -> u64 {
    use std::arch::x86_64::{__cpuid, _rdtsc};
    /// Advanced power management of `cpuid`, and its bit for an invariant time stamp counter.
    const POWER: u32 = 0x8000_0007;
    const INVARIANT: u32 = 1 << 8;
    let has_power = __cpuid(0x8000_0000).eax >= POWER;
    let is_invariant = has_power && __cpuid(POWER).edx & INVARIANT != 0;
    // SAFETY: reads a counter that every x86-64 CPU has.
    if is_invariant { unsafe { _rdtsc() } } else { 0 }
}

/// Windows counts cycles of other CPUs by a counter that this program may not read.
#[cfg(not(target_arch = "x86_64"))]
fn time_stamp() -> u64 {
    0
}

pub(super) fn tick_ns() -> Option<u64> {
    let (mut adjustment, mut increment, mut is_off) = (0, 0, 0);
    // SAFETY: values on this stack.
    let is_read =
        unsafe { GetSystemTimeAdjustment(&raw mut adjustment, &raw mut increment, &raw mut is_off) };
    (is_read != 0).then(|| u64::from(increment) * 100)
}
