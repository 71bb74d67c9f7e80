//! [`HostRef`]: which host a text means. The receiver, the store, SQL and the command line all ask here.

use crate::{HostId, HostInfo, Trust};

/// The host that a text means among several: the one of this id, or the most trusted ones of this name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum HostRef<'a> {
    /// The text is an id. Then it is no name: a host could be named after another one's id.
    Id(HostId),
    /// The text is a name; of several hosts with it, those of this [`Trust::rank`].
    Name {
        /// The name.
        name: &'a str,
        /// The highest rank that a host of this name has.
        rank: u8,
    },
}

impl<'a> HostRef<'a> {
    /// What `text` means among these hosts.
    pub fn new<'h>(text: &'a str, hosts: impl IntoIterator<Item = (&'h HostInfo, Trust)>) -> Self {
        if let Ok(id) = text.parse() {
            return Self::Id(id);
        }
        let named = hosts.into_iter().filter(|(info, _)| &*info.hostname == text);
        Self::Name { name: text, rank: named.map(|(_, trust)| trust.rank()).max().unwrap_or(0) }
    }

    /// Whether the text means this host.
    #[must_use]
    pub fn is(self, info: &HostInfo, trust: Trust) -> bool {
        match self {
            Self::Id(id) => info.host == id,
            Self::Name { name, rank } => &*info.hostname == name && trust.rank() == rank,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_no_name_and_of_equal_names_the_most_trusted_is_meant() {
        let host = |id: u8, name: &str| HostInfo {
            host: HostId([id; 16]),
            hostname: name.into(),
            ..HostInfo::default()
        };
        let id = HostId([1; 16]).to_string();
        let hosts = [
            (host(1, "web"), Trust::Authenticated),
            (host(2, "web"), Trust::Unauthenticated),
            (host(3, &id), Trust::Local),
        ];
        let meant = |text: &str| -> Vec<u8> {
            let meant = HostRef::new(text, hosts.iter().map(|(info, trust)| (info, *trust)));
            hosts.iter().filter(|(info, trust)| meant.is(info, *trust)).map(|host| host.0.host.0[0]).collect()
        };
        assert_eq!((meant("web"), meant(&id), meant("db")), (vec![1], vec![1], vec![]));
    }
}
