//! Figures of latency under load beside those of one request alone, or of less load.

use super::super::subject::{Subject, is_one};
use super::{Found, percent, place, time};
use crate::stats::step::Step;
use goodput_core::slo::Metric;
use goodput_core::units::short;

/// How the unloaded step is called.
fn alone_name(s: &Step) -> String {
    if is_one(s) { format!("of one request alone (step {})", s.step) } else { place(s) }
}

/// The unloaded step, where it is not the one that is looked into.
fn other<'a>(s: &Subject<'a>) -> Option<&'a Step> {
    s.alone.filter(|a| a.step != s.at.step)
}

/// How many times the unloaded figure it is here.
fn times_alone(s: &Subject<'_>, what: &str, (now, before): (f64, f64), alone: &Step) -> Found {
    let text = format!(
        "the {what} is {} {}, {} times the {} {}",
        time(now),
        place(s.at),
        short(now / before),
        time(before),
        alone_name(alone)
    );
    Found::new(now / before, [alone.step, s.at.step], text)
}

/// The tail of TTFT here and unloaded, the percentile, and the medians of both. None has a steady value where the backlog grows.
fn tails(s: &Subject<'_>) -> Option<([f64; 2], &'static str, [f64; 2])> {
    let alone = other(s)?;
    let (now, name) = s.tail(s.at, Metric::Ttft).filter(|_| s.at.stable != Some(false))?;
    let (before, _) = s.tail(alone, Metric::Ttft)?;
    let medians = [s.at, alone].map(|step| s.quantiles(step, Metric::Ttft).p50);
    let [Some(p50), Some(p50_before)] = medians else { return None };
    (before > 0.0 && p50_before > 0.0).then_some(([now, before], name, [p50, p50_before]))
}

pub(super) fn ttft_tail(s: &Subject<'_>) -> Option<Found> {
    let alone = other(s)?;
    let ([now, before], name, _) = tails(s)?;
    Some(times_alone(s, &format!("{name} TTFT"), (now, before), alone))
}

pub(super) fn tail_over_median(s: &Subject<'_>) -> Option<Found> {
    let alone = other(s)?;
    let ([now, before], _, [p50, p50_before]) = tails(s)?;
    let rise = p50 / p50_before;
    let how = if rise < 1.5 { "holds" } else { "rises less" };
    let text =
        format!("the median {how}, to {} times: {} against {}", short(rise), time(p50), time(p50_before));
    Some(Found::new(now / before / rise, [alone.step, s.at.step], text))
}

pub(super) fn wait_of_missed(s: &Subject<'_>) -> Option<Found> {
    let alone = other(s)?;
    let ([now, before], name, _) = tails(s)?;
    let share = ((now - before) / now).max(0.0);
    Some(Found::new(share, [alone.step, s.at.step], format!("{} of the {name} is wait", percent(share))))
}

fn tpot(s: &Subject<'_>, step: &Step) -> Option<f64> {
    s.quantiles(step, Metric::Tpot).p50.filter(|t| *t > 0.0)
}

/// Median TPOT here and unloaded, with the unloaded step; the same step where that is what is looked into.
fn tpots<'a>(s: &Subject<'a>) -> Option<(f64, f64, &'a Step)> {
    let alone = s.alone?;
    Some((tpot(s, s.at)?, tpot(s, alone)?, alone))
}

pub(super) fn tpot_times_alone(s: &Subject<'_>) -> Option<Found> {
    let (now, before, alone) = tpots(s)?;
    Some(times_alone(s, "median TPOT", (now, before), alone))
}

pub(super) fn tpot_alone_of_loaded(s: &Subject<'_>) -> Option<Found> {
    let (now, before, alone) = tpots(s)?;
    let share = (before / now).min(1.0);
    let text = if alone.step == s.at.step {
        format!("the median TPOT is {} {}: that is without any load", time(now), place(alone))
    } else {
        format!(
            "the median TPOT {} is {}, {} of that {} ({})",
            alone_name(alone),
            time(before),
            percent(share),
            place(s.at),
            time(now)
        )
    };
    Some(Found::new(share, [alone.step, s.at.step], text))
}

pub(super) fn tpot_times_low(s: &Subject<'_>) -> Option<Found> {
    let low = s.low().filter(|low| low.step != s.at.step)?;
    let (now, before) = (tpot(s, s.at)?, tpot(s, low)?);
    let text =
        format!("and the median TPOT {} times: {} against {}", short(now / before), time(now), time(before));
    Some(Found::new(now / before, [low.step, s.at.step], text))
}

pub(super) fn tpot_added(s: &Subject<'_>) -> Option<Found> {
    let times = tpot_times_low(s)?;
    let share = (1.0 - 1.0 / times.value).max(0.0);
    Some(Found { value: share, text: format!("load adds {} of the TPOT", percent(share)), ..times })
}

pub(super) fn tokens_times_low(s: &Subject<'_>) -> Option<Found> {
    let low = s.low().filter(|low| low.step != s.at.step)?;
    let [now, before] = [s.at, low].map(|x| x.output_tokens_per_s);
    let text = format!(
        "output tokens/s are {} times those {}: {} against {} {}",
        short(now / before),
        if is_one(low) { alone_name(low) } else { place(low) },
        short(now.round()),
        short(before.round()),
        place(s.at)
    );
    (before > 0.0).then(|| Found::new(now / before, [low.step, s.at.step], text))
}

pub(super) fn backlog_grows(s: &Subject<'_>) -> Option<Found> {
    let grows = s.is_open() && s.at.stable?.eq(&false);
    let slope = s.at.in_flight_slope.filter(|slope| *slope > 0.0);
    let by = slope.map(|slope| format!(" by {} requests a second", short(slope))).unwrap_or_default();
    let text = if grows { format!("the requests in flight grow{by} {}", place(s.at)) } else { String::new() };
    Some(Found::new(f64::from(u8::from(grows)), [s.at.step], text))
}

pub(super) fn completed_of_offered(s: &Subject<'_>) -> Option<Found> {
    let (done, offered) = (s.at.achieved_rate, s.at.offered_rate);
    let text =
        format!("{} of {} requests/s were completed in the measured window", short(done), short(offered));
    (s.is_open() && offered > 0.0).then(|| Found::new(done / offered, [s.at.step], text))
}
