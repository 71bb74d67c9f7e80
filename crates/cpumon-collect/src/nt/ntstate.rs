//! A thread's state and wait reason as the letter that all sources use.

use cpumon_model::TaskState;

/// `KWAIT_REASON`: suspended, as `Suspended` and `WrSuspended`.
const SUSPENDED: [u32; 2] = [5, 12];
/// Waits of the kernel's own for memory and disk: `FreePage`, `PageIn`, `WrFreePage`, `WrPageIn`, `WrPageOut`.
const UNINTERRUPTIBLE: [u32; 5] = [1, 2, 8, 9, 19];

/// The letter of a `KTHREAD_STATE`. Ready, standby and on its way to a CPU are R, as a ready thread is on Linux.
pub(super) fn letter(state: u32, wait_reason: u32) -> TaskState {
    TaskState(match state {
        1 | 2 | 3 | 7 => b'R',
        4 => b'X',
        5 | 8 if SUSPENDED.contains(&wait_reason) => b'T',
        5 | 8 if UNINTERRUPTIBLE.contains(&wait_reason) => b'D',
        5 | 8 => b'S',
        // Its kernel stack is being read from the disk.
        6 => b'D',
        // 0: initialized, not started. Wine reports it for every thread.
        _ => b'?',
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_letters() {
        let letters = |states: &[(u32, u32)]| -> String {
            states.iter().map(|(state, reason)| letter(*state, *reason).letter()).collect()
        };
        assert_eq!(letters(&[(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (6, 0), (7, 0), (9, 0)]), "?RRRXDR?");
        // UserRequest, WrQueue, Suspended, WrSuspended, PageIn, WrPageOut; the reason of a running thread is an old one.
        assert_eq!(letters(&[(5, 6), (5, 15), (5, 5), (8, 12), (5, 2), (5, 19), (2, 5)]), "SSTTDDR");
    }
}
