//! DNS-SD over multicast DNS (RFC 6763, RFC 6762): how a device finds a receiver on its subnets.
//!
//! A receiver is an instance of [`SERVICE`], as printers and file servers are instances of theirs, so `avahi-browse` and
//! `dns-sd` list it. The TXT record has the hash of its public key, the pin. The records are only a hint: the receiver proves
//! in TLS that it has the key.
//!
//! A device asks once from a port of its own and gets answers by unicast (RFC 6762, section 6.7). Nothing is cached on either
//! side, so what strangers send takes no memory.

use std::net::{IpAddr, SocketAddr};

use simple_dns::rdata::{A, AAAA, PTR, RData, SRV, TXT};
use simple_dns::{CLASS, Label, Name, Packet, PacketFlag, QTYPE, Question, ResourceRecord, TYPE};

/// UDP port of multicast DNS.
pub const PORT: u16 = 5353;
/// DNS-SD name of the service that receivers offer.
pub const SERVICE: &str = "_cpumon._tcp.local";
/// Most addresses in an answer.
pub const MAX_ADDRESSES: usize = 8;

/// Asked by those who list every kind of service on a network (RFC 6763, section 9).
const ALL_SERVICES: &str = "_services._dns-sd._udp.local";
const LABELS: [&[u8]; 3] = [b"_cpumon", b"_tcp", b"local"];
/// Longest label of a DNS name (RFC 1035), bytes.
const MAX_LABEL_BYTES: usize = 63;
/// Records in one message of ours; a message that claims more is not parsed, since a parser reserves memory for them.
const MAX_RECORDS: u16 = 64;
const HEADER_BYTES: usize = 12;
const MAX_SERVICES: usize = 8;
/// How long others may cache what names an address, and the rest (RFC 6762, section 10).
const HOST_TTL_S: u32 = 120;
const OTHER_TTL_S: u32 = 4_500;
/// An answer to a plain DNS resolver must not be cached for longer (RFC 6762, section 6.7).
const LEGACY_TTL_S: u32 = 10;

/// Why a message is of no use.
#[derive(Copy, Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unusable {
    /// No DNS message, or one with more records than ours have.
    #[error("not a DNS message")]
    Malformed,
    /// An answer to another question.
    #[error("an answer to another question")]
    Stale,
    /// The message has nothing about receivers.
    #[error("nothing about {SERVICE}")]
    Unrelated,
}

/// A receiver as an instance of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// Name of the receiver's host.
    pub name: String,
    /// SHA-256 of the receiver's public key.
    pub pin: [u8; 32],
    /// Where it accepts TLS connections, the best address first.
    pub addresses: Vec<SocketAddr>,
}

/// Where the answer to a query is sent.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum ReplyTo {
    /// To the sender alone, who asked from a port of its own, with the id of its question.
    Resolver {
        /// The id of the query.
        id: u16,
    },
    /// To the sender alone, as the query asked.
    Sender,
    /// To everyone on the subnet.
    Group,
}

/// The query of a device: who offers [`SERVICE`]? The answer repeats `id`.
pub fn browse(id: u16) -> Vec<u8> {
    let mut packet = Packet::new_query(id);
    let name = Name::new_unchecked(SERVICE);
    packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::PTR), CLASS::IN.into(), true));
    // A query of one question always fits.
    packet.build_bytes_vec().unwrap_or_default()
}

/// Reads a query that came from `port`: how to answer it, or `None` when it asks for something else.
///
/// # Errors
/// [`Unusable::Malformed`].
pub fn read_query(datagram: &[u8], port: u16, instance: &Instance) -> Result<Option<ReplyTo>, Unusable> {
    // Most messages on a network are answers of other services; they are not parsed.
    if datagram.get(2).is_some_and(|flags| flags & 0x80 != 0) {
        return Ok(None);
    }
    let packet = parse(datagram)?;
    let names = RecordNames::of(instance);
    let Some(question) = packet.questions.iter().find(|question| names.answer(question)) else {
        return Ok(None);
    };
    let is_known = |record: &ResourceRecord<'_>| match &record.rdata {
        RData::PTR(PTR(to)) => same(to, &names.instance) && record.ttl >= OTHER_TTL_S / 2,
        _ => false,
    };
    // Who lists this instance in the query knows it (known-answer suppression, RFC 6762, section 7.1).
    if packet.answers.iter().any(is_known) {
        return Ok(None);
    }
    Ok(Some(match port {
        PORT if question.unicast_response => ReplyTo::Sender,
        PORT => ReplyTo::Group,
        _ => ReplyTo::Resolver { id: packet.id() },
    }))
}

/// Encodes the answer of a receiver.
pub fn answer(instance: &Instance, reply_to: ReplyTo) -> Vec<u8> {
    let (id, most_ttl_s) = match reply_to {
        ReplyTo::Resolver { id } => (id, LEGACY_TTL_S),
        ReplyTo::Sender | ReplyTo::Group => (0, u32::MAX),
    };
    let mut packet = message(instance, id, most_ttl_s);
    if most_ttl_s == LEGACY_TTL_S {
        // A plain resolver expects its question back.
        let name = Name::new_unchecked(SERVICE);
        packet.questions.push(Question::new(name, QTYPE::TYPE(TYPE::PTR), CLASS::IN.into(), false));
    }
    packet.build_bytes_vec_compressed().unwrap_or_default()
}

/// What a receiver multicasts when it starts, so that browsers that run already list it.
pub fn announcement(instance: &Instance) -> Vec<u8> {
    answer(instance, ReplyTo::Group)
}

/// What a receiver multicasts when it stops, so that browsers forget it at once.
pub fn goodbye(instance: &Instance) -> Vec<u8> {
    message(instance, 0, 0).build_bytes_vec_compressed().unwrap_or_default()
}

fn message(instance: &Instance, id: u16, most_ttl_s: u32) -> Packet<'_> {
    let mut packet = Packet::new_reply(id);
    packet.set_flags(PacketFlag::AUTHORITATIVE_ANSWER);
    let names = RecordNames::of(instance);
    let (host_ttl_s, other_ttl_s) = (HOST_TTL_S.min(most_ttl_s), OTHER_TTL_S.min(most_ttl_s));
    // A shared record never flushes others from a cache; a record of this instance alone does. Plain resolvers do not
    // know that bit.
    let is_flushing = most_ttl_s > LEGACY_TTL_S;
    let own = |name: &Name<'static>, ttl_s, data| {
        ResourceRecord::new(name.clone(), CLASS::IN, ttl_s, data).with_cache_flush(is_flushing)
    };
    let pointer = RData::PTR(PTR(names.instance.clone()));
    packet.answers.push(ResourceRecord::new(Name::new_unchecked(SERVICE), CLASS::IN, other_ttl_s, pointer));
    let kind = RData::PTR(PTR(Name::new_unchecked(SERVICE)));
    packet.answers.push(ResourceRecord::new(Name::new_unchecked(ALL_SERVICES), CLASS::IN, other_ttl_s, kind));
    let port = instance.addresses.first().map_or(0, SocketAddr::port);
    let location = SRV { priority: 0, weight: 0, port, target: names.host.clone() };
    packet.additional_records.push(own(&names.instance, host_ttl_s, RData::SRV(location)));
    packet.additional_records.push(own(&names.instance, other_ttl_s, RData::TXT(text(instance))));
    for address in instance.addresses.iter().take(MAX_ADDRESSES) {
        let data = match address.ip() {
            IpAddr::V4(ip) => RData::A(A { address: ip.into() }),
            IpAddr::V6(ip) => RData::AAAA(AAAA { address: ip.into() }),
        };
        packet.additional_records.push(own(&names.host, host_ttl_s, data));
    }
    packet
}

fn text(instance: &Instance) -> TXT<'static> {
    let attributes = [
        ("txtvers", "1".to_owned()),
        ("key", hex::encode(instance.pin)),
        ("name", cut(&instance.name).to_owned()),
    ];
    let mut text = TXT::new();
    for (key, value) in attributes {
        // Each is far shorter than the 255 bytes of a string.
        let _ = text.add_attribute(key, Some(value.as_bytes()));
    }
    text.into_owned()
}

/// Reads the answer to [`browse`]: the receivers in it, at most eight.
///
/// # Errors
/// [`Unusable`].
pub fn read_answer(datagram: &[u8], id: u16) -> Result<Vec<Instance>, Unusable> {
    let packet = parse(datagram)?;
    if !packet.has_flags(PacketFlag::RESPONSE) || packet.id() != id {
        return Err(Unusable::Stale);
    }
    let records = || packet.answers.iter().chain(&packet.additional_records);
    let service = Name::new_unchecked(SERVICE);
    let pointed = packet.answers.iter().filter_map(|record| match &record.rdata {
        RData::PTR(PTR(to)) if same(&record.name, &service) => Some(to),
        _ => None,
    });
    let found: Vec<Instance> = pointed.take(MAX_SERVICES).filter_map(|name| resolve(name, records)).collect();
    if found.is_empty() { Err(Unusable::Unrelated) } else { Ok(found) }
}

fn resolve<'a, 'p: 'a, I>(name: &Name<'_>, records: impl Fn() -> I) -> Option<Instance>
where
    I: Iterator<Item = &'a ResourceRecord<'p>>,
{
    let text = records().find_map(|record| match &record.rdata {
        RData::TXT(text) if same(&record.name, name) => Some(text),
        _ => None,
    })?;
    let attribute = |wanted: &[u8]| {
        text.iter_raw().find(|(key, _)| key.eq_ignore_ascii_case(wanted)).and_then(|(_, value)| value)
    };
    let mut pin = [0; 32];
    hex::decode_to_slice(attribute(b"key")?, &mut pin).ok()?;
    let (port, host) = records().find_map(|record| match &record.rdata {
        RData::SRV(location) if same(&record.name, name) => Some((location.port, &location.target)),
        _ => None,
    })?;
    let addresses =
        records().filter(|record| same(&record.name, host)).filter_map(|record| match &record.rdata {
            RData::A(A { address }) => Some(SocketAddr::from((address.to_be_bytes(), port))),
            RData::AAAA(AAAA { address }) => Some(SocketAddr::from((address.to_be_bytes(), port))),
            _ => None,
        });
    let addresses: Vec<SocketAddr> = addresses.take(MAX_ADDRESSES).collect();
    let name = String::from_utf8_lossy(attribute(b"name").unwrap_or_default()).into_owned();
    (port != 0 && !addresses.is_empty()).then_some(Instance { name: cut(&name).to_owned(), pin, addresses })
}

/// The names of one receiver's records. The pin makes them unique, so there is no name to fight for.
struct RecordNames {
    instance: Name<'static>,
    host: Name<'static>,
}

impl RecordNames {
    fn of(instance: &Instance) -> Self {
        let key = hex::encode(&instance.pin[..4]);
        let suffix = format!(" [{key}]");
        let shown = cut_to(&instance.name, MAX_LABEL_BYTES - suffix.len());
        let label = |bytes: &[u8]| Label::new_unchecked(bytes.to_vec());
        let mut labels = vec![label(format!("{shown}{suffix}").as_bytes())];
        labels.extend(LABELS.map(label));
        let host = [label(format!("cpumon-{key}").as_bytes()), label(b"local")];
        Self {
            instance: Name::new_with_labels(&labels).into_owned(),
            host: Name::new_with_labels(&host).into_owned(),
        }
    }

    /// Whether one of this receiver's records answers the question.
    fn answer(&self, question: &Question<'_>) -> bool {
        let name = &question.qname;
        let asks = |kind: TYPE| matches!(question.qtype, QTYPE::ANY) || question.qtype == QTYPE::TYPE(kind);
        let service = [SERVICE, ALL_SERVICES].map(Name::new_unchecked);
        (asks(TYPE::PTR) && service.iter().any(|one| same(name, one)))
            || ((asks(TYPE::SRV) || asks(TYPE::TXT)) && same(name, &self.instance))
            || ((asks(TYPE::A) || asks(TYPE::AAAA)) && same(name, &self.host))
    }
}

/// Names of DNS are the same in upper and lower case.
fn same(one: &Name<'_>, other: &Name<'_>) -> bool {
    one.get_labels().len() == other.get_labels().len()
        && one.as_bytes().zip(other.as_bytes()).all(|(one, other)| one.eq_ignore_ascii_case(other))
}

fn cut(name: &str) -> &str {
    cut_to(name, MAX_LABEL_BYTES)
}

fn cut_to(name: &str, most_bytes: usize) -> &str {
    &name[..name.floor_char_boundary(most_bytes)]
}

fn parse(datagram: &[u8]) -> Result<Packet<'_>, Unusable> {
    let header = datagram.first_chunk::<HEADER_BYTES>().ok_or(Unusable::Malformed)?;
    let counts = header[4..].chunks_exact(2).map(|bytes| u16::from_be_bytes([bytes[0], bytes[1]]));
    if counts.into_iter().any(|count| count > MAX_RECORDS) {
        return Err(Unusable::Malformed);
    }
    Packet::parse(datagram).map_err(|_| Unusable::Malformed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance() -> Instance {
        Instance {
            name: "workstation".to_owned(),
            pin: [0xab; 32],
            addresses: vec!["10.0.0.2:3002".parse().unwrap(), "[fd77::2]:3002".parse().unwrap()],
        }
    }

    #[test]
    fn a_device_asks_and_reads_the_answer() {
        let query = browse(77);
        assert_eq!(read_query(&query, 40_000, &instance()), Ok(Some(ReplyTo::Resolver { id: 77 })));
        let datagram = answer(&instance(), ReplyTo::Resolver { id: 77 });
        assert_eq!(read_answer(&datagram, 77), Ok(vec![instance()]));
        assert_eq!(read_answer(&datagram, 78), Err(Unusable::Stale), "an answer to another question");
        assert!(datagram.len() < 500, "fits a datagram by far: {}", datagram.len());
    }

    #[test]
    fn other_programs_ask_from_the_port_of_multicast_dns() {
        let ask = |name: &str, kind: TYPE, is_unicast: bool| {
            let mut packet = Packet::new_query(0);
            let name = Name::new_unchecked(name);
            packet.questions.push(Question::new(name, QTYPE::TYPE(kind), CLASS::IN.into(), is_unicast));
            read_query(&packet.build_bytes_vec().unwrap(), PORT, &instance()).unwrap()
        };
        assert_eq!(ask("_CPUMON._tcp.local", TYPE::PTR, false), Some(ReplyTo::Group));
        assert_eq!(ask(SERVICE, TYPE::PTR, true), Some(ReplyTo::Sender));
        assert_eq!(ask(ALL_SERVICES, TYPE::PTR, false), Some(ReplyTo::Group));
        assert_eq!(ask("workstation [abababab]._cpumon._tcp.local", TYPE::SRV, false), Some(ReplyTo::Group));
        assert_eq!(ask("cpumon-abababab.local", TYPE::AAAA, false), Some(ReplyTo::Group));
        assert_eq!(ask("_ipp._tcp.local", TYPE::PTR, false), None);
        assert_eq!(ask(SERVICE, TYPE::A, false), None);
    }

    #[test]
    fn who_knows_the_instance_is_not_answered_again() {
        let mut packet = Packet::new_query(0);
        let name = Name::new_unchecked(SERVICE);
        packet.questions.push(Question::new(name.clone(), QTYPE::TYPE(TYPE::PTR), CLASS::IN.into(), false));
        let known = RData::PTR(PTR(RecordNames::of(&instance()).instance));
        packet.answers.push(ResourceRecord::new(name, CLASS::IN, OTHER_TTL_S, known));
        assert_eq!(read_query(&packet.build_bytes_vec().unwrap(), PORT, &instance()), Ok(None));
    }

    #[test]
    fn a_long_name_is_cut_between_letters_and_a_goodbye_is_valid_for_no_time() {
        let long = Instance { name: "ü".repeat(100), ..instance() };
        let found = read_answer(&answer(&long, ReplyTo::Resolver { id: 1 }), 1).unwrap();
        assert_eq!(found[0].name, "ü".repeat(31));
        let bytes = goodbye(&long);
        let records = Packet::parse(&bytes).unwrap();
        assert!(records.answers.iter().chain(&records.additional_records).all(|record| record.ttl == 0));
    }

    #[test]
    fn counts_that_would_reserve_memory_and_garbage_are_refused() {
        let mut bytes = browse(1);
        bytes[6..8].copy_from_slice(&u16::MAX.to_be_bytes());
        assert_eq!(read_query(&bytes, PORT, &instance()), Err(Unusable::Malformed));
        for cut in 0..browse(1).len() {
            assert_eq!(read_query(&browse(1)[..cut], PORT, &instance()), Err(Unusable::Malformed), "{cut}");
        }
        assert_eq!(read_answer(b"garbage of some length", 1), Err(Unusable::Malformed));
    }

    #[test]
    fn an_answer_without_key_port_or_address_names_no_receiver() {
        let without = Instance { addresses: Vec::new(), ..instance() };
        assert_eq!(read_answer(&answer(&without, ReplyTo::Resolver { id: 1 }), 1), Err(Unusable::Unrelated));
    }
}
