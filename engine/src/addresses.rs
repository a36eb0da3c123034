//! Addresses that outbound requests may reach.
//!
//! Callbacks (URLs given by users) and push requests (URLs given by admins) reach public addresses only;
//! `TREELINE_CALLBACK_ALLOW` and `TREELINE_PUSH_ALLOW` open named internal ones. Link-local addresses and cloud
//! metadata services are never reached, even if named. When a URL is submitted, only a literal address in it can be
//! checked; at connection time `outbound` calls [`Reach::permits`] again for each address that the host name resolves
//! to.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    str::FromStr,
};

use domain::{Code, Problem};
use url::{Host, Url};

/// Hosts and networks that are allowed although they are not public.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allowed {
    hosts: Vec<String>,
    networks: Vec<(IpAddr, u8)>,
}

impl FromStr for Allowed {
    type Err = String;

    /// Parses a comma-separated list of host names, addresses and CIDR networks.
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
    /// Returns true if this host (as written in the URL) or this address is on the list.
    fn names(&self, host: &str, ip: IpAddr) -> bool {
        self.names_host(host) || self.networks.iter().any(|network| within(*network, ip))
    }

    fn names_host(&self, host: &str) -> bool {
        self.hosts.iter().any(|open| open.eq_ignore_ascii_case(host))
    }
}

/// Address that clients are counted by: an IPv4 address, or the /64 network of an IPv6 address, because one client
/// there has 2^64 addresses.
pub fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) => IpAddr::V6((six.to_bits() & (u128::MAX << 64)).into()),
        four @ IpAddr::V4(_) => four,
    }
}

/// Addresses that connections of one kind may reach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses, and those listed in the named variable.
    Public { allowed: Allowed, variable: &'static str },
    /// Every address except those that are never reached: for URLs from the configuration.
    Configured,
}

impl Reach {
    /// Callbacks of complete trees.
    pub const fn of_callbacks(allowed: Allowed) -> Self {
        Self::Public { allowed, variable: "TREELINE_CALLBACK_ALLOW" }
    }

    /// Push requests to workers.
    pub const fn of_push(allowed: Allowed) -> Self {
        Self::Public { allowed, variable: "TREELINE_PUSH_ALLOW" }
    }

    /// Returns true if a connection to this address may be made for this host (as written in the URL).
    pub fn permits(&self, host: &str, ip: IpAddr) -> bool {
        if is_never_reached(ip) {
            return false;
        }
        match self {
            Self::Configured => true,
            Self::Public { allowed, .. } => is_public(ip) || allowed.names(host, ip),
        }
    }

    /// Returns the resolved addresses of a name that may be connected to, or `None` if any address is closed: such a
    /// name resolves differently for different clients. Loopback names are exempt, because they resolve to both address
    /// families and only one of them may be open.
    pub fn permitted(&self, host: &str, all: Vec<IpAddr>) -> Option<Vec<IpAddr>> {
        let n = all.len();
        let open: Vec<IpAddr> = all.into_iter().filter(|ip| self.permits(host, *ip)).collect();
        let whole = open.len() == n || is_loopback_name(host);
        (whole && !open.is_empty()).then_some(open)
    }

    /// Returns true if a connection to this URL may be tried: checks the port, and the address if the URL contains one.
    pub fn may_try(&self, url: &Url) -> bool {
        let host = url.host_str().unwrap_or_default();
        let is_open = match url.host() {
            Some(Host::Ipv4(ip)) => self.permits(host, IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => self.permits(host, IpAddr::V6(ip)),
            // Other names are checked when they are connected to; a loopback name cannot resolve to anything else.
            Some(Host::Domain(name)) if is_loopback_name(name) => {
                let both = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];
                both.into_iter().any(|ip| self.permits(host, ip))
            }
            Some(Host::Domain(_)) => true,
            None => false,
        };
        is_open && self.may_use_port(url)
    }

    /// Returns true if HTTP requests to this port are allowed. Addresses on the operator's list may use any port.
    fn may_use_port(&self, url: &Url) -> bool {
        let is_named = match self {
            Self::Configured => true,
            Self::Public { allowed, .. } => match url.host() {
                Some(Host::Ipv4(ip)) => allowed.names(&ip.to_string(), IpAddr::V4(ip)),
                Some(Host::Ipv6(ip)) => allowed.names(&ip.to_string(), IpAddr::V6(ip)),
                Some(Host::Domain(name)) => allowed.names_host(name),
                None => false,
            },
        };
        is_named || url.port_or_known_default().is_some_and(|port| !CLOSED_PORTS.contains(&port))
    }

    /// Validates a submitted URL: syntax, scheme, port, no user or password, and the address if the URL contains one.
    pub fn check(&self, url: &str) -> Result<(), Problem> {
        let refuse = |detail: &str| Err(Problem::new(Code::UrlNotAllowed, detail.to_owned()));
        let Ok(url) = Url::parse(url) else { return refuse("It is not a URL.") };
        if !matches!(url.scheme(), "http" | "https") {
            return refuse("Only http and https can be reached.");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return refuse("A URL with a user or a password is not accepted: URLs are shown and logged.");
        }
        if url.host().is_none() {
            return refuse("The URL names no host.");
        }
        if !self.may_use_port(&url) {
            return refuse("The port belongs to another protocol than HTTP.");
        }
        let is_never_reached = match url.host() {
            Some(Host::Ipv4(ip)) => is_never_reached(IpAddr::V4(ip)),
            Some(Host::Ipv6(ip)) => is_never_reached(IpAddr::V6(ip)),
            Some(Host::Domain(_)) | None => false,
        };
        match self {
            _ if self.may_try(&url) => Ok(()),
            Self::Public { variable, .. } if !is_never_reached => refuse(&format!(
                "The address is not public. The operator of the server can allow internal addresses with {variable}."
            )),
            Self::Public { .. } | Self::Configured => {
                refuse("The address is link-local or a metadata service, which is never reached.")
            }
        }
    }
}

/// Ports of other protocols to which an HTTP request could be smuggled: the list that browsers refuse.
const CLOSED_PORTS: &[u16] = &[
    1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
    111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465, 512, 513, 514, 515, 526, 530, 531, 532,
    540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061,
    6000, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080,
];

/// Returns the URL for display, without parts that may be secret.
pub fn display_url(url: &Url) -> String {
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

/// Link-local addresses and cloud metadata services: a caller that reaches them may take over the machine's identity.
fn is_never_reached(ip: IpAddr) -> bool {
    let inner = match ip {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().or_else(|| embedded(v6)).map_or(ip, IpAddr::V4),
        IpAddr::V4(_) => ip,
    };
    match inner {
        // Azure, Alibaba, Oracle; the others are link-local.
        IpAddr::V4(ip) => {
            ip.is_link_local() || [[168, 63, 129, 16], [100, 100, 100, 200], [192, 0, 0, 192]].contains(&ip.octets())
        }
        IpAddr::V6(ip) => {
            let s = ip.segments();
            // fe80::/10; Amazon fd00:ec2::/32; Google fd20:ce::254.
            s[0] & 0xffc0 == 0xfe80
                || (s[0] == 0xfd00 && s[1] == 0x0ec2)
                || ip == Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)
        }
    }
}

/// Returns true if the address is globally routable.
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
        // Carrier-grade NAT, IETF protocol assignments, 6to4 relays, benchmarks.
        || (a == 100 && (64..128).contains(&b))
        || (a == 192 && b == 0 && c == 0)
        || (a == 192 && b == 88 && c == 99)
        || (a == 198 && (b == 18 || b == 19));
    !closed
}

fn is_public_v6(ip: Ipv6Addr) -> bool {
    let first = ip.segments()[0];
    // Only 2000::/3 is allocated; within it, documentation, benchmark and Teredo ranges are not public.
    first & 0xe000 == 0x2000
        && !(first == 0x2001 && (ip.segments()[1] == 0x0db8 || ip.segments()[1] < 0x0200))
        && !(first == 0x3fff && ip.segments()[1] < 0x1000)
}

/// The IPv4 address embedded in a NAT64 or 6to4 address.
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
        Reach::of_callbacks(allowed.parse().expect("a list"))
    }

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn non_public_addresses_are_closed() {
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
    fn metadata_services_and_link_local_addresses_are_never_reached() {
        let named = "169.254.0.0/16,168.63.129.16,100.100.100.200,fe80::/10,fd00::/8,::/0,0.0.0.0/0,metadata.internal";
        for reach in [public(named), Reach::of_push(named.parse().expect("a list")), Reach::Configured] {
            for never in [
                "169.254.169.254",
                "168.63.129.16",
                "100.100.100.200",
                "192.0.0.192",
                "[fe80::1]",
                "[fd00:ec2::254]",
                "[fd20:ce::254]",
                "[::ffff:169.254.169.254]",
                "[64:ff9b::a9fe:a9fe]",
                "[2002:a9fe:a9fe::]",
            ] {
                let refused = reach.check(&format!("http://{never}/latest/")).expect_err(never);
                assert!(refused.detail.contains("never reached"), "{never}: {refused}");
                let ip = ip(never.trim_matches(['[', ']']));
                assert!(!reach.permits("metadata.internal", ip), "{never}");
                assert_eq!(reach.permitted("metadata.internal", vec![ip]), None, "{never}");
            }
            assert!(reach.check("http://10.0.0.1").is_ok() && reach.check("http://[fd01::1]").is_ok());
        }
    }

    #[test]
    fn push_requests_reach_public_and_allowed_addresses() {
        let none = Reach::of_push("".parse().expect("a list"));
        assert!(none.check("http://127.0.0.1:9000").is_err() && !none.permits("a", ip("10.0.0.1")));
        assert!(none.check("https://example.com").is_ok());
        let named = Reach::of_push("workers.internal,192.168.7.0/24".parse().expect("a list"));
        assert!(named.permits("workers.internal", ip("10.0.0.1")) && named.check("http://192.168.7.1:8080").is_ok());
        assert!(named.check("https://example.com").is_ok() && named.check("http://127.0.0.1").is_err());
        let detail = named.check("http://127.0.0.1").expect_err("refused").detail;
        assert!(detail.contains("TREELINE_PUSH_ALLOW"), "{detail}");
    }

    #[test]
    fn urls_with_a_password_and_ports_of_other_protocols_are_refused() {
        for bad in ["https://u:hunter2@hooks.example/", "https://u@hooks.example/", "https://:p@hooks.example/"] {
            let problem = public("").check(bad).expect_err(bad);
            assert_eq!(problem.code, Code::UrlNotAllowed);
            assert!(!problem.detail.contains("hunter2"));
        }
        for port in [22, 25, 53, 6667] {
            assert!(public("127.0.0.1").check(&format!("http://example.com:{port}/")).is_err(), "{port}");
            assert!(public("127.0.0.1").check(&format!("http://127.0.0.1:{port}/")).is_ok(), "{port}: it is named");
        }
        assert!(public("").check("https://example.com:8443/").is_ok());
    }

    #[test]
    fn a_url_is_shown_without_its_secrets() {
        let url: Url = "https://ann:secret@hooks.example:8443/done/1?key=secret#secret".parse().expect("a URL");
        assert_eq!(display_url(&url), "https://hooks.example:8443/done/1?…");
    }

    #[test]
    fn an_address_of_ipv6_counts_as_its_network() {
        let network = |text: &str| network_of(text.parse().expect("an address")).to_string();
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(network("::ffff:192.0.2.1"), "192.0.2.1");
        assert_eq!(network("192.0.2.1"), "192.0.2.1");
    }
}
