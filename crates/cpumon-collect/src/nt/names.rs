//! [`ThreadNames`]: the names that programs give their threads. Reading one takes three calls of the system, so each is read when its
//! thread is first seen and then more and more rarely, and no pass reads more than a fixed number.

use std::collections::HashMap;

use cpumon_model::Comm;

/// Most names of new threads that a pass reads.
const NEW_A_PASS: u32 = 1_024;
/// Most names that a pass reads again.
const AGAIN_A_PASS: u32 = 64;
/// A name is read again after 1 pass, because many threads set theirs just after they begin, then after 4, 16 and this many; after
/// more where there are so many threads that the first of the list would take all that a pass may read.
const MOST_PASSES: u32 = 64;

#[derive(Copy, Clone, Debug)]
struct Named {
    name: Comm,
    /// The pass that reads it again, and how many passes later the next one does.
    due: u64,
    wait: u32,
    seen: u64,
}

/// Names by id and create time of a thread.
#[derive(Debug, Default)]
pub struct ThreadNames {
    known: HashMap<(u32, u64), Named>,
    pass: u64,
    new_left: u32,
    again_left: u32,
}

impl ThreadNames {
    /// Starts a pass.
    pub fn begin(&mut self) {
        self.pass += 1;
        (self.new_left, self.again_left) = (NEW_A_PASS, AGAIN_A_PASS);
    }

    /// The name of a thread, empty if it has none or is not read yet. `read` asks the system; `None`: it refuses.
    pub fn of(&mut self, tid: u32, created: u64, read: impl FnOnce(u32) -> Option<Comm>) -> Comm {
        let pass = self.pass;
        let least = self.known.len() as u64 / u64::from(AGAIN_A_PASS / 2);
        if let Some(known) = self.known.get_mut(&(tid, created)) {
            known.seen = pass;
            if known.due <= pass && self.again_left > 0 {
                self.again_left -= 1;
                known.name = read(tid).unwrap_or(known.name);
                known.wait = (known.wait * 4).min(MOST_PASSES);
                known.due = pass + u64::from(known.wait).max(least);
            }
            return known.name;
        }
        if self.new_left == 0 {
            return Comm::default();
        }
        self.new_left -= 1;
        let name = read(tid).unwrap_or_default();
        self.known.insert((tid, created), Named { name, due: pass + 1, wait: 1, seen: pass });
        name
    }

    /// Ends a pass: forgets threads that are gone.
    pub fn finish(&mut self) {
        let pass = self.pass;
        self.known.retain(|_, one| one.seen == pass);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::allocations;

    /// Reads the names of threads 0 to `count`; returns how many the system was asked for.
    fn pass(names: &mut ThreadNames, count: u32, name: &str) -> u32 {
        let mut reads = 0;
        names.begin();
        for tid in 0..count {
            names.of(tid, 7, |_| {
                reads += 1;
                Some(Comm::from(name))
            });
        }
        names.finish();
        reads
    }

    #[test]
    fn a_name_is_read_at_once_and_then_more_rarely() {
        let mut names = ThreadNames::default();
        let reads: Vec<u64> = (1..=300).filter(|_| pass(&mut names, 1, "x") == 1).collect();
        assert_eq!(reads, [1, 2, 6, 22, 86, 150, 214, 278]);
        names.begin();
        assert_eq!(names.of(0, 8, |_| None), Comm::default(), "the id of another thread");
        assert_eq!(names.of(0, 7, |_| None), Comm::from("x"), "a refusal takes no name away");
    }

    #[test]
    fn a_pass_reads_a_bounded_number_and_all_are_named_in_the_end() {
        let mut names = ThreadNames::default();
        assert_eq!(pass(&mut names, 3_000, "x"), NEW_A_PASS);
        assert!((0..40).all(|_| pass(&mut names, 3_000, "x") <= NEW_A_PASS + AGAIN_A_PASS));
        names.begin();
        assert!((0..3_000).all(|tid| names.of(tid, 7, |_| None) == Comm::from("x")));
    }

    #[test]
    fn every_thread_of_very_many_gets_a_new_name_in_the_end() {
        let mut names = ThreadNames::default();
        (0..12).for_each(|_| assert!(pass(&mut names, 10_000, "old") <= NEW_A_PASS + AGAIN_A_PASS));
        (0..400).for_each(|_| assert!(pass(&mut names, 10_000, "new") <= AGAIN_A_PASS));
        names.begin();
        assert!((0..10_000).all(|tid| names.of(tid, 7, |_| None) == Comm::from("new")));
    }

    #[test]
    fn gone_threads_are_forgotten_and_a_steady_pass_allocates_nothing() {
        let mut names = ThreadNames::default();
        (0..10).for_each(|_| assert!(pass(&mut names, 500, "x") <= 500));
        let before = allocations();
        pass(&mut names, 500, "x");
        assert_eq!(allocations() - before, 0);
        pass(&mut names, 3, "x");
        assert_eq!(names.known.len(), 3);
    }
}
