//! What of a command line may be a name: the base name of a word with only the characters that files, modules and classes have. Code
//! and settings hardly ever are such words, which is the second line of defence behind the options that are known.

/// What a word names.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    Is(&'a [u8]),
    /// The working directory is the program.
    Here,
    /// It has no name, or one that may be something else.
    Unknown,
}

/// A file or a module: the name without its directories.
pub(super) fn file(word: &[u8]) -> Name<'_> {
    match path_of(word) {
        None => Name::Unknown,
        Some(b"." | b"./") => Name::Here,
        Some(path) => known(base_name(path)),
    }
}

/// `org.example.Main`, `module/org.example.Main` and `org/example/Main` are `Main`.
pub(super) fn class(word: &[u8]) -> Name<'_> {
    let is_class = |b: &u8| is_plain(*b) || *b == b'$';
    if !word.iter().all(is_class) {
        return Name::Unknown;
    }
    known(base_name(word).rsplit(|&b| b == b'.').next().unwrap_or_default())
}

/// A program of Windows as Wine writes it to the command line: `C:\windows\system32\notepad.exe`, or the path of the file.
pub(super) fn windows_program(word: &[u8]) -> Name<'_> {
    let name = word.rsplit(|&b| b == b'\\' || b == b'/').next().unwrap_or_default();
    let is_program = name.to_ascii_lowercase().ends_with(b".exe") && name.iter().all(|&b| is_plain(b));
    if is_program { known(name) } else { Name::Unknown }
}

fn known(name: &[u8]) -> Name<'_> {
    match name {
        // What begins like an option or a variable is more likely one.
        [] | [b'-' | b'$', ..] | b"." | b".." => Name::Unknown,
        name => Name::Is(name),
    }
}

/// Whether the whole word may be the path of a file.
#[must_use]
pub fn is_path(word: &[u8]) -> bool {
    word.iter().all(|&b| is_plain(b)) && !word.starts_with(b"-")
}

/// The path that a word is; of an address, what follows the host and is no question to it.
fn path_of(word: &[u8]) -> Option<&[u8]> {
    let Some(at) = word.windows(3).position(|three| three == b"://") else {
        return is_path(word).then_some(word);
    };
    let address = word.get(at + 3..)?.split(|b| matches!(b, b'?' | b'#')).next()?;
    let path = address.get(address.iter().position(|&b| b == b'/')?..)?;
    is_path(path).then_some(path)
}

/// Characters that names have and code is not written with alone: no space, no quote, no bracket, no `=`, no `;`, no `$`.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii() || b"._-+@%~/".contains(&byte)
}

/// The name without its directories; empty for descriptors such as `/dev/fd/63`, which are no file. `/dev/shm` is a directory
/// of files like any other.
pub(super) fn base_name(path: &[u8]) -> &[u8] {
    let is_device = path.starts_with(b"/dev/") && !path.starts_with(b"/dev/shm/");
    if is_device || path.starts_with(b"/proc/") {
        return &[];
    }
    let end = path.iter().rposition(|&b| b != b'/').map_or(0, |last| last + 1);
    let path = path.get(..end).unwrap_or_default();
    path.rsplit(|&b| b == b'/').next().unwrap_or_default()
}
