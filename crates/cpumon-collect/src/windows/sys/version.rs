//! Images of processes and the product names in them. A service with the rights of SYSTEM opens files here that any user
//! may have put there: only files on fixed local disks, without a link on the way, held open while they are read.

use std::ffi::{CStr, c_void};
use std::mem::transmute;
use std::ptr::null_mut;
use std::sync::OnceLock;

use windows_sys::Win32::Foundation::{GENERIC_READ, HMODULE};
use windows_sys::Win32::Storage::FileSystem::{
    CreateFileW, FILE_ATTRIBUTE_OFFLINE, FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS, FILE_ATTRIBUTE_RECALL_ON_OPEN,
    FILE_ATTRIBUTE_REPARSE_POINT, FILE_FLAG_OPEN_REPARSE_POINT, FILE_SHARE_READ, FILE_VER_GET_NEUTRAL,
    GetDriveTypeW, GetFileAttributesW, GetFinalPathNameByHandleW, INVALID_FILE_ATTRIBUTES, OPEN_EXISTING,
    SECURITY_IDENTIFICATION, SECURITY_SQOS_PRESENT, VOLUME_NAME_DOS,
};
use windows_sys::Win32::System::LibraryLoader::{
    GetProcAddress, LOAD_LIBRARY_SEARCH_SYSTEM32, LoadLibraryExW,
};
use windows_sys::Win32::System::Threading::{PROCESS_NAME_WIN32, QueryFullProcessImageNameW};

use super::{Handle, open_process, wide};
use crate::nt::{is_plain_path, product_text};

/// Longest path, units of UTF-16. A longer one is not read.
const MAX_PATH_UNITS: usize = 1_024;
/// Largest version data. Windows asks for twice the resource, and programs have some kB.
pub(in super::super) const MAX_VERSION_BYTES: usize = 64 << 10;
/// Languages of a resource that are tried.
const MOST_LANGUAGES: usize = 8;
/// `DRIVE_FIXED`; `windows-sys` has it only in a feature of 4,000 constants.
const DRIVE_FIXED: u32 = 3;
/// Attributes of links, and of files whose content is not on the disk.
const NOT_HERE: u32 = FILE_ATTRIBUTE_REPARSE_POINT
    | FILE_ATTRIBUTE_OFFLINE
    | FILE_ATTRIBUTE_RECALL_ON_OPEN
    | FILE_ATTRIBUTE_RECALL_ON_DATA_ACCESS;

pub(in super::super) fn image_path(pid: u32) -> Option<Vec<u16>> {
    let process = open_process(pid).ok()?;
    let (mut path, mut length) = ([0_u16; MAX_PATH_UNITS], u32::try_from(MAX_PATH_UNITS).ok()?);
    // SAFETY: the handle is open, and the system writes at most `length` units.
    let is_read = unsafe {
        QueryFullProcessImageNameW(process.0, PROCESS_NAME_WIN32, path.as_mut_ptr(), &raw mut length)
    };
    path.get(..usize::try_from(length).ok()?).filter(|_| is_read != 0).map(<[u16]>::to_vec)
}

/// The product name of a file. `None`: it has none, its version data is larger than this, or the file is not to be opened.
pub(in super::super) fn product_of(path: &[u16], most_bytes: usize) -> Option<String> {
    if !is_on_fixed_disk(path) || !is_plain_path(path) || !has_no_links(path) {
        return None;
    }
    // Open until the end, and not to be renamed or removed: no directory above it can be replaced meanwhile.
    let file = open_file(path)?;
    let resolved = resolved_path(&file)?;
    if !is_on_fixed_disk(&resolved) || !is_plain_path(&resolved) {
        return None;
    }
    VersionCalls::loaded()?.read(&resolved, most_bytes)?.product()
}

/// `C:\…` of a drive that is neither removable nor on the network. A path of another form has no drive, as `\\server\share` has none.
fn is_on_fixed_disk(path: &[u16]) -> bool {
    let &[letter, colon, separator, ..] = path else { return false };
    let is_letter = u8::try_from(letter).is_ok_and(|letter| letter.is_ascii_alphabetic());
    let has_drive = is_letter && colon == u16::from(b':') && separator == u16::from(b'\\');
    let root = [letter, colon, separator, 0];
    // SAFETY: the text ends with 0.
    has_drive && unsafe { GetDriveTypeW(root.as_ptr()) } == DRIVE_FIXED
}

/// From the root on, so that each directory is known to be one before a name in it is asked for.
fn has_no_links(path: &[u16]) -> bool {
    let is_here = |part: &[u16]| {
        let part = ended(part);
        // SAFETY: the text ends with 0.
        let attributes = unsafe { GetFileAttributesW(part.as_ptr()) };
        attributes != INVALID_FILE_ATTRIBUTES && attributes & NOT_HERE == 0
    };
    let separators = path.iter().enumerate().skip(3).filter(|(_, unit)| **unit == u16::from(b'\\'));
    separators.map(|(at, _)| at).chain([path.len()]).all(|end| is_here(&path[..end]))
}

fn open_file(path: &[u16]) -> Option<Handle> {
    let path = ended(path);
    let (no_rights, no_template) = (null_mut(), null_mut());
    // SAFETY: the text ends with 0; nothing else is a pointer.
    Handle::new(unsafe {
        // Should it be a pipe in spite of all, its server learns the client's identity, and cannot act in that name.
        let flags = FILE_FLAG_OPEN_REPARSE_POINT | SECURITY_SQOS_PRESENT | SECURITY_IDENTIFICATION;
        CreateFileW(
            path.as_ptr(),
            GENERIC_READ,
            FILE_SHARE_READ,
            no_rights,
            OPEN_EXISTING,
            flags,
            no_template,
        )
    })
}

/// Where the open file is, without `\\?\` before the drive.
fn resolved_path(file: &Handle) -> Option<Vec<u16>> {
    let mut path = [0_u16; MAX_PATH_UNITS];
    let size = u32::try_from(path.len()).ok()?;
    // SAFETY: the handle is open, and the system writes at most `size` units. A greater length is the size that it needs.
    let length = unsafe { GetFinalPathNameByHandleW(file.0, path.as_mut_ptr(), size, VOLUME_NAME_DOS) };
    let path = path.get(..usize::try_from(length).ok()?)?;
    let prefix = r"\\?\".encode_utf16();
    Some(path.strip_prefix(&prefix.collect::<Vec<_>>()[..])?.to_vec())
}

fn ended(path: &[u16]) -> Vec<u16> {
    path.iter().copied().take_while(|unit| *unit != 0).chain([0]).collect()
}

type SizeOfVersion = unsafe extern "system" fn(u32, *const u16, *mut u32) -> u32;
type ReadVersion = unsafe extern "system" fn(u32, *const u16, u32, u32, *mut c_void) -> i32;
type QueryVersion = unsafe extern "system" fn(*const c_void, *const u16, *mut *mut c_void, *mut u32) -> i32;

/// Functions of `version.dll`, which is loaded when the first image is read, and out of the directory of the system only.
struct VersionCalls {
    size: SizeOfVersion,
    read: ReadVersion,
    query: QueryVersion,
}

impl VersionCalls {
    fn loaded() -> Option<&'static Self> {
        static CALLS: OnceLock<Option<VersionCalls>> = OnceLock::new();
        CALLS.get_or_init(Self::load).as_ref()
    }

    fn load() -> Option<Self> {
        let name = wide("version.dll");
        // SAFETY: the name ends with 0. The library is never unloaded.
        let library = unsafe { LoadLibraryExW(name.as_ptr(), null_mut(), LOAD_LIBRARY_SEARCH_SYSTEM32) };
        if library.is_null() {
            log::info!("product names are not read: version.dll cannot be loaded");
            return None;
        }
        // SAFETY: the functions have these types, as Windows documents them.
        unsafe {
            Some(Self {
                size: transmute::<Function, SizeOfVersion>(function(library, c"GetFileVersionInfoSizeExW")?),
                read: transmute::<Function, ReadVersion>(function(library, c"GetFileVersionInfoExW")?),
                query: transmute::<Function, QueryVersion>(function(library, c"VerQueryValueW")?),
            })
        }
    }

    fn read(&'static self, path: &[u16], most_bytes: usize) -> Option<Version> {
        let (path, mut unused) = (ended(path), 0);
        // SAFETY: the text ends with 0, and the number is on this stack.
        let size = unsafe { (self.size)(FILE_VER_GET_NEUTRAL, path.as_ptr(), &raw mut unused) };
        let bytes = usize::try_from(size).ok().filter(|bytes| (1..=most_bytes).contains(bytes))?;
        // In words of 8, as the data has numbers.
        let mut data = vec![0_u64; bytes.div_ceil(8)];
        // SAFETY: the text ends with 0, and the system writes at most `size` bytes into the data.
        let is_read =
            unsafe { (self.read)(FILE_VER_GET_NEUTRAL, path.as_ptr(), 0, size, data.as_mut_ptr().cast()) };
        (is_read != 0).then_some(Version { calls: self, data })
    }
}

type Function = unsafe extern "system" fn() -> isize;

fn function(library: HMODULE, name: &CStr) -> Option<Function> {
    // SAFETY: the library is loaded, and the name ends with 0.
    unsafe { GetProcAddress(library, name.as_ptr().cast()) }
}

struct Version {
    calls: &'static VersionCalls,
    data: Vec<u64>,
}

impl Version {
    /// In the first language that the file names, else in English.
    fn product(&self) -> Option<String> {
        let languages = self.value("\\VarFileInfo\\Translation", 1).unwrap_or_default();
        let named = languages.as_chunks::<4>().0.iter().take(MOST_LANGUAGES).map(|pair| {
            let [language, page] = [[pair[0], pair[1]], [pair[2], pair[3]]].map(u16::from_le_bytes);
            u32::from(language) << 16 | u32::from(page)
        });
        let mut tried = named.chain([0x0409_04b0, 0x0409_04e4]);
        tried.find_map(|language| {
            let text = self.value(&format!("\\StringFileInfo\\{language:08x}\\ProductName"), 2)?;
            Some(product_text(text)).filter(|product| !product.is_empty())
        })
    }

    /// The value of this name; its length is in units of `unit_bytes`.
    fn value(&self, name: &str, unit_bytes: usize) -> Option<&[u8]> {
        let name = wide(name);
        let (mut at, mut length) = (null_mut(), 0);
        // SAFETY: the data was written by the system, and the name ends with 0.
        let is_found = unsafe {
            (self.calls.query)(self.data.as_ptr().cast(), name.as_ptr(), &raw mut at, &raw mut length)
        };
        // SAFETY: any bytes of numbers may be read.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.data.as_ptr().cast::<u8>(), size_of_val(&*self.data)) };
        // The file itself says where its value is, so an address outside of the data is no value.
        let from = (at as usize).checked_sub(bytes.as_ptr() as usize).filter(|_| is_found != 0)?;
        let length = usize::try_from(length).ok()?.checked_mul(unit_bytes)?;
        bytes.get(from..from.checked_add(length)?)
    }
}
