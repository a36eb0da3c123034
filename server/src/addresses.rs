//! Which addresses what goes out may reach (spec §4 "Addresses").
//!
//! To callbacks, whose URLs users give, private, loopback, link-local and metadata addresses are closed;
//! `TREELINE_CALLBACK_ALLOW` opens named ones. Posts to workers, whose URLs admins give, may reach any
//! address unless `TREELINE_PUSH_ALLOW` names those that they may. A URL can be checked when it is handed in
//! only as far as it names an address itself; whoever connects (`outbound`) asks [`Reach::permits`] again for
//! the address that the name has become.

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
    /// Whether this host (as the URL has it) or this address is named here.
    fn names(&self, host: &str, ip: IpAddr) -> bool {
        self.names_host(host) || self.networks.iter().any(|network| within(*network, ip))
    }

    fn names_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|open| open.eq_ignore_ascii_case(host))
    }

    fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.networks.is_empty()
    }
}

/// How far connections of one kind may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// What is public, and what is named.
    Public(Allowed),
    /// Everything.
    Any,
    /// What is named, and nothing else.
    Only(Allowed),
}

impl Reach {
    /// Of posts to workers: everything, unless something is named.
    pub fn of_push(allowed: Allowed) -> Self {
        if allowed.is_empty() { Self::Any } else { Self::Only(allowed) }
    }

    /// Whether a connection to this address may be made for this host (as the URL has it).
    pub fn permits(&self, host: &str, ip: IpAddr) -> bool {
        match self {
            Self::Any => true,
            Self::Public(allowed) => is_public(ip) || allowed.names(host, ip),
            Self::Only(allowed) => allowed.names(host, ip),
        }
    }

    /// The addresses that a name stands for, as far as a connection may be made to them. One that is closed
    /// closes the name: it answers differently to different people. This machine's own name is excepted, which
    /// stands for itself in both families whichever of them is open.
    pub fn permitted(&self, host: &str, all: Vec<IpAddr>) -> Option<Vec<IpAddr>> {
        let n = all.len();
        let open: Vec<IpAddr> = all.into_iter().filter(|ip| self.permits(host, *ip)).collect();
        let whole = open.len() == n || is_loopback_name(host);
        (whole && !open.is_empty()).then_some(open)
    }

    /// A URL that is handed in: its syntax, its scheme, and the address where it names one itself.
    pub fn check(&self, url: &str) -> Result<(), Problem> {
        let refuse = |detail: &str| Err(Problem::new(Code::UrlNotAllowed, detail.to_owned()));
        let Ok(url) = Url::parse(url) else { return refuse("It is not a URL.") };
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("Only http and https can be reached.");
        }
        let host = url.host_str().unwrap_or_default();
        let open = match url.host() {
            Some(Host::Ipv4(ip)) => self.permits(host, IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => self.permits(host, IpAddr::V6(ip)),
            // What a name stands for is checked when it is connected to; this one cannot be anything else.
            Some(Host::Domain(name)) if is_loopback_name(name) => {
                let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
                both.into_iter().any(|ip| self.permits(host, ip))
            }
            Some(Host::Domain(name)) => match self {
                Self::Only(allowed) => allowed.names_host(name) || !allowed.networks.is_empty(),
                _ => true,
            },
            None => return refuse("The URL names no host."),
        };
        match self {
            _ if open => Ok(()),
            Self::Public(_) => refuse("The address is private. TREELINE_CALLBACK_ALLOW opens internal networks."),
            _ => refuse("The address is not among those that TREELINE_PUSH_ALLOW names."),
        }
    }
}

/// The URL for people: without what may be a secret in it.
pub fn shown(url: &Url) -> String {
    let mut url = url.clone();
    let quiet = url.set_username("").and_then(|()| url.set_password(None));
    let query = url.query().is_some();
    url.set_query(None);
    url.set_fragment(None);
    match quiet {
        Ok(()) if query => format!("{url}?…"),
        _ => url.to_string(),
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
        // Carrier-grade NAT, IETF protocol assignments, relays of 6to4, benchmarks.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19));
    !closed
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let first = ip.segments()[0];
    // 2000::/3 is all that is given out; of it, documentation, benchmarks and Teredo are not.
    first & 0xe000 == 0x2000
        && !(first == 0x2001 && (ip.segments()[1] == 0x0db8 || ip.segments()[1] < 0x0200))
        && !(first == 0x3fff && ip.segments()[1] < 0x1000)
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

    fn public(allowed: &str) -> Reach {
        Reach::Public(allowed.parse().expect("a list"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

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
            "http://[::]",
            "http://[fe80::1]",
            "http://[fd00::1]",
            "http://[::ffff:10.0.0.1]",
            "http://[::10.0.0.1]",
            "http://[64:ff9b::a00:1]",
            "http://[64:ff9b:1::a00:1]",
            "http://[2002:7f00:1::]",
            "http://[2001:0:a00:1::1]",
            "http://[3fff::1]",
            "http://2130706433",
            "http://0x7f.1",
            "http://0177.0.0.1",
            "http://127.1",
            "http://\u{ff11}27.0.0.1",
            "http://100.64.0.1",
            "http://192.88.99.1",
            "ftp://example.com",
            "example.com",
            "http://",
            "file:///etc/passwd",
        ] {
            assert!(public("").check(closed).is_err(), "{closed}");
        }
        for open in ["https://example.com/done?x=1", "http://93.184.216.34:8080", "https://[2606:4700::1111]/"] {
            assert!(public("").check(open).is_ok(), "{open}");
        }
    }

    #[test]
    fn named_networks_are_open() {
        let reach = public("127.0.0.0/8, hooks.internal,[::1], 10.1.0.0/16");
        for open in ["http://127.0.0.1:9000/", "http://[::1]:9000/", "http://10.1.255.1", "http://localhost"] {
            assert!(reach.check(open).is_ok(), "{open}");
        }
        assert!(reach.check("http://10.2.0.1").is_err());
        assert!(reach.permits("HOOKS.internal", ip("10.9.9.9")));
        assert!(!reach.permits("other.internal", ip("10.9.9.9")));
        for bad in ["10.0.0.0/33", "hooks.internal/8"] {
            assert!(bad.parse::<Allowed>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_name_that_stands_for_a_closed_address_too_is_closed() {
        let reach = public("127.0.0.1");
        let (open, closed) = (ip("93.184.216.34"), ip("10.0.0.1"));
        assert_eq!(reach.permitted("a.example", vec![open]), Some(vec![open]));
        assert_eq!(reach.permitted("a.example", vec![open, closed]), None);
        assert_eq!(reach.permitted("a.example", vec![closed]), None);
        assert_eq!(reach.permitted("a.example", vec![]), None);
        let here = ip("127.0.0.1");
        assert_eq!(reach.permitted("localhost", vec![ip("::1"), here]), Some(vec![here]));
    }

    #[test]
    fn posts_to_workers_reach_everything_or_what_is_named() {
        let any = Reach::of_push("".parse().expect("a list"));
        assert!(any.check("http://127.0.0.1:9000").is_ok() && any.permits("a", ip("10.0.0.1")));
        let only = Reach::of_push("workers.internal".parse().expect("a list"));
        assert!(only.check("http://workers.internal/x").is_ok() && only.permits("workers.internal", ip("10.0.0.1")));
        assert!(only.check("https://example.com").is_err() && only.check("http://127.0.0.1").is_err());
        let network = Reach::of_push("10.0.0.0/8".parse().expect("a list"));
        assert!(network.check("http://any.internal").is_ok() && !network.permits("any.internal", ip("192.0.2.1")));
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        let url: Url = "https://ann:secret@hooks.example:8443/done/1?key=secret#secret".parse().expect("a URL");
        assert_eq!(shown(&url), "https://hooks.example:8443/done/1?…");
    }
}
