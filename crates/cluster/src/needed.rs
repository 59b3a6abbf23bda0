//! How many workers a load needs.

use serde::Serialize;

/// Streams that one machine keeps open (docs/timing.md).
pub const STREAMS: f64 = 20_000.0;
/// Room beyond what is needed: a worker at its ceiling sends late, and a lost one leaves its share to the others.
const SPARE: f64 = 1.5;

/// The highest load of a plan.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Requests per second, of an open loop.
    pub rate: Option<f64>,
    /// Requests in flight.
    pub streams: Option<f64>,
    /// Number of addresses that they go to.
    pub addresses: usize,
}

/// The load that one machine can send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Ceiling {
    /// Requests per second.
    pub rate: f64,
    /// Requests in flight.
    pub streams: f64,
    /// Connections to one address: ephemeral ports.
    pub ports: f64,
}

/// The workers that a load needs.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Needed {
    /// Their number; 1 means that one machine is enough, without a worker.
    pub workers: u32,
    /// The limit that fewer would reach.
    pub limit: Scarce,
    /// How much of it the load has.
    pub asked: f64,
    /// How much of it one machine has.
    pub each: f64,
}

/// The limit that one machine reaches first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scarce {
    /// Requests per second that are sent on time.
    Rate,
    /// Open streams.
    Streams,
    /// Local ports for connections to one address.
    Ports,
}

impl Needed {
    /// Returns the workers that a load needs, with room to spare; `None` if its rate and its requests in flight are not known.
    /// One machine that can do it at all needs no room.
    pub fn of(demand: Demand, ceiling: Ceiling) -> Option<Self> {
        let to_one = demand.streams.map(|streams| streams / demand.addresses.max(1) as f64);
        let all = [
            (Scarce::Rate, demand.rate, ceiling.rate),
            (Scarce::Streams, demand.streams, ceiling.streams),
            (Scarce::Ports, to_one, ceiling.ports),
        ];
        let known = all.into_iter().filter_map(|(limit, asked, each)| Some((limit, asked?, each.max(1.0))));
        let (limit, asked, each) = known.max_by(|a, b| (a.1 / a.2).total_cmp(&(b.1 / b.2)))?;
        let machines = asked / each;
        let workers = if machines <= 1.0 { 1 } else { (machines * SPARE).ceil() as u32 };
        Some(Self { workers, limit, asked, each })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_runs_out_first_decides() {
        let ceiling = Ceiling { rate: 25_000.0, streams: STREAMS, ports: 28_000.0 };
        for (rate, streams, addresses, want) in [
            (Some(24_000.0), Some(900.0), 1, Some((1, Scarce::Rate))),
            (Some(100_000.0), Some(9_000.0), 1, Some((6, Scarce::Rate))),
            (Some(1_000.0), Some(1e6), 1, Some((75, Scarce::Streams))),
            (None, Some(21_000.0), 1, Some((2, Scarce::Streams))),
            (None, None, 1, None),
        ] {
            let needed = Needed::of(Demand { rate, streams, addresses }, ceiling);
            assert_eq!(needed.map(|n| (n.workers, n.limit)), want, "{rate:?} {streams:?}");
        }
        let few_ports = Ceiling { ports: 1_000.0, ..ceiling };
        let of = |addresses| Needed::of(Demand { rate: None, streams: Some(4_000.0), addresses }, few_ports);
        assert_eq!(of(1).map(|n| (n.workers, n.limit)), Some((6, Scarce::Ports)));
        assert_eq!(of(4).map(|n| n.workers), Some(1));
    }
}
