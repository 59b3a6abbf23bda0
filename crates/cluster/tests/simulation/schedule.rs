//! A random schedule: the workers, their loads, the bus, and everything that goes wrong.

use goodput_cluster::worker::LEASE;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::time::Duration;

/// The kind of a schedule. It decides what may go wrong, and so what must go right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Profile {
    /// Delays, duplicates, and a director that takes its time.
    Calm,
    /// The bus is away for less than a lease.
    Outage,
    /// A worker is killed.
    Killed,
    /// A worker stands still for a while.
    Frozen,
    /// The leader is killed or cut off, and another one comes.
    LeaderLost,
    /// Two leaders want the same workers.
    TwoLeaders,
    /// Anything, with lost requests and broken chunks.
    Wild,
}

impl Profile {
    pub(crate) const ALL: [Self; 7] = [
        Self::Calm,
        Self::Outage,
        Self::Killed,
        Self::Frozen,
        Self::LeaderLost,
        Self::TwoLeaders,
        Self::Wild,
    ];
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Chaos {
    /// The worker's process is killed; another one of that name may start later.
    Kill { worker: usize, restart: Option<Duration> },
    /// The worker's process stands still. Afterwards it handles the messages that have come.
    Freeze { worker: usize, length: Duration },
    /// The worker is cut off from the bus, which notices that, or not.
    WorkerLink { worker: usize, length: Duration, is_silent: bool },
    /// The leader is cut off from the bus, and notices.
    LeaderLink { leader: usize, length: Duration },
    /// Nobody reaches the bus.
    BusAway { length: Duration },
    /// The leader's process is killed.
    KillLeader { leader: usize },
    /// The leader does not look after its load: alone, or with its claims.
    Stall { leader: usize, length: Duration, is_whole: bool },
}

impl Chaos {
    /// Returns how long it may hold up a step.
    fn length(self) -> Duration {
        match self {
            Self::Kill { .. } | Self::KillLeader { .. } => Duration::ZERO,
            Self::Freeze { length, .. }
            | Self::WorkerLink { length, .. }
            | Self::LeaderLink { length, .. }
            | Self::BusAway { length }
            | Self::Stall { length, .. } => length,
        }
    }
}

/// The director's wish, at a time of the step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Wish {
    /// A longer window.
    Extend(Duration),
    /// No more requests.
    Stop,
    /// An end at once.
    Cut,
}

/// How a worker makes loads ready.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Preparing {
    /// Within a time.
    Within(Duration),
    /// It fails.
    Fails,
    /// It would send other requests.
    OtherRequests,
    /// It never does.
    Never,
}

/// Everything that is decided before a simulation, besides the fate of each message.
#[derive(Debug, Clone)]
pub(crate) struct Schedule {
    pub(crate) seed: u64,
    pub(crate) profile: Profile,
    pub(crate) workers: usize,
    /// Number of steps of each leader.
    pub(crate) steps: u32,
    /// Longest way of a message.
    pub(crate) delay: Duration,
    /// Share of messages that are lost.
    pub(crate) loss: f64,
    /// Share of requests that are delivered twice.
    pub(crate) twice: f64,
    /// Share of chunks that are broken on their way.
    pub(crate) broken: f64,
    pub(crate) settle: Duration,
    pub(crate) window: Duration,
    /// Time between two requests of a worker's load.
    pub(crate) gap: Duration,
    /// Longest time that a request of the load takes.
    pub(crate) latency: Duration,
    /// Share of requests whose texts are so long that some of them fill a chunk.
    pub(crate) long_texts: f64,
    /// Length of each worker's load, if nobody stops it. Some end early, some never.
    pub(crate) lengths: Vec<Duration>,
    pub(crate) preparing: Vec<Preparing>,
    pub(crate) wish: Option<(Duration, Wish)>,
    pub(crate) chaos: Vec<(Duration, Chaos)>,
    /// When each leader starts.
    pub(crate) leaders: Vec<Duration>,
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// The longest way of a message for which no request stays unanswered.
const PROMPT: u64 = 220;

impl Schedule {
    /// Draws the schedule of a seed.
    pub(crate) fn draw(seed: u64, workers: Option<usize>) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let profile = Profile::ALL[(seed % Profile::ALL.len() as u64) as usize];
        let n = workers.unwrap_or_else(|| rng.random_range(1..=5));
        let is_wild = profile == Profile::Wild;
        // The costs of a leader grow with the square of the number of its workers.
        let is_large = n > 100;
        let window = ms(if is_large { 600 } else { rng.random_range(500..3000) });
        let settle = ms(rng.random_range(0..700));
        let most = if is_wild { 400 } else { PROMPT };
        let lengths = (0..n).map(|_| match rng.random_range(0..6) {
            0 => Duration::ZERO,
            1 => ms(rng.random_range(0..3000)),
            _ => settle + window + Duration::from_secs(25),
        });
        let lengths = lengths.collect();
        let preparing = (0..n).map(|_| preparing(profile, rng)).collect();
        let wish = [Wish::Stop, Wish::Cut, Wish::Extend(window + ms(rng.random_range(0..2000)))];
        let wish = (ms(rng.random_range(0..3000)), wish[rng.random_range(0..3)]);
        let mut leaders = vec![Duration::ZERO];
        match profile {
            Profile::TwoLeaders => leaders.push(ms(rng.random_range(0..6000))),
            Profile::LeaderLost => leaders.push(ms(rng.random_range(0..12_000))),
            Profile::Wild if rng.random_bool(0.3) => leaders.push(ms(rng.random_range(0..9000))),
            _ => {}
        }
        Self {
            seed,
            profile,
            workers: n,
            steps: if is_large { 1 } else { rng.random_range(1..=2) },
            delay: ms(rng.random_range(if is_large { 150 } else { 1 }..=most)),
            loss: if is_wild { rng.random_range(0.0..0.1) } else { 0.0 },
            twice: rng.random_range(0.0..0.2),
            broken: if is_wild { rng.random_range(0.0..0.2) } else { 0.0 },
            settle,
            window,
            gap: ms(rng.random_range(10..200)),
            latency: ms(rng.random_range(1..if is_large { 300 } else { 2000 })),
            long_texts: if rng.random_bool(0.05) { 0.03 } else { 0.0 },
            lengths,
            preparing,
            wish: rng.random_bool(0.4).then_some(wish),
            chaos: chaos(profile, n, rng),
            leaders,
        }
    }

    /// Returns true if no message is late, and none is lost but with its link.
    pub(crate) fn is_prompt(&self) -> bool {
        self.profile != Profile::Wild
    }

    /// Returns how long all that goes wrong may hold up a step.
    pub(crate) fn held_up(&self) -> Duration {
        self.chaos.iter().map(|(_, chaos)| chaos.length()).sum()
    }

    /// Returns true if the worker was hurt.
    pub(crate) fn is_victim(&self, worker: usize) -> bool {
        self.chaos.iter().any(|(_, chaos)| match chaos {
            Chaos::Kill { worker: one, .. }
            | Chaos::Freeze { worker: one, .. }
            | Chaos::WorkerLink { worker: one, .. } => *one == worker,
            _ => false,
        })
    }
}

fn preparing(profile: Profile, rng: &mut ChaCha8Rng) -> Preparing {
    let within = match profile {
        // Longer than a lease: ready for a leader that is gone.
        Profile::LeaderLost if rng.random_bool(0.3) => 9000,
        _ => 1500,
    };
    match rng.random_range(0..40) {
        0 if profile == Profile::Wild => Preparing::Fails,
        1 if profile == Profile::Wild => Preparing::OtherRequests,
        2 if profile == Profile::Wild => Preparing::Never,
        _ => Preparing::Within(ms(rng.random_range(0..within))),
    }
}

fn chaos(profile: Profile, n: usize, rng: &mut ChaCha8Rng) -> Vec<(Duration, Chaos)> {
    let at = ms(rng.random_range(0..7000));
    let worker = rng.random_range(0..n);
    let restart = rng.random_bool(0.3).then(|| ms(rng.random_range(0..2000)));
    let short = |rng: &mut ChaCha8Rng| ms(rng.random_range(1..3500));
    match profile {
        Profile::TwoLeaders => Vec::new(),
        Profile::Calm if rng.random_bool(0.5) => Vec::new(),
        Profile::Calm => {
            let length = ms(rng.random_range(1..8000));
            vec![(at, Chaos::Stall { leader: 0, length, is_whole: false })]
        }
        Profile::Outage => vec![match rng.random_range(0..2) {
            0 => (at, Chaos::BusAway { length: short(rng) }),
            _ => (at, Chaos::LeaderLink { leader: 0, length: short(rng) }),
        }],
        Profile::Killed => vec![(at, Chaos::Kill { worker, restart })],
        Profile::Frozen => {
            let length = ms(rng.random_range(1..9000));
            vec![(at, Chaos::Freeze { worker, length })]
        }
        Profile::LeaderLost => vec![match rng.random_range(0..3) {
            0 => (at, Chaos::LeaderLink { leader: 0, length: LEASE * 20 }),
            1 => (at, Chaos::Stall { leader: 0, length: LEASE * 20, is_whole: true }),
            _ => (at, Chaos::KillLeader { leader: 0 }),
        }],
        Profile::Wild => (0..rng.random_range(0..5)).map(|_| wild(n, rng)).collect(),
    }
}

fn wild(n: usize, rng: &mut ChaCha8Rng) -> (Duration, Chaos) {
    let (worker, leader) = (rng.random_range(0..n), 0);
    let length = ms(rng.random_range(1..8000));
    let chaos = match rng.random_range(0..7) {
        0 => Chaos::Kill { worker, restart: rng.random_bool(0.5).then_some(length) },
        1 => Chaos::Freeze { worker, length },
        2 => Chaos::WorkerLink { worker, length, is_silent: rng.random_bool(0.5) },
        3 => Chaos::LeaderLink { leader, length },
        4 => Chaos::BusAway { length },
        5 => Chaos::KillLeader { leader },
        _ => Chaos::Stall { leader, length, is_whole: rng.random_bool(0.5) },
    };
    (ms(rng.random_range(0..10_000)), chaos)
}
