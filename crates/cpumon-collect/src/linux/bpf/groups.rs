//! The control groups of processes that ended before their files in /proc were read. The probe sends each group's path once, before
//! the first exit in it, so that nothing has to be searched for, and groups that are removed meanwhile have their names.
//!
//! # Bounds
//! Where the names take more than [`MAX_BYTES`], the next round begins: the probe sends the name of each group again when a process
//! ends in it. Until then those of the round before are there. So two rounds and what one pass brings ([`NewGroups`]) are the most.

use std::collections::HashMap;
use std::mem::take;

use super::records::{GroupHeader, read_plain};
use crate::parse;

/// Limit of the names that one round keeps, bytes.
const MAX_BYTES: usize = 1 << 20;
/// Memory of a name beside its text, with its entry in the map; approximate.
const ENTRY_BYTES: usize = 100;

const EVENT_GROUP: u32 = 5;

/// A control group as the probes report it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GroupEvent {
    /// Id of the group, with its hierarchy in the highest bits (records.h: `HIERARCHY_SHIFT`).
    pub(crate) number: u64,
    /// From the root of this process's namespace on, as /proc/PID/cgroup shows it.
    pub(crate) path: Box<str>,
}

impl GroupEvent {
    /// Reads a record of the ring buffer; `None` for one of another kind, or that makes no sense.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let header: GroupHeader =
            read_plain(bytes).filter(|header: &GroupHeader| header.kind == EVENT_GROUP)?;
        let names = bytes.get(size_of::<GroupHeader>()..)?.get(..usize::try_from(header.bytes).ok()?)?;
        let mut path = String::with_capacity(names.len() + 1);
        if let Some(names) = names.strip_suffix(&[0]) {
            // The group itself comes first.
            for name in names.rsplit(|&byte| byte == 0) {
                if name.is_empty() || name.contains(&b'/') {
                    return None;
                }
                path.push('/');
                path.push_str(&String::from_utf8_lossy(name));
            }
        } else if names.is_empty() {
            path.push('/');
        } else {
            return None;
        }
        Some(Self { number: header.group, path: path.into() })
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ControlGroup {
    /// The path, as in /proc/PID/cgroup.
    pub(crate) path: Box<str>,
    /// Container or systemd unit that the path names; empty if none.
    pub(crate) container: Box<str>,
}

/// Names that arrived since the last pass.
#[derive(Debug, Default)]
pub(crate) struct NewGroups {
    list: Vec<GroupEvent>,
    bytes: usize,
    /// Some did not fit: the probe must send them again.
    has_overflown: bool,
}

impl NewGroups {
    pub(crate) fn push(&mut self, group: GroupEvent) {
        let bytes = self.bytes + ENTRY_BYTES + group.path.len();
        if bytes > MAX_BYTES {
            self.has_overflown = true;
            return;
        }
        self.bytes = bytes;
        self.list.push(group);
    }
}

#[derive(Default)]
struct Round {
    groups: HashMap<u64, ControlGroup>,
    bytes: usize,
}

#[derive(Default)]
pub(crate) struct ControlGroups {
    now: Round,
    before: Round,
    round: u32,
    has_overflown: bool,
}

impl ControlGroups {
    pub(crate) fn learn(&mut self, new: &mut NewGroups) {
        self.has_overflown |= take(&mut new.has_overflown);
        new.bytes = 0;
        for GroupEvent { number, path } in new.list.drain(..) {
            self.now.bytes += ENTRY_BYTES + path.len();
            let container = parse::container_name(&path).into();
            if let Some(old) = self.now.groups.insert(number, ControlGroup { path, container }) {
                self.now.bytes -= ENTRY_BYTES + old.path.len();
            }
        }
        new.list.shrink_to(8);
    }

    /// `None`: the name is not known, or `number` is 0.
    pub(crate) fn find(&self, number: u64) -> Option<&ControlGroup> {
        self.now.groups.get(&number).or_else(|| self.before.groups.get(&number))
    }

    /// Ends a pass; returns the round, which the probe needs before the next one.
    pub(crate) fn end_pass(&mut self) -> u32 {
        if take(&mut self.has_overflown) || self.now.bytes > MAX_BYTES {
            self.before = take(&mut self.now);
            self.round = self.round.wrapping_add(1);
        }
        self.round
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn learn(groups: &mut ControlGroups, names: impl IntoIterator<Item = (u64, String)>) {
        let mut new = NewGroups::default();
        names.into_iter().for_each(|(number, path)| new.push(GroupEvent { number, path: path.into() }));
        groups.learn(&mut new);
        assert_eq!((new.list.len(), new.bytes, new.has_overflown), (0, 0, false));
    }

    fn path(groups: &ControlGroups, number: u64) -> Option<&str> {
        groups.find(number).map(|group| &*group.path)
    }

    #[test]
    fn a_group_has_its_path_and_its_container() {
        let mut groups = ControlGroups::default();
        let id = "0123456789abcdef".repeat(4);
        learn(&mut groups, [(7, format!("/docker/{id}")), (1 << 62 | 7, "/a\u{1b}[2J".to_owned())]);
        let expected =
            ControlGroup { path: format!("/docker/{id}").into(), container: "0123456789ab".into() };
        assert_eq!(groups.find(7), Some(&expected));
        assert_eq!(path(&groups, 1 << 62 | 7), Some("/a\u{1b}[2J"), "a hierarchy counts for itself");
        assert_eq!((groups.find(0), groups.find(8), groups.find(u64::MAX)), (None, None, None));
        learn(&mut groups, [(7, "/renamed".to_owned())]);
        assert_eq!(path(&groups, 7), Some("/renamed"));
    }

    #[test]
    fn of_a_storm_of_groups_two_rounds_are_the_most() {
        let mut groups = ControlGroups::default();
        let long = "x".repeat(4000);
        let (mut rounds, mut next) = (0, 1);
        for _ in 0..100 {
            learn(&mut groups, (next..next + 100).map(|number| (number, format!("/{number}{long}"))));
            assert!(path(&groups, next).is_some() && path(&groups, next + 99).is_some());
            next += 100;
            let last = rounds;
            rounds = groups.end_pass();
            assert!(path(&groups, next - 1).is_some(), "what came last survives the end of the round");
            assert!(rounds - last <= 1);
            assert!(groups.now.bytes <= MAX_BYTES && groups.before.bytes <= 2 * MAX_BYTES);
            assert!(groups.now.groups.len() + groups.before.groups.len() <= 2 * 362);
        }
        assert!(rounds > 20, "{rounds}");
        assert_eq!(path(&groups, 1), None, "the probe sends it again");
    }

    #[test]
    fn names_that_do_not_fit_are_asked_for_again() {
        let mut groups = ControlGroups::default();
        learn(&mut groups, [(1, "/a".to_owned())]);
        assert_eq!(groups.end_pass(), 0);
        let many = (0..20_000).map(|number| (100 + number, "/short".to_owned()));
        learn(&mut groups, many);
        assert_eq!((path(&groups, 100), path(&groups, 20_099)), (Some("/short"), None));
        assert_eq!(groups.end_pass(), 1, "another round");
        assert_eq!(path(&groups, 1), Some("/a"), "until the next one");
        assert_eq!(groups.end_pass(), 1);
        learn(&mut groups, [(1, "/a".to_owned()), (20_099, "/short".to_owned())]);
        assert_eq!(path(&groups, 20_099), Some("/short"));
    }

    fn event(kind: u32, length: usize, names: &[u8]) -> Vec<u8> {
        let length = u32::try_from(length).unwrap();
        let mut bytes = [kind.to_ne_bytes(), length.to_ne_bytes()].concat();
        bytes.extend(7_u64.to_ne_bytes());
        bytes.extend(names);
        bytes
    }

    fn parsed(names: &[u8]) -> Option<String> {
        // The event is as long as an exit at least.
        let padded = [names, &[b'x'; 300]].concat();
        GroupEvent::parse(&event(EVENT_GROUP, names.len(), &padded)).map(|group| group.path.into())
    }

    #[test]
    fn a_path_is_read_from_its_end() {
        assert_eq!(parsed(b"").as_deref(), Some("/"));
        assert_eq!(parsed(b"a\0").as_deref(), Some("/a"));
        assert_eq!(parsed(b"x.scope\0b c\0a.slice\0").as_deref(), Some("/a.slice/b c/x.scope"));
        assert_eq!(parsed(b"\x1b[2J\xff\0").as_deref(), Some("/\u{1b}[2J\u{fffd}"));
        assert_eq!(parsed(b"a\nb\0").as_deref(), Some("/a\nb"));
        let long = "y".repeat(255);
        let deep = format!("{long}\0").repeat(16);
        assert_eq!(parsed(deep.as_bytes()), Some(format!("/{long}").repeat(16)));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for names in [&b"a"[..], b"\0", b"a\0\0", b"\0a\0", b"a/b\0", b"..\0/\0"] {
            assert_eq!(parsed(names), None, "{names:?}");
        }
        assert_eq!(GroupEvent::parse(&event(1, 2, b"a\0")), None, "another kind");
        assert_eq!(GroupEvent::parse(&event(EVENT_GROUP, 3, b"a\0")), None, "cut");
        assert_eq!(GroupEvent::parse(&event(EVENT_GROUP, usize::from(u16::MAX), b"")), None);
        assert_eq!(GroupEvent::parse(b""), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_path_or_refused(length in 0_usize..40, names in prop::collection::vec(0_u8..4, 0..40)) {
            if let Some(group) = GroupEvent::parse(&event(EVENT_GROUP, length, &names)) {
                prop_assert!(group.path.starts_with('/') && group.path.len() <= length + 1);
                prop_assert!(!group.path.contains('\0'));
            }
        }
    }
}
