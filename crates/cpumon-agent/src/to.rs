//! [`To`]: a receiver as the user names it: an address for datagrams, an address for a TLS connection, or every receiver that this
//! machine is enrolled with.

use std::str::FromStr;

use cpumon_link::tls::DEFAULT_TLS_PORT;
use cpumon_link::{ParseTargetError, Target};

const SCHEME: &str = "tls://";
const ENROLLED: &str = "enrolled";

/// Where to send snapshots.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum To {
    /// Datagrams to this address.
    Udp(Target),
    /// A TLS connection to this `host:port`.
    Tls(String),
    /// A TLS connection to each receiver that this machine is enrolled with.
    Enrolled,
}

impl FromStr for To {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix(SCHEME) {
            _ if text == ENROLLED => Ok(Self::Enrolled),
            Some(address) => parse_receiver_address(address).map(Self::Tls),
            None => text.parse().map(Self::Udp).map_err(|error: ParseTargetError| error.to_string()),
        }
    }
}

/// Parses `HOST[:PORT]` of a receiver, with or without `tls://`. The default port is 3002.
///
/// # Errors
/// The text is not the address of one machine.
pub fn parse_receiver_address(text: &str) -> Result<String, String> {
    let text = text.strip_prefix(SCHEME).unwrap_or(text);
    let target = Target::parse(text, DEFAULT_TLS_PORT).map_err(|error| error.to_string())?;
    match target {
        Target::Unicast(_) | Target::Name { .. } => Ok(target.to_string()),
        other => Err(format!("{other}: tls:// needs the address of one machine")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheme_separates_tls_from_datagrams() {
        assert_eq!("10.0.0.1".parse(), Ok(To::Udp("10.0.0.1:3001".parse().unwrap())));
        for (text, address) in [
            ("tls://10.0.0.1", "10.0.0.1:3002"),
            ("tls://receiver", "receiver:3002"),
            ("tls://[::1]:9", "[::1]:9"),
            ("tls://receiver:443", "receiver:443"),
        ] {
            assert_eq!(text.parse(), Ok(To::Tls(address.to_owned())));
        }
        assert_eq!(
            ("enrolled".parse(), "tls://enrolled".parse()),
            (Ok(To::Enrolled), Ok(To::Tls("enrolled:3002".into())))
        );
        assert!("tls://255.255.255.255".parse::<To>().unwrap_err().contains("one machine"));
        assert!("tls://".parse::<To>().is_err() && "https://receiver".parse::<To>().is_err());
    }
}
