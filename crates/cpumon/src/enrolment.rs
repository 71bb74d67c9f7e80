//! The commands that enroll and refuse devices: `token`, `enroll`, `discover`, and the subcommands of `hosts`. They use the receiver's
//! state directory and work beside a running receiver.

use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::path::Path;

use anyhow::{Context, bail, ensure};
use cpumon_agent::{EnrollArgs, search_notes};
use cpumon_link::local_ips;
use cpumon_link::tls::{DEFAULT_TLS_PORT, fingerprint};
use cpumon_model::{HostId, Trust, escape};
use cpumon_receiver::enrolment::{
    Authority, BoundHost, DEVICE_VALID_FOR, Decision, EnrolledHost, EnrolmentError, TokenScope,
};

use cpumon_store::{EARLIEST_NS, HostRecord, Reader};

use crate::cli::{
    AcceptArgs, DiscoverCommandArgs, EnrolledArgs, OutputFormat, RejectArgs, RevokeArgs, StateArgs, TokenArgs,
};
use crate::exit::{Outcome, say};
use crate::output::write_texts;
use crate::paths::{own_state_dir, state_dir, store_for_writing};
use crate::when;

fn open(args: &StateArgs) -> anyhow::Result<Authority> {
    let dir = own_state_dir(args.state.as_deref(), args.store.as_deref())?;
    Authority::open(&dir).context("cannot open the receiver's state directory; --state DIR names another")
}

/// Opens an existing state directory. A command that only reads must not make an identity because of a typo in --state.
fn open_made(args: &StateArgs) -> anyhow::Result<Authority> {
    let dir = state_dir(args.state.as_deref(), args.store.as_deref());
    ensure!(
        dir.join("receiver.identity").exists(),
        "there is no receiver's state in {}: `cpumon serve --tls` makes it, --state DIR or --store FILE names another",
        dir.display()
    );
    open(args)
}

pub fn token(args: &TokenArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let dir = state_dir(args.place.state.as_deref(), args.place.store.as_deref());
    let is_new = !dir.join("receiver.identity").exists();
    let authority = open(&args.place)?;
    if is_new {
        // The token is useless for a receiver that runs with another directory.
        let dir = dir.display();
        say(&format!(
            "created a receiver identity in {dir}; `cpumon serve --tls` must use the same --state or --store"
        ));
    }
    let address = match &args.address {
        Some(address) => address.clone(),
        None => reachable(listening(&dir))?.to_string(),
    };
    let scope = scope_of(&authority, args)?;
    let token = authority.make_token(args.expires, &scope).context("cannot make an enrolment token")?;
    writeln!(out, "cpumon-agent enroll {address} {token}").context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

/// The hosts that the token admits. A name of an enrolled host means its id, which its machine keeps.
fn scope_of(authority: &Authority, args: &TokenArgs) -> anyhow::Result<TokenScope> {
    let Some(wanted) = &args.host else { return Ok(TokenScope::default()) };
    let known = match authority.registry.named(wanted) {
        Err(EnrolmentError::UnknownHost(_)) => None,
        known => Some(known?),
    };
    if let Some(known) = known.as_ref().filter(|known| known.revoked_s > 0 && !args.again) {
        bail!(
            "{} was revoked {}; add --again to let it in again",
            escape(&known.name),
            past(known.revoked_s)
        );
    }
    let id = known.map(|known| known.host).or_else(|| wanted.parse::<HostId>().ok().map(|id| id.0));
    let host = id.map_or_else(|| BoundHost::Name(wanted.clone()), BoundHost::Id);
    Ok(TokenScope { host: Some(host), again: args.again })
}

/// The address of the receiver, which it writes to its state directory.
fn listening(dir: &Path) -> SocketAddr {
    let left = std::fs::read_to_string(dir.join("listening")).ok().and_then(|text| text.trim().parse().ok());
    left.unwrap_or(SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_TLS_PORT)))
}

/// An address that devices can reach: the one it listens on, or that of the interface of the default route.
fn reachable(listening: SocketAddr) -> anyhow::Result<SocketAddr> {
    if !listening.ip().is_unspecified() {
        return Ok(listening);
    }
    // Connecting a datagram socket sends nothing; the kernel only looks up the route (TEST-NET-1, RFC 5737).
    let towards = || -> std::io::Result<IpAddr> {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0))?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9))?;
        Ok(socket.local_addr()?.ip())
    };
    match towards() {
        Ok(ip) if !ip.is_unspecified() => Ok(SocketAddr::new(ip, listening.port())),
        _ => bail!(
            "cannot determine which address devices should use; give --address, such as --address {}",
            own_addresses(listening.port()).unwrap_or_else(|| "10.77.0.1:3002".to_owned())
        ),
    }
}

/// This machine's addresses that devices could reach, `10.77.0.1:3002 or [fd00::1]:3002`.
fn own_addresses(port: u16) -> Option<String> {
    const SHOWN: usize = 8;
    let is_reachable = |ip: &IpAddr| match ip {
        IpAddr::V4(ip) => !ip.is_loopback() && !ip.is_link_local() && !ip.is_unspecified(),
        // A link-local address has no meaning without the name of an interface.
        IpAddr::V6(ip) => !ip.is_loopback() && !ip.is_unicast_link_local() && !ip.is_unspecified(),
    };
    let mut own: Vec<IpAddr> = local_ips().ok()?.into_iter().filter(is_reachable).collect();
    own.sort_unstable();
    own.dedup();
    let shown: Vec<String> =
        own.iter().take(SHOWN).map(|ip| SocketAddr::new(*ip, port).to_string()).collect();
    (!shown.is_empty()).then(|| shown.join(" or "))
}

/// `cpumon enroll`: the same as `cpumon-agent enroll`.
pub fn enroll(args: &EnrollArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    writeln!(out, "{}", args.run()?).context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

/// The enrolled name of a host that is listed as `NAME@ADDRESS`, because another host has its id. `NAME@ADDRESS` may also
/// be a host that only claims the id, so the store must have it as authenticated.
fn name_as_enrolled<'a>(authority: &Authority, args: &'a RevokeArgs) -> Option<&'a str> {
    let (name, address) = args.host.rsplit_once('@')?;
    address.parse::<IpAddr>().ok()?;
    authority.registry.named(name).ok()?;
    let reader = Reader::open(&store_for_writing(args.place.store.as_deref())).ok()?;
    let is_it = |host: &HostRecord| *host.info.hostname == args.host && host.trust == Trust::Authenticated;
    reader.hosts().ok()?.iter().any(is_it).then_some(name)
}

pub fn revoke(args: &RevokeArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let authority = open_made(&args.place)?;
    let host = match authority.revoke(&args.host) {
        Err(unknown @ (EnrolmentError::UnknownHost(_) | EnrolmentError::Unreadable(_))) => {
            match name_as_enrolled(&authority, args) {
                Some(name) => authority.revoke(name)?,
                None => return Err(unknown.into()),
            }
        }
        revoked => revoked?,
    };
    let (name, id) = (escape(&host.name), HostId(host.host));
    writeln!(
        out,
        "revoked {name} ({id}): a running receiver ends its connection within a second and refuses it from now on"
    )
    .context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

pub fn enrolled(args: &EnrolledArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let registry = open_made(&args.place)?.registry;
    let hosts = registry.hosts()?;
    let is_whole = registry.error().is_empty();
    if hosts.is_empty() && is_whole {
        say("no host is enrolled; `cpumon token` makes the command that enrolls one");
    }
    let rows = hosts.iter().map(|host| {
        [
            escape(&host.name).to_string(),
            HostId(host.host).to_string(),
            state_of(host),
            past(host.enrolled_s),
            certificate_until(host.expires_s),
        ]
    });
    write_texts(["host", "id", "state", "enrolled", "certificate_until"], rows, args.format.get(), out)?;
    Ok(if is_whole { Outcome::Done } else { Outcome::DataMissing })
}

/// `cpumon discover`: as `cpumon-agent discover`, with a choice of formats.
pub fn discover(args: &DiscoverCommandArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let format = args.format.get();
    let is_found = if format == OutputFormat::Table {
        let (text, is_found) = args.discovery.run()?;
        write!(out, "{text}").context("cannot write to standard output")?;
        is_found
    } else {
        let search = args.discovery.search()?;
        let rows = search.found.iter().map(|found| {
            let address = found.addresses.first().map_or_else(String::new, ToString::to_string);
            [fingerprint(&found.pin), address, escape(&found.name).to_string()]
        });
        write_texts(["key", "address", "name"], rows, format, out)?;
        search_notes(&search).lines().for_each(say);
        !search.found.is_empty()
    };
    Ok(if is_found { Outcome::Done } else { Outcome::DataMissing })
}

pub fn pending(args: &EnrolledArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let authority = open_made(&args.place)?;
    let requests = authority.requests.list()?;
    if requests.is_empty() {
        say("no device asks to be enrolled");
    }
    let rows = requests.iter().map(|request| {
        [
            request.code.to_string(),
            escape(&request.name).to_string(),
            HostId(request.host).to_string(),
            escape(&request.source).to_string(),
            moment(request.until_s),
            match authority.registry.find(request.host) {
                Ok(Some(known)) if known.revoked_s > 0 => "revoked; `accept --again` would let it in again",
                Ok(Some(_)) => "enrolled before; its key would be replaced",
                Ok(None) => "",
                Err(_) => "its entry cannot be read; `accept --again` would replace it",
            }
            .to_owned(),
        ]
    });
    write_texts(["code", "host", "id", "address", "until", "note"], rows, args.format.get(), out)
}

pub fn accept(args: &AcceptArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let decision = if args.again { Decision::AcceptAgain } else { Decision::Accept };
    decide(&args.place, &args.code, decision, "enrolled", out)
}

pub fn reject(args: &RejectArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    decide(&args.place, &args.device, Decision::Reject, "rejected", out)
}

fn decide(
    place: &StateArgs,
    wanted: &str,
    decision: Decision,
    verb: &str,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    let request = open_made(place)?.decide(wanted, decision)?;
    let (name, id, source) = (escape(&request.name), HostId(request.host), escape(&request.source));
    writeln!(out, "{verb}: {name} ({id}) at {source}").context("cannot write to standard output")?;
    Ok(Outcome::Done)
}

fn state_of(host: &EnrolledHost) -> String {
    match host.revoked_s {
        0 if host.keys.len() > 1 => "enrolled, new key not used yet".to_owned(),
        0 => "enrolled".to_owned(),
        revoked_s => format!("revoked {}", past(revoked_s)),
    }
}

/// No clock that is right shows an earlier time, s since the epoch. A receiver whose clock was never set takes this one for its first.
const EARLIEST_S: u64 = EARLIEST_NS.unsigned_abs() / 1_000_000_000;

/// When something was done.
fn past(seconds: u64) -> String {
    if seconds <= EARLIEST_S { "before the clock was set".to_owned() } else { moment(seconds) }
}

/// The end of a certificate. One that was made before the clock was set is good for longer than its entry says.
fn certificate_until(expires_s: u64) -> String {
    if expires_s <= EARLIEST_S + DEVICE_VALID_FOR.as_secs() {
        "renewed once the clock is set".to_owned()
    } else {
        moment(expires_s)
    }
}

fn moment(seconds: u64) -> String {
    when::show(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::FormatArgs;

    #[test]
    fn an_enrolment_token_names_an_address_that_devices_can_reach() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("listening"), "10.1.2.3:777\n").unwrap();
        assert_eq!(listening(dir.path()).to_string(), "10.1.2.3:777");
        assert_eq!(reachable(listening(dir.path())).unwrap().to_string(), "10.1.2.3:777");
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(listening(nothing.path()).port(), DEFAULT_TLS_PORT);
        if let Ok(address) = reachable(listening(nothing.path())) {
            assert!(!address.ip().is_unspecified());
        }
    }

    #[test]
    fn the_line_is_the_command_and_works_once() {
        let dir = tempfile::tempdir().unwrap();
        let place = StateArgs { state: Some(dir.path().to_owned()), store: None };
        let args = TokenArgs {
            address: Some("receiver:3002".to_owned()),
            expires: std::time::Duration::from_mins(1),
            host: None,
            again: false,
            place: place.clone(),
        };
        let mut output = Vec::new();
        token(&args, &mut output).unwrap();
        let output = String::from_utf8(output).unwrap();
        assert!(
            output.starts_with("cpumon-agent enroll receiver:3002 cpumon1.") && output.lines().count() == 1
        );
        let mut listed = Vec::new();
        enrolled(&EnrolledArgs { format: FormatArgs::default(), place: place.clone() }, &mut listed).unwrap();
        assert_eq!(String::from_utf8(listed).unwrap().lines().count(), 1, "only the title");
        let unknown = RevokeArgs { host: "unknown".to_owned(), place };
        assert!(revoke(&unknown, &mut Vec::new()).unwrap_err().to_string().contains("unknown"));
    }

    /// It was enrolled on 1 January 2025, and its certificate seemed to have ended.
    #[test]
    fn a_host_that_was_enrolled_before_the_clock_was_set_has_no_times() {
        let host = |enrolled_s: u64| {
            let expires_s = enrolled_s + DEVICE_VALID_FOR.as_secs();
            [past(enrolled_s), certificate_until(expires_s)]
        };
        for enrolled_s in [1, EARLIEST_S] {
            assert_eq!(host(enrolled_s), ["before the clock was set", "renewed once the clock is set"]);
        }
        assert!(host(EARLIEST_S + 86_400).iter().all(|time| time.starts_with("202")));
        let revoked = EnrolledHost { revoked_s: 60, ..EnrolledHost::default() };
        assert_eq!(state_of(&revoked), "revoked before the clock was set");
    }

    /// All of them failed, whatever host they were asked about.
    #[test]
    fn an_entry_that_cannot_be_read_is_in_the_way_of_no_other_host() {
        let dir = tempfile::tempdir().unwrap();
        let place = StateArgs { state: Some(dir.path().to_owned()), store: None };
        open(&place).unwrap();
        let put = |file: &str, text: &str| std::fs::write(dir.path().join(file), text).unwrap();
        let (sound, damaged, key) = ("07".repeat(16), "09".repeat(16), "01".repeat(32));
        put(
            &format!("hosts/{sound}"),
            &format!("name: web\nkeys: {key}\nenrolled: 1\nexpires: 2\nrevoked: 0\n"),
        );
        put(&format!("hosts/{damaged}"), "");
        for (host, code) in [(&sound, "1234567890"), (&damaged, "1234567891")] {
            let request =
                format!("code: {code}\nhost: {host}\nname: x\nsource: y\nuntil: 9999999999\nkey: {key}\n");
            put(&format!("requests/{host}"), &request);
        }
        let list = EnrolledArgs { format: FormatArgs::default(), place: place.clone() };
        let mut listed = Vec::new();
        assert_eq!(enrolled(&list, &mut listed).unwrap(), Outcome::DataMissing);
        assert!(String::from_utf8(listed).unwrap().contains("web"));
        let mut waiting = Vec::new();
        assert_eq!(pending(&list, &mut waiting).unwrap(), Outcome::Done);
        let waiting = String::from_utf8(waiting).unwrap();
        assert!(waiting.contains("enrolled before") && waiting.contains("cannot be read"), "{waiting}");
        let revoke = |host: &str| {
            let mut out = Vec::new();
            let done = revoke(&RevokeArgs { host: host.to_owned(), place: place.clone() }, &mut out);
            done.map(|outcome| (outcome, String::from_utf8(out).unwrap()))
        };
        let (outcome, text) = revoke("web").unwrap();
        assert!(outcome == Outcome::Done && text.starts_with("revoked web ("), "{text}");
        assert!(revoke(&damaged).unwrap_err().to_string().contains("is damaged"));
    }
}
