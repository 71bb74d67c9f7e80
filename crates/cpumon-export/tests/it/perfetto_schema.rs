//! The part of Perfetto's public schema that the tests read.

use prost::Message;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Trace {
    #[prost(message, repeated, tag = "1")]
    pub(crate) packet: Vec<Packet>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Packet {
    #[prost(message, optional, tag = "1")]
    pub(crate) ftrace_events: Option<Bundle>,
    #[prost(message, optional, tag = "2")]
    pub(crate) process_tree: Option<ProcessTree>,
    #[prost(uint64, optional, tag = "8")]
    pub(crate) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "10")]
    pub(crate) trusted_packet_sequence_id: Option<u32>,
    #[prost(message, optional, tag = "45")]
    pub(crate) system_info: Option<SystemInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SystemInfo {
    #[prost(message, optional, tag = "1")]
    pub(crate) utsname: Option<Utsname>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Utsname {
    #[prost(string, optional, tag = "3")]
    pub(crate) release: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ProcessTree {
    #[prost(message, repeated, tag = "2")]
    pub(crate) threads: Vec<Thread>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Thread {
    #[prost(int32, optional, tag = "1")]
    pub(crate) tid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    #[prost(int32, optional, tag = "3")]
    pub(crate) tgid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Bundle {
    #[prost(uint32, optional, tag = "1")]
    pub(crate) cpu: Option<u32>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) event: Vec<Event>,
    #[prost(message, optional, tag = "4")]
    pub(crate) compact_sched: Option<Compact>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    #[prost(uint64, optional, tag = "1")]
    pub(crate) timestamp: Option<u64>,
    #[prost(uint32, optional, tag = "2")]
    pub(crate) pid: Option<u32>,
    #[prost(message, optional, tag = "20")]
    pub(crate) sched_waking: Option<Waking>,
    #[prost(message, optional, tag = "235")]
    pub(crate) task_newtask: Option<NewTask>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Waking {
    #[prost(int32, optional, tag = "2")]
    pub(crate) pid: Option<i32>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NewTask {
    #[prost(int32, optional, tag = "1")]
    pub(crate) pid: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(crate) comm: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    pub(crate) clone_flags: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compact {
    #[prost(uint64, repeated, tag = "1")]
    pub(crate) switch_timestamp: Vec<u64>,
    #[prost(int64, repeated, tag = "2")]
    pub(crate) switch_prev_state: Vec<i64>,
    #[prost(int32, repeated, tag = "3")]
    pub(crate) switch_next_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "4")]
    pub(crate) switch_next_prio: Vec<i32>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) intern_table: Vec<String>,
    #[prost(uint32, repeated, tag = "6")]
    pub(crate) switch_next_comm_index: Vec<u32>,
    #[prost(uint64, repeated, tag = "7")]
    pub(crate) waking_timestamp: Vec<u64>,
    #[prost(int32, repeated, tag = "8")]
    pub(crate) waking_pid: Vec<i32>,
    #[prost(int32, repeated, tag = "9")]
    pub(crate) waking_target_cpu: Vec<i32>,
    #[prost(uint32, repeated, tag = "11")]
    pub(crate) waking_comm_index: Vec<u32>,
}
