//! The calls of Windows for owners and access lists, and [`Sid`], the name of a user or group in them. The only file of this crate with
//! unsafe code.

#![expect(unsafe_code, reason = "the standard library has no access lists")]

use std::fs::File;
use std::mem::zeroed;
use std::os::windows::ffi::OsStrExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::{fmt, io};

use windows_sys::Win32::Foundation::{
    ERROR_LOCK_VIOLATION, GENERIC_READ, GENERIC_WRITE, HANDLE, INVALID_HANDLE_VALUE, LocalFree,
};
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, GetNamedSecurityInfoW, GetSecurityInfo,
    SDDL_REVISION_1, SE_FILE_OBJECT,
};
use windows_sys::Win32::Security::{
    ACCESS_ALLOWED_ACE, ACE_HEADER, ACL, DACL_SECURITY_INFORMATION, GetAce, GetLengthSid,
    GetTokenInformation, INHERIT_ONLY_ACE, OWNER_SECURITY_INFORMATION, PSECURITY_DESCRIPTOR, PSID,
    SECURITY_ATTRIBUTES, TOKEN_ELEVATION, TOKEN_QUERY, TOKEN_USER, TokenElevation, TokenUser,
};
use windows_sys::Win32::Storage::FileSystem::{
    BY_HANDLE_FILE_INFORMATION, CREATE_NEW, CreateDirectoryW, CreateFileW, FILE_FLAG_BACKUP_SEMANTICS,
    FILE_FLAG_OPEN_REPARSE_POINT, FILE_READ_ATTRIBUTES, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE,
    GetFileInformationByHandle, OPEN_ALWAYS, OPEN_EXISTING, SYNCHRONIZE,
};
use windows_sys::Win32::System::SystemServices::{ACCESS_ALLOWED_ACE_TYPE, ACCESS_DENIED_ACE_TYPE};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

/// Error of reading a locked file.
pub const LOCK_VIOLATION: i32 = ERROR_LOCK_VIOLATION.cast_signed();
/// Rights that give nothing of a file's content away: its attributes, and waiting for it.
const HARMLESS: u32 = FILE_READ_ATTRIBUTES | SYNCHRONIZE;

/// A security id; the bytes: revision, count of parts, authority, parts of 4 bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sid(pub Vec<u8>);

impl Sid {
    /// LocalSystem (`S-1-5-18`): the system and services that run as it.
    pub const SYSTEM: &[u8] = &[1, 1, 0, 0, 0, 0, 0, 5, 18, 0, 0, 0];
    /// The group of administrators (`S-1-5-32-544`).
    pub const ADMINISTRATORS: &[u8] = &[1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 32, 2, 0, 0];

    /// Whether it is `us`, or may do everything on this machine anyway.
    pub fn is_trusted(&self, us: &Self) -> bool {
        self == us || self.0 == Self::SYSTEM || self.0 == Self::ADMINISTRATORS
    }
}

impl fmt::Display for Sid {
    /// Writes the textual form, such as `S-1-5-32-544`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [revision, _, authority @ ..] = self.0.first_chunk::<8>().unwrap_or(&[0; 8]);
        let authority = authority.iter().fold(0_u64, |sum, byte| sum << 8 | u64::from(*byte));
        write!(f, "S-{revision}-{authority}")?;
        let (parts, _) = self.0.get(8..).unwrap_or_default().as_chunks::<4>();
        parts.iter().try_for_each(|part| write!(f, "-{}", u32::from_le_bytes(*part)))
    }
}

/// Memory that Windows allocated, an owner and an access list.
pub struct Descriptor(PSECURITY_DESCRIPTOR);

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: the pointer came from a call that says to free it so, and nothing else frees it.
        unsafe { LocalFree(self.0) };
    }
}

impl Descriptor {
    /// For objects that are made for this user, SYSTEM and administrators, and inherit no rights. Objects made in such a
    /// directory get the same list.
    pub fn private(us: &Sid) -> io::Result<Self> {
        let text = format!("D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;FA;;;{us})");
        let text: Vec<u16> = text.encode_utf16().chain([0]).collect();
        let mut made = null_mut();
        // SAFETY: the text ends with 0, and `made` is written on success only.
        let done = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut made,
                null_mut(),
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(made)) }
    }

    fn attributes(&self) -> SECURITY_ATTRIBUTES {
        let bytes = u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).unwrap_or(0);
        SECURITY_ATTRIBUTES { nLength: bytes, lpSecurityDescriptor: self.0, bInheritHandle: 0 }
    }
}

#[derive(Copy, Clone)]
pub enum Access {
    /// For reading; it must exist.
    Read,
    /// For reading and writing; a missing one is made.
    Write,
    /// For writing; it must not exist.
    CreateNew,
}

/// Opens a file, not the target of a link of its name.
pub fn open(path: &Path, access: Access, new: Option<&Descriptor>) -> io::Result<File> {
    let name = wide(path);
    let (rights, disposition) = match access {
        Access::Read => (GENERIC_READ, OPEN_EXISTING),
        Access::Write => (GENERIC_READ | GENERIC_WRITE, OPEN_ALWAYS),
        Access::CreateNew => (GENERIC_WRITE, CREATE_NEW),
    };
    let attributes = new.map(Descriptor::attributes);
    // SAFETY: the name ends with 0; the attributes and the descriptor in them live over the call.
    let handle = unsafe {
        CreateFileW(
            name.as_ptr(),
            rights,
            // As the standard library opens files: others may read, write, rename and delete them.
            FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE,
            attributes.as_ref().map_or(null(), |attributes| attributes),
            disposition,
            // Without BACKUP_SEMANTICS a directory would be refused as "access denied", not as a directory.
            FILE_FLAG_OPEN_REPARSE_POINT | FILE_FLAG_BACKUP_SEMANTICS,
            null_mut(),
        )
    };
    if handle == INVALID_HANDLE_VALUE {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made the handle, and nothing else has it.
    Ok(unsafe { File::from_raw_handle(handle) })
}

pub fn create_dir(dir: &Path, new: &Descriptor) -> io::Result<()> {
    let (name, attributes) = (wide(dir), new.attributes());
    // SAFETY: the name ends with 0; the attributes and the descriptor in them live over the call.
    let done = unsafe { CreateDirectoryW(name.as_ptr(), &raw const attributes) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

/// Number of hard links to a file.
pub fn link_count(file: &File) -> io::Result<u32> {
    // SAFETY: all-zero bytes are a valid value of this plain struct.
    let mut about: BY_HANDLE_FILE_INFORMATION = unsafe { zeroed() };
    // SAFETY: the handle is open, and the call writes one struct.
    let done = unsafe { GetFileInformationByHandle(file.as_raw_handle(), &raw mut about) };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(about.nNumberOfLinks) }
}

/// Owner of a file, and its access list.
pub struct Rights {
    pub owner: Sid,
    /// Entries that let somebody do something; `None`: anyone everything.
    allowed: Option<Vec<Sid>>,
}

impl Rights {
    /// Anyone besides `us`, SYSTEM and administrators who may read or change the file.
    pub fn others(&self, us: &Sid) -> Option<String> {
        match &self.allowed {
            None => Some("everyone".to_owned()),
            Some(allowed) => allowed.iter().find(|sid| !sid.is_trusted(us)).map(Sid::to_string),
        }
    }
}

pub fn rights_of(file: &File) -> io::Result<Rights> {
    let (mut owner, mut list, mut descriptor) = (null_mut(), null_mut(), null_mut());
    // SAFETY: the handle is open; the pointers are written on success, into `descriptor`'s memory.
    let error = unsafe {
        GetSecurityInfo(
            file.as_raw_handle(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION | DACL_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            &raw mut list,
            null_mut(),
            &raw mut descriptor,
        )
    };
    check(error)?;
    let _freed = Descriptor(descriptor);
    // SAFETY: owner and list are in the descriptor, which lives until the end of this function.
    unsafe { Ok(Rights { owner: copy(owner)?, allowed: allowed(list)? }) }
}

pub fn owner_of(path: &Path) -> io::Result<Sid> {
    let name = wide(path);
    let (mut owner, mut descriptor) = (null_mut(), null_mut());
    // SAFETY: the name ends with 0; the pointers are written on success, into `descriptor`'s memory.
    let error = unsafe {
        GetNamedSecurityInfoW(
            name.as_ptr(),
            SE_FILE_OBJECT,
            OWNER_SECURITY_INFORMATION,
            &raw mut owner,
            null_mut(),
            null_mut(),
            null_mut(),
            &raw mut descriptor,
        )
    };
    check(error)?;
    let _freed = Descriptor(descriptor);
    // SAFETY: the owner is in the descriptor, which lives until the end of this function.
    unsafe { copy(owner) }
}

/// Users with any harmful right in an access list.
///
/// # Safety
/// `list` is null or a valid access list.
unsafe fn allowed(list: *const ACL) -> io::Result<Option<Vec<Sid>>> {
    // SAFETY: as the caller promises.
    let Some(count) = (unsafe { list.as_ref() }).map(|list| u32::from(list.AceCount)) else {
        return Ok(None);
    };
    let mut sids = Vec::new();
    for at in 0..count {
        let mut entry = null_mut();
        // SAFETY: the list is valid, and GetAce refuses an index beyond its end.
        if unsafe { GetAce(list, at, &raw mut entry) } == 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: every entry begins with a header.
        let header = unsafe { *entry.cast::<ACE_HEADER>() };
        let is_inherited_only = u32::from(header.AceFlags) & INHERIT_ONLY_ACE != 0;
        match u32::from(header.AceType) {
            ACCESS_DENIED_ACE_TYPE => {}
            _ if is_inherited_only => {}
            ACCESS_ALLOWED_ACE_TYPE => {
                let entry = entry.cast::<ACCESS_ALLOWED_ACE>();
                // SAFETY: an entry of this type has a mask, and a security id from `SidStart` on.
                unsafe {
                    if (*entry).Mask & !HARMLESS != 0 {
                        sids.push(copy((&raw mut (*entry).SidStart).cast())?);
                    }
                }
            }
            // Entries with conditions or for objects: their users are not determined here.
            other => return Err(io::Error::other(format!("its access list has an entry of type {other}"))),
        }
    }
    Ok(Some(sids))
}

/// # Safety
/// `sid` is null or a valid security id.
unsafe fn copy(sid: PSID) -> io::Result<Sid> {
    if sid.is_null() {
        return Err(io::Error::other("it has no owner"));
    }
    // SAFETY: as the caller promises; the id is as long as the call says.
    let bytes = unsafe { std::slice::from_raw_parts(sid.cast::<u8>(), GetLengthSid(sid) as usize) };
    Ok(Sid(bytes.to_vec()))
}

pub fn this_user() -> io::Result<Sid> {
    let token = token()?;
    // Aligned for the struct; a security id has at most 68 bytes.
    let mut buffer = [0_u64; 16];
    let mut length = 0;
    // SAFETY: the token is open, and the buffer has the length that is given.
    let done = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            buffer.as_mut_ptr().cast(),
            u32::try_from(size_of_val(&buffer)).unwrap_or(0),
            &raw mut length,
        )
    };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call wrote the struct, whose security id is behind it in the same buffer.
    unsafe { copy((*buffer.as_ptr().cast::<TOKEN_USER>()).User.Sid) }
}

pub fn is_elevated() -> io::Result<bool> {
    let token = token()?;
    let (mut elevation, mut length) = (TOKEN_ELEVATION { TokenIsElevated: 0 }, 0);
    // SAFETY: the token is open, and the struct has the length that is given.
    let done = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenElevation,
            (&raw mut elevation).cast(),
            u32::try_from(size_of::<TOKEN_ELEVATION>()).unwrap_or(0),
            &raw mut length,
        )
    };
    if done == 0 { Err(io::Error::last_os_error()) } else { Ok(elevation.TokenIsElevated != 0) }
}

fn token() -> io::Result<OwnedHandle> {
    let mut token: HANDLE = null_mut();
    // SAFETY: the handle is written on success only; the process's own handle needs no closing.
    let done = unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_QUERY, &raw mut token) };
    if done == 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above made the handle, and nothing else has it.
    Ok(unsafe { OwnedHandle::from_raw_handle(token) })
}

fn check(error: u32) -> io::Result<()> {
    if error == 0 { Ok(()) } else { Err(io::Error::from_raw_os_error(error.cast_signed())) }
}

fn wide(path: &Path) -> Vec<u16> {
    path.as_os_str().encode_wide().chain([0]).collect()
}
