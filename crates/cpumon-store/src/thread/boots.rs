//! How often hosts that are not trusted may begin a boot. A boot that begins costs the writer rows of its own and the ids of all
//! tasks, for which a sender needs 87 bytes.

use cpumon_model::limits::{Bucket, Rate};
use cpumon_model::{BootId, HostId, Recent};

use crate::writer::Seeded;

/// Of one host: a machine that starts again and again still has each of its boots stored.
const OF_HOST: Rate = Rate { amount: 1, seconds: 1, burst_ms: 4_000 };
/// Of all of them together: a thousand machines that start at once do not wait.
const OF_ALL: Rate = Rate { amount: 4, seconds: 1, burst_ms: 1_024_000 };
/// Hosts in memory. One that is forgotten while it reports begins its boot once more.
const MAX_HOSTS: usize = 8_192;

/// Which boot of each host is stored, and when it may begin another one.
#[derive(Debug)]
pub(super) struct BootLimit {
    hosts: Recent<HostId, HostBoot, Seeded>,
    all: Bucket,
}

#[derive(Debug)]
struct HostBoot {
    boot: BootId,
    left: Bucket,
}

impl Default for BootLimit {
    fn default() -> Self {
        Self { hosts: Recent::new(MAX_HOSTS), all: Bucket::new(OF_ALL) }
    }
}

impl BootLimit {
    /// Whether an interval of this boot is stored. `now_ns`: of a clock that is not set.
    pub(super) fn takes(&mut self, host: HostId, boot: BootId, now_ns: u64) -> bool {
        let Some(known) = self.hosts.get_mut(&host) else {
            // Not remembered before it is taken: who is refused pushes no one out.
            let is_taken = self.all.take(now_ns).is_ok();
            if is_taken {
                let mut left = Bucket::new(OF_HOST);
                left.spend(1, now_ns);
                self.hosts.insert(host, HostBoot { boot, left });
            }
            return is_taken;
        };
        if known.boot == boot {
            return true;
        }
        // In this order a host beyond its own rate takes nothing from the others.
        let is_taken = known.left.take(now_ns).is_ok() && self.all.take(now_ns).is_ok();
        if is_taken {
            known.boot = boot;
        }
        is_taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    fn id(number: u64) -> [u8; 16] {
        u128::from(number).to_le_bytes()
    }

    #[test]
    fn a_host_begins_a_boot_a_second_after_a_few_at_once() {
        let mut limit = BootLimit::default();
        let host = HostId(id(1));
        // 25,000 a second for four seconds.
        let taken = |number: &u64| limit.takes(host, BootId(id(*number)), number * 40_000);
        let taken = (0..100_000).filter(taken).count();
        assert!((7..=8).contains(&taken), "4 at once, and 4 s: {taken}");
        let mut limit = BootLimit::default();
        let each_second = |number: &u64| limit.takes(host, BootId(id(number / 3)), number * SECOND_NS / 3);
        assert_eq!((0..3_000).filter(each_second).count(), 3_000, "a boot a second is no flood");
    }

    #[test]
    fn a_boot_that_goes_on_is_not_asked_and_one_that_comes_back_is() {
        let mut limit = BootLimit::default();
        let (host, boots) = (HostId(id(1)), [BootId(id(1)), BootId(id(2))]);
        assert!((0..1_000).all(|_| limit.takes(host, boots[0], 0)));
        let taken = (0..1_000).filter(|number| limit.takes(host, boots[number % 2], 0)).count();
        // Each change costs the writer as much as a new boot.
        assert_eq!(taken, 4 + 498, "the first, three changes, and then every other one: of the last boot");
    }

    #[test]
    fn strangers_share_a_rate_and_do_not_push_out_who_is_there() {
        let mut limit = BootLimit::default();
        let (known, boot) = (HostId(id(u64::MAX)), BootId(id(1)));
        assert!(limit.takes(known, boot, 0));
        let mut taken = 0;
        for number in 0..100_000_u64 {
            // 25,000 new hosts a second.
            let now_ns = number * 40_000;
            taken += u64::from(limit.takes(HostId(id(number)), boot, now_ns));
            assert!(limit.takes(known, boot, now_ns));
        }
        assert!((4_110..=4_112).contains(&taken), "4,095 at once, and 4 s: {taken}");
        assert!(limit.hosts.len() <= MAX_HOSTS);
    }
}
