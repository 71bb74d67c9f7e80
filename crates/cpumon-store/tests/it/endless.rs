//! Files in which somebody let the pages of a table share their children: a walk would pass the same rows thousands of millions of times.

use std::path::{Path, PathBuf};

use cpumon_model::{ProcessKey, Trust};
use cpumon_store::{
    ProcessFilter, Query, Reader, Resolution, StoreError, StoreOptions, TimeRange, What, Writer,
};
use rusqlite::Connection;

use crate::data;
use crate::held_memory::taken_by;

/// Pages between the root and the only leaf: 500^4 leaves.
const LEVELS: u32 = 4;
const CHILDREN: u16 = 500;

/// Fresh intervals, chunks and sums of a host.
fn store(dir: &Path) -> PathBuf {
    let path = dir.join("s.sqlite");
    let info = data::host(1);
    let options = StoreOptions { compact_intervals: 20, ..StoreOptions::default() };
    let mut writer = Writer::open(&path, &options).unwrap();
    let day = data::day(&info, 1, 60, 4);
    for interval in &day[..50] {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    data::compact_all(&mut writer);
    for interval in &day[50..] {
        writer.put(&info, Trust::Local, None, interval).unwrap();
    }
    drop(writer);
    let connection = Connection::open(&path).unwrap();
    connection.pragma_update(None, "journal_mode", "DELETE").unwrap();
    connection
        .execute_batch(
            "INSERT INTO gap (host_id, begin_wall_ns, end_wall_ns, intervals, reason) VALUES (1, 5, 9, 1, 'x');
             INSERT INTO trace SELECT 1, 1, zeroblob(32), 1, 1, 2, 3, 'x', 1, 1, 0;",
        )
        .unwrap();
    path
}

/// Gives the root of a table or index four levels of pages that all lead to what the root was. SQLite's file format, section 1.6.
fn share_pages(path: &Path, root: u32) {
    let mut file = std::fs::read(path).unwrap();
    let size = usize::from(u16::from_be_bytes([file[16], file[17]]));
    let at = |page: u32| (page as usize - 1) * size;
    let old = file[at(root)..at(root) + size].to_vec();
    let first_cell = usize::from(u16::from_be_bytes([old[8], old[9]]));
    let is_leaf = old[0] == 0x0a || old[0] == 0x0d;
    let is_index = old[0] == 0x0a || old[0] == 0x02;
    // Behind the child's number: the key of a row, or the content of an index's first cell.
    let key = match (is_index, is_leaf) {
        (true, true) => &old[first_cell..],
        (true, false) => &old[first_cell + 4..],
        (false, _) => &[1][..],
    };
    let (before, cell) = (u32::try_from(file.len() / size).unwrap(), u16::try_from(size - 2000).unwrap());
    for level in 0..LEVELS {
        let (mut page, child) = (vec![0; size], (before + level + 1).to_be_bytes());
        page[0] = if is_index { 0x02 } else { 0x05 };
        page[3..5].copy_from_slice(&CHILDREN.to_be_bytes());
        page[5..7].copy_from_slice(&cell.to_be_bytes());
        page[8..12].copy_from_slice(&child);
        // All cells are one.
        for number in 0..usize::from(CHILDREN) {
            page[12 + 2 * number..][..2].copy_from_slice(&cell.to_be_bytes());
        }
        let content = &mut page[usize::from(cell)..];
        content[..4].copy_from_slice(&child);
        let length = key.len().min(content.len() - 4);
        content[4..][..length].copy_from_slice(&key[..length]);
        if level == 0 {
            file[at(root)..][..size].copy_from_slice(&page);
        } else {
            file.extend(page);
        }
    }
    file.extend(old);
    let pages = u32::try_from(file.len() / size).unwrap();
    file[28..32].copy_from_slice(&pages.to_be_bytes());
    let changes: [u8; 4] = file[24..28].try_into().unwrap();
    file[92..96].copy_from_slice(&changes);
    std::fs::write(path, file).unwrap();
}

/// The end of each question about a host; a reader of its own each, since one keeps what it has read.
fn ask_all(path: &Path) -> Vec<(&'static str, Option<StoreError>)> {
    type Question<'a> = dyn Fn(&Reader) -> Result<(), StoreError> + 'a;
    let host = data::host(1).host;
    let read = |reader: &Reader, query: &Query| {
        let mut intervals = reader.intervals(query)?;
        while intervals.read()?.is_some() {}
        Ok(())
    };
    let sums = |reader: &Reader, resolution: Resolution| {
        let mut segments = reader.segments(&Query::new(host).with_sum_details(), Some(resolution))?;
        while segments.read()?.is_some() {}
        Ok(())
    };
    let key = ProcessKey { pid: 1, start_ns: 0 };
    let named = Query::new(host).filter(ProcessFilter::Name("x".into())).what(What::Processes);
    let questions: [(&'static str, &Question<'_>); 14] = [
        ("hosts", &|reader| reader.hosts().map(drop)),
        ("containers", &|reader| reader.cgroup_containers().map(drop)),
        ("time range", &|reader| reader.time_range(host).map(drop)),
        ("boots", &|reader| reader.boots(host).map(drop)),
        ("reach", &|reader| reader.reach(host).map(drop)),
        ("intervals", &|reader| read(reader, &Query::new(host))),
        ("named", &|reader| read(reader, &named)),
        ("previous", &|reader| reader.previous_interval(host, i64::MAX).map(drop)),
        ("minutes", &|reader| sums(reader, Resolution::Minute)),
        ("hours", &|reader| sums(reader, Resolution::Hour)),
        ("gaps", &|reader| reader.gaps(host, TimeRange::ALL, 100).map(drop)),
        ("processes", &|reader| reader.each_process(host, &mut |_| ())),
        ("some processes", &|reader| reader.processes(host, &[key]).map(drop)),
        ("traces", &|reader| reader.traces(Some(host), TimeRange::ALL, 100).map(drop)),
    ];
    let ask = |question: &Question<'_>| Reader::open(path).and_then(|reader| question(&reader)).err();
    questions.into_iter().map(|(name, question)| (name, ask(question))).collect()
}

#[test]
fn questions_end_although_pages_share_their_children() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path());
    assert!(ask_all(&path).iter().all(|(_, error)| error.is_none()), "{:?}", ask_all(&path));
    let roots: Vec<(String, u32)> = {
        let connection = Connection::open(&path).unwrap();
        let text = "SELECT name, rootpage FROM sqlite_schema WHERE rootpage > 1";
        let mut select = connection.prepare(text).unwrap();
        let rows = select.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        rows.map(Result::unwrap).collect()
    };
    let mut ended = Vec::new();
    for (name, root) in roots {
        let changed = dir.path().join(format!("{name}.sqlite"));
        std::fs::copy(&path, &changed).unwrap();
        share_pages(&changed, root);
        let (answers, taken) = taken_by(|| ask_all(&changed));
        // 16 MiB and 16 for each byte of half a megabyte, and a list that grows holds twice as much.
        assert!(taken.most < 64 << 20, "{name}: {taken:?}");
        for (question, error) in answers {
            let Some(error) = error else { continue };
            let words = error.with_causes();
            let is_named = words.contains("its pages lead to the same rows again and again");
            assert!(is_named || matches!(error, StoreError::Corrupt { .. }), "{name}, {question}: {words}");
            if is_named {
                ended.push((name.clone(), question));
            }
        }
        // A writer reads some of it when it opens.
        if let Err(error) = Writer::open(&changed, &StoreOptions::default()) {
            assert!(matches!(error, StoreError::Corrupt { .. }), "{name}: {error}");
        }
    }
    for expected in [
        ("host", "hosts"),
        ("interval_boot", "boots"),
        ("interval_time", "intervals"),
        ("chunk_time", "intervals"),
        ("process", "processes"),
        ("process_minute", "minutes"),
        ("gap_host", "gaps"),
    ] {
        assert!(
            ended.iter().any(|(name, question)| (&**name, *question) == expected),
            "{expected:?}: {ended:?}"
        );
    }
}

/// Its length alone would allow two days of steps and a terabyte of rows.
#[test]
fn a_hole_at_the_end_of_a_file_does_not_raise_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path());
    let root = data::number(&path, "SELECT rootpage FROM sqlite_schema WHERE name = 'host'");
    share_pages(&path, u32::try_from(root).unwrap());
    std::fs::File::options().write(true).open(&path).unwrap().set_len(64 << 30).unwrap();
    let (hosts, taken) = taken_by(|| Reader::open(&path).unwrap().hosts());
    let words = hosts.unwrap_err().with_causes();
    assert!(words.contains("its pages lead to the same rows again and again"), "{words}");
    assert!(taken.most < 64 << 20, "{taken:?}");
}

#[test]
fn a_list_of_tables_that_is_too_long_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = store(dir.path());
    let mut connection = Connection::open(&path).unwrap();
    let transaction = connection.transaction().unwrap();
    for number in 0..3_000 {
        transaction.execute(&format!("CREATE TABLE other_{number} (x)"), []).unwrap();
    }
    transaction.commit().unwrap();
    drop(connection);
    let words = Reader::open(&path).unwrap_err().with_causes();
    assert!(words.contains("or it has over a thousand tables; `cpumon store check"), "{words}");
}
