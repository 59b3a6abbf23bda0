//! Figures of the server's own counters, and of the client's.

use super::super::subject::Subject;
use super::{Found, percent, place, time};
use crate::stats::step::{Step, Verdict};
use goodput_core::slo::Metric;
use goodput_core::units::short;

pub(super) fn client_was_limit(s: &Subject<'_>) -> Option<Found> {
    let invalid = s.at.verdict == Verdict::Invalid;
    let own = s.facts.own.iter().find(|o| o.step == s.at.step);
    let why = own.map_or(s.at.reason.as_str(), |o| o.text.as_str());
    Some(Found::new(
        f64::from(u8::from(invalid)),
        [s.at.step],
        if invalid { format!("{}: {why}", place(s.at)) } else { String::new() },
    ))
}

pub(super) fn preempted(s: &Subject<'_>) -> Option<Found> {
    let (v, of) = (s.at.server, s.at.server.finished.unwrap_or(s.at.completed as f64));
    let n = v.preemptions?;
    let share = n / of.max(1.0);
    let text =
        format!("{} preemptions of {} requests ({}) {}", short(n), short(of), percent(share), place(s.at));
    Some(Found::new(share, [s.at.step], text))
}

pub(super) fn kv_most(s: &Subject<'_>) -> Option<Found> {
    let share = s.at.server.kv_max?;
    let mean = s.at.server.kv_mean.map(|m| format!(", {} of it on average", percent(m))).unwrap_or_default();
    Some(Found::new(
        share,
        [s.at.step],
        format!("{} of the KV cache in use at most{mean}, {}", percent(share), place(s.at)),
    ))
}

pub(super) fn waiting_most(s: &Subject<'_>) -> Option<Found> {
    let n = s.at.server.waiting_max?;
    let text = if n > 0.0 {
        format!("up to {} requests waiting in the server {}", short(n), place(s.at))
    } else {
        format!("no request was seen waiting in the server {}", place(s.at))
    };
    Some(Found::new(n, [s.at.step], text))
}

pub(super) fn waiting_mean(s: &Subject<'_>) -> Option<Found> {
    let n = s.at.server.waiting_mean?;
    Some(Found::new(
        n,
        [s.at.step],
        format!("{} requests waiting in the server on average {}", short(n), place(s.at)),
    ))
}

pub(super) fn running_most(s: &Subject<'_>) -> Option<Found> {
    let n = s.at.server.running_max?;
    Some(Found::new(n, [s.at.step], format!("up to {} requests running", short(n))))
}

/// The most that ever run at a time: what the server tells, or what two steps with a queue have in common, or one whose client had
/// more in flight all the time.
pub(in crate::diagnosis) fn seats(s: &Subject<'_>) -> Option<f64> {
    if let Some(seats) = s.curve.seats {
        return Some(f64::from(seats));
    }
    let queued = |x: &&Step| x.server.waiting_mean.is_some_and(|w| w > 0.5);
    let running = |x: &Step| x.server.running_max.filter(|r| *r > 0.0);
    let most = s.own().filter(queued).filter_map(running).fold(0.0, f64::max);
    let full: Vec<&Step> =
        s.own().filter(queued).filter(|x| running(x).is_some_and(|r| r >= 0.98 * most)).collect();
    let levels = full.iter().map(|x| x.level.value);
    let (low, high) = levels.fold((f64::INFINITY, 0.0_f64), |(l, h), v| (l.min(v), h.max(v)));
    let beyond = full.iter().any(|x| x.in_flight_mean > 1.2 * most);
    (most > 0.0 && (beyond || high > 1.1 * low)).then_some(most)
}

pub(super) fn seats_taken(s: &Subject<'_>) -> Option<Found> {
    let (running, seats) = (s.at.server.running_mean?, seats(s)?);
    let text = format!(
        "{} requests running on average, of {} at the most, {}",
        short(running),
        short(seats),
        place(s.at)
    );
    Some(Found::new(running / seats, [s.at.step], text))
}

pub(super) fn seats_told(s: &Subject<'_>) -> Option<Found> {
    s.curve.seats.map(|_| Found::new(1.0, [], ""))
}

pub(super) fn shared(s: &Subject<'_>) -> Option<Found> {
    let share = s.curve.shared?;
    Some(Found::new(share, [], format!("{} of the prompt tokens are shared", percent(share))))
}

pub(super) fn hits_of_shared(s: &Subject<'_>) -> Option<Found> {
    let (hits, shared) = (s.at.server.hit_rate?, s.curve.shared.filter(|x| *x > 0.0)?);
    let text = format!("{} of the prompt tokens came from the prefix cache {}", percent(hits), place(s.at));
    Some(Found::new(hits / shared, [s.at.step], text))
}

pub(super) fn hits_alone(s: &Subject<'_>) -> Option<Found> {
    let alone = s.low().or(s.alone).filter(|low| low.step != s.at.step)?;
    let hits = alone.server.hit_rate?;
    let text = format!("{} of the prompt tokens came from the prefix cache {}", percent(hits), place(alone));
    Some(Found::new(hits, [alone.step], text))
}

pub(super) fn hits_times_alone(s: &Subject<'_>) -> Option<Found> {
    let (now, before) = (s.at.server.hit_rate?, hits_alone(s)?);
    let text = format!("and {} {}", percent(now), place(s.at));
    Some(Found::new(now / before.value.max(1e-9), [before.steps, vec![s.at.step]].concat(), text))
}

pub(super) fn queue_of_ttft(s: &Subject<'_>) -> Option<Found> {
    let v = s.at.server;
    let (queue, ttft) = (v.queue?, v.ttft?);
    let text = format!(
        "a request waits {} for its place in the batch on average, of a TTFT of {} by the server's clock, {}",
        time(queue.mean_ms),
        time(ttft.mean_ms),
        place(s.at)
    );
    (ttft.mean_ms > 0.0 && queue.n > 0.0).then(|| Found::new(queue.mean_ms / ttft.mean_ms, [s.at.step], text))
}

pub(super) fn prefill_of_ttft(s: &Subject<'_>) -> Option<Found> {
    let alone = s.alone?;
    let (prefill, ttft) = (alone.server.prefill?, alone.server.ttft?);
    let text = format!(
        "reading the prompt takes {} of a TTFT of {} by the server's clock, {}",
        time(prefill.mean_ms),
        time(ttft.mean_ms),
        place(alone)
    );
    (ttft.mean_ms > 0.0 && prefill.n > 0.0)
        .then(|| Found::new(prefill.mean_ms / ttft.mean_ms, [alone.step], text))
}

pub(super) fn prefill_of_missed(s: &Subject<'_>) -> Option<Found> {
    let alone = s.alone?;
    let (prefill, (tail, name)) = (alone.server.prefill?, s.tail(s.at, Metric::Ttft)?);
    let share = (prefill.mean_ms / tail).min(1.0);
    let text = format!("that is {} of the {name} TTFT of {} {}", percent(share), time(tail), place(s.at));
    (tail > 0.0).then(|| Found::new(share, [alone.step, s.at.step], text))
}
