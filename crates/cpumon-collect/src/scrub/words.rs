//! What resembles a secret in one word: the names that secrets have, what well-known ones begin with, passwords in URLs.

/// Shown in place of a secret.
pub(super) const MASK: &str = "***";
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

/// What well-known secrets begin with, and how long they are at least: such a word is one at any place. Ours are among them.
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
/// What is behind one of these in a URL is a secret: who knows it can post there.
const SECRET_PATHS: [&str; 4] =
    ["hooks.slack.com/", "webhook.office.com/", "/api/webhooks/", "api.telegram.org/bot"];
/// Start and end of a key in PEM.
pub(super) const PEM: (&str, &str) = ("-----BEGIN", "-----END");

/// The part of `word` before a well-known secret in it: in quotes, behind a `=`, in a URL.
pub(super) fn before_known_secret(word: &str) -> Option<&str> {
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
pub(super) fn before_secret(word: &str) -> Option<&str> {
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

/// Appends `word`; of `scheme://user:password@host` the password is hidden.
pub(super) fn push_without_url_password(word: &str, into: &mut String) {
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

/// Whether a name, in any spelling of it, is one of a secret.
pub(super) fn names_a_secret(name: &str) -> bool {
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
