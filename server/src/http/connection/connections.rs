//! Limits on connections: in total, per address, and a reserve for callers with a credential.
//!
//! Beyond the limits a connection is admitted on trial, in one of a few reserved places: its first request must have a
//! valid credential, or the connection closes after the response. So nobody without a credential can lock out workers
//! by opening connections. Loopback addresses and trusted proxies stand for many clients and have no limit per address.

use std::{
    collections::{HashMap, VecDeque},
    net::IpAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio_util::sync::CancellationToken;

use crate::config::trusted_proxies::TrustedProxies;
use engine::addresses::network_of;

/// Connection counts and limits of one server.
#[derive(Debug)]
pub(crate) struct Connections {
    /// Maximum number of connections, without those on trial.
    max_open: usize,
    per_address: u32,
    /// Maximum number of connections on trial.
    trials: usize,
    proxies: TrustedProxies,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    open: usize,
    by_address: HashMap<IpAddr, u32>,
    /// Connections on trial, oldest first.
    on_trial: VecDeque<(u64, CancellationToken)>,
    next: u64,
}

/// Admitted connection; it counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    connections: Arc<Connections>,
    address: Option<IpAddr>,
    trial: Option<Trial>,
}

/// Connection that must present a credential.
#[derive(Clone, Debug)]
pub(crate) struct Trial {
    id: u64,
    /// Canceled if another connection takes its place, or its first request has no valid credential.
    pub(crate) over: CancellationToken,
}

impl Connections {
    pub(crate) fn new(max_open: usize, per_address: u32, proxies: TrustedProxies) -> Arc<Self> {
        let trials = (max_open / 64).clamp(16, 128);
        Arc::new(Self { max_open, per_address, trials, proxies, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Admits a connection; `None` if all places are taken.
    pub(crate) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<Admitted> {
        let peer = peer.to_canonical();
        let address = (!peer.is_loopback() && !self.proxies.contains(peer)).then(|| network_of(peer));
        let mut state = self.state();
        let of_address = address.map_or(0, |address| state.by_address.get(&address).copied().unwrap_or(0));
        let is_free = state.open < self.max_open && of_address < self.per_address;
        if !is_free && state.open >= self.max_open + self.trials {
            // Close the oldest connection on trial, if there is one.
            let (_, oldest) = state.on_trial.pop_front()?;
            oldest.cancel();
        } else if !is_free
            && state.on_trial.len() >= self.trials
            && let Some((_, oldest)) = state.on_trial.pop_front()
        {
            oldest.cancel();
        }
        let trial = (!is_free).then(|| {
            state.next += 1;
            let trial = Trial { id: state.next, over: CancellationToken::new() };
            state.on_trial.push_back((trial.id, trial.over.clone()));
            trial
        });
        state.open += 1;
        if let Some(address) = address {
            *state.by_address.entry(address).or_default() += 1;
        }
        Some(Admitted { connections: Arc::clone(self), address, trial })
    }
}

impl Admitted {
    /// Trial of the connection, if it was admitted on trial.
    pub(crate) fn trial(&self) -> Option<Trial> {
        self.trial.clone()
    }

    /// Ends the trial after a valid credential; the connection is then like any other.
    pub(crate) fn passed(connections: &Connections, trial: &Trial) {
        connections.state().on_trial.retain(|(id, _)| *id != trial.id);
    }

    pub(crate) fn connections(&self) -> Arc<Connections> {
        Arc::clone(&self.connections)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.connections.state();
        state.open -= 1;
        if let Some(trial) = &self.trial {
            state.on_trial.retain(|(id, _)| *id != trial.id);
        }
        let Some(address) = self.address else { return };
        if let Some(count) = state.by_address.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                state.by_address.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn one_address_cannot_take_all_connections() {
        let connections = Connections::new(100, 10, "192.0.2.9".parse().expect("proxies"));
        let from = |peer: &str, n: usize| -> Vec<Admitted> {
            (0..n).filter_map(|_| connections.admit(address(peer))).collect()
        };
        let ten = from("198.51.100.1", 10);
        assert!(ten.iter().all(|one| one.trial.is_none()));
        let eleventh = connections.admit(address("198.51.100.1")).expect("on trial");
        assert!(eleventh.trial.is_some(), "it must show a credential");
        let (network, other) = (from("2001:db8::1", 10), connections.admit(address("2001:db8::2")).expect("on trial"));
        assert!(network.len() == 10 && other.trial.is_some(), "one network of IPv6 is one address");
        for exempt in ["192.0.2.9", "127.0.0.1", "::1"] {
            let many = from(exempt, 20);
            assert!(many.len() == 20 && many.iter().all(|one| one.trial.is_none()), "{exempt}");
        }
        drop(ten);
        drop(eleventh);
        assert!(connections.admit(address("198.51.100.1")).expect("a free place").trial.is_none());
    }

    #[test]
    fn silent_connections_yield_to_authenticated_ones() {
        let connections = Connections::new(10, 100, TrustedProxies::default());
        let regular: Vec<_> =
            (0..10).map(|_| connections.admit(address("198.51.100.1")).expect("a free place")).collect();
        let mut silent: Vec<_> =
            (0..16).map(|_| connections.admit(address("198.51.100.2")).expect("a trial")).collect();
        let worker = connections.admit(address("198.51.100.3")).expect("the place of the oldest");
        assert!(silent[0].trial().expect("on trial").over.is_cancelled());
        assert!(!silent[1].trial().expect("on trial").over.is_cancelled());
        let trial = worker.trial().expect("on trial");
        Admitted::passed(&connections, &trial);
        silent.extend((0..40).filter_map(|_| connections.admit(address("198.51.100.2"))));
        assert!(!trial.over.is_cancelled(), "it has shown its credential");
        drop((regular, silent));
        assert!(connections.admit(address("198.51.100.2")).expect("a free place").trial.is_none());
    }
}
