//! A command line of Windows is one text, which each program splits by itself. Here it is split as Microsoft's C library does, so that
//! secrets are found in arguments as on other systems.

use super::text::push_text;
use crate::scrub::{Options, scrub_arguments};

/// Most bytes of a command line that are read, as on Linux.
const MAX_BYTES: usize = 4_096;

/// The arguments without secrets, joined by spaces; `raw` is the whole text in UTF-16.
#[must_use]
pub fn scrubbed_command_line(raw: &[u8]) -> String {
    let mut line = String::new();
    push_text(raw.get(..MAX_BYTES * 2).unwrap_or(raw), &mut line);
    let arguments = split(&line);
    let mut shown = String::with_capacity(line.len());
    scrub_arguments(arguments.iter().map(String::as_str), Options::WithSlash, &mut shown);
    shown
}

/// Quotes hold words together; a backslash counts only in front of quotes, where two are one and an odd one makes the quote a
/// character. In the program's name it is always a character.
fn split(line: &str) -> Vec<String> {
    let mut arguments = Vec::new();
    let mut rest = line.chars().peekable();
    while let Some(first) = rest.next() {
        if is_space(first) && !arguments.is_empty() {
            continue;
        }
        let is_program = arguments.is_empty();
        let mut argument = String::new();
        let (mut next, mut is_quoted) = (Some(first), false);
        while let Some(one) = next {
            match one {
                '\\' if !is_program => {
                    let mut count = 1;
                    while rest.next_if_eq(&'\\').is_some() {
                        count += 1;
                    }
                    let is_before_quote = rest.peek() == Some(&'"');
                    let shown = if is_before_quote { count / 2 } else { count };
                    argument.extend(std::iter::repeat_n('\\', shown));
                    if is_before_quote && count % 2 == 1 {
                        argument.extend(rest.next());
                    }
                }
                '"' if is_quoted && !is_program && rest.next_if_eq(&'"').is_some() => argument.push('"'),
                '"' => is_quoted = !is_quoted,
                one if is_space(one) && !is_quoted => break,
                one => argument.push(one),
            }
            next = rest.next();
        }
        arguments.push(argument);
    }
    arguments
}

fn is_space(one: char) -> bool {
    matches!(one, ' ' | '\t')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_as_the_c_library_does() {
        for (line, arguments) in [
            (r"a.exe b  c", &["a.exe", "b", "c"][..]),
            (r#""C:\Program Files\a.exe" "b c" d"#, &[r"C:\Program Files\a.exe", "b c", "d"]),
            (r#"a "b\"c" \\srv\x "d\\" e\\\"f"#, &["a", "b\"c", r"\\srv\x", r"d\", "e\\\"f"]),
            (r#"a "" "b""c" x"y z"w"#, &["a", "", "b\"c", "xy zw"]),
            (r#"a "open end"#, &["a", "open end"]),
            ("", &[]),
            (" a", &["", "a"]),
        ] {
            assert_eq!(split(line), arguments, "{line}");
        }
    }

    #[test]
    fn secrets_are_hidden_as_programs_of_windows_write_them() {
        for (line, shown) in [
            (
                r#""C:\Program Files\MySQL\MySQLDump.exe" -u bob -phunter2 x"#,
                r"C:\Program Files\MySQL\MySQLDump.exe -u bob -p*** x",
            ),
            (r"C:\Windows\curl.exe -sSu bob:hunter2 h", r"C:\Windows\curl.exe -sSu bob:*** h"),
            ("wmic /node:x /password:hunter2 os", "wmic /node:x /password:*** os"),
            ("cmdkey /add:h /user:bob /pass:hunter2", "cmdkey /add:h /user:bob /pass:***"),
            ("x /Password hunter2 /v", "x /Password *** /v"),
            ("schtasks /create /ru bob /rp hunter2 /tn t", "schtasks /create /ru bob /rp *** /tn t"),
            (r"net use X: \\srv\share hunter2 /user:bob", r"net use X: \\srv\share *** /user:bob"),
            (
                r"C:\Windows\System32\net1.EXE user bob hunter2 /add",
                r"C:\Windows\System32\net1.EXE user bob *** /add",
            ),
            ("psexec.exe \\\\h -u bob -p hunter2 cmd", "psexec.exe \\\\h -u bob -p *** cmd"),
            ("plink -pw hunter2 bob@h", "plink -pw *** bob@h"),
            (
                "powershell -NoProfile -EncodedCommand aHVudGVyMg==",
                "powershell -NoProfile -EncodedCommand ***",
            ),
            ("pwsh -enc aHVudGVyMg==", "pwsh -enc ***"),
            ("sqlcmd -S h -P hunter2", "sqlcmd -S h -P ***"),
            ("x \"Server=h;Pwd=hunter2;\"", "x Server=h;Pwd=***"),
        ] {
            let raw: Vec<u8> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(scrubbed_command_line(&raw), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for line in [
            r"C:\Windows\system32\svchost.exe -k netsvcs -p -s Schedule",
            "cmd.exe /c dir /s",
            "net start Dnscache",
            "msbuild /p:Configuration=Release /m",
        ] {
            let raw: Vec<u8> = line.encode_utf16().flat_map(u16::to_le_bytes).collect();
            assert_eq!(scrubbed_command_line(&raw), line);
        }
    }
}
