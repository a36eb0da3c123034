//! Client addresses behind trusted proxies (`TREELINE_TRUSTED_PROXIES`).
//!
//! The peer is the client unless it is a trusted proxy. Then `Forwarded` (RFC 7239) or `X-Forwarded-For` is read from
//! the right, because every hop appends the address it saw; the first address that is not a trusted proxy is the
//! client. Anything to its left was sent by the client and is ignored. A proxy appends to one of the two headers and
//! passes the other through, so if both are present and disagree, neither is used.

use std::{
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use axum::http::{HeaderMap, header};
use ipnet::IpNet;

/// Maximum number of hops read, from the right; no real chain of proxies is longer.
const MOST_HOPS: usize = 32;

/// Networks of the trusted proxies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrustedProxies(Vec<IpNet>);

impl FromStr for TrustedProxies {
    type Err = String;

    /// Parses a comma-separated list of addresses and CIDR networks.
    fn from_str(text: &str) -> Result<Self, String> {
        let network = |entry: &str| {
            let address = entry.parse::<IpAddr>().map(IpNet::from);
            address.or_else(|_| entry.parse()).map_err(|_| format!("{entry}: expected a network such as 10.0.0.0/8"))
        };
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        entries.map(network).collect::<Result<_, _>>().map(Self)
    }
}

impl TrustedProxies {
    /// Returns true if this is the address of a trusted proxy.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Returns the client address for a peer and its headers.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let peer = peer.to_canonical();
        if !self.contains(peer) {
            return peer;
        }
        let named_by = |name, read: fn(&str) -> Option<IpAddr>| {
            headers.contains_key(&name).then(|| self.behind(peer, headers.get_all(&name).iter(), read))
        };
        let standard = named_by(header::FORWARDED, forwarded_for);
        let usual = named_by(header::HeaderName::from_static("x-forwarded-for"), node);
        match (standard, usual) {
            (Some(one), Some(other)) if one != other => peer,
            (Some(address), _) | (None, Some(address)) => address,
            (None, None) => peer,
        }
    }

    /// Returns the first hop from the right that is not a trusted proxy, or the last one that is.
    fn behind<'a>(
        &self,
        peer: IpAddr,
        lines: impl DoubleEndedIterator<Item = &'a axum::http::HeaderValue>,
        read: impl Fn(&str) -> Option<IpAddr>,
    ) -> IpAddr {
        let mut nearest = peer;
        let hops = lines.rev().flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
        for hop in hops.take(MOST_HOPS) {
            // A hidden or unreadable hop ends the known part of the chain.
            let Some(address) = read(hop) else { return nearest };
            nearest = address;
            if !self.contains(address) {
                break;
            }
        }
        nearest
    }
}

/// Value of `for` in one element of `Forwarded`.
fn forwarded_for(element: &str) -> Option<IpAddr> {
    let mut pairs = element.split(';').filter_map(|pair| pair.split_once('='));
    let (_, value) = pairs.find(|(name, _)| name.trim().eq_ignore_ascii_case("for"))?;
    let value = value.trim();
    node(value.strip_prefix('"').and_then(|value| value.strip_suffix('"')).unwrap_or(value))
}

/// Parses an address: `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`.
fn node(text: &str) -> Option<IpAddr> {
    let text = text.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|socket| socket.ip()));
    address.map(|address: IpAddr| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    fn client(peer: &str, headers: &[(&'static str, &'static str)]) -> String {
        let trusted: TrustedProxies = "127.0.0.1, 10.0.0.0/8,fd00::/8".parse().expect("networks");
        let pair = |&(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value));
        let mut map = HeaderMap::new();
        for (name, value) in headers.iter().map(pair) {
            map.append(name, value);
        }
        trusted.client(peer.parse().expect("an address"), &map).to_string()
    }

    #[test]
    fn only_trusted_proxies_are_believed() {
        let headers = [("x-forwarded-for", "198.51.100.7")];
        assert_eq!(client("203.0.113.9", &headers), "203.0.113.9");
        assert_eq!(client("127.0.0.1", &headers), "198.51.100.7");
        assert_eq!(client("::ffff:127.0.0.1", &headers), "198.51.100.7");
        assert_eq!(client("127.0.0.1", &[]), "127.0.0.1");
        assert_eq!(
            TrustedProxies::default().client("127.0.0.1".parse().expect("one"), &HeaderMap::new()).to_string(),
            "127.0.0.1"
        );
    }

    #[test]
    fn entries_added_by_the_client_are_ignored() {
        let both = [("x-forwarded-for", "192.0.2.1, 198.51.100.7, 10.0.0.3")];
        assert_eq!(client("127.0.0.1", &both), "198.51.100.7");
        let lines =
            [("x-forwarded-for", "192.0.2.1"), ("x-forwarded-for", "198.51.100.7"), ("x-forwarded-for", "10.9.9.9")];
        assert_eq!(client("127.0.0.1", &lines), "198.51.100.7");
        assert_eq!(client("127.0.0.1", &[("x-forwarded-for", "10.0.0.1, 10.0.0.2")]), "10.0.0.1");
        assert_eq!(client("127.0.0.1", &[("x-forwarded-for", "192.0.2.1, nonsense, 10.0.0.2")]), "10.0.0.2");
    }

    #[test]
    fn the_standard_header_is_read_with_quotes_and_ports() {
        for (named_by, expected) in [
            ("for=192.0.2.43", "192.0.2.43"),
            ("For=\"[2001:db8:cafe::17]:4711\"", "2001:db8:cafe::17"),
            ("for=192.0.2.1, for=198.51.100.17;by=203.0.113.60;proto=http;host=example.com", "198.51.100.17"),
            ("proto=https;for=\"192.0.2.43:47011\", for=\"[fd00::1]\"", "192.0.2.43"),
            ("for=unknown", "127.0.0.1"),
            ("for=_hidden, for=10.0.0.9", "10.0.0.9"),
            ("by=192.0.2.1", "127.0.0.1"),
        ] {
            assert_eq!(client("127.0.0.1", &[("forwarded", named_by)]), expected, "{named_by}");
        }
    }

    #[test]
    fn two_headers_that_disagree_are_not_believed() {
        let forged = [("forwarded", "for=192.0.2.1"), ("x-forwarded-for", "198.51.100.7")];
        assert_eq!(client("127.0.0.1", &forged), "127.0.0.1");
        let agree = [("forwarded", "for=198.51.100.7"), ("x-forwarded-for", "198.51.100.7")];
        assert_eq!(client("127.0.0.1", &agree), "198.51.100.7");
    }

    #[test]
    fn networks_are_read_or_refused() {
        assert_eq!("".parse(), Ok(TrustedProxies::default()));
        for bad in ["proxy.internal", "10.0.0.0/33", "10.0.0.0/", "*"] {
            assert!(bad.parse::<TrustedProxies>().is_err(), "{bad}");
        }
    }
}
