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

/// The addresses that posts may reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// The reach of no web server at all (`HTTP_TARGETS` is off).
    Nowhere,
    /// Public addresses only.
    Public,
    /// Public, loopback and private addresses (`ALLOW_LOOPBACK_HTTP`), but never link-local ones.
    Private,
}

/// The error for a name that resolves only to addresses that are not allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{}", Self::DETAIL)]
pub(super) struct NotAllowed;

impl NotAllowed {
    /// The failed check, in words.
    pub(super) const DETAIL: &str =
        "the endpoint's address is link-local, loopback or private: it must be public";
}

impl Reach {
    /// Returns the failed check in words, for a server that is not allowed.
    pub(super) fn detail(self) -> &'static str {
        match self {
            Self::Nowhere => "HTTP_TARGETS is off: set it to on to deliver to web servers",
            Self::Public | Self::Private => NotAllowed::DETAIL,
        }
    }

    /// Reports whether a request to a host may begin. A name is checked again when it is resolved.
    pub(super) fn allows_host(self, host: Option<&Host<&str>>) -> bool {
        match host {
            Some(Host::Domain(_)) => self != Self::Nowhere,
            Some(Host::Ipv4(address)) => self.allows((*address).into()),
            Some(Host::Ipv6(address)) => self.allows((*address).into()),
            None => false,
        }
    }

    fn allows(self, address: IpAddr) -> bool {
        match (kind(address), self) {
            (_, Self::Nowhere) | (Kind::Private, Self::Public) | (Kind::Never, _) => false,
            (Kind::Public, _) | (Kind::Private, Self::Private) => true,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Public,
    Private,
    Never,
}

/// Classifies an address by IANA's registries.
/// <https://www.iana.org/assignments/iana-ipv4-special-registry>,
/// <https://www.iana.org/assignments/iana-ipv6-special-registry>
fn kind(address: IpAddr) -> Kind {
    match address {
        IpAddr::V4(address) => kind_v4(address),
        IpAddr::V6(address) => embedded_v4(address).map_or_else(|| kind_v6(address), kind_v4),
    }
}

fn kind_v4(address: Ipv4Addr) -> Kind {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        (127 | 10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => Kind::Private,
        // This network, link-local, protocol assignments, benchmarks, documentation, multicast and
        // reserved.
        (0 | 224..=255, ..)
        | (169, 254, _)
        | (192, 0, 0 | 2)
        | (198, 18..=19, _)
        | (198, 51, 100)
        | (203, 0, 113) => Kind::Never,
        _ => Kind::Public,
    }
}

fn kind_v6(address: Ipv6Addr) -> Kind {
    let first = address.segments()[0];
    match first {
        _ if address.is_loopback() || first & 0xfe00 == 0xfc00 => Kind::Private,
        // Global unicast, without documentation and the old 6to4 and Teredo tunnels.
        0x2001 if matches!(address.segments()[1], 0 | 0xdb8) => Kind::Never,
        0x2002 => Kind::Never,
        0x2000..=0x3fff => Kind::Public,
        _ => Kind::Never,
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
    reach: Reach,
}

impl GuardedResolver {
    pub(super) fn new(reach: Reach) -> Self {
        Self { reach }
    }
}

type Addresses = std::vec::IntoIter<SocketAddr>;

impl Service<Name> for GuardedResolver {
    type Response = Addresses;
    type Error = std::io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Addresses, std::io::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), std::io::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let reach = self.reach;
        Box::pin(async move {
            // The port comes from the URL later; zero stands in for it.
            let found = tokio::net::lookup_host((name.as_str(), 0)).await?;
            let allowed: Vec<_> = found.filter(|address| reach.allows(address.ip())).collect();
            if allowed.is_empty() {
                return Err(std::io::Error::other(NotAllowed));
            }
            Ok(allowed.into_iter())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_told_apart() {
        for (address, expected) in [
            ("93.184.216.34", Kind::Public),
            ("8.8.8.8", Kind::Public),
            ("2606:4700::6810:84e5", Kind::Public),
            ("127.0.0.1", Kind::Private),
            ("127.8.8.8", Kind::Private),
            ("10.0.0.1", Kind::Private),
            ("172.16.0.1", Kind::Private),
            ("172.31.255.255", Kind::Private),
            ("172.32.0.1", Kind::Public),
            ("192.168.1.1", Kind::Private),
            ("100.64.0.1", Kind::Private),
            ("::1", Kind::Private),
            ("fd00:ec2::254", Kind::Private),
            ("169.254.169.254", Kind::Never),
            ("169.254.170.2", Kind::Never),
            ("0.0.0.0", Kind::Never),
            ("255.255.255.255", Kind::Never),
            ("224.0.0.1", Kind::Never),
            ("198.18.0.1", Kind::Never),
            ("fe80::1", Kind::Never),
            ("::", Kind::Never),
            ("ff02::1", Kind::Never),
            ("2001:db8::1", Kind::Never),
            ("2002:a9fe:a9fe::1", Kind::Never),
            ("::ffff:169.254.169.254", Kind::Never),
            ("::ffff:127.0.0.1", Kind::Private),
            ("64:ff9b::a9fe:a9fe", Kind::Never),
            ("64:ff9b::8.8.8.8", Kind::Public),
        ] {
            assert_eq!(kind(address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn link_local_addresses_are_never_reached() {
        let metadata = "169.254.169.254".parse().unwrap();
        assert!(!Reach::Public.allows(metadata) && !Reach::Private.allows(metadata));
        let loopback = "127.0.0.1".parse().unwrap();
        assert!(!Reach::Public.allows(loopback) && Reach::Private.allows(loopback));
    }

    #[test]
    fn hosts_that_are_addresses_in_disguise_are_seen_through() {
        for url in
            ["http://2130706433/", "http://0x7f.1/", "http://127.1/", "http://[::ffff:7f00:1]/", "http://0/"]
        {
            let url = url::Url::parse(url).unwrap();
            assert!(!Reach::Public.allows_host(url.host().as_ref()), "{url}");
        }
    }
}
