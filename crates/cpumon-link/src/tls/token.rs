//! [`Token`]: what is pasted on a device to enrol it. In: the receiver's key hash and a secret. Out: one word.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::TlsError;

const PREFIX: &str = "cpumon1.";

/// A receiver's pin and a secret that is good for one enrolment.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    /// SHA-256 of the public key that signs the receiver's certificates.
    pub pin: [u8; 32],
    /// 256 random bits.
    pub secret: [u8; 32],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Token").finish_non_exhaustive()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.pin, self.secret].concat();
        write!(f, "{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl FromStr for Token {
    type Err = TlsError;

    fn from_str(text: &str) -> Result<Self, TlsError> {
        let coded =
            text.trim().strip_prefix(PREFIX).ok_or(TlsError::Token("it does not begin with cpumon1."))?;
        let bytes = URL_SAFE_NO_PAD.decode(coded).map_err(|_| TlsError::Token("it is not whole"))?;
        match bytes.as_chunks::<32>() {
            ([pin, secret], []) => Ok(Self { pin: *pin, secret: *secret }),
            _ => Err(TlsError::Token("it is not whole")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_survives_pasting_and_shows_nothing_in_logs() {
        let token = Token { pin: [1; 32], secret: [0xfe; 32] };
        let text = token.to_string();
        assert_eq!(format!(" {text}\n").parse::<Token>().unwrap(), token);
        assert!(!text.contains(' ') && text.len() == 94);
        assert_eq!(format!("{token:?}"), "Token { .. }");
    }

    #[test]
    fn what_was_cut_is_refused() {
        let text = Token { pin: [1; 32], secret: [2; 32] }.to_string();
        for wrong in ["", "cpumon1.", &text[1..], &text[..text.len() - 1], &format!("{text}AAAA")] {
            assert!(wrong.parse::<Token>().is_err(), "{wrong}");
        }
    }
}
