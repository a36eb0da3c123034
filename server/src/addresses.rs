//! Which addresses user-given URLs may reach (spec §4 "Addresses").
//!
//! Private, loopback, link-local and metadata addresses are closed; `TREELINE_CALLBACK_ALLOW` opens named
//! ones. A URL can be checked when it is handed in only as far as it names an address itself; whoever
//! connects asks [`Allowed::permits`] again for the address that the name has become.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use domain::{Code, Problem};
use url::{Host, Url};

/// Hosts and networks that are open although they are not public.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    hosts: Vec<String>,
    networks: Vec<(IpAddr, u8)>,
}

impl FromStr for Allowed {
    type Err = String;

    /// Host names, addresses and CIDR networks, separated by commas.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut allowed = Self::default();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (address, bits) = entry.split_once('/').map_or((entry, None), |(address, bits)| (address, Some(bits)));
            match address.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
                Ok(ip) => {
                    let width = if ip.is_ipv4() { 32 } else { 128 };
                    let bits = bits.map_or(Ok(width), str::parse).ok().filter(|bits| *bits <= width);
                    allowed
                        .networks
                        .push((ip, bits.ok_or_else(|| format!("{entry}: expected a network such as 10.0.0.0/8"))?));
                }
                Err(_) if bits.is_none() => allowed.hosts.push(entry.to_ascii_lowercase()),
                Err(_) => return Err(format!("{entry}: expected a host, an address or a network such as 10.0.0.0/8")),
            }
        }
        Ok(allowed)
    }
}

impl Allowed {
    /// Whether a connection to this address may be made for this host name (as the URL has it).
    pub fn permits(&self, host: &str, ip: IpAddr) -> bool {
        is_public(ip)
            || self.hosts.iter().any(|open| open.eq_ignore_ascii_case(host))
            || self.networks.iter().any(|network| within(*network, ip))
    }

    /// A URL that is handed in: its syntax, its scheme, and the address where it names one itself.
    pub fn check(&self, url: &str) -> Result<(), Problem> {
        let refuse = |detail: &str| Err(Problem::new(Code::UrlNotAllowed, detail.to_owned()));
        let Ok(url) = Url::parse(url) else { return refuse("It is not a URL.") };
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("Only http and https can be reached.");
        }
        let ip = match url.host() {
            Some(Host::Ipv4(ip)) => IpAddr::V4(ip),
            Some(Host::Ipv6(ip)) => IpAddr::V6(ip),
            // What a name stands for is checked when it is connected to; this one cannot be anything else.
            Some(Host::Domain(name)) if is_loopback_name(name) => IpAddr::V4(Ipv4Addr::LOCALHOST),
            Some(Host::Domain(_)) => return Ok(()),
            None => return refuse("The URL names no host."),
        };
        if self.permits(url.host_str().unwrap_or_default(), ip) {
            Ok(())
        } else {
            refuse("The address is private. TREELINE_CALLBACK_ALLOW opens internal networks.")
        }
    }
}

fn is_loopback_name(name: &str) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name == "localhost" || name.ends_with(".localhost")
}

/// Whether anybody on the internet could have this address.
pub fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => is_public_v4(ip),
        IpAddr::V6(ip) => match ip.to_ipv4_mapped().or_else(|| embedded(ip)) {
            Some(inner) => is_public_v4(inner),
            None => is_public_v6(ip),
        },
    }
}

fn is_public_v4(ip: Ipv4Addr) -> bool {
    let [a, b, c, _] = ip.octets();
    let closed = a == 0
        || ip.is_private()
        || ip.is_loopback()
        || ip.is_link_local()
        || ip.is_broadcast()
        || ip.is_documentation()
        || a >= 224
        // Carrier-grade NAT, IETF protocol assignments, benchmarks.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 198 && (b == 18 || b == 19));
    !closed
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let first = ip.segments()[0];
    // 2000::/3 is all that is given out; of it, documentation and benchmarks are not.
    first & 0xe000 == 0x2000 && !(first == 0x2001 && (ip.segments()[1] == 0x0db8 || ip.segments()[1] < 0x0200))
}

/// The IPv4 address that NAT64 and 6to4 carry within.
fn embedded(ip: Ipv6Addr) -> Option<Ipv4Addr> {
    let s = ip.segments();
    let of = |high: u16, low: u16| Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
    match s[0] {
        0x0064 if s[1] == 0xff9b && s[2..6].iter().all(|part| *part == 0) => Some(of(s[6], s[7])),
        0x2002 => Some(of(s[1], s[2])),
        _ => None,
    }
}

fn within((network, bits): (IpAddr, u8), ip: IpAddr) -> bool {
    let ip = ip.to_canonical();
    let wide = |ip: IpAddr| match ip {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)) << 96, true),
        IpAddr::V6(ip) => (u128::from(ip), false),
    };
    let ((network, a), (ip, b)) = (wide(network), wide(ip));
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    a == b && (network ^ ip) & mask == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_public_is_closed() {
        for closed in [
            "http://127.0.0.1/x",
            "http://localhost:8080",
            "http://a.localhost.",
            "http://10.1.2.3",
            "http://169.254.169.254/latest",
            "http://192.168.0.1",
            "http://172.31.0.1",
            "http://0.0.0.0",
            "http://[::1]",
            "http://[fe80::1]",
            "http://[fd00::1]",
            "http://[::ffff:10.0.0.1]",
            "http://[64:ff9b::a00:1]",
            "http://2130706433",
            "http://0x7f.1",
            "http://100.64.0.1",
            "ftp://example.com",
            "example.com",
            "http://",
            "file:///etc/passwd",
        ] {
            assert!(Allowed::default().check(closed).is_err(), "{closed}");
        }
        for open in ["https://example.com/done?x=1", "http://93.184.216.34:8080", "https://[2606:4700::1111]/"] {
            assert!(Allowed::default().check(open).is_ok(), "{open}");
        }
    }

    #[test]
    fn named_networks_are_open() {
        let allowed: Allowed = "127.0.0.0/8, hooks.internal,[::1], 10.1.0.0/16".parse().expect("a list");
        for open in ["http://127.0.0.1:9000/", "http://[::1]:9000/", "http://10.1.255.1", "http://localhost"] {
            assert!(allowed.check(open).is_ok(), "{open}");
        }
        assert!(allowed.check("http://10.2.0.1").is_err());
        assert!(allowed.permits("HOOKS.internal", "10.9.9.9".parse().expect("an address")));
        assert!(!allowed.permits("other.internal", "10.9.9.9".parse().expect("an address")));
        for bad in ["10.0.0.0/33", "hooks.internal/8"] {
            assert!(bad.parse::<Allowed>().is_err(), "{bad}");
        }
    }
}
