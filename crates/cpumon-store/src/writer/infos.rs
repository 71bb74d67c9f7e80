//! Rows of table `process_info`: descriptions of processes, found by content or inserted. A thousand processes of one program
//! share one description.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use cpumon_model::ProcessInfo;
use rusqlite::{Connection, OptionalExtension, Result as Sql, params};

use crate::rows::IdRange;

/// Descriptions in memory; beyond it they are looked up again.
const MAX_INFOS: usize = 1 << 16;

/// Descriptions whose rows are known.
#[derive(Debug)]
pub(super) struct Infos {
    known: HashMap<Arc<ProcessInfo>, i64>,
    range: IdRange,
    /// Rows up to this id are not used any more: they are about to be deleted.
    after_id: i64,
    last_id: i64,
}

impl Infos {
    /// Starts from what a store holds. Ids are of `range`.
    pub(super) fn load(connection: &Connection, range: IdRange) -> Sql<Self> {
        let last = "SELECT coalesce(max(id), ?1) FROM process_info WHERE id > ?1 AND id <= ?2";
        let last_id = connection.query_row(last, [range.after(), range.last()], |row| row.get(0))?;
        Ok(Self { known: HashMap::new(), range, after_id: range.after(), last_id })
    }

    /// The highest id in use.
    pub(super) fn last_id(&self) -> i64 {
        self.last_id
    }

    /// Forgets all but which ids are used up; they are looked up again.
    pub(super) fn forget(&mut self) {
        self.known = HashMap::new();
    }

    /// Forgets all for good: what comes gets rows of its own, also where an equal one is still there.
    pub(super) fn abandon(&mut self) {
        self.forget();
        self.after_id = self.last_id;
    }

    /// The row of a description, found by content.
    pub(super) fn id(&mut self, connection: &Connection, info: &Arc<ProcessInfo>) -> Sql<i64> {
        if let Some(&id) = self.known.get(info) {
            return Ok(id);
        }
        if let Some(short) = shortened(info) {
            return self.id(connection, &Arc::new(short));
        }
        let hash = stable_hash(info);
        let found: Option<i64> = connection
            .prepare_cached(
                "SELECT id FROM process_info WHERE hash = ?1 AND name = ?2 AND comm = ?3 AND cmdline = ?4
                 AND cgroup = ?5 AND container = ?6 AND uid = ?7 AND is_kernel = ?8 AND interpreter = ?9 AND user = ?10
                 AND session IS ?11 AND base_priority IS ?12 AND product = ?13 AND id > ?14 AND id <= ?15",
            )?
            .query_row(
                params![
                    hash,
                    info.name,
                    info.comm,
                    info.cmdline,
                    info.cgroup,
                    info.container,
                    info.uid,
                    info.is_kernel,
                    info.interpreter,
                    info.user,
                    info.session,
                    info.base_priority,
                    info.product,
                    self.after_id,
                    self.range.last()
                ],
                |row| row.get(0),
            )
            .optional()?;
        // Written by an earlier run, or forgotten since.
        let id = if let Some(id) = found { id } else { self.insert(connection, hash, info)? };
        if self.known.len() >= MAX_INFOS {
            self.known.clear();
        }
        self.known.insert(Arc::clone(info), id);
        Ok(id)
    }

    fn insert(&mut self, connection: &Connection, hash: i64, info: &ProcessInfo) -> Sql<i64> {
        self.last_id += 1;
        connection
            .prepare_cached(
                "INSERT INTO process_info (id, hash, name, comm, cmdline, cgroup, container, uid, is_kernel, interpreter,
                                           user, session, base_priority, product)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
            )?
            .execute(params![
                self.last_id,
                hash,
                info.name,
                info.comm,
                info.cmdline,
                info.cgroup,
                info.container,
                info.uid,
                info.is_kernel,
                info.interpreter,
                info.user,
                info.session,
                info.base_priority,
                info.product
            ])?;
        Ok(self.last_id)
    }
}

/// Longest name of a host, a process or a thread in the file, bytes; agents cut theirs there, too.
const MAX_NAME_BYTES: usize = 255;
/// Longest cgroup path and container name: those of this machine come whole.
const MAX_PATH_BYTES: usize = 4096;

/// A name as it is stored.
pub(super) fn cut(name: &str) -> &str {
    &name[..name.floor_char_boundary(MAX_NAME_BYTES)]
}

/// A description whose texts are cut; `None`: none is too long. The length of a command line is bounded by that of a datagram.
fn shortened(info: &ProcessInfo) -> Option<ProcessInfo> {
    let limits = [
        (&info.name, MAX_NAME_BYTES),
        (&info.comm, MAX_NAME_BYTES),
        (&info.cgroup, MAX_PATH_BYTES),
        (&info.container, MAX_PATH_BYTES),
        (&info.interpreter, MAX_NAME_BYTES),
        (&info.user, MAX_NAME_BYTES),
        (&info.product, MAX_NAME_BYTES),
    ];
    if limits.iter().all(|(text, max)| text.len() <= *max) {
        return None;
    }
    let [name, comm, cgroup, container, interpreter, user, product] =
        limits.map(|(text, max)| text[..text.floor_char_boundary(max)].into());
    Some(ProcessInfo { name, comm, cgroup, container, interpreter, user, product, ..info.clone() })
}

/// FNV-1a over the content, the same in every build because it is stored in the file. Rows of equal hash are compared in full.
fn stable_hash(info: &ProcessInfo) -> i64 {
    struct Fnv(u64);
    impl Hasher for Fnv {
        fn finish(&self) -> u64 {
            self.0
        }
        fn write(&mut self, bytes: &[u8]) {
            for &byte in bytes {
                self.0 = (self.0 ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        }
    }
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    for text in [&info.name, &info.comm, &info.cmdline, &info.cgroup, &info.container] {
        hasher.write(text.as_bytes());
        // Separated, so that ("ab", "c") and ("a", "bc") differ.
        hasher.write(&[0]);
    }
    // Left out where empty: descriptions of older versions keep their hash.
    for text in [&info.interpreter, &info.user, &info.product].into_iter().filter(|text| !text.is_empty()) {
        hasher.write(text.as_bytes());
        hasher.write(&[0]);
    }
    // Likewise. What follows is as long in every case, so a number here is no other text.
    if info.session.is_some() || info.base_priority.is_some() {
        let number = |number: Option<u32>| number.map_or(0, |number| u64::from(number) + 1).to_le();
        number(info.session).hash(&mut hasher);
        number(info.base_priority.map(u32::from)).hash(&mut hasher);
    }
    // Little-endian, so that a store can be written on a machine of either byte order.
    info.uid.to_le().hash(&mut hasher);
    hasher.finish().cast_signed()
}
