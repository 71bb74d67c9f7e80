//! [`To`]: a receiver as the user names it. In: a text. Out: where datagrams go, or the address of a secure stream, or all of those that are known.

use std::str::FromStr;

use cpumon_link::tls::DEFAULT_TLS_PORT;
use cpumon_link::{ParseTargetError, Target};

const SCHEME: &str = "tls://";
const ENROLLED: &str = "enrolled";

/// Where to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Datagrams.
    Udp(Target),
    /// The secure stream, to this `host:port`.
    Stream(String),
    /// The secure stream, to each receiver that this machine is enrolled with.
    Enrolled,
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(SCHEME) {
            _ if text == ENROLLED => Ok(Self::Enrolled),
            Some(address) => parse_stream_address(address).map(Self::Stream),
            None => text.parse().map(Self::Udp).map_err(|error: ParseTargetError| error.to_string()),
        }
    }
}

/// `HOST[:PORT]` of a receiver's secure stream, with or without the scheme; without a port it is 3002.
///
/// # Errors
/// It is no address of one machine.
pub fn parse_stream_address(text: &str) -> Result<String, String> {
    let text = text.strip_prefix(SCHEME).unwrap_or(text);
    let target = Target::parse(text, DEFAULT_TLS_PORT).map_err(|error| error.to_string())?;
    match target {
        Target::Unicast(_) | Target::Name { .. } => Ok(target.to_string()),
        other => Err(format!("{other}: a secure stream goes to one machine")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_tells_a_stream_from_datagrams() {
        assert_eq!("10.0.0.1".parse(), Ok(To::Udp("10.0.0.1:3001".parse().unwrap())));
        for (text, address) in [
            ("tls://10.0.0.1", "10.0.0.1:3002"),
            ("tls://desk", "desk:3002"),
            ("tls://[::1]:9", "[::1]:9"),
            ("tls://desk:443", "desk:443"),
        ] {
            assert_eq!(text.parse(), Ok(To::Stream(address.to_owned())));
        }
        assert_eq!(
            ("enrolled".parse(), "tls://enrolled".parse()),
            (Ok(To::Enrolled), Ok(To::Stream("enrolled:3002".into())))
        );
        assert!("tls://255.255.255.255".parse::<To>().unwrap_err().contains("one machine"));
        assert!("tls://".parse::<To>().is_err() && "https://desk".parse::<To>().is_err());
    }
}
