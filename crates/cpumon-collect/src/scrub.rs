//! Command lines without secrets: a word that resembles a secret is shown as `***`, because command lines travel over
//! networks and stay in stores. In doubt it hides: after a secret, the rest of that argument goes too.

/// Programs, by how their names begin, whose options of one letter are secrets: the value follows the letter (`-pVALUE`) or is the
/// next argument.
const SECRET_LETTERS: [(&str, &str); 20] = [
    ("mysql", "p"),
    ("mariadb", "p"),
    ("mongo", "p"),
    ("sshpass", "p"),
    ("redis-cli", "a"),
    ("ldap", "w"),
    ("sqlcmd", "P"),
    ("bcp", "P"),
    ("mosquitto_", "P"),
    ("xfreerdp", "p"),
    ("7z", "p"),
    ("rar", "p"),
    ("unrar", "p"),
    ("zip", "P"),
    ("unzip", "P"),
    ("ipmitool", "P"),
    ("snmp", "cAX"),
    ("ssh-keygen", "NP"),
    ("psexec", "p"),
    ("osql", "P"),
];
/// Options of Windows' programs beside the words of secrets: `schtasks /rp`, and a whole script that `powershell` takes in base64.
const SECRET_OPTIONS: [&str; 4] = ["rp", "enc", "ec", "encodedcommand"];
/// Long options whose value is `USER:PASSWORD` or `USER%PASSWORD`, in curl and smbclient; their short ones are `-u` and `-U`.
const OF_USER: [&str; 2] = ["--user", "--proxy-user"];
/// Appends the scrubbed command line to `into`. Arguments end with NUL bytes; invalid UTF-8 becomes U+FFFD.
pub fn scrub_cmdline(raw: &[u8], into: &mut String) {
    let raw = raw.strip_suffix(b"\0").unwrap_or(raw);
    let arguments = raw.split(|&b| b == 0).map(String::from_utf8_lossy);
    scrub_arguments(arguments, OptionSyntax::WithDash, into);
}

#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum OptionSyntax {
    #[default]
    WithDash,
    /// `-` and, as programs of Windows have them, `/`.
    WithSlash,
}

impl OptionSyntax {
    fn has(self, word: &str) -> bool {
        word.starts_with('-') || (self == Self::WithSlash && word.starts_with('/'))
    }

    /// Whether `word` is an option whose value is a secret.
    fn is_secret(self, word: &str) -> bool {
        let is_of_windows = || {
            let name = word.trim_start_matches(['-', '/']);
            self == Self::WithSlash && SECRET_OPTIONS.iter().any(|option| name.eq_ignore_ascii_case(option))
        };
        self.has(word) && (names_a_secret(word) || is_of_windows())
    }
}

/// Appends the scrubbed arguments to `into`, with spaces between.
pub(crate) fn scrub_arguments<A: AsRef<str>>(
    arguments: impl Iterator<Item = A>,
    options: OptionSyntax,
    into: &mut String,
) {
    let mut state = Scrubber { options, ..Scrubber::default() };
    for (index, argument) in arguments.enumerate() {
        if index > 0 {
            into.push(' ');
        }
        state.argument(index, argument.as_ref(), into);
    }
}

/// State after the arguments so far.
#[derive(Default)]
struct Scrubber {
    options: OptionSyntax,
    next: NextArgument,
    is_curl: bool,
    /// Where `net user NAME PASSWORD` or `net use DEVICE SHARE PASSWORD` of Windows begins.
    net: Option<usize>,
    /// Options of one letter that are secrets.
    letters: &'static str,
}

#[derive(Copy, Clone, Default, PartialEq, Eq)]
enum NextArgument {
    /// An argument that is checked by itself.
    #[default]
    Any,
    Secret,
    /// `USER:PASSWORD`.
    OfUser,
    /// Part of a key in PEM, whose words are arguments of their own.
    InPem,
}

impl Scrubber {
    fn argument(&mut self, index: usize, argument: &str, into: &mut String) {
        match std::mem::take(&mut self.next) {
            NextArgument::InPem => {
                into.push_str(MASK);
                self.next = if argument.contains(PEM.1) { NextArgument::Any } else { NextArgument::InPem };
            }
            NextArgument::Secret => {
                into.push_str(MASK);
                // Either a secret that begins like an option, or an option without a value before an option that has one.
                let is_option = argument.starts_with("--") && !argument.contains('=');
                self.next = if is_option && names_a_secret(argument) {
                    NextArgument::Secret
                } else {
                    NextArgument::Any
                };
            }
            _ if self.net.is_some_and(|at| index > at + 2) && is_word_of_net(argument) => into.push_str(MASK),
            what => self.judge(argument, what == NextArgument::OfUser, into),
        }
        self.note_program(index, argument);
    }

    fn judge(&mut self, argument: &str, is_of_user: bool, into: &mut String) {
        if let Some(value) = behind_letter(argument, self.letters) {
            into.push_str(&argument[..argument.len() - value.len()]);
            if value.is_empty() {
                // `-p VALUE`: the value is the next argument.
                self.next = NextArgument::Secret;
            } else {
                into.push_str(MASK);
            }
        } else if let Some(shown) = self.before_password(argument, is_of_user) {
            into.push_str(shown);
            into.push_str(MASK);
        } else if scrub_argument(argument, self.options, into) {
            self.next = NextArgument::Secret;
        } else if argument.contains(PEM.0) && !argument.contains(PEM.1) {
            self.next = NextArgument::InPem;
        }
    }

    /// A program that runs another one in its arguments (`sudo mysql -psecret`) hides the same words as that one would.
    fn note_program(&mut self, index: usize, argument: &str) {
        let is_of_windows = self.options == OptionSyntax::WithSlash;
        let program =
            argument.rsplit(|c| c == '/' || (c == '\\' && is_of_windows)).next().unwrap_or_default();
        let is_like = |begin: &str| {
            let start = program.get(..begin.len());
            start.is_some_and(|start| start == begin || (is_of_windows && start.eq_ignore_ascii_case(begin)))
        };
        let is = |name: &&str| program.eq_ignore_ascii_case(name);
        self.is_curl |= program == "curl" || is(&"curl.exe");
        if is_of_windows && ["net", "net.exe", "net1", "net1.exe"].iter().any(is) {
            self.net = Some(index);
        } else if self.net.is_some_and(|at| index == at + 1) && !["use", "user"].iter().any(is) {
            self.net = None;
        }
        // `docker login -p secret`, and likewise podman, helm, az and oc.
        let is_login = index > 0 && argument == "login";
        let found = SECRET_LETTERS.iter().find(|(begin, _)| is_like(begin));
        self.letters = found.map_or(if is_login { "p" } else { self.letters }, |(_, letters)| letters);
    }

    /// The part of `argument` up to the password of `USER:PASSWORD`, if it has one. Notes whether the next argument is of this form.
    fn before_password<'a>(&mut self, argument: &'a str, is_of_user: bool) -> Option<&'a str> {
        if is_of_user {
            let colon = argument.find(':').or_else(|| user_end(argument));
            return colon.map(|at| &argument[..=at]);
        }
        let value = user_value(argument, self.is_curl)?;
        if value.is_empty() {
            self.next = NextArgument::OfUser;
        }
        let at = argument.len() - value.len() + user_end(value)?;
        Some(&argument[..=at])
    }
}

/// Whether an argument of `net` may be a password: no option, share or drive.
fn is_word_of_net(argument: &str) -> bool {
    !argument.starts_with(['/', '\\']) && !argument.ends_with(':') && argument != "*"
}

/// The value of an option that names a user, empty if it is the next argument.
fn user_value(argument: &str, is_curl: bool) -> Option<&str> {
    let long = OF_USER.iter().find_map(|option| argument.strip_prefix(option));
    if let Some(rest) = long {
        return if rest.is_empty() { Some(rest) } else { rest.strip_prefix('=') };
    }
    let letters = argument.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
    // curl takes several letters at once: `-sSu bob:secret`.
    let at = letters.find(['u', 'U']).filter(|at| is_curl || *at == 0)?;
    Some(&letters[at + 1..])
}

/// Where the name of a user ends and the password begins. `-url=http://h` is no user.
fn user_end(value: &str) -> Option<usize> {
    let at = value.find([':', '%'])?;
    let is_name =
        value[..at].chars().all(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '\\' | '/'));
    (at > 0 && is_name && !value[at + 1..].starts_with("//")).then_some(at)
}

/// The value behind one of `letters` in this argument, empty if it is the next one.
fn behind_letter<'a>(argument: &'a str, letters: &str) -> Option<&'a str> {
    argument.strip_prefix('-')?.strip_prefix(|c| letters.contains(c))
}

/// Appends one argument; says whether the next one is a secret.
fn scrub_argument(argument: &str, options: OptionSyntax, into: &mut String) -> bool {
    let mut words = argument.split(' ').peekable();
    while let Some(word) = words.next() {
        if let Some(shown) = before_secret(word) {
            into.push_str(shown);
            into.push_str(MASK);
            // The rest of the same argument may belong to the secret, so it is hidden too.
            return false;
        }
        if let Some(shown) = before_known_secret(word) {
            into.push_str(shown);
            into.push_str(MASK);
        } else {
            push_without_url_password(word, into);
        }
        let names_secret =
            // `Authorization: Bearer TOKEN` has its secret after this word.
            options.is_secret(word) || word.eq_ignore_ascii_case("bearer");
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

/// Shown instead of a secret.
const MASK: &str = "***";
/// A name that holds one of these anywhere is a secret's name.
const SECRET_PARTS: [&str; 17] = [
    "password",
    "passwd",
    "passphrase",
    "passwort",
    "passcode",
    "pswd",
    "secret",
    "token",
    "apikey",
    "credential",
    "authorization",
    "cookie",
    "signature",
    "privatekey",
    "accesskey",
    "accountkey",
    // `kubectl create secret generic db --from-literal=user=bob`
    "fromliteral",
];
/// A name with one of these as a word of its own (`--key`, `API_KEY`, `db.pwd`) is one too. `sig` is how URLs of Azure are signed.
const SECRET_WORDS: [&str; 9] = ["key", "pwd", "pass", "pw", "auth", "pin", "bearer", "psk", "sig"];

/// Prefixes of well-known secrets with their minimum lengths: such a word is a secret in any position. cpumon's own are among them.
const SECRET_BEGINS: [(&str, usize); 29] = [
    ("cpumon1.", 20),
    ("cpumon-login_", 20),
    ("cpumon-key1.", 20),
    ("AKIA", 20),
    ("ASIA", 20),
    ("AIza", 35),
    ("ghp_", 30),
    ("gho_", 30),
    ("ghu_", 30),
    ("ghs_", 30),
    ("ghr_", 30),
    ("github_pat_", 30),
    ("glpat-", 20),
    ("npm_", 30),
    ("pypi-", 30),
    ("xoxa-", 20),
    ("xoxb-", 20),
    ("xoxp-", 20),
    ("xoxr-", 20),
    ("xoxs-", 20),
    ("xapp-", 20),
    ("sk-", 24),
    ("sk_live_", 24),
    ("rk_live_", 24),
    ("whsec_", 24),
    ("hvs.", 24),
    ("ya29.", 30),
    ("AGE-SECRET-KEY-", 30),
    ("eyJ", 40),
];
/// The part of a URL behind one of these is a secret: anyone who has it can post there.
const SECRET_PATHS: [&str; 4] =
    ["hooks.slack.com/", "webhook.office.com/", "/api/webhooks/", "api.telegram.org/bot"];
/// Start and end of a key in PEM.
const PEM: (&str, &str) = ("-----BEGIN", "-----END");

/// The part of `word` before a well-known secret in it: in quotes, behind a `=`, in a URL.
fn before_known_secret(word: &str) -> Option<&str> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let mut at = 0;
    for piece in word.split(|c| !is_part(c)) {
        let is_one = |(begin, least): &(&str, usize)| piece.len() >= *least && piece.starts_with(begin);
        if SECRET_BEGINS.iter().any(is_one) {
            return Some(&word[..at]);
        }
        at += piece.len();
        at += word[at..].chars().next().map_or(0, char::len_utf8);
    }
    SECRET_PATHS.iter().find_map(|path| word.find(path).map(|at| &word[..at + path.len()]))
}

/// The part of `word` up to the value of a secret in it (`--token=`, `{"password":`), if it holds one.
fn before_secret(word: &str) -> Option<&str> {
    if let Some(at) = word.find(PEM.0) {
        return Some(&word[..at]);
    }
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

/// Appends `word` without the password of `scheme://user:password@host`.
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

/// Whether a name, in any spelling, is that of a secret.
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
mod tests;
