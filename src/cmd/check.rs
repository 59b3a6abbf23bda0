//! `check`: is the plan sound, and what would run?

mod after_search;
mod bounds;
mod files;
mod hardware;
mod servers;
mod spoken;
mod way;

use crate::cli::CheckArgs;
use crate::client::way as route;
use crate::cmd::say;
use crate::level::{Control, Level};
use crate::plan::{Basis, PER_TOKEN, Plan, Series, Source, schema};
use crate::search::config::{Adaptive, Mode, Over, Ramp};
use crate::stats::verdict::INFLATION;
use crate::sweep::longest_step;
use crate::units::{Span, short};
use crate::workload::file_contents::FileContents;
use anyhow::{Context, Result};
use hardware::hardware;
use serde::Serialize;
use servers::{started, starts};
use spoken::spoken;
use std::time::Duration;

/// A ramp without `max-rate` has no last level; so many of its levels are shown.
const RAMP_SHOWN: usize = 12;

/// What a plan would run.
#[derive(Debug, Serialize)]
struct Preview {
    /// Each level with the requests expected in settle and window (`None` for a closed loop) and its longest time.
    steps: Vec<PreviewStep>,
    /// Requests expected in all steps, where they are known.
    requests: Option<u64>,
    /// The longest that all steps together can take, in seconds.
    longest_s: f64,
    /// Whether there may be more steps than shown.
    open_ended: bool,
}

#[derive(Debug, Serialize)]
struct PreviewStep {
    control: Control,
    level: f64,
    requests: Option<u64>,
    window_s: f64,
    /// So many windows it is measured in.
    windows: u32,
    longest_s: f64,
}

/// Validates the plan, reads its files, and prints what would run; sends nothing.
pub(crate) fn check(args: &CheckArgs) -> Result<()> {
    let Some(plan) = &args.plan else {
        return say(&serde_json::to_string_pretty(&schema()).context("failed to write JSON")?);
    };
    let mut plan = Plan::load(&Source::find(plan)?, &args.set)?;
    let contents = plan.open_files()?.file_contents();
    plan.series().iter().try_for_each(|one| route::check(&one.plan.server))?;
    let said = said(&plan, &contents, args.json)?;
    match args.repeat {
        Some(repeats) => say(&repeated(&plan, repeats, &said, args.json)?),
        None => say(&said),
    }
}

/// Adds the time that several runs of a plan take to the output of `check`.
fn repeated(plan: &Plan, repeats: u32, said: &str, json: bool) -> Result<String> {
    let all_s = f64::from(repeats) * longest_of(plan);
    if json {
        let mut value: serde_json::Value = serde_json::from_str(said).context("failed to write JSON")?;
        value["repeats"] = serde_json::json!({ "runs": repeats, "longest_s": all_s });
        return serde_json::to_string_pretty(&value).context("failed to write JSON");
    }
    let all = Span(Duration::from_secs(all_s.round() as u64));
    Ok(format!(
        "{said}\n  repeated  {repeats} runs, one after the other, each with the budget above: {all} in all at the longest"
    ))
}

/// The longest that all series of a plan can take, in seconds.
pub(super) fn longest_of(plan: &Plan) -> f64 {
    plan.series().iter().map(|one| longest_s(&one.plan)).sum()
}

/// What is said of a plan, in words or as JSON, and of the files whose contents are known.
///
/// # Errors
/// It cannot be written as JSON.
pub fn said(plan: &Plan, contents: &[FileContents], json: bool) -> Result<String> {
    let series = plan.series();
    let warnings = route::warnings_of(&series);
    for warning in &warnings {
        tracing::warn!("warning: {warning}");
    }
    if json {
        let would_run = |plan: &Plan| serde_json::to_value(preview(plan)).context("failed to write JSON");
        let mut value =
            serde_json::json!({ "plan": plan, "would_run": would_run(plan)?, "bounds": bounds::of(plan) });
        if !warnings.is_empty() {
            value["warnings"] = serde_json::json!(warnings);
        }
        if !contents.is_empty() {
            value["files"] = serde_json::to_value(contents).context("failed to write JSON")?;
        }
        if series.len() > 1 || series[0].variant.is_some() {
            let one = |s: &Series| {
                anyhow::Ok(
                    serde_json::json!({ "name": s.name, "server": s.plan.measured_server().to_string(), "would_run": would_run(&s.plan)? }),
                )
            };
            value["series"] = series.iter().map(one).collect::<Result<_>>()?;
            value["longest_s"] = longest_of(plan).into();
        }
        return serde_json::to_string_pretty(&value).context("failed to write JSON");
    }
    let said = match &series[..] {
        // The rows of a matrix are listed together.
        _ if !plan.rows.is_empty() => words(plan, &preview(plan)),
        [only] if only.variant.is_none() => words(plan, &preview(plan)),
        several => several_words(plan, several),
    };
    Ok(said + &bounds::words(plan) + &files::words(contents))
}

/// The longest that a plan of one series can take, what comes after the search included.
fn longest_s(plan: &Plan) -> f64 {
    let soak = plan.search.confirm.map_or(0.0, |t| t.0.as_secs_f64());
    preview(plan).longest_s + soak + peak_s(plan) + after_search::longest_s(plan)
}

/// The longest that the saturated step after the search can take.
fn peak_s(plan: &Plan) -> f64 {
    let Some(peak) = plan.search.peak else { return 0.0 };
    let (settle, measure) =
        (peak.settle.unwrap_or(plan.step.settle), peak.measure.unwrap_or(plan.step.measure));
    (settle.0 + measure.0 + plan.step.tail() + plan.step.drain.0).as_secs_f64()
}

/// What is said of the saturated step, where the plan has one.
fn peak(plan: &Plan) -> String {
    plan.search.peak.map_or_else(String::new, |peak| {
        let settle = peak.settle.unwrap_or(plan.step.settle);
        let measure = peak.measure.unwrap_or(plan.step.measure);
        format!("\n  peak      {} in flight after it, {settle} settle + {measure} measured", peak.concurrency)
    })
}

/// A plan of several series: what each would run, and the time of all.
fn several_words(plan: &Plan, series: &[Series]) -> String {
    let names: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
    let mut out = format!(
        "{} is sound.\n  server    {}\n{}{}  series    {}: {}\n",
        plan.name,
        plan.measured_server().to_string(),
        spoken(&plan.server),
        hardware(plan),
        series.len(),
        names.join("; ")
    );
    let said: Vec<String> = series.iter().map(|s| sent_words(&s.plan, &preview(&s.plan))).collect();
    let variants = series.iter().any(|s| s.variant.is_some());
    // Variants mostly differ in their servers alone.
    let alike = variants && said.iter().all(|s| *s == said[0]);
    for (one, said) in series.iter().zip(&said) {
        out += &format!("{}\n{}", one.name, started(one));
        if (&one.plan.server.tls, &one.plan.server.proxy) != (&plan.server.tls, &plan.server.proxy) {
            out += &way::way(&one.plan.server);
        }
        if !alike {
            out += &format!("{said}\n");
        }
    }
    if alike {
        out += &format!("each of them\n{}\n", said[0]);
    }
    let all: f64 = series.iter().map(|s| longest_s(&s.plan)).sum();
    let all = Span(Duration::from_secs(all.round() as u64));
    let starts = starts(series);
    let order = if plan.alternate.is_some() { "in turns" } else { "one after the other" };
    out + &format!("in all\n  time      {} series, {order}: {all} at the longest{starts}", series.len())
}

fn levels(plan: &Plan) -> (Vec<Level>, bool) {
    let max = plan.search.max_rate.map_or(f64::INFINITY, |r| r.get());
    match &plan.search.mode {
        Mode::Rates(rates) => {
            let open = plan.workload.control();
            let levels = rates.iter().map(|r| Level::new(open, r.get()));
            (levels.filter(|l| l.value <= max).collect(), false)
        }
        Mode::Concurrency(list) => (list.iter().map(|c| Level::concurrency(c.get())).collect(), false),
        Mode::Ramp(ramp) => ramp_levels(ramp, max, plan.workload.control()),
        Mode::Ladder(ladder) => {
            let most = ladder.max.get();
            let below = (0..32).map(|i| ladder.level(i)).take_while(|n| *n < most).chain([most]);
            (below.map(Level::concurrency).collect(), false)
        }
        Mode::Burst(n) => (vec![Level::concurrency(n.get())], false),
        // It chooses its levels as it goes.
        Mode::Adaptive(_) => (Vec::new(), true),
    }
}

fn ramp_levels(ramp: &Ramp, max: f64, open: Control) -> (Vec<Level>, bool) {
    let (mut levels, mut rate) = (Vec::new(), ramp.start.get());
    while rate < max {
        if levels.len() == RAMP_SHOWN && max.is_infinite() {
            return (levels, true);
        }
        levels.push(Level::new(open, rate));
        rate *= ramp.factor.get();
    }
    levels.push(Level::new(open, max));
    (levels, false)
}

/// Requests per second that a level asks for: of conversations the turns of all, once they have got going.
fn requests_per_s(plan: &Plan, level: Level) -> Option<f64> {
    (level.control != Control::Concurrency).then(|| level.value * plan.workload.per_level())
}

/// Requests that a step needs, at the least, to show that the strictest percentile of the SLO is met: without a single miss
/// the binomial bound at 95 % is ln 0.05 / ln p, times the assumed inflation.
fn least_to_meet(plan: &Plan) -> Option<f64> {
    let parts = plan.slo.as_slice().first()?.parts();
    let share = parts
        .iter()
        .flat_map(|part| part.slo.limits())
        .map(|l| l.percentile.share())
        .max_by(f64::total_cmp)?;
    Some(INFLATION * 0.05_f64.ln() / share.ln())
}

/// What `check` says of levels whose window is too short for a verdict of *meets*.
fn too_short(plan: &Plan, levels: &[Level]) -> Option<String> {
    let least = least_to_meet(plan)?;
    let expected =
        |l: &Level| requests_per_s(plan, *l).map(|r| r * plan.step.window(l.per_s()).as_secs_f64());
    let short_of: Vec<String> =
        levels.iter().filter(|l| expected(l).is_some_and(|n| n < least)).map(|l| short(l.value)).collect();
    (!short_of.is_empty()).then(|| {
        format!(
            "  note      showing that this SLO is met takes about {} requests in a step without a miss, until the sweep has \
             seen how misses cluster: {}{} can be shown to fail, not to meet; step.min-requests = {:.0} extends \
             steps, up to step.max-duration",
            hundreds(least),
            short_of.join(", "),
            levels.first().map_or("", |l| l.control.unit()),
            (least / 100.0).ceil() * 100.0
        )
    })
}

/// A count to the next hundred, with a separator before the last three digits: `4,800`.
fn hundreds(n: f64) -> String {
    let n = (n / 100.0).ceil() as u64 * 100;
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", n / 1_000, n % 1_000) }
}

fn preview(plan: &Plan) -> Preview {
    if !plan.rows.is_empty() {
        let all: Vec<Preview> = plan.series().iter().map(|row| preview(&row.plan)).collect();
        return Preview {
            requests: all.iter().map(|p| p.requests).sum(),
            // A row's reference takes as long as the row at the most.
            longest_s: plan
                .rows
                .iter()
                .zip(&all)
                .map(|(r, p)| p.longest_s * if r.unloaded() { 1.0 } else { 2.0 })
                .sum(),
            open_ended: false,
            steps: all.into_iter().flat_map(|p| p.steps).collect(),
        };
    }
    let (levels, open_ended) = levels(plan);
    let steps: Vec<PreviewStep> = levels
        .iter()
        .map(|level| {
            let rate = requests_per_s(plan, *level);
            let window = plan.step.window(level.per_s()).as_secs_f64();
            let listed = matches!(plan.search.mode, Mode::Rates(_) | Mode::Concurrency(_));
            let windows = if listed { plan.step.windows(level.per_s()).0 } else { 1 };
            let settle = plan.step.settle.0 * windows;
            PreviewStep {
                windows,
                control: level.control,
                level: level.value,
                requests: rate.map(|r| (r * (settle.as_secs_f64() + window)).round() as u64),
                window_s: window,
                longest_s: longest_step(plan, *level).as_secs_f64(),
            }
        })
        .collect();
    if let Mode::Adaptive(adaptive) = &plan.search.mode {
        let longest_s = adaptive.budget.0.as_secs_f64();
        return Preview { requests: None, longest_s, open_ended, steps };
    }
    Preview {
        requests: steps.iter().map(|s| s.requests).sum::<Option<u64>>(),
        longest_s: steps.iter().map(|s| s.longest_s).sum(),
        open_ended,
        steps,
    }
}

fn words(plan: &Plan, p: &Preview) -> String {
    let server = format!(
        "  server    {}\n{}{}",
        plan.measured_server().to_string(),
        spoken(&plan.server),
        hardware(plan)
    );
    format!("{} is sound.\n{server}{}", plan.name, sent_words(plan, p))
}

/// The timeout of a request, what it rests on, and how a request counts that it ends.
fn timeout(plan: &Plan) -> String {
    let after = Span(plan.timeout());
    let why = match plan.timeout_basis() {
        Basis::Given => {
            return format!("{after} a request (step.timeout); one that takes longer is an error");
        }
        Basis::Limits => "twice the longest answer that meets the SLO".into(),
        Basis::Tokens { tokens, known } => format!(
            "twice {tokens} output tokens at {} each, {}",
            Span(PER_TOKEN),
            if known { "which no limit bounds" } else { "since the plan does not say how long answers are" }
        ),
        Basis::Step => "the longest that a step may last".into(),
        Basis::Least => "the least default".into(),
    };
    format!("{after} a request: {why}; one that takes longer is cut off, and is no error")
}

/// What a plan of one series sends, at which levels, and for how long.
fn sent_words(plan: &Plan, p: &Preview) -> String {
    let span = |s: f64| Span(Duration::from_secs(s.round() as u64)).to_string();
    let mut out = format!(
        "  workload  {}\n{}  SLO       {}\n  timeout   {}\n",
        if plan.rows.is_empty() { plan.workload.to_string() } else { "its rows'".into() },
        kinds(plan),
        plan.slo.summary(),
        timeout(plan)
    );
    if !plan.rows.is_empty() {
        return out + &rows(plan, p);
    }
    if let Mode::Adaptive(a) = &plan.search.mode {
        return out + &adaptive(plan, a) + &after_search::words(plan) + &peak(plan);
    }
    let ramp = matches!(plan.search.mode, Mode::Ramp(_));
    let more = match (p.open_ended, ramp) {
        (true, _) => " and on, until the search stops the ramp",
        (false, true) => ", or until the search stops the ramp",
        (false, false) => "",
    };
    let list: Vec<String> = p.steps.iter().map(|s| short(s.level)).collect();
    let control = p.steps.first().map_or("", |s| s.control.unit());
    let up_to = if ramp && !p.open_ended { "up to " } else { "" };
    out += &format!("  steps     {up_to}{}: {}{control}{more}\n", p.steps.len(), list.join(", "));
    out += &format!("            each {} settle + {} measured\n", plan.step.settle, windows(plan, p));
    match p.requests {
        Some(n) => {
            out += &format!(
                "  requests  about {n} in these steps, {} for warm-up\n",
                plan.server.warmup_requests
            )
        }
        None => out += "  requests  as many as the server completes (closed loop)\n",
    }
    let settle = plan.step.settle.0.as_secs_f64();
    let least: f64 = p.steps.iter().map(|s| settle * f64::from(s.windows) + s.window_s).sum();
    let in_windows = p.steps.iter().map(|s| s.windows).max().filter(|n| *n > 1);
    if let Some(n) = in_windows {
        out += &format!(
            "            a level in up to {n} windows (step.window), each drained before the next, judged together\n"
        );
    }
    out += &format!(
        "  time      about {} where requests are short, {} at the longest",
        span(least),
        span(p.longest_s)
    );
    let levels: Vec<Level> = p.steps.iter().map(|s| Level { control: s.control, value: s.level }).collect();
    out += &after_search::words(plan);
    out += &peak(plan);
    if let Some(note) = too_short(plan, &levels) {
        out += &format!("\n{note}");
    }
    out
}

/// The rows of a matrix, and how long they take.
fn rows(plan: &Plan, p: &Preview) -> String {
    let mut out = String::new();
    for (i, row) in plan.series().iter().enumerate() {
        let (levels, w) = (levels(&row.plan).0, &row.plan.workload);
        let closed = levels.first().is_some_and(|l| l.control == Control::Concurrency);
        let (level, sends) =
            (levels.first().map(Level::to_string), if closed { w.closed() } else { w.to_string() });
        let head = if i == 0 { "rows" } else { "" };
        out += &format!("  {head:9} {}: {}, {sends}\n", row.name, level.unwrap_or_default());
    }
    let referred = plan.rows.iter().filter(|r| !r.unloaded()).count();
    out += &format!(
        "            each {} settle + {} measured; {referred} of them have one request at a time before them, for as long\n",
        plan.step.settle,
        windows(plan, p)
    );
    out + &format!("  time      {} at the longest", Span(Duration::from_secs(p.longest_s.round() as u64)))
}

/// The classes of a mix and what is known of conversations, a line each; empty for single requests of one kind.
fn kinds(plan: &Plan) -> String {
    let (w, mut lines) = (&plan.workload, Vec::new());
    for (class, kind) in w.classes().iter().zip(w.kinds()) {
        let whose = class.slo.as_ref().map_or("the plan's limits".to_owned(), crate::slo::Slo::summary);
        let share = short(100.0 * kind.share);
        lines.push(format!("class {}: {share} % of the arrivals, {}; {whose}", class.name, kind.prompts()));
    }
    if w.control() == Control::Sessions {
        let settle = plan.step.settle.0;
        let think = Duration::from_secs_f64(w.think_s().round());
        let thinks = match (w.thinks_as_recorded(), think.is_zero()) {
            (true, true) => "think as long as was recorded".to_owned(),
            (true, false) => format!("think for {} in all, and some as long as was recorded", Span(think)),
            (false, _) => format!("think for {} in all", Span(think)),
        };
        lines.push(format!("{} requests a session on average; its users {thinks}", short(w.per_level())));
        if settle < think {
            lines.push(format!(
                "note: the last turns of a session come some {} after its first: step.settle = {} is too short to reach the \
                 steady mix of turns{}",
                Span(think),
                Span(settle),
                if matches!(plan.search.mode, Mode::Adaptive(_)) { " (the adaptive search settles longer by itself)" } else { "" }
            ));
        }
    }
    lines.into_iter().map(|line| format!("            {line}\n")).collect()
}

/// What the adaptive search would do, and from which level on its answers speak.
fn adaptive(plan: &Plan, a: &Adaptive) -> String {
    let control = plan.workload.control();
    let unit = control.unit();
    let (levels, most) = match a.over {
        Over::Rate => (
            open_levels(control),
            plan.search.max_rate.map(|r| format!(", never above {r}{unit}, one at a time included")),
        ),
        Over::Concurrency => {
            ("numbers of workers", Some(format!(", never above {} (max-in-flight)", plan.step.max_in_flight)))
        }
    };
    let width = short(100.0 * a.width.get());
    let soak =
        plan.search.confirm.map(|t| format!(", then a soak of {t} at the safe rate")).unwrap_or_default();
    let mut out = format!(
        "  steps     chosen by the search: one request at a time, then {levels} that triple until one is too much{},\n\
         \x20           then at the likely boundary, until its 90 % interval is within {width} % of it{soak}\n\
         \x20 requests  as many as the server takes, {} for warm-up\n  time      {} at the longest",
        most.unwrap_or_default(),
        plan.server.warmup_requests,
        a.budget
    );
    if let Some(length) = plan.search.confirm {
        out += &format!(", and {length} for the soak");
    }
    let lowest = plan.searcher().ok().and_then(|s| s.terms()).map(|t| t.lowest);
    if let (Over::Rate, Some(lowest)) = (a.over, lowest) {
        out += &format!(
            "\n  note      in this time nothing can be said of {} below {}{unit}; a server slower than about {}{unit} gets a \
             wide interval",
            open_levels(control),
            short(lowest),
            short(10.0 * lowest)
        );
    }
    out
}

/// What the levels of an open loop are.
fn open_levels(control: Control) -> &'static str {
    if control == Control::TraceScale { "speeds" } else { "rates" }
}

/// The measured window of the steps: one where they are alike, else the shortest and the longest.
fn windows(plan: &Plan, p: &Preview) -> String {
    let span = |s: f64| Span(Duration::from_secs(s.round() as u64)).to_string();
    let least = p.steps.iter().map(|s| s.window_s).min_by(f64::total_cmp);
    let most = p.steps.iter().map(|s| s.window_s).max_by(f64::total_cmp);
    match (least, most) {
        (Some(a), Some(b)) if b - a > 0.5 => format!("{} to {}", span(a), span(b)),
        _ => Span(plan.step.measure.0.max(Duration::from_secs_f64(least.unwrap_or(0.0)))).to_string(),
    }
}
