//! Command lines without secrets: what resembles a secret is shown as `***`, because command lines travel over networks and stay in
//! stores. In doubt it hides: after a secret, the rest of that argument goes too.

/// Shown in place of a secret.
const MASK: &str = "***";
/// A name that holds one of these anywhere is a secret's name.
const SECRET_PARTS: [&str; 12] = [
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
const SECRET_WORDS: [&str; 7] = ["key", "pwd", "pass", "pw", "auth", "pin", "bearer"];

/// Programs, by how their names begin, whose option of one letter is a secret: its value follows it (`-pVALUE`) or is the next
/// argument.
const SECRET_LETTERS: [(&str, char); 9] = [
    ("mysql", 'p'),
    ("mariadb", 'p'),
    ("sshpass", 'p'),
    ("redis-cli", 'a'),
    ("ldap", 'w'),
    ("sqlcmd", 'P'),
    ("bcp", 'P'),
    ("mosquitto_", 'P'),
    ("xfreerdp", 'p'),
];
/// Options whose value is `USER:PASSWORD` in curl and its like.
const OF_USER: [&str; 4] = ["-u", "-U", "--user", "--proxy-user"];
/// What well-known secrets begin with, and how long they are at least: such a word is one at any place.
const SECRET_BEGINS: [(&str, usize); 12] = [
    ("AKIA", 20),
    ("ASIA", 20),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghs_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("sk-", 24),
    ("sk_live_", 24),
    ("eyJ", 40),
];

/// Appends the scrubbed command line to `into`. Arguments end with NUL bytes; invalid UTF-8 becomes U+FFFD.
pub fn scrub_cmdline(raw: &[u8], into: &mut String) {
    let raw = raw.strip_suffix(b"\0").unwrap_or(raw);
    let mut hide_next = false;
    let mut is_of_user = false;
    let mut letter = None;
    for (index, argument) in raw.split(|&b| b == 0).enumerate() {
        let argument = String::from_utf8_lossy(argument);
        if index > 0 {
            into.push(' ');
        }
        let is_after_user = std::mem::take(&mut is_of_user);
        // A long option is no value: the option before it had none, and this one is judged for itself.
        if std::mem::take(&mut hide_next) && !argument.starts_with("--") {
            into.push_str(MASK);
        } else if let Some(value) = letter.and_then(|letter| behind_letter(&argument, letter)) {
            into.push_str(&argument[..argument.len() - value.len()]);
            into.push_str(if value.is_empty() { "" } else { MASK });
            // `-p VALUE`: the value is the next argument.
            hide_next = value.is_empty();
        } else if let Some((user, _)) = argument.split_once(':').filter(|_| is_after_user) {
            into.push_str(user);
            into.push(':');
            into.push_str(MASK);
        } else {
            is_of_user = OF_USER.contains(&&*argument);
            hide_next = scrub_argument(&argument, into);
        }
        // What runs another program in its arguments (`sudo mysql -psecret`) hides what that one would.
        let program = argument.rsplit('/').next().unwrap_or_default();
        letter = letter_of(program).or(letter);
    }
}

/// The option of one letter that is a secret to this program.
fn letter_of(program: &str) -> Option<char> {
    SECRET_LETTERS.iter().find(|(begin, _)| program.starts_with(begin)).map(|(_, letter)| *letter)
}

/// The value behind `-L` in this argument, empty if it is the next one.
fn behind_letter(argument: &str, letter: char) -> Option<&str> {
    argument.strip_prefix('-')?.strip_prefix(letter)
}

/// Appends one argument; says whether the next one is a secret.
fn scrub_argument(argument: &str, into: &mut String) -> bool {
    let mut words = argument.split(' ').peekable();
    while let Some(word) = words.next() {
        if let Some(shown) = before_secret(word) {
            into.push_str(shown);
            into.push_str(MASK);
            // What follows in the same argument may belong to the secret, so the rest of it goes too.
            return false;
        }
        if is_secret(word) {
            into.push_str(MASK);
        } else {
            push_without_url_password(word, into);
        }
        let names_secret =
            // `Authorization: Bearer TOKEN` has its secret after this word.
            (word.starts_with('-') && names_a_secret(word)) || word.eq_ignore_ascii_case("bearer");
        if words.peek().is_some() {
            into.push(' ');
            if names_secret || (word.ends_with(':') && names_a_secret(word)) {
                into.push_str(MASK);
                return false;
            }
        } else if names_secret || (word.ends_with([':', '=']) && names_a_secret(word)) {
            return true;
        }
    }
    false
}

/// Whether a word has the form of a well-known secret, also in quotes.
fn is_secret(word: &str) -> bool {
    // JSON in an argument puts a secret in quotes, with a comma behind it.
    let word = word.trim_matches(['"', '\'', ',']);
    let is_one = |(begin, least): &(&str, usize)| word.len() >= *least && word.starts_with(begin);
    SECRET_BEGINS.iter().any(is_one)
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The part of `word` up to the value of a secret in it (`--token=`, `{"password":`), if it holds one.
fn before_secret(word: &str) -> Option<&str> {
    let mut from = 0;
    for (at, separator) in word.char_indices().filter(|(_, c)| matches!(c, '=' | ':' | '&' | ',' | ';' | '?'))
    {
        let after = at + 1;
        if matches!(separator, '=' | ':') && after < word.len() && names_a_secret(&word[from..at]) {
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
fn names_a_secret(name: &str) -> bool {
    // On the stack, because it runs for many words of every command line; a longer name is cut.
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
    SECRET_PARTS.iter().any(|part| squeezed.contains(part))
        || name
            .split(|c: char| !c.is_ascii_alphanumeric())
            .any(|word| SECRET_WORDS.iter().any(|part| word.eq_ignore_ascii_case(part)))
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
            (&["sshpass", "-p", "hunter2", "ssh", "bob@h"], "sshpass -p *** ssh bob@h"),
            (&["sshpass", "-phunter2", "ssh"], "sshpass -p*** ssh"),
            (&["/usr/bin/mysqldump", "-u", "bob", "-phunter2", "x"], "/usr/bin/mysqldump -u bob -p*** x"),
            (&["sudo", "mariadb", "-phunter2"], "sudo mariadb -p***"),
            (&["redis-cli", "-a", "hunter2", "ping"], "redis-cli -a *** ping"),
            (&["curl", "-u", "bob:hunter2", "http://h/"], "curl -u bob:*** http://h/"),
            (&["curl", "--proxy-user", "bob:hunter2"], "curl --proxy-user bob:***"),
            (&["curl", "-H", "X-Auth-Of-Mine; Bearer hunter2"], "curl -H X-Auth-Of-Mine; Bearer ***"),
            (&["x", "AKIAIOSFODNN7EXAMPLE"], "x ***"),
            (&["gh", "ghp_0123456789abcdefghijhunter2abcdefghi"], "gh ***"),
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
            &["ssh", "-p", "22", "bob@host"],
            &["mkdir", "-p", "a/b"],
            &["mysql", "-u", "bob", "-h", "db"],
            &["curl", "-u", "bob"],
            &["python", "sk-learn.py", "AKIA", "eyJ"],
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
