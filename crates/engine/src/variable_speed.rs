//! An engine whose speed varies over time: it pauses, slows down or speeds up.

use super::{Emission, Model, Request};
use std::time::Duration;

/// An interval of constant speed.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Interval {
    /// Start of the interval on the driver's clock, in seconds.
    from_s: f64,
    /// Engine clock at the start of the interval, in seconds.
    engine_s: f64,
    /// Engine seconds per driver second; zero during a pause.
    speed: f64,
}

/// A model whose clock runs at a speed that changes at given times of the driver's clock.
///
/// Prefill, decode and noise all scale with the speed; arrivals do not. Nothing is lost during a pause.
#[derive(Debug, Clone)]
pub struct VariableSpeed {
    model: Model,
    /// Intervals in order of time; never empty.
    intervals: Vec<Interval>,
}

impl VariableSpeed {
    /// Wraps a model at speed 1.
    pub fn new(model: Model) -> Self {
        Self { model, intervals: vec![Interval { from_s: 0.0, engine_s: 0.0, speed: 1.0 }] }
    }

    /// Sets the speed from `at` on: 1 is the model's normal speed, 0 pauses it, negative counts as zero. Changes must
    /// be made in order of time, and not before a time up to which the model has been advanced.
    pub fn set_speed(&mut self, at: Duration, speed: f64) {
        let last = self.intervals[self.intervals.len() - 1];
        let from_s = at.as_secs_f64().max(last.from_s);
        let engine_s = last.engine_s + (from_s - last.from_s) * last.speed;
        self.intervals.push(Interval { from_s, engine_s, speed: speed.max(0.0) });
    }

    /// Pauses for `length` from `at` on, then resumes at the previous speed.
    pub fn pause(&mut self, at: Duration, length: Duration) {
        let speed = self.intervals[self.intervals.len() - 1].speed;
        self.set_speed(at, 0.0);
        self.set_speed(at + length, speed);
    }

    /// Returns the speed at `at`.
    pub fn speed(&self, at: Duration) -> f64 {
        self.interval(at.as_secs_f64(), |p| p.from_s).speed
    }

    /// Returns the last interval that begins by `time_s` on the clock that `from` reads.
    fn interval(&self, time_s: f64, from: impl Fn(&Interval) -> f64) -> Interval {
        let i = self.intervals.partition_point(|p| from(p) <= time_s);
        self.intervals[i.saturating_sub(1)]
    }

    /// Converts driver time to engine time.
    fn to_engine(&self, at: Duration) -> Duration {
        if at == Duration::MAX {
            return at;
        }
        let time_s = at.as_secs_f64();
        let p = self.interval(time_s, |p| p.from_s);
        seconds(p.engine_s + (time_s - p.from_s) * p.speed)
    }

    /// Returns the first driver time at which the engine clock reaches `at`; [`Duration::MAX`] if it never does.
    fn to_driver(&self, at: Duration) -> Duration {
        let time_s = at.as_secs_f64();
        // The first interval that reaches it: at the start of a pause that is the interval before.
        let i = self.intervals.partition_point(|p| p.engine_s < time_s);
        let p = self.intervals[i.saturating_sub(1)];
        if p.speed <= 0.0 {
            return if time_s <= p.engine_s { seconds(p.from_s) } else { Duration::MAX };
        }
        let mut driver = seconds(p.from_s + (time_s - p.engine_s) / p.speed);
        // Rounding must not make it too early: the driver would wait forever for an event that does not come due.
        let mut step = 1;
        while self.to_engine(driver) < at {
            driver = driver.saturating_add(Duration::from_nanos(step));
            step *= 2;
        }
        driver
    }

    /// See [`Model::arrive`].
    pub fn arrive(&mut self, at: Duration, request: Request) {
        self.model.arrive(self.to_engine(at), request);
    }

    /// See [`Model::cancel`].
    pub fn cancel(&mut self, at: Duration, id: u64) {
        self.model.cancel(self.to_engine(at), id);
    }

    /// See [`Model::next_event`].
    pub fn next_event(&self) -> Option<Duration> {
        self.model.next_event().map(|at| self.to_driver(at))
    }

    /// See [`Model::advance`].
    pub fn advance(&mut self, to: Duration) -> Vec<Emission> {
        let emissions = self.model.advance(self.to_engine(to));
        let on_driver = |e: Emission| Emission {
            at: self.to_driver(e.at).min(to),
            started: self.to_driver(e.started).min(to),
            ..e
        };
        emissions.into_iter().map(on_driver).collect()
    }

    /// Returns the wrapped model.
    pub const fn model(&self) -> &Model {
        &self.model
    }
}

fn seconds(s: f64) -> Duration {
    Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX)
}

#[cfg(test)]
mod tests {
    use super::super::queue::{Dist, Queue, Settings};
    use super::*;
    use proptest::prelude::*;

    const MS: Duration = Duration::from_millis(1);

    fn queue(service: Dist) -> Model {
        let settings = Settings { servers: 1, service, prefill: None, decode: Duration::ZERO, seed: 1 };
        Model::Queue(Box::new(Queue::new(settings)))
    }

    /// Drives a model from event to event; returns id and time of each answer.
    fn answers(model: &mut Model, arrivals: &[Duration]) -> Vec<(u64, Duration)> {
        let mut out = vec![];
        let mut drain = |model: &mut Model, to: Duration| {
            while let Some(at) = model.next_event().filter(|at| *at <= to) {
                let emissions = model.advance(at);
                assert!(!emissions.is_empty(), "nothing happened at the announced time {at:?}");
                out.extend(emissions.into_iter().filter(|e| e.finished).map(|e| (e.id, e.at)));
            }
        };
        for (id, at) in arrivals.iter().enumerate() {
            drain(model, *at);
            model.advance(*at);
            model.arrive(*at, Request::new(id as u64, 1, 1));
        }
        drain(model, Duration::from_secs(1_000_000));
        out
    }

    #[test]
    fn a_pause_delays_requests_in_service_and_in_the_queue() {
        let mut variable = VariableSpeed::new(queue(Dist::Fixed(50 * MS)));
        variable.pause(120 * MS, 1000 * MS);
        let mut model = Model::VariableSpeed(Box::new(variable));
        let out = answers(&mut model, &[100 * MS, 500 * MS, 2000 * MS]);
        // The first is served for 20 ms before the pause and 30 ms after it; the second arrives during it.
        assert_eq!(out, [(0, 1150 * MS), (1, 1200 * MS), (2, 2050 * MS)]);
    }

    #[test]
    fn half_the_speed_takes_twice_as_long() {
        let mut variable = VariableSpeed::new(queue(Dist::Fixed(50 * MS)));
        variable.set_speed(1000 * MS, 0.5);
        assert!((variable.speed(999 * MS), variable.speed(1000 * MS)) == (1.0, 0.5));
        let mut model = Model::VariableSpeed(Box::new(variable));
        let out = answers(&mut model, &[100 * MS, 990 * MS, 3000 * MS]);
        assert_eq!(out, [(0, 150 * MS), (1, 1080 * MS), (2, 3100 * MS)]);
    }

    #[test]
    fn an_engine_paused_forever_has_its_next_event_at_the_end_of_time() {
        let mut variable = VariableSpeed::new(queue(Dist::Fixed(50 * MS)));
        variable.set_speed(10 * MS, 0.0);
        let mut model = Model::VariableSpeed(Box::new(variable));
        model.arrive(5 * MS, Request::new(0, 1, 1));
        assert_eq!(model.next_event(), Some(Duration::MAX));
        assert!(model.advance(Duration::from_secs(9)).is_empty());
    }

    proptest! {
        /// Every event comes due at the announced time, whatever the speeds, and no answer leaves before its request
        /// arrives.
        #[test]
        fn events_come_when_announced(
            changes in prop::collection::vec((1_u32..3000, 0.0..2.0_f64), 0..6),
            arrivals in prop::collection::vec(0_u32..3000, 1..20),
        ) {
            let mut variable = VariableSpeed::new(queue(Dist::Exponential(37 * MS)));
            let mut at = Duration::ZERO;
            for (after, speed) in changes {
                at += after * MS;
                    variable.set_speed(at, speed);
            }
            variable.set_speed(at + MS, 0.7);
            let mut arrivals: Vec<Duration> = arrivals.into_iter().map(|a| a * MS).collect();
            arrivals.sort_unstable();
            let mut model = Model::VariableSpeed(Box::new(variable));
            let out = answers(&mut model, &arrivals);
            prop_assert_eq!(out.len(), arrivals.len());
            prop_assert!(out.windows(2).all(|w| w[0].1 <= w[1].1));
            prop_assert!(out.iter().all(|(id, at)| *at >= arrivals[*id as usize]));
        }
    }
}
