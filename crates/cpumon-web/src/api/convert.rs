//! Converts an interval between the model and JSON, without loss in both directions.

use std::sync::Arc;

use cpumon_model as model;
use cpumon_model::{Comm, Fields, Flags, Life, SourceHealth, TaskState, Trust};

use super::cgroup::Cgroup;
use super::delays::Delays;
use super::fields::source_from_name;
use super::interval::{Cpu, Health, Interval, Process, ProcessInfo, Task, Thread};
use super::sched::Irq;

/// JSON that has the right shape but not the right values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("interval: {what} is not valid: {value:?}")]
pub struct InvalidInterval {
    what: &'static str,
    value: String,
}

/// Both directions have these counts alike.
macro_rules! health {
    ($to:ident from $from:expr, $($field:ident: $value:expr),+ $(,)?) => {
        $to {
            tasks_vanished: $from.tasks_vanished,
            permission_denied: $from.permission_denied,
            malformed: $from.malformed,
            exits_lost: $from.exits_lost,
            intervals_late: $from.intervals_late,
            intervals_skipped: $from.intervals_skipped,
            own_cpu_ns: $from.own_cpu_ns,
            own_rss_bytes: $from.own_rss_bytes,
            $($field: $value),+
        }
    };
}

/// Counts of what is not measured are absent, which is not zero.
fn health_of(interval: &model::Interval) -> Health {
    let from = &interval.health;
    let known = |needs, count: u64| (count > 0 || interval.fields.contains(needs)).then_some(count);
    health!(Health from from,
        sched_untracked: known(Fields::SCHED, from.sched_untracked),
        sched_missed_switches: known(Fields::SCHED, from.sched_missed_switches),
        histogram_drops: known(Fields::HISTOGRAMS, from.histogram_drops),
        ring_drops: known(Fields::EXITS, from.ring_drops),
        execs_lost: known(Fields::EXITS, from.execs_lost),
        endings_lost: known(Fields::EXITS, from.endings_lost),
        cuts_lost: known(Fields::EXITS, from.cuts_lost),
        hidden_left_out: known(Fields::EXITS, from.hidden_left_out),
        wakeups_unknown: known(Fields::SCHED, from.wakeups_unknown),
        probes: flag_names(&from.probes),
    )
}

impl From<&Health> for SourceHealth {
    fn from(from: &Health) -> Self {
        health!(Self from from,
            sched_untracked: from.sched_untracked.unwrap_or(0),
            sched_missed_switches: from.sched_missed_switches.unwrap_or(0),
            histogram_drops: from.histogram_drops.unwrap_or(0),
            ring_drops: from.ring_drops.unwrap_or(0),
            execs_lost: from.execs_lost.unwrap_or(0),
            endings_lost: from.endings_lost.unwrap_or(0),
            cuts_lost: from.cuts_lost.unwrap_or(0),
            hidden_left_out: from.hidden_left_out.unwrap_or(0),
            wakeups_unknown: from.wakeups_unknown.unwrap_or(0),
            // An interval has it as a flag.
            run_queue_unknown: 0,
            probes: flags_from_names(&from.probes),
        )
    }
}

fn flag_names<F: bitflags::Flags>(flags: &F) -> Vec<String> {
    flags.iter_names().map(|(name, _)| name.to_owned()).collect()
}

/// Unknown names (a newer receiver) are left out.
fn flags_from_names<F: bitflags::Flags>(names: &[String]) -> F {
    let mut flags = F::empty();
    names.iter().filter_map(|name| F::from_name(name)).for_each(|flag| flags.insert(flag));
    flags
}

const LIVES: [(Life, &str); 4] =
    [(Life::Alive, ""), (Life::Born, "born"), (Life::Ended, "ended"), (Life::BornEnded, "born_ended")];

impl Task {
    fn new(life: Life, flags: Flags, delta: &model::Delta, sched: &model::SchedDelta) -> Self {
        Self {
            life: LIVES.iter().find(|row| row.0 == life).map_or("", |row| row.1).to_owned(),
            flags: flag_names(&flags),
            user_ns: delta.user_ns,
            system_ns: delta.system_ns,
            run_ns: delta.run_ns,
            run_delay_ns: delta.run_delay_ns,
            voluntary_switches: delta.voluntary_switches,
            involuntary_switches: delta.involuntary_switches,
            sched: sched.into(),
        }
    }

    fn life(&self) -> Result<Life, InvalidInterval> {
        let row = LIVES.iter().find(|row| row.1 == self.life);
        row.map(|row| row.0).ok_or_else(|| InvalidInterval { what: "life", value: self.life.clone() })
    }

    fn delta(&self) -> model::Delta {
        model::Delta {
            user_ns: self.user_ns,
            system_ns: self.system_ns,
            run_ns: self.run_ns,
            run_delay_ns: self.run_delay_ns,
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
        }
    }
}

impl From<&model::ProcessInterval> for Process {
    fn from(row: &model::ProcessInterval) -> Self {
        Self {
            pid: row.key.pid,
            start_ns: row.key.start_ns,
            parent_pid: row.parent_pid,
            info: ProcessInfo {
                name: row.info.name.to_string(),
                comm: row.info.comm.to_string(),
                cmdline: row.info.cmdline.to_string(),
                cgroup: row.info.cgroup.to_string(),
                container: row.info.container.to_string(),
                interpreter: row.info.interpreter.to_string(),
                user: row.info.user.to_string(),
                uid: row.info.uid,
                is_kernel: row.info.is_kernel,
                session: row.info.session,
                base_priority: row.info.base_priority,
                product: row.info.product.to_string(),
            },
            thread_rows: row.thread_rows,
            task: Task::new(row.life, row.flags, &row.delta, &row.sched),
        }
    }
}

impl TryFrom<Process> for model::ProcessInterval {
    type Error = InvalidInterval;

    fn try_from(row: Process) -> Result<Self, InvalidInterval> {
        Ok(Self {
            key: model::ProcessKey { pid: row.pid, start_ns: row.start_ns },
            parent_pid: row.parent_pid,
            thread_rows: row.thread_rows,
            life: row.task.life()?,
            flags: flags_from_names(&row.task.flags),
            delta: row.task.delta(),
            sched: (&row.task.sched).into(),
            info: Arc::new(model::ProcessInfo {
                name: row.info.name.into(),
                comm: row.info.comm.into(),
                cmdline: row.info.cmdline.into(),
                cgroup: row.info.cgroup.into(),
                container: row.info.container.into(),
                interpreter: row.info.interpreter.into(),
                user: row.info.user.into(),
                uid: row.info.uid,
                is_kernel: row.info.is_kernel,
                session: row.info.session,
                base_priority: row.info.base_priority,
                product: row.info.product.into(),
            }),
        })
    }
}

impl From<&model::ThreadInterval> for Thread {
    fn from(row: &model::ThreadInterval) -> Self {
        // A thread's name may have any bytes, a JSON string holds Unicode only.
        let is_text = std::str::from_utf8(row.comm.as_bytes()).is_ok();
        Self {
            tid: row.key.tid,
            start_ns: row.key.start_ns,
            pid: row.process.pid,
            process_start_ns: row.process.start_ns,
            comm: row.comm.to_str_lossy().into_owned(),
            comm_bytes: (!is_text).then(|| row.comm.as_bytes().to_vec()),
            state: row.state.0,
            nice: row.nice,
            priority: row.priority,
            last_cpu: row.last_cpu,
            task: Task::new(row.life, row.flags, &row.delta, &row.sched),
        }
    }
}

impl TryFrom<Thread> for model::ThreadInterval {
    type Error = InvalidInterval;

    fn try_from(row: Thread) -> Result<Self, InvalidInterval> {
        let comm = match &row.comm_bytes {
            Some(bytes) => Comm::new(bytes),
            None => Comm::from(row.comm.as_str()),
        };
        Ok(Self {
            key: model::ThreadKey { tid: row.tid, start_ns: row.start_ns },
            process: model::ProcessKey { pid: row.pid, start_ns: row.process_start_ns },
            comm,
            state: TaskState(row.state),
            nice: row.nice,
            priority: row.priority,
            last_cpu: row.last_cpu,
            life: row.task.life()?,
            flags: flags_from_names(&row.task.flags),
            delta: row.task.delta(),
            sched: (&row.task.sched).into(),
        })
    }
}

impl From<&model::Interval> for Interval {
    fn from(interval: &model::Interval) -> Self {
        let cpu = |row: &model::CpuInterval| Cpu {
            cpu: row.cpu,
            times_ns: row.times.to_array(),
            went_back: row.went_back,
            sched: row.sched,
        };
        Self {
            host: interval.host.to_string(),
            boot: interval.boot.to_string(),
            sequence: interval.sequence,
            source: interval.source.name().into(),
            fields: flag_names(&interval.fields),
            flags: flag_names(&interval.flags),
            begin: interval.begin,
            end: interval.end,
            wall_shift_ns: interval.wall_shift_ns,
            trust: interval.trust.map(|trust| trust.name().to_owned()),
            pass_ns: interval.pass_ns,
            v1_ticks: interval.v1_ticks,
            cpus: interval.cpus.iter().map(cpu).collect(),
            processes: interval.processes.iter().map(Process::from).collect(),
            threads: interval.threads.iter().map(Thread::from).collect(),
            thread_count: interval.thread_count,
            process_count: interval.process_count,
            ledger: interval.ledger,
            health: health_of(interval),
            irqs: interval.irqs.iter().map(Irq::from).collect(),
            delays: interval.delays.iter().map(Delays::from).collect(),
            cgroups: interval.cgroups.iter().map(Cgroup::from).collect(),
            cgroups_left_out: interval.cgroups_left_out,
            pressure: interval.pressure,
        }
    }
}

impl TryFrom<Interval> for model::Interval {
    type Error = InvalidInterval;

    fn try_from(interval: Interval) -> Result<Self, InvalidInterval> {
        let id = |what: &'static str, value: &str| InvalidInterval { what, value: value.to_owned() };
        let cpu = |row: &Cpu| model::CpuInterval {
            cpu: row.cpu,
            times: model::CpuTimes::from_array(row.times_ns),
            went_back: row.went_back,
            sched: row.sched,
        };
        Ok(Self {
            host: interval.host.parse().map_err(|_| id("host", &interval.host))?,
            boot: interval.boot.parse().map_err(|_| id("boot", &interval.boot))?,
            sequence: interval.sequence,
            source: source_from_name(&interval.source),
            fields: flags_from_names::<Fields>(&interval.fields),
            flags: flags_from_names(&interval.flags),
            begin: interval.begin,
            end: interval.end,
            wall_shift_ns: interval.wall_shift_ns,
            clock_piece: None,
            resting: None,
            idle_processes: None,
            corrects_lists: false,
            trust: interval.trust.as_deref().map(Trust::from_name),
            pass_ns: interval.pass_ns,
            v1_ticks: interval.v1_ticks,
            cpus: interval.cpus.iter().map(cpu).collect(),
            processes: interval.processes.into_iter().map(TryFrom::try_from).collect::<Result<_, _>>()?,
            threads: interval.threads.into_iter().map(TryFrom::try_from).collect::<Result<_, _>>()?,
            thread_count: interval.thread_count,
            process_count: interval.process_count,
            ledger: interval.ledger,
            health: (&interval.health).into(),
            irqs: interval.irqs.iter().map(model::IrqInterval::from).collect(),
            delays: super::delays::to_model(&interval.delays),
            cgroups: interval.cgroups.iter().map(model::CgroupInterval::from).collect(),
            cgroups_left_out: interval.cgroups_left_out,
            pressure: interval.pressure,
        })
    }
}

#[cfg(test)]
#[path = "convert_tests.rs"]
mod tests;
