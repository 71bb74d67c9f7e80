//! The calls of Windows for a session of events, as safe functions. Beside `sys`, the only module for Windows with unsafe code.

#![expect(unsafe_code, reason = "the system is called here")]

use std::ffi::c_void;
use std::io;
use std::ptr::null;
use std::sync::Arc;

use windows_sys::Win32::Foundation::{ERROR_ALREADY_EXISTS, ERROR_SUCCESS};
use windows_sys::Win32::System::Diagnostics::Etw::{
    CONTROLTRACE_HANDLE, CloseTrace, ControlTraceW, EVENT_HEADER_FLAG_32_BIT_HEADER,
    EVENT_HEADER_FLAG_PROCESSOR_INDEX, EVENT_RECORD, EVENT_TRACE_CONTROL, EVENT_TRACE_CONTROL_FLUSH,
    EVENT_TRACE_CONTROL_QUERY, EVENT_TRACE_CONTROL_STOP, EVENT_TRACE_FLAG, EVENT_TRACE_LOGFILEW,
    EVENT_TRACE_PROPERTIES, EVENT_TRACE_REAL_TIME_MODE, EVENT_TRACE_SYSTEM_LOGGER_MODE, OpenTraceW,
    PROCESS_TRACE_MODE_EVENT_RECORD, PROCESS_TRACE_MODE_RAW_TIMESTAMP, PROCESS_TRACE_MODE_REAL_TIME,
    PROCESSTRACE_HANDLE, ProcessTrace, StartTraceW, WNODE_FLAG_TRACED_GUID,
};
use windows_sys::core::GUID;

use crate::etw::Record;

/// Longest name of a session, in units of UTF-16 with its end.
const NAME_UNITS: usize = 64;
/// Size of a buffer, KiB. Each CPU fills its own.
const BUFFER_KIB: u32 = 64;
/// Buffers beyond those, for all CPUs together: 4 MiB.
const SPARE_BUFFERS: u32 = 64;
/// `ClientContext`: time stamps are those of the performance counter.
const BY_COUNTER: u32 = 1;
/// Buffers are delivered at least once a second; each pass asks for them anyway.
const FLUSH_S: u32 = 1;

/// Name of a session. It has an id of its own too: a private session, so that others (xperf, the antivirus) keep theirs.
#[derive(Copy, Clone)]
pub(super) struct SessionName {
    pub(super) name: &'static str,
    pub(super) id: u128,
}

impl SessionName {
    fn wide(self) -> Vec<u16> {
        self.name.encode_utf16().take(NAME_UNITS - 1).chain([0]).collect()
    }
}

/// Properties of a session, as the system reads and writes them, with space for its name behind.
#[repr(C)]
struct Properties {
    session: EVENT_TRACE_PROPERTIES,
    name: [u16; NAME_UNITS],
}

/// A session; dropping it stops the session.
pub(super) struct SessionController {
    handle: CONTROLTRACE_HANDLE,
    properties: Box<Properties>,
    name: Vec<u16>,
}

// SAFETY: the handle is a number, and the pointers in the properties are the system's own values, which nothing here follows.
unsafe impl Send for SessionController {}

fn properties(id: u128, flags: EVENT_TRACE_FLAG, cpus: u32) -> Properties {
    // SAFETY: all-zero bytes are a valid value (numbers and a null handle).
    let mut session: EVENT_TRACE_PROPERTIES = unsafe { std::mem::zeroed() };
    session.Wnode.BufferSize = u32::try_from(size_of::<Properties>()).unwrap_or(0);
    session.Wnode.Flags = WNODE_FLAG_TRACED_GUID;
    session.Wnode.ClientContext = BY_COUNTER;
    session.Wnode.Guid = GUID::from_u128(id);
    session.LogFileMode = EVENT_TRACE_REAL_TIME_MODE | EVENT_TRACE_SYSTEM_LOGGER_MODE;
    session.BufferSize = BUFFER_KIB;
    session.MinimumBuffers = cpus.saturating_mul(2);
    session.MaximumBuffers = cpus.saturating_mul(4).saturating_add(SPARE_BUFFERS);
    session.FlushTimer = FLUSH_S;
    session.EnableFlags = flags;
    session.LoggerNameOffset = u32::try_from(size_of::<EVENT_TRACE_PROPERTIES>()).unwrap_or(0);
    Properties { session, name: [0; NAME_UNITS] }
}

fn result(code: u32) -> io::Result<()> {
    if code == ERROR_SUCCESS { Ok(()) } else { Err(io::Error::from_raw_os_error(code.cast_signed())) }
}

impl SessionController {
    /// Starts a session of the kernel's events; one of this name, which an agent that was killed left behind, is stopped first.
    pub(super) fn start(name: SessionName, flags: EVENT_TRACE_FLAG, cpus: u32) -> io::Result<Self> {
        let mut control = Self {
            handle: CONTROLTRACE_HANDLE { Value: 0 },
            properties: Box::new(properties(name.id, flags, cpus)),
            name: name.wide(),
        };
        let mut code = control.try_start();
        if code == ERROR_ALREADY_EXISTS {
            let mut old = Box::new(properties(name.id, flags, cpus));
            let none = CONTROLTRACE_HANDLE { Value: 0 };
            // SAFETY: the name ends with 0, and the properties say their size.
            result(unsafe {
                ControlTraceW(none, control.name.as_ptr(), &raw mut old.session, EVENT_TRACE_CONTROL_STOP)
            })?;
            *control.properties = properties(name.id, flags, cpus);
            code = control.try_start();
        }
        result(code)?;
        Ok(control)
    }

    fn try_start(&mut self) -> u32 {
        // SAFETY: the name ends with 0; the system writes into the properties, which say their size, and into the handle.
        unsafe { StartTraceW(&raw mut self.handle, self.name.as_ptr(), (&raw mut *self.properties).cast()) }
    }

    fn control(&mut self, code: EVENT_TRACE_CONTROL) -> io::Result<()> {
        // SAFETY: by the handle of the own session; the system writes into the properties, which say their size.
        result(unsafe { ControlTraceW(self.handle, null(), (&raw mut *self.properties).cast(), code) })
    }

    /// Hands out the events that the CPUs have buffered.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.control(EVENT_TRACE_CONTROL_FLUSH)
    }

    /// Events and buffers that the system lost, cumulative.
    pub(super) fn lost(&mut self) -> io::Result<u64> {
        self.control(EVENT_TRACE_CONTROL_QUERY)?;
        let session = &self.properties.session;
        Ok(u64::from(session.EventsLost) + u64::from(session.RealTimeBuffersLost))
    }
}

impl Drop for SessionController {
    fn drop(&mut self) {
        // It may have been stopped by another: then there is nothing to do. A session that did not start has no handle, and without one
        // the system would search by name.
        if self.handle.Value != 0 {
            let _ = self.control(EVENT_TRACE_CONTROL_STOP);
        }
    }
}

pub(super) trait Take: Send + Sync + 'static {
    /// Called for each event, in the thread of [`Consumer::process`].
    fn take(&self, record: &Record<'_>);
}

/// The end of a session where its events come out.
pub(super) struct Consumer<T: Take> {
    handle: PROCESSTRACE_HANDLE,
    /// Keeps the address valid that the system passes to each call.
    _taker: Arc<T>,
}

impl<T: Take> Consumer<T> {
    pub(super) fn open(name: SessionName, taker: Arc<T>) -> io::Result<Self> {
        let mut name = name.wide();
        // SAFETY: all-zero bytes are a valid value (numbers, null pointers and no functions).
        let mut file: EVENT_TRACE_LOGFILEW = unsafe { std::mem::zeroed() };
        file.LoggerName = name.as_mut_ptr();
        file.Anonymous1.ProcessTraceMode =
            PROCESS_TRACE_MODE_REAL_TIME | PROCESS_TRACE_MODE_EVENT_RECORD | PROCESS_TRACE_MODE_RAW_TIMESTAMP;
        file.Anonymous2.EventRecordCallback = Some(on_event::<T>);
        file.Context = Arc::as_ptr(&taker).cast_mut().cast::<c_void>();
        // SAFETY: the name ends with 0 and is not needed after the call. The taker lives as long as the handle: both are dropped together.
        let handle = unsafe { OpenTraceW(&raw mut file) };
        // The handle has 32 bits on some systems.
        if handle.Value == u64::MAX || handle.Value == u64::from(u32::MAX) {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { handle, _taker: taker })
    }

    /// Hands all events to the taker; returns when the session ends.
    pub(super) fn process(&self) -> io::Result<()> {
        // SAFETY: one handle, without a begin and an end.
        result(unsafe { ProcessTrace(&raw const self.handle, 1, null(), null()) })
    }
}

impl<T: Take> Drop for Consumer<T> {
    fn drop(&mut self) {
        // SAFETY: it was opened, and is closed only here.
        unsafe { CloseTrace(self.handle) };
    }
}

/// Called by the system for each event.
unsafe extern "system" fn on_event<T: Take>(event: *mut EVENT_RECORD) {
    // SAFETY: the system hands out an event that is valid during the call, and the address that `open` passed; its taker outlives the handle.
    let (event, taker) = unsafe {
        let Some(event) = event.as_ref() else { return };
        let Some(taker) = event.UserContext.cast::<T>().as_ref() else { return };
        (event, taker)
    };
    let payload = if event.UserData.is_null() {
        &[][..]
    } else {
        // SAFETY: the system says how many bytes lie there.
        unsafe { std::slice::from_raw_parts(event.UserData.cast::<u8>(), event.UserDataLength.into()) }
    };
    let header = &event.EventHeader;
    let flags = u32::from(header.Flags);
    // SAFETY: both fields of the union are plain integers.
    let cpu = unsafe {
        if flags & EVENT_HEADER_FLAG_PROCESSOR_INDEX != 0 {
            event.BufferContext.Anonymous.ProcessorIndex
        } else {
            event.BufferContext.Anonymous.Anonymous.ProcessorNumber.into()
        }
    };
    let GUID { data1, data2, data3, data4 } = header.ProviderId;
    let mut provider = [0; 16];
    provider[..4].copy_from_slice(&data1.to_le_bytes());
    provider[4..6].copy_from_slice(&data2.to_le_bytes());
    provider[6..8].copy_from_slice(&data3.to_le_bytes());
    provider[8..].copy_from_slice(&data4);
    taker.take(&Record {
        ticks: header.TimeStamp.unsigned_abs(),
        cpu,
        provider,
        opcode: header.EventDescriptor.Opcode,
        version: header.EventDescriptor.Version,
        pointer_bytes: if flags & EVENT_HEADER_FLAG_32_BIT_HEADER != 0 { 4 } else { 8 },
        payload,
    });
}
