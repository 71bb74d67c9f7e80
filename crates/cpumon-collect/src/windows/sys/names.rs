//! Names of processes and threads: users, names of threads, command lines, services.

use std::ffi::c_void;
use std::ptr::{null, null_mut};

use windows_sys::Wdk::System::Threading::{
    NtQueryInformationProcess, NtQueryInformationThread, ProcessBasicInformation,
    ProcessCommandLineInformation, ThreadNameInformation,
};
use windows_sys::Win32::Foundation::{
    ERROR_MORE_DATA, GetLastError, STATUS_INVALID_INFO_CLASS, STATUS_NOT_IMPLEMENTED,
};
use windows_sys::Win32::Security::{
    GetLengthSid, GetTokenInformation, IsValidSid, LookupAccountSidW, TOKEN_QUERY, TOKEN_USER, TokenUser,
};
use windows_sys::Win32::System::Diagnostics::Debug::ReadProcessMemory;
use windows_sys::Win32::System::Services::{
    CloseServiceHandle, EnumServicesStatusExW, OpenSCManagerW, SC_ENUM_PROCESS_INFO, SC_HANDLE,
    SC_MANAGER_CONNECT, SC_MANAGER_ENUMERATE_SERVICE, SERVICE_ACTIVE, SERVICE_WIN32,
};
use windows_sys::Win32::System::Threading::{
    OpenProcess, OpenProcessToken, OpenThread, PROCESS_QUERY_LIMITED_INFORMATION, PROCESS_VM_READ,
    THREAD_QUERY_LIMITED_INFORMATION,
};

use cpumon_model::Comm;

use super::{Handle, before_nul, open_process};
use crate::nt::{NtError, Services, counted_text, name_of_thread};

/// Where the PEB of a 64-bit process has the address of its parameters, and where these have the command line.
const PEB_PARAMETERS: u64 = 0x20;
const PARAMETERS_COMMAND_LINE: u64 = 0x70;
/// The longest name of a thread, and the `UNICODE_STRING` before it.
const MAX_NAME_BYTES: usize = (64 << 10) + 16;
/// Most answers of 256 kB about services: enough for thousands.
const MOST_LISTS: u32 = 16;

pub(in super::super) fn user_sid(pid: u32) -> Option<Vec<u8>> {
    let process = open_process(pid).ok()?;
    let mut token = null_mut();
    // SAFETY: the handle is open, and the token's handle is on this stack.
    let is_open = unsafe { OpenProcessToken(process.0, TOKEN_QUERY, &raw mut token) };
    let token = Handle::new(token).filter(|_| is_open != 0)?;
    // A TOKEN_USER and the longest security id are 84 bytes. In words of 8, so that the pointer in it is aligned.
    let (mut buffer, mut length) = ([0_u64; 32], 0);
    let size = u32::try_from(size_of_val(&buffer)).ok()?;
    // SAFETY: the system writes at most `size` bytes into the buffer.
    let is_read =
        unsafe { GetTokenInformation(token.0, TokenUser, buffer.as_mut_ptr().cast(), size, &raw mut length) };
    if is_read == 0 {
        return None;
    }
    // SAFETY: the buffer begins with a TOKEN_USER, which names a security id inside of the buffer.
    unsafe {
        let sid = (*buffer.as_ptr().cast::<TOKEN_USER>()).User.Sid;
        if IsValidSid(sid) == 0 {
            return None;
        }
        let length = usize::try_from(GetLengthSid(sid)).ok()?;
        Some(std::slice::from_raw_parts(sid.cast::<u8>(), length).to_vec())
    }
}

pub(in super::super) fn account_name(sid: &[u8]) -> Option<String> {
    let (mut name, mut domain) = ([0_u16; 260], [0_u16; 260]);
    let (mut name_length, mut domain_length, mut kind) = (260, 260, 0);
    // SAFETY: the security id came from the system whole; both texts are on this stack with their lengths.
    let is_found = unsafe {
        LookupAccountSidW(
            null(),
            sid.as_ptr().cast_mut().cast(),
            name.as_mut_ptr(),
            &raw mut name_length,
            domain.as_mut_ptr(),
            &raw mut domain_length,
            &raw mut kind,
        )
    };
    (is_found != 0).then(|| before_nul(&name))
}

/// The name that a program gave a thread; empty if none. `None`: the system refuses, or is older than Windows 10 1607.
pub(in super::super) fn thread_name(tid: u32) -> Option<Comm> {
    // SAFETY: takes numbers only.
    let thread = Handle::new(unsafe { OpenThread(THREAD_QUERY_LIMITED_INFORMATION, 0, tid) })?;
    // In words of 8, as a UNICODE_STRING has a pointer.
    let mut buffer = [0; 130];
    let length = match read_thread_name(&thread, &mut buffer) {
        Ok(name) => return name,
        Err(length) => usize::try_from(length).ok()?,
    };
    // The system gives a name whole or not at all.
    if length <= size_of_val(&buffer) || length > MAX_NAME_BYTES {
        return None;
    }
    read_thread_name(&thread, &mut vec![0; length.div_ceil(8)]).ok().flatten()
}

/// Error: the system refuses, and the length that it wants.
fn read_thread_name(thread: &Handle, buffer: &mut [u64]) -> Result<Option<Comm>, u32> {
    let (size, mut length) = (u32::try_from(size_of_val(buffer)).unwrap_or(0), 0);
    // SAFETY: the handle is open, and the system writes at most `size` bytes into the buffer.
    let status = unsafe {
        let into = buffer.as_mut_ptr().cast();
        NtQueryInformationThread(thread.0, ThreadNameInformation, into, size, &raw mut length)
    };
    if status < 0 {
        return Err(length);
    }
    // SAFETY: any bytes of numbers may be read.
    let bytes = unsafe { std::slice::from_raw_parts(buffer.as_ptr().cast::<u8>(), size_of_val(buffer)) };
    Ok(counted_text(bytes, bytes.as_ptr() as u64).map(name_of_thread))
}

/// Reads command lines into memory that is used again.
#[derive(Default)]
pub(in super::super) struct CommandLines {
    buffer: Vec<u64>,
}

impl CommandLines {
    /// The command line in UTF-16. `None`: the process is gone, or the system refuses.
    pub(in super::super) fn of(&mut self, pid: u32) -> Option<&[u8]> {
        // The longest command line has 65,534 bytes, behind a UNICODE_STRING of 16.
        self.buffer.resize(8_200, 0);
        let process = open_process(pid).ok()?;
        let (size, mut length) = (u32::try_from(self.buffer.len() * 8).ok()?, 0);
        // SAFETY: the handle is open, and the system writes at most `size` bytes into the buffer.
        let status = unsafe {
            let into = self.buffer.as_mut_ptr().cast();
            NtQueryInformationProcess(process.0, ProcessCommandLineInformation, into, size, &raw mut length)
        };
        match status {
            STATUS_INVALID_INFO_CLASS | STATUS_NOT_IMPLEMENTED => self.out_of_memory_of(pid),
            0.. => counted_text(self.bytes(), self.bytes().as_ptr() as u64),
            _ => None,
        }
    }

    /// Before Windows 8.1, and under Wine 8: from the process's own memory, which takes a right more.
    fn out_of_memory_of(&mut self, pid: u32) -> Option<&[u8]> {
        let rights = PROCESS_QUERY_LIMITED_INFORMATION | PROCESS_VM_READ;
        // SAFETY: takes numbers only.
        let process = Handle::new(unsafe { OpenProcess(rights, 0, pid) })?;
        let (mut basic, mut length) = ([0_u64; 6], 0);
        // SAFETY: the handle is open, and a PROCESS_BASIC_INFORMATION has 48 bytes, as the array.
        let status = unsafe {
            let into = basic.as_mut_ptr().cast();
            NtQueryInformationProcess(process.0, ProcessBasicInformation, into, 48, &raw mut length)
        };
        let mut read = |address: u64, bytes: usize| {
            let (bytes, mut done) = (bytes.min(self.buffer.len() * 8), 0);
            // SAFETY: the system copies at most `bytes` bytes of the process into the buffer, which has as many.
            let is_read = unsafe {
                let into = self.buffer.as_mut_ptr().cast();
                ReadProcessMemory(process.0, address as *const c_void, into, bytes, &raw mut done)
            };
            (is_read != 0 && done == bytes).then(|| [self.buffer[0], self.buffer[1]])
        };
        // The process's PEB names its parameters, and these the command line: a length and an address.
        let peb = Some(basic[1]).filter(|peb| status >= 0 && *peb != 0)?;
        let [parameters, _] = read(peb.checked_add(PEB_PARAMETERS)?, 8)?;
        let [lengths, address] = read(parameters.checked_add(PARAMETERS_COMMAND_LINE)?, 16)?;
        let bytes = usize::try_from(lengths & 0xffff).ok()?;
        read(address, bytes)?;
        self.bytes().get(..bytes)
    }

    fn bytes(&self) -> &[u8] {
        let length = self.buffer.len() * 8;
        // SAFETY: any bytes of numbers may be read.
        unsafe { std::slice::from_raw_parts(self.buffer.as_ptr().cast::<u8>(), length) }
    }
}

/// A connection to the service manager, and memory for its answers.
pub(in super::super) struct ServiceManager {
    handle: SC_HANDLE,
    buffer: Vec<u64>,
}

// SAFETY: the handle is a number of this process, good in every thread, and used by one at a time.
unsafe impl Send for ServiceManager {}

impl ServiceManager {
    /// `None`: the system refuses.
    pub(in super::super) fn open() -> Option<Self> {
        let rights = SC_MANAGER_CONNECT | SC_MANAGER_ENUMERATE_SERVICE;
        // SAFETY: no names: this machine, and the list of services that run.
        let handle = unsafe { OpenSCManagerW(null(), null(), rights) };
        // The most that one call gives.
        (!handle.is_null()).then(|| Self { handle, buffer: vec![0; 32 << 10] })
    }

    /// Replaces `into` by the services that run.
    pub(in super::super) fn list(&mut self, into: &mut Services) -> Result<(), NtError> {
        into.clear();
        let mut resume = 0;
        for _ in 0..MOST_LISTS {
            let (mut missing, mut count) = (0, 0);
            let size = u32::try_from(self.buffer.len() * 8).unwrap_or(0);
            // SAFETY: the handle is open until `drop`; the system writes at most `size` bytes into the buffer.
            let is_all = unsafe {
                EnumServicesStatusExW(
                    self.handle,
                    SC_ENUM_PROCESS_INFO,
                    SERVICE_WIN32,
                    SERVICE_ACTIVE,
                    self.buffer.as_mut_ptr().cast(),
                    size,
                    &raw mut missing,
                    &raw mut count,
                    &raw mut resume,
                    null(),
                )
            };
            // SAFETY: reads a number of this thread.
            let has_more = is_all == 0 && count > 0 && unsafe { GetLastError() } == ERROR_MORE_DATA;
            if is_all != 0 || has_more {
                // SAFETY: any bytes of numbers may be read.
                let bytes = unsafe {
                    std::slice::from_raw_parts(self.buffer.as_ptr().cast::<u8>(), self.buffer.len() * 8)
                };
                into.add(bytes, bytes.as_ptr() as u64, usize::try_from(count).unwrap_or(usize::MAX))?;
            }
            if !has_more {
                break;
            }
        }
        into.finish();
        Ok(())
    }
}

impl Drop for ServiceManager {
    fn drop(&mut self) {
        // SAFETY: it was opened, and is closed only here.
        unsafe { CloseServiceHandle(self.handle) };
    }
}
