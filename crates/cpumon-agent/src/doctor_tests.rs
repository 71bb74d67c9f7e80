//! How the doctor's findings read, at each width.

use super::*;

fn diagnosis() -> Diagnosis {
    let check = |topic, name: &str, state, finding: &str, gives: &str, help: &str| Check {
        topic,
        name: name.into(),
        state,
        finding: finding.into(),
        gives: gives.into(),
        help: help.into(),
        caveat: String::new(),
    };
    let grant = "run as root, or: setcap cap_bpf,cap_perfmon+ep /usr/local/bin/cpumon; in a systemd unit: \
                 AmbientCapabilities=CAP_BPF CAP_PERFMON";
    Diagnosis {
        checks: vec![
            check(
                Topic::Probes,
                "lifecycle",
                CheckState::Missing,
                "cannot load the probe `lifecycle`: Operation not permitted (os error 1)",
                "every process that lived and died between two snapshots",
                grant,
            ),
            check(Topic::Rights, "CAP_BPF", CheckState::Available, "granted", "loading BPF programs", ""),
            check(
                Topic::Tracepoints,
                "irq_handler_entry, _exit",
                CheckState::Unknown,
                "unknown without BTF",
                "time in hard interrupts, by name",
                "",
            ),
            check(
                Topic::Surroundings,
                "hypervisor",
                CheckState::Note,
                "yes: evil\u{1b}[2J",
                "a running thread may not really run",
                "",
            ),
        ],
    }
}

fn at(columns: usize) -> String {
    let mut text = Vec::new();
    write_details(&diagnosis(), columns, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for line in text.lines() {
        assert!(line.width() <= columns, "{} > {columns}: {line}", line.width());
        assert_eq!(line.trim_end(), line);
    }
    text
}

#[test]
fn it_fits_every_width() {
    for columns in 40..=120 {
        at(columns);
    }
    insta::assert_snapshot!([40, 80, 120].map(at).join("\n================\n"));
}

#[test]
fn the_summary_has_each_remedy_once_and_commands_on_one_line() {
    let mut diagnosis = diagnosis();
    let mut more = diagnosis.checks[0].clone();
    more.name = "CAP_SYS_PTRACE".into();
    more.help = more.help.replace("cap_perfmon", "cap_perfmon,cap_sys_ptrace");
    diagnosis.checks.push(more.clone());
    more.help = "CAP_BPF and CAP_PERFMON, see below".into();
    diagnosis.checks.push(more);
    let mut text = Vec::new();
    write_summary(&diagnosis, 80, &mut text).unwrap();
    insta::assert_snapshot!(String::from_utf8(text).unwrap());
}

/// The conclusion was that everything works, without a word of the threads that BPF does not see.
#[test]
fn the_conclusion_names_what_is_measured_in_another_way() {
    let mut diagnosis = diagnosis();
    diagnosis.checks.retain(|check| check.state == CheckState::Note);
    diagnosis.checks[0].caveat = "Hidden from BPF: 12 threads of x\u{1b} (1).".into();
    let mut text = Vec::new();
    write_summary(&diagnosis, 80, &mut text).unwrap();
    let text = String::from_utf8(text).unwrap().replace('\n', " ");
    assert!(
        text.starts_with(&[EVERYTHING_WORKS, " Hidden from BPF: 12 threads of x\\x1b (1)."].concat()),
        "{text}"
    );
}

#[test]
fn a_single_missing_or_unknown_check_makes_it_incomplete() {
    let mut diagnosis = diagnosis();
    assert!(!diagnosis.is_complete());
    diagnosis.checks.retain(|check| check.state != CheckState::Missing);
    assert!(!diagnosis.is_complete(), "unknown is not there");
    diagnosis.checks.retain(|check| check.state != CheckState::Unknown);
    assert!(diagnosis.is_complete());
}
