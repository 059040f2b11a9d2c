//! IP addresses in every notation, and ranges of them.

use std::net::{IpAddr, Ipv6Addr};

/// A range of addresses, as `10.0.0.0/24` or `2001:db8::/32`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct AddressRange {
    address: IpAddr,
    prefix: u32,
}

impl AddressRange {
    /// Reads a range in the notation of CIDR.
    pub(super) fn of(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let prefix = number(prefix).filter(|prefix| *prefix <= 128)?;
        if let Ok(address) = address.parse::<Ipv6Addr>() {
            let mapped = address.to_ipv4_mapped().zip(prefix.checked_sub(96));
            let (address, prefix) =
                mapped.map_or((address.into(), prefix), |(address, prefix)| (address.into(), prefix));
            return Some(Self { address, prefix });
        }
        let address = address_of(address)?;
        (prefix <= 32).then_some(Self { address, prefix })
    }

    /// Reports whether an address is in the range.
    pub(super) fn contains(&self, address: IpAddr) -> bool {
        let is_same = |one: u128, other: u128, bits: u32| {
            (one ^ other).checked_shr(bits.saturating_sub(self.prefix)).unwrap_or(0) == 0
        };
        match (self.address, address) {
            (IpAddr::V4(one), IpAddr::V4(other)) => is_same(one.to_bits().into(), other.to_bits().into(), 32),
            (IpAddr::V6(one), IpAddr::V6(other)) => is_same(one.to_bits(), other.to_bits(), 128),
            _ => false,
        }
    }
}

/// Reads an address. Zeros before a number of IPv4 mean nothing. An IPv4 address in IPv6 is the IPv4 address, also where
/// it is written with dots, which `EventBridge` does not read.
pub(super) fn address_of(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<Ipv6Addr>() {
        return Some(IpAddr::V6(address).to_canonical());
    }
    let mut numbers = text.split('.').map(|part| u8::try_from(number(part)?).ok());
    let mut next = || numbers.next().flatten();
    let address = [next()?, next()?, next()?, next()?];
    numbers.next().is_none().then(|| address.into())
}

fn number(text: &str) -> Option<u32> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_contains_its_addresses_in_every_notation() {
        for (network, inside, outside) in [
            (
                "10.0.0.0/24",
                &["10.0.0.0", "10.0.0.255", "010.000.0.1", "::ffff:10.0.0.7", "::ffff:a00:7"][..],
                &["10.0.1.0", "10.0.0.256", "::a00:7"][..],
            ),
            ("10.0.0.77/24", &["10.0.0.1"], &["10.1.0.77"]),
            ("0.0.0.0/0", &["255.255.255.255", "1.2.3.4"], &["::1"]),
            ("10.1.2.3/32", &["10.1.2.3"], &["10.1.2.2"]),
            ("::ffff:10.0.0.0/104", &["10.9.9.9"], &["11.0.0.0", "::"]),
            (
                "2001:db8:1234:1a00::/64",
                &[
                    "2001:db8:1234:1a00::1",
                    "2001:0db8:1234:1a00:0000:0000:0000:0001",
                    "2001:DB8:1234:1A00::1",
                    "2001:db8:1234:1a00:0:0:0:1",
                    "2001:db8:1234:1a00::1.2.3.4",
                ],
                &["2001:db8:123f:1a01::", "2001:db8:1234:1a01::"],
            ),
            ("::/0", &["::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], &["1.2.3.4"]),
            ("fe80::1/128", &["fe80::1", "fe80:0:0::0001"], &["fe80::2"]),
        ] {
            let contains = |text: &&str| {
                address_of(text).is_some_and(|address| AddressRange::of(network).unwrap().contains(address))
            };
            assert!(inside.iter().all(contains), "{network} {inside:?}");
            assert!(!outside.iter().any(contains), "{network} {outside:?}");
        }
    }

    #[test]
    fn anything_else_is_no_range_and_no_address() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0/24",
            "10.0.0.0/33",
            "10.0.0.0/-1",
            "10.0.0.0/+1",
            "10.0.0.0/",
            "300.0.0.0/8",
            "xx.11.xx/8",
            "bad-filter",
            "2001:db8::/129",
            "::ffff:10.0.0.0/224",
            "xxxx:db8::/64",
            "10.0.0.0/24/1",
            "1.2.3.4.5/8",
        ] {
            assert_eq!(AddressRange::of(text), None, "{text}");
        }
        for text in ["", "1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.+4", "1.2..4", "a.b.c.d", ":::", "1:2"] {
            assert_eq!(address_of(text), None, "{text}");
        }
    }
}
