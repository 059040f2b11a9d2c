//! The check of the addresses that a post may reach.
//!
//! A subscription's owner chooses the URL, and a name can point anywhere, even to the instance metadata
//! service. So every address is checked after the name was resolved and before a connection is made. The
//! connection then goes to exactly that address.

use std::future::Future;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::Name;
use tower_service::Service;
use url::Host;

use crate::settings::HttpTargets;

/// The addresses that posts may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressReach {
    /// The reach of no web server at all (`HTTP_TARGETS` is off).
    Nowhere,
    /// Public addresses only.
    Public,
    /// Public and private addresses (`HTTP_TARGETS` is `private`), as behind endpoints of a VPC.
    Private,
    /// Loopback too (`ALLOW_LOOPBACK_HTTP`), for tests.
    Loopback,
}

/// The error for a name that resolves only to addresses that are not allowed. It says why, in words.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct NotAllowed(pub(super) &'static str);

/// The kinds of address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AddressKind {
    Public,
    Private,
    Loopback,
    /// Link-local addresses, where instances and containers find their credentials, and what leads to no single server.
    Never,
}

impl AddressReach {
    /// Returns the reach that `HTTP_TARGETS` and `ALLOW_LOOPBACK_HTTP` set.
    #[must_use]
    pub fn of(targets: HttpTargets, loopback: bool) -> Self {
        match (targets, loopback) {
            (HttpTargets::Off, _) => Self::Nowhere,
            (_, true) => Self::Loopback,
            (HttpTargets::On, false) => Self::Public,
            (HttpTargets::Private, false) => Self::Private,
        }
    }

    /// Returns why no request to a host may begin, if none may. A name is checked again when it is resolved.
    pub(super) fn refusal(self, host: Option<&Host<&str>>) -> Option<&'static str> {
        let address = match host {
            Some(Host::Domain(_)) if self != Self::Nowhere => return None,
            Some(Host::Domain(_)) | None => return Some(self.why_not(AddressKind::Never)),
            Some(Host::Ipv4(address)) => IpAddr::V4(*address),
            Some(Host::Ipv6(address)) => IpAddr::V6(*address),
        };
        (!self.allows(address)).then(|| self.why_not(kind(address)))
    }

    /// Returns the addresses that may be reached.
    fn choose(self, found: impl Iterator<Item = SocketAddr>) -> Result<Vec<SocketAddr>, NotAllowed> {
        let (allowed, others): (Vec<_>, Vec<_>) = found.partition(|address| self.allows(address.ip()));
        if !allowed.is_empty() {
            return Ok(allowed);
        }
        let is_private = others.iter().any(|address| kind(address.ip()) == AddressKind::Private);
        Err(NotAllowed(self.why_not(if is_private { AddressKind::Private } else { AddressKind::Never })))
    }

    fn allows(self, address: IpAddr) -> bool {
        match kind(address) {
            AddressKind::Public => self != Self::Nowhere,
            AddressKind::Private => matches!(self, Self::Private | Self::Loopback),
            AddressKind::Loopback => self == Self::Loopback,
            AddressKind::Never => false,
        }
    }

    /// Returns why an address of this kind is not reached.
    fn why_not(self, kind: AddressKind) -> &'static str {
        match (self, kind) {
            (Self::Nowhere, _) => "HTTP_TARGETS is off: set it to on to deliver to web servers",
            (_, AddressKind::Private) => {
                "the endpoint's address is private: set HTTP_TARGETS to private if letters may go to private addresses"
            }
            _ => "the endpoint's address is loopback, link-local or reserved: no letter may go there",
        }
    }
}

/// Classifies an address by IANA's registries.
/// <https://www.iana.org/assignments/iana-ipv4-special-registry>,
/// <https://www.iana.org/assignments/iana-ipv6-special-registry>
fn kind(address: IpAddr) -> AddressKind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => embedded_v4(address).map_or_else(|| kind_v6(address), kind_v4),
    }
}

fn kind_v4(address: Ipv4Addr) -> AddressKind {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127, ..) => AddressKind::Loopback,
        // RFC 1918; and shared address space, which VPCs may use too.
        // <https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html>
        (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => AddressKind::Private,
        // This network, link-local, protocol assignments, benchmarks, documentation, multicast and
        // reserved.
        (0 | 224..=255, ..)
        | (169, 254, _)
        | (192, 0, 0 | 2)
        | (198, 18..=19, _)
        | (198, 51, 100)
        | (203, 0, 113) => AddressKind::Never,
        _ => AddressKind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> AddressKind {
    let [first, second, ..] = address.segments();
    match first {
        _ if address.is_loopback() => AddressKind::Loopback,
        // AWS's own services for an instance, among them its metadata, which are link-local in all but name.
        // <https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instancedata-data-retrieval.html>
        0xfd00 if second == 0xec2 => AddressKind::Never,
        0xfc00..=0xfdff => AddressKind::Private,
        // Global unicast, without documentation and the old 6to4 and Teredo tunnels.
        0x2001 if matches!(second, 0 | 0xdb8) => AddressKind::Never,
        0x3fff if second < 0x1000 => AddressKind::Never,
        0x2002 => AddressKind::Never,
        0x2000..=0x3fff => AddressKind::Public,
        _ => AddressKind::Never,
    }
}

/// Returns the IPv4 address in a mapped (`::ffff:0:0/96`) or translated (`64:ff9b::/96`) IPv6 address.
fn embedded_v4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let bits = address.to_bits();
    let mapped = bits >> 32 == 0xffff;
    let translated = bits >> 32 == 0x0064_ff9b << 64;
    #[expect(clippy::cast_possible_truncation, reason = "the last 32 bits are asked for")]
    (mapped || translated).then(|| Ipv4Addr::from_bits(bits as u32))
}

/// A resolver that drops the addresses that may not be reached.
#[derive(Debug, Clone)]
pub(super) struct GuardedResolver {
    reach: AddressReach,
}

impl GuardedResolver {
    pub(super) fn new(reach: AddressReach) -> Self {
        Self { reach }
    }
}

type ResolvedAddresses = std::vec::IntoIter<SocketAddr>;

impl Service<Name> for GuardedResolver {
    type Response = ResolvedAddresses;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<ResolvedAddresses, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.reach;
        Box::pin(async move {
            // The port comes from the URL later; zero stands in for it.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            Ok(reach.choose(found).map_err(std::io::Error::other)?.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        for (address, expected) in [
            ("93.184.216.34", AddressKind::Public),
            ("8.8.8.8", AddressKind::Public),
            ("2606:4700::6810:84e5", AddressKind::Public),
            ("127.0.0.1", AddressKind::Loopback),
            ("127.8.8.8", AddressKind::Loopback),
            ("10.0.0.1", AddressKind::Private),
            ("172.16.0.1", AddressKind::Private),
            ("172.31.255.255", AddressKind::Private),
            ("172.32.0.1", AddressKind::Public),
            ("192.168.1.1", AddressKind::Private),
            ("100.64.0.1", AddressKind::Private),
            ("::1", AddressKind::Loopback),
            ("100.127.255.255", AddressKind::Private),
            ("100.128.0.1", AddressKind::Public),
            ("fd00::1", AddressKind::Private),
            ("fc00::1", AddressKind::Private),
            ("fd12:3456:789a::1", AddressKind::Private),
            ("fd00:ec2::254", AddressKind::Never),
            ("fd00:ec2::23", AddressKind::Never),
            ("fec0::1", AddressKind::Never),
            ("169.254.169.254", AddressKind::Never),
            ("169.254.170.2", AddressKind::Never),
            ("0.0.0.0", AddressKind::Never),
            ("255.255.255.255", AddressKind::Never),
            ("224.0.0.1", AddressKind::Never),
            ("198.18.0.1", AddressKind::Never),
            ("fe80::1", AddressKind::Never),
            ("::", AddressKind::Never),
            ("ff02::1", AddressKind::Never),
            ("2001:db8::1", AddressKind::Never),
            ("2002:a9fe:a9fe::1", AddressKind::Never),
            ("::ffff:169.254.169.254", AddressKind::Never),
            ("3fff::1", AddressKind::Never),
            ("::ffff:127.0.0.1", AddressKind::Loopback),
            ("::ffff:10.0.0.1", AddressKind::Private),
            ("::ffff:0.0.0.0", AddressKind::Never),
            ("::127.0.0.1", AddressKind::Never),
            ("::ffff:0:10.0.0.1", AddressKind::Never),
            ("64:ff9b::127.0.0.1", AddressKind::Loopback),
            ("64:ff9b::10.0.0.1", AddressKind::Private),
            ("64:ff9b:1::10.0.0.1", AddressKind::Never),
            ("64:ff9b::a9fe:a9fe", AddressKind::Never),
            ("64:ff9b::8.8.8.8", AddressKind::Public),
        ] {
            assert_eq!(kind(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn each_reach_has_the_kinds_of_address_that_it_names() {
        let examples = ["8.8.8.8", "10.0.0.1", "127.0.0.1", "169.254.169.254"];
        for (targets, loopback, reached) in [
            (HttpTargets::Off, false, 0),
            (HttpTargets::Off, true, 0),
            (HttpTargets::On, false, 1),
            (HttpTargets::Private, false, 2),
            (HttpTargets::On, true, 3),
            (HttpTargets::Private, true, 3),
        ] {
            let reach = AddressReach::of(targets, loopback);
            let allowed = examples.map(|address| reach.allows(address.parse().unwrap()));
            assert_eq!(allowed, [0, 1, 2, 3].map(|kind| kind < reached), "{reach:?}");
        }
    }

    #[test]
    fn a_name_leads_to_those_of_its_addresses_that_may_be_reached_or_the_refusal_says_why() {
        let address = |text: &str| SocketAddr::new(text.parse().unwrap(), 0);
        let choose =
            |reach: AddressReach, found: &[&str]| reach.choose(found.iter().map(|text| address(text)));
        let mixed = ["127.0.0.1", "10.0.0.1", "8.8.8.8"];
        assert_eq!(choose(AddressReach::Public, &mixed), Ok(vec![address("8.8.8.8")]));
        assert_eq!(choose(AddressReach::Private, &mixed), Ok(vec![address("10.0.0.1"), address("8.8.8.8")]));
        for (reach, found, why) in [
            (AddressReach::Public, &mixed[..2], "HTTP_TARGETS to private"),
            (AddressReach::Public, &mixed[..1], "no letter may go there"),
            (AddressReach::Private, &mixed[..1], "no letter may go there"),
            (AddressReach::Public, &[], "no letter may go there"),
            (AddressReach::Nowhere, &mixed, "HTTP_TARGETS is off"),
        ] {
            let refused = choose(reach, found).unwrap_err();
            assert!(refused.to_string().contains(why), "{reach:?} {found:?}: {refused}");
        }
    }

    #[test]
    fn hosts_that_are_addresses_in_disguise_are_seen_through() {
        for url in
            ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://[::ffff:7f00:1]/", "http://0/"]
        {
            let url = url::Url::parse(url).unwrap();
            for reach in [AddressReach::Public, AddressReach::Private] {
                assert!(reach.refusal(url.host().as_ref()).is_some(), "{url}");
            }
        }
    }
}
