//! What a receiver remembers of encrypted datagrams over its own restarts: a text, a line for each agent start. Without it everything
//! that an attacker recorded could be sent again to a receiver that has just started.

use std::fmt::Write;

use cpumon_model::{BootId, HostId};

use super::key::SessionId;
use super::{Decryptor, KeyId};

const TITLE: &str = "cpumon sealed 1";

impl Decryptor {
    /// The text to store, which [`Decryptor::recall`] reads after a restart.
    #[must_use]
    pub fn memory(&self) -> String {
        let mut text = format!("{TITLE}\n");
        let mut sessions: Vec<_> = self.sessions.iter().collect();
        sessions.sort_by_key(|(id, _)| **id);
        // Writing to a String cannot fail.
        for (id, session) in sessions {
            let _ = writeln!(
                text,
                "heard {} {} {} {} {:032x} {}",
                session.host,
                session.boot,
                id.key,
                id.started_boot_ns,
                u128::from_be_bytes(id.random),
                session.window.top()
            );
        }
        let mut hosts: Vec<_> = self.known.iter().collect();
        hosts.sort_by_key(|(host, _)| **host);
        for (host, known) in hosts {
            for (boot, started) in &known.retired {
                let _ = writeln!(text, "over {host} {boot} {started}");
            }
        }
        text
    }

    /// Takes up what was kept; the keys must be set before. Gives the number of lines that cannot be read.
    pub fn recall(&mut self, text: &str) -> usize {
        let mut lines = text.lines();
        let is_known = lines.next() == Some(TITLE);
        lines.filter(|line| !is_known || self.recall_line(line).is_none()).count() + usize::from(!is_known)
    }

    fn recall_line(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["heard", host, boot, key, started, random, top] => {
                let id = SessionId {
                    key: KeyId(u32::from_str_radix(key, 16).ok()?),
                    started_boot_ns: started.parse().ok()?,
                    random: u128::from_str_radix(random, 16).ok()?.to_be_bytes(),
                };
                let (host, boot) = ids(host, boot)?;
                self.remember(id, host, boot, top.parse().ok()?);
            }
            ["over", host, boot, started] => {
                let (host, boot) = ids(host, boot)?;
                self.note_over(host, boot, started.parse().ok()?);
            }
            _ => return None,
        }
        Some(())
    }
}

fn ids(host: &str, boot: &str) -> Option<(HostId, BootId)> {
    Some((host.parse().ok()?, boot.parse().ok()?))
}
