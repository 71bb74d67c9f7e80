//! Command lines without secrets. In: the raw bytes of /proc/PID/cmdline. Out: the arguments joined by spaces, with what
//! looks like a secret shown as `***`. Why: command lines travel over networks and stay in stores. In doubt it hides:
//! after a secret, the rest of that argument goes too.

/// What stands where a secret was.
const MASK: &str = "***";
/// A name that holds one of these anywhere is a secret's name.
const TELLING: [&str; 12] = [
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "secret",
    "token",
    "apikey",
    "credential",
    "authorization",
    "cookie",
    "privatekey",
    "accesskey",
];
/// A name with one of these as a word of its own (`--key`, `API_KEY`, `db.pwd`) is one too.
const TELLING_WORDS: [&str; 7] = ["key", "pwd", "pass", "pw", "auth", "pin", "bearer"];

/// Appends the scrubbed command line to `into`. Arguments end with NUL bytes; invalid UTF-8 becomes U+FFFD.
pub fn scrub_cmdline(raw: &[u8], into: &mut String) {
    let raw = raw.strip_suffix(b"\0").unwrap_or(raw);
    let mut hide_next = false;
    for (index, argument) in raw.split(|&b| b == 0).enumerate() {
        let argument = String::from_utf8_lossy(argument);
        if index > 0 {
            into.push(' ');
        }
        if std::mem::take(&mut hide_next) && !argument.starts_with("--") {
            into.push_str(MASK);
        } else {
            hide_next = scrub_argument(&argument, into);
        }
    }
}

/// Appends one argument; says whether the next one is a secret.
fn scrub_argument(argument: &str, into: &mut String) -> bool {
    let mut words = argument.split(' ').peekable();
    while let Some(word) = words.next() {
        if let Some(shown) = before_secret(word) {
            into.push_str(shown);
            into.push_str(MASK);
            return false;
        }
        push_without_url_password(word, into);
        let names_secret = word.starts_with('-') && is_telling(word);
        if words.peek().is_some() {
            into.push(' ');
            if names_secret || (word.ends_with(':') && is_telling(word)) {
                into.push_str(MASK);
                return false;
            }
        } else if names_secret || (word.ends_with([':', '=']) && is_telling(word)) {
            return true;
        }
    }
    false
}

/// The part of `word` up to the value of a secret in it (`--token=`, `{"password":`), if it holds one.
fn before_secret(word: &str) -> Option<&str> {
    let mut from = 0;
    for (at, separator) in word.char_indices().filter(|(_, c)| matches!(c, '=' | ':' | '&' | ',' | ';' | '?'))
    {
        let after = at + 1;
        if matches!(separator, '=' | ':') && after < word.len() && is_telling(&word[from..at]) {
            return Some(&word[..after]);
        }
        from = after;
    }
    None
}

/// Appends `word`; of `scheme://user:password@host` the password is hidden.
fn push_without_url_password(word: &str, into: &mut String) {
    let mut rest = word;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        into.push_str(head);
        rest = tail;
        let authority = &tail[..tail.find(['/', '?', '#', '"', '\'']).unwrap_or(tail.len())];
        let Some(end) = authority.rfind('@') else { continue };
        // A lone name before the @ is often a token: it is hidden as well.
        let user_end = authority[..end].find(':').map_or(0, |colon| colon + 1);
        into.push_str(&authority[..user_end]);
        into.push_str(MASK);
        rest = &tail[end..];
    }
    into.push_str(rest);
}

/// Whether a name is that of a secret.
fn is_telling(name: &str) -> bool {
    let mut letters = [0_u8; 64];
    let mut count = 0;
    // Separators out: api-key, api_key and apikey are one.
    for byte in name.bytes().filter(u8::is_ascii_alphanumeric) {
        if let Some(letter) = letters.get_mut(count) {
            *letter = byte.to_ascii_lowercase();
            count += 1;
        }
    }
    let squeezed = std::str::from_utf8(&letters[..count]).unwrap_or_default();
    TELLING.iter().any(|telling| squeezed.contains(telling))
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| TELLING_WORDS.iter().any(|telling| word.eq_ignore_ascii_case(telling)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scrubbed(arguments: &[&str]) -> String {
        let mut text = String::new();
        scrub_cmdline((arguments.join("\0") + "\0").as_bytes(), &mut text);
        text
    }

    #[test]
    fn secrets_are_hidden() {
        for (arguments, shown) in [
            (&["mysqld", "--password=hunter2"][..], "mysqld --password=***"),
            (&["x", "--password", "hunter2", "-v"], "x --password *** -v"),
            (&["x", "--api-key", "hunter2"], "x --api-key ***"),
            (&["env", "DB_PASSWORD=hunter2", "run"], "env DB_PASSWORD=*** run"),
            (&["env", "AWS_SECRET_ACCESS_KEY=hunter2"], "env AWS_SECRET_ACCESS_KEY=***"),
            (
                &["psql", "postgres://bob:hunter2@db/x?sslmode=off"],
                "psql postgres://bob:***@db/x?sslmode=off",
            ),
            (&["git", "clone", "https://hunter2@github.com/x"], "git clone https://***@github.com/x"),
            (&["curl", "-H", "Authorization: Bearer hunter2"], "curl -H Authorization: ***"),
            (&["curl", "http://h/?a=1&token=hunter2"], "curl http://h/?a=1&token=***"),
            (&["curl", "-d", "{\"password\":\"hunter2\"}"], "curl -d {\"password\":***"),
            (&["sh", "-c", "TOKEN=hunter2 exec serve"], "sh -c TOKEN=***"),
            (&["x", "--password=hunter2 hunter2"], "x --password=***"),
            (&["x", "--token=", "hunter2"], "x --token= ***"),
            (&["java", "-Ddb.pwd=hunter2"], "java -Ddb.pwd=***"),
        ] {
            assert_eq!(scrubbed(arguments), shown);
        }
    }

    #[test]
    fn what_is_no_secret_stays() {
        for arguments in [
            &["vim", "/etc/passwd"][..],
            &["setxkbmap", "--keyboard=us"],
            &["curl", "http://host:8080/path?x=1"],
            &["git", "commit", "--author=bob"],
            &["ssh", "bob@host"],
            &["server", "--port", "80", "--monkey=1"],
            &["x", "--verbose-tokenless"][..1],
        ] {
            assert_eq!(scrubbed(arguments), arguments.join(" "));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_do(raw in prop::collection::vec(any::<u8>(), 0..300)) {
            scrub_cmdline(&raw, &mut String::new());
        }

        #[test]
        fn a_password_never_shows(before in "[ -~]{0,20}", after in "[ -~]{0,20}") {
            let text = scrubbed(&[&before, "--password=hunter2", &after]);
            prop_assert!(!text.contains("hunter2"), "{text}");
        }
    }
}
