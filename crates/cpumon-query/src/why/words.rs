//! Figures, names and commands in the form in which the sentences of an answer contain them.

use crate::fields::{decimal, name_text};

use super::answer::Culprit;

/// Pids of a program that a sentence names at most.
const SHOWN_PIDS: usize = 3;

/// `88 %`; below one percent with one decimal.
pub(super) fn percent(share: f64) -> String {
    let value = share * 100.0;
    let digits = usize::from((0.05..0.95).contains(&value));
    format!("{} %", decimal(value, digits))
}

/// A length of time: `0.05 ms`, `18 ms`, `1.2 s`.
pub(super) fn length(ns: u64) -> String {
    let ms = ns as f64 / 1e6;
    if ms >= 1000.0 {
        return format!("{} s", decimal(ms / 1000.0, 1));
    }
    let digits = if ms < 1.0 { 2 } else { usize::from(ms < 10.0) };
    format!("{} ms", decimal(ms, digits))
}

/// How often in a second.
pub(super) fn rate(count: u64, seconds: f64) -> String {
    let per_s = count as f64 / seconds.max(1e-9);
    decimal(per_s, usize::from(per_s < 9.95))
}

/// `a`, `a and b`, `a, b and c`.
pub(super) fn and(items: &[String]) -> String {
    match items {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

/// `audiod (pid 23227)`, `6 indexer (pids 12, 13, 14, ...)`, `thread flusher (25507)`; the name is safe to show.
pub(super) fn named(culprit: &Culprit) -> String {
    let name = name_text(&culprit.name);
    if let Some(tid) = culprit.tid {
        return format!("thread {name} ({tid})");
    }
    if culprit.processes > 1 {
        let pids = culprit.pids.iter().take(SHOWN_PIDS).map(u32::to_string).collect::<Vec<_>>().join(", ");
        let more = if culprit.processes > SHOWN_PIDS as u64 { ", ..." } else { "" };
        return format!("{} {name} (pids {pids}{more})", culprit.processes);
    }
    culprit.pid.map_or(name.clone(), |pid| format!("{name} (pid {pid})"))
}

/// The first ones, in one list.
pub(super) fn named_all(culprits: &[Culprit], most: usize) -> String {
    and(&culprits.iter().take(most).map(named).collect::<Vec<_>>())
}

/// `12 13 14`: pids for a command, of as many programs as its sentence names ([`named_all`]).
pub(super) fn pids(culprits: &[Culprit], most: usize) -> String {
    let all = culprits.iter().take(most).flat_map(|culprit| &culprit.pids);
    all.map(u32::to_string).collect::<Vec<_>>().join(" ")
}

/// Gives all threads of these processes a nice value: by itself, `renice` changes the first thread of each.
pub(super) fn renice(nice: i8, pids: &str) -> String {
    if pids.contains(' ') {
        format!("for pid in {pids}; do renice {nice} -p $(ls /proc/$pid/task); done")
    } else {
        format!("renice {nice} -p $(ls /proc/{pids}/task)")
    }
}

/// A text that a shell reads as one word without quoting; `None` for any other text: a name from elsewhere must not become a command.
pub fn shell_word(text: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-:@+".contains(c);
    (!text.is_empty() && !text.starts_with('-') && text.chars().all(is_plain)).then_some(text)
}

/// The path of a control group as a part of a path below its file system; `None` if it leads out of that, or is no word for a shell.
/// Agents in a cgroup namespace of their own see groups beside it as `/../OTHER`.
pub(super) fn cgroup_word(path: &str) -> Option<&str> {
    let is_below = path.starts_with('/') && path.split('/').all(|part| part != "..");
    shell_word(path).filter(|_| is_below)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        assert_eq!([0.883, 0.009, 0.0001, 1.0].map(percent), ["88 %", "0.9 %", "0 %", "100 %"]);
        let lengths = [46_000, 2_070_000, 18_400_000, 1_240_000_000].map(length);
        assert_eq!(lengths, ["0.05 ms", "2.1 ms", "18 ms", "1.2 s"]);
        assert_eq!([rate(5_400, 1.0), rate(46, 10.0)], ["5400", "4.6"]);
    }

    #[test]
    fn a_name_from_elsewhere_is_escaped_and_never_a_command() {
        let culprit = Culprit { name: "a\u{1b}[2J".into(), pid: Some(7), processes: 1, ..Culprit::default() };
        assert_eq!(named(&culprit), "a\\x1b[2J (pid 7)");
        let many = Culprit { name: "db".into(), pids: vec![1, 2, 3, 4], processes: 4, ..culprit };
        assert_eq!(named(&many), "4 db (pids 1, 2, 3, ...)");
        for text in ["", "-rf", "a b", "$(reboot)", "a;b", "a'b", "ü"] {
            assert_eq!(shell_word(text), None, "{text}");
        }
        assert_eq!(shell_word("/system.slice/a-b@1.service"), Some("/system.slice/a-b@1.service"));
    }

    #[test]
    fn a_control_group_never_becomes_a_path_outside_its_file_system() {
        assert_eq!(cgroup_word("/docker/ab..cd"), Some("/docker/ab..cd"));
        for path in
            ["/../../etc", "/a/..", "/a/../../../etc", "..", "x/../..", "-x", "", "/a b", "/$(reboot)"]
        {
            assert_eq!(cgroup_word(path), None, "{path}");
        }
    }
}
