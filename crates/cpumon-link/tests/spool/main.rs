//! The spool as a whole, on disks that fill up too. A program of its own that starts no process: between fork and exec, a child holds
//! every open file, and a file deleted meanwhile frees no space.

#[path = "../../../../testing/seeded_rng.rs"]
mod seeded_rng;
#[path = "../../../../testing/skip.rs"]
mod skip;
#[path = "../../../../testing/small_disk.rs"]
mod small_disk;

mod backlog;
mod damage;
mod disk;
mod full_disk;
mod logged;
mod random;
mod segments;
