//! Answers of `cpumon-query` as JSON types.

use cpumon_query::status;

use super::{Discovery, Receiver, ReceiverHealth, Rejects, Status, Store, StoreState, Stream};

impl From<status::Status> for Status {
    fn from(from: status::Status) -> Self {
        Self {
            version: from.version,
            pid: from.pid,
            started_wall_ns: from.started_wall_ns,
            now_wall_ns: from.now_wall_ns,
            udp: from.udp,
            http: from.http,
            receiver: from.receiver.into(),
            stream: from.connections.map(Stream::from),
            store: from.store.into(),
            hosts: Vec::new(),
        }
    }
}

/// The same fields under the same names; those after the semicolon are converted.
macro_rules! same_fields {
    ($from:ty => $to:ident { $($field:ident),+ ; $($part:ident: $convert:expr),* }) => {
        impl From<$from> for $to {
            fn from(from: $from) -> Self {
                Self { $($field: from.$field,)+ $($part: $convert(from.$part)),* }
            }
        }
    };
}

fn discovery(from: Option<status::Discovery>) -> Option<Discovery> {
    from.map(Discovery::from)
}

fn rejects(all: Vec<status::Rejects>) -> Vec<Rejects> {
    all.into_iter().map(Rejects::from).collect()
}

same_fields!(status::Receiver => Receiver { datagrams, bytes, kernel_dropped, rejected, receive_errors, rejected_for, opened, keys, accepts_plain, accepts_v1, intervals; rejected_by: rejects });
same_fields!(status::Connections => Stream { address, devices, accepted, refused_early, handshakes_failed, refused_devices, protocol_errors, enrolled, refused_tokens, renewed, requests, requests_waiting, requests_accepted, requests_refused, bytes; discovery: discovery, refused_by: rejects });
same_fields!(status::Discovery => Discovery { key, queries, answered, unrelated, too_many, malformed, failed;  });
same_fields!(status::Rejects => Rejects { source, count, reason, by_kind;  });
same_fields!(status::Store => Store { path, error, queue, queue_capacity, dropped, written, size_bytes; state: StoreState::from });

impl From<status::StoreState> for StoreState {
    fn from(from: status::StoreState) -> Self {
        match from {
            status::StoreState::Ok => Self::Ok,
            status::StoreState::Failing => Self::Failing,
            status::StoreState::None => Self::None,
        }
    }
}

impl From<status::Status> for ReceiverHealth {
    fn from(from: status::Status) -> Self {
        Self {
            store: from.store.state.into(),
            store_error: from.store.error,
            store_dropped: from.store.dropped,
            rejected: from.receiver.rejected,
            kernel_dropped: from.receiver.kernel_dropped,
        }
    }
}
