//! Where a receiver is tried: at the address that the user gave, and at those where discovery found it.

/// Addresses of one receiver, tried in turn. A wrong one costs an attempt: TLS proves who is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidates {
    /// The given address first.
    addresses: Vec<String>,
    current: usize,
}

impl Candidates {
    pub fn new(given: &str) -> Self {
        Self { addresses: vec![given.to_owned()], current: 0 }
    }

    /// The address to try now.
    pub fn current(&self) -> &str {
        self.addresses.get(self.current).map_or("", String::as_str)
    }

    /// An attempt failed before there was a connection.
    pub fn advance(&mut self) {
        self.current = (self.current + 1) % self.addresses.len().max(1);
    }

    /// What a search found replaces what the search before found, and is tried first. Returns an address that is new.
    pub fn found(&mut self, found: impl IntoIterator<Item = String>) -> Option<&str> {
        let mut addresses: Vec<String> = self.addresses.iter().take(1).cloned().collect();
        for address in found {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        let new = addresses.iter().position(|address| !self.addresses.contains(address));
        // An answer with the given address alone is no reason to leave out the others: they came from an earlier answer.
        if addresses.len() > 1 {
            self.addresses = addresses;
            self.current = 1;
        }
        new.and_then(|new| self.addresses.get(new)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(candidates: &mut Candidates, addresses: &[&str]) -> Option<String> {
        candidates.found(addresses.iter().map(ToString::to_string)).map(ToOwned::to_owned)
    }

    #[test]
    fn what_was_found_is_tried_first_and_a_false_address_costs_one_attempt() {
        let mut candidates = Candidates::new("a:1");
        assert_eq!(found(&mut candidates, &["false:1", "b:1"]).as_deref(), Some("false:1"));
        let mut tried = Vec::new();
        for _ in 0..4 {
            tried.push(candidates.current().to_owned());
            candidates.advance();
        }
        assert_eq!(tried, ["false:1", "b:1", "a:1", "false:1"]);
    }

    #[test]
    fn an_address_that_is_known_is_not_new() {
        let mut candidates = Candidates::new("a:1");
        assert_eq!(found(&mut candidates, &["a:1"]), None);
        assert_eq!(candidates.current(), "a:1");
        found(&mut candidates, &["b:1"]);
        assert_eq!(found(&mut candidates, &["b:1", "a:1"]), None);
        assert_eq!(candidates.current(), "b:1");
    }
}
