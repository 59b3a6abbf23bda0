//! An engine whose speed changes while it runs: it pauses, slows down, or becomes faster.

use super::{Emission, Model, Request};
use std::time::Duration;

/// A constant speed from one moment on.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Piece {
    /// When it begins, in seconds of the driver.
    from_s: f64,
    /// The engine's own clock at that moment, in seconds.
    engine_s: f64,
    /// Seconds of the engine's clock per second of the driver; zero during a pause.
    speed: f64,
}

/// A model whose clock runs faster or slower than the driver's, at a speed that changes at given times.
///
/// Everything in the engine slows down alike: prefill, decode, and the noise between iterations. Requests still arrive when the driver
/// says. During a pause nothing happens and nothing is lost.
#[derive(Debug, Clone)]
pub struct Changing {
    model: Model,
    /// In order of time; never empty.
    pieces: Vec<Piece>,
}

impl Changing {
    /// The model at its own speed.
    pub fn new(model: Model) -> Self {
        Self { model, pieces: vec![Piece { from_s: 0.0, engine_s: 0.0, speed: 1.0 }] }
    }

    /// Runs at `speed` from `at` on: 1 is the model's own speed, 0 stands still. Changes must be given in order of time, and none may lie
    /// before a time up to which the model was advanced. A negative speed counts as zero.
    pub fn set_speed(&mut self, at: Duration, speed: f64) {
        let last = self.pieces[self.pieces.len() - 1];
        let from_s = at.as_secs_f64().max(last.from_s);
        let engine_s = last.engine_s + (from_s - last.from_s) * last.speed;
        self.pieces.push(Piece { from_s, engine_s, speed: speed.max(0.0) });
    }

    /// Stands still for `length` from `at` on, then goes on at the speed it had.
    pub fn pause(&mut self, at: Duration, length: Duration) {
        let speed = self.pieces[self.pieces.len() - 1].speed;
        self.set_speed(at, 0.0);
        self.set_speed(at + length, speed);
    }

    /// The speed at `at`.
    pub fn speed(&self, at: Duration) -> f64 {
        self.piece(at.as_secs_f64(), |p| p.from_s).speed
    }

    /// The last piece that begins by then, on the clock that `from` reads.
    fn piece(&self, time_s: f64, from: impl Fn(&Piece) -> f64) -> Piece {
        let i = self.pieces.partition_point(|p| from(p) <= time_s);
        self.pieces[i.saturating_sub(1)]
    }

    /// The engine's clock when the driver's shows `at`.
    fn to_engine(&self, at: Duration) -> Duration {
        if at == Duration::MAX {
            return at;
        }
        let time_s = at.as_secs_f64();
        let p = self.piece(time_s, |p| p.from_s);
        seconds(p.engine_s + (time_s - p.from_s) * p.speed)
    }

    /// The first moment on the driver's clock at which the engine's has come to `at`; [`Duration::MAX`] where it never does.
    fn to_driver(&self, at: Duration) -> Duration {
        let time_s = at.as_secs_f64();
        // Of the pieces that begin by then the first that gets there: at the start of a pause it is the one before.
        let i = self.pieces.partition_point(|p| p.engine_s < time_s);
        let p = self.pieces[i.saturating_sub(1)];
        if p.speed <= 0.0 {
            return if time_s <= p.engine_s { seconds(p.from_s) } else { Duration::MAX };
        }
        let mut driver = seconds(p.from_s + (time_s - p.engine_s) / p.speed);
        // Rounding must not make it too early: an event that never comes due would stop the driver for good.
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
            begun: self.to_driver(e.begun).min(to),
            ..e
        };
        emissions.into_iter().map(on_driver).collect()
    }

    /// The engine itself.
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

    /// Drives a model from event to event: id and time of each answer.
    fn answers(model: &mut Model, arrivals: &[Duration]) -> Vec<(u64, Duration)> {
        let mut out = vec![];
        let mut drain = |model: &mut Model, to: Duration| {
            while let Some(at) = model.next_event().filter(|at| *at <= to) {
                let emissions = model.advance(at);
                assert!(!emissions.is_empty(), "an event at {at:?} that does not happen");
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
    fn a_pause_delays_what_is_served_and_what_waits() {
        let mut changing = Changing::new(queue(Dist::Fixed(50 * MS)));
        changing.pause(120 * MS, 1000 * MS);
        let mut model = Model::Changing(Box::new(changing));
        let out = answers(&mut model, &[100 * MS, 500 * MS, 2000 * MS]);
        // 20 ms of the first before the pause, 30 ms behind it; the second comes while it stands still.
        assert_eq!(out, [(0, 1150 * MS), (1, 1200 * MS), (2, 2050 * MS)]);
    }

    #[test]
    fn half_the_speed_takes_twice_as_long() {
        let mut changing = Changing::new(queue(Dist::Fixed(50 * MS)));
        changing.set_speed(1000 * MS, 0.5);
        assert!((changing.speed(999 * MS), changing.speed(1000 * MS)) == (1.0, 0.5));
        let mut model = Model::Changing(Box::new(changing));
        let out = answers(&mut model, &[100 * MS, 990 * MS, 3000 * MS]);
        assert_eq!(out, [(0, 150 * MS), (1, 1080 * MS), (2, 3100 * MS)]);
    }

    #[test]
    fn an_engine_that_stands_still_for_good_says_so() {
        let mut changing = Changing::new(queue(Dist::Fixed(50 * MS)));
        changing.set_speed(10 * MS, 0.0);
        let mut model = Model::Changing(Box::new(changing));
        model.arrive(5 * MS, Request::new(0, 1, 1));
        assert_eq!(model.next_event(), Some(Duration::MAX));
        assert!(model.advance(Duration::from_secs(9)).is_empty());
    }

    proptest! {
        /// Every event comes due at the time that was announced, whatever the speeds; nothing comes before the unchanged engine would have
        /// had time for it.
        #[test]
        fn events_come_when_announced(
            changes in prop::collection::vec((1_u32..3000, 0.0..2.0_f64), 0..6),
            arrivals in prop::collection::vec(0_u32..3000, 1..20),
        ) {
            let mut changing = Changing::new(queue(Dist::Exponential(37 * MS)));
            let mut at = Duration::ZERO;
            for (after, speed) in changes {
                at += after * MS;
                changing.set_speed(at, speed);
            }
            changing.set_speed(at + MS, 0.7);
            let mut arrivals: Vec<Duration> = arrivals.into_iter().map(|a| a * MS).collect();
            arrivals.sort_unstable();
            let mut model = Model::Changing(Box::new(changing));
            let out = answers(&mut model, &arrivals);
            prop_assert_eq!(out.len(), arrivals.len());
            prop_assert!(out.windows(2).all(|w| w[0].1 <= w[1].1));
            prop_assert!(out.iter().all(|(id, at)| *at >= arrivals[*id as usize]));
        }
    }
}
