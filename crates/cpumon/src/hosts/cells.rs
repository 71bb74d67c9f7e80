//! Cells of the table of hosts that take some words: what was lost, and how far clocks are off.

use std::net::{IpAddr, SocketAddr};

use cpumon_model::{HostStatus, LossCounts};
use cpumon_web::api;

/// The address behind `address:port`, or of a source.
pub(super) fn ip_of(text: &str) -> Option<IpAddr> {
    let ip = text.parse::<SocketAddr>().map(|address| address.ip()).or_else(|_| text.parse());
    // An IPv4 sender may be listed by its IPv4-mapped address; both forms are one address.
    ip.ok().map(|ip: IpAddr| ip.to_canonical())
}

/// What was refused of the address that a host sends from, because it sent more than one may.
pub(super) fn over_limit(host: &HostStatus, rejected_by: &[api::Rejects]) -> u64 {
    let from = ip_of(&host.address);
    let of_host = rejected_by.iter().filter(|rejects| from.is_some() && ip_of(&rejects.source) == from);
    of_host.filter_map(|rejects| rejects.by_kind.get("rate_limit")).sum()
}

/// Everything that did not arrive as it was sent: in few words, and their sum for where there is little space.
pub(super) fn show_loss(counts: &LossCounts, over_limit: u64) -> [String; 2] {
    let named = [
        (counts.snapshots_lost, "lost"),
        (counts.snapshots_partial, "partial"),
        (counts.rejected, "rejected"),
        (counts.duplicates, "doubled"),
        (counts.reordered, "reordered"),
        (counts.store_dropped, "not stored"),
        (over_limit, "datagrams over its source's limit"),
    ];
    let shown: Vec<String> =
        named.iter().filter(|(count, _)| *count > 0).map(|(count, name)| format!("{count} {name}")).collect();
    if shown.is_empty() {
        return ["none"; 2].map(str::to_owned);
    }
    let sum = named.iter().fold(0_u64, |sum, (count, _)| sum.saturating_add(*count));
    [shown.join(", "), sum.to_string()]
}

/// A difference of clocks: `+1.500 s`, `-3 h 20 min`, `-8333 d 8 h`.
pub(super) fn show_offset(offset_ns: i64) -> String {
    let sign = if offset_ns < 0 { '-' } else { '+' };
    let minutes = offset_ns.unsigned_abs() / 60_000_000_000;
    match minutes {
        0..60 => format!("{:+.3} s", offset_ns as f64 / 1e9),
        60..1440 => format!("{sign}{} h {:02} min", minutes / 60, minutes % 60),
        _ => format!("{sign}{} d {} h", minutes / 1440, minutes % 1440 / 60),
    }
}

/// How far the host's clock is ahead of the receiver's: `+1.500 s ±0.2 ms, 12 ppm fast`; `~` where it is estimated from arrivals,
/// `< 1 ms` where the difference is not worth a number, and known that well or estimated.
/// Then the same without the error and the rate, for where there is little space.
pub(super) fn show_clock(host: &HostStatus) -> [String; 2] {
    const SMALL_NS: u64 = 1_000_000;
    let is_exact = host.clock.is_none_or(|clock| clock.round_trip_ns / 2 < SMALL_NS);
    let offset_ns = host.clock_offset_ns();
    let offset = if is_exact && offset_ns.unsigned_abs() < SMALL_NS {
        "< 1 ms".to_owned()
    } else {
        show_offset(offset_ns)
    };
    let Some(clock) = host.clock else {
        return [format!("~{offset}"), format!("~{offset}")];
    };
    let exact = format!("{offset} ±{:.1} ms", clock.round_trip_ns as f64 / 2e6);
    let full = match clock.drift_ppb {
        Some(ppb) if ppb != 0 => {
            let way = if ppb > 0 { "fast" } else { "slow" };
            format!("{exact}, {:.1} ppm {way}", ppb.unsigned_abs() as f64 / 1e3)
        }
        _ => exact,
    };
    [full, offset]
}
