//! `check`: validates a plan and shows what it would run.

mod after_search;
mod bounds;
mod files;
mod hardware;
mod network;
mod preview;
mod protocol;
mod servers;
mod workers;

use crate::cli::CheckArgs;
use crate::client::route;
use crate::cmd::{calibrate, pretty, print_line};
use crate::level::{Control, Level};
use crate::plan::{PER_TOKEN, Plan, Series, Source, TimeoutBasis, schema};
use crate::search::config::{Adaptive, Mode, Over};
use crate::stats::verdict::INFLATION;
use crate::units::{Span, short};
use crate::workload::file_contents::FileContents;
use anyhow::{Context, Result};
use goodput_cluster::needed::Needed;
use hardware::hardware;
use preview::{Preview, levels, preview, requests_per_s};
use servers::{server_lines, start_count};
use std::time::Duration;

/// Validates the plan, reads its files and prints what it would run. Sends no requests.
pub(crate) fn check(args: &CheckArgs) -> Result<()> {
    let Some(plan) = &args.plan else {
        return print_line(&pretty(&schema())?);
    };
    let mut plan = Plan::load(&Source::find(plan)?, &args.set)?;
    let traffic = plan.open_files()?;
    let contents = traffic.file_contents();
    plan.series().iter().try_for_each(|one| route::check(&one.plan.server))?;
    let calibration = args.calibration.as_deref().map(calibrate::read).transpose()?;
    let needed = workers::needed(&plan, traffic.mean_output() * plan.mean_choices(), calibration.as_ref());
    let description = description(&plan, &contents, args.json)?;
    let description = with_workers(&description, needed.as_ref(), calibration.is_some(), args.json)?;
    match args.repeat {
        Some(repeats) => print_line(&with_repeats(&plan, repeats, &description, args.json)?),
        None => print_line(&description),
    }
}

/// Adds the number of machines that a plan needs to its description.
fn with_workers(
    description: &str,
    needed: Option<&Needed>,
    is_calibrated: bool,
    json: bool,
) -> Result<String> {
    if !json {
        return Ok(description.to_owned() + &workers::text(needed, is_calibrated));
    }
    let mut value: serde_json::Value = serde_json::from_str(description).context("failed to write JSON")?;
    if let Some(needed) = needed {
        value["workers"] = serde_json::to_value(needed).context("failed to write JSON")?;
    }
    pretty(&value)
}

/// Adds the time that `repeats` runs take to the description of a plan.
fn with_repeats(plan: &Plan, repeats: u32, description: &str, json: bool) -> Result<String> {
    let all_s = f64::from(repeats) * longest_total_s(plan);
    if json {
        let mut value: serde_json::Value =
            serde_json::from_str(description).context("failed to write JSON")?;
        value["repeats"] = serde_json::json!({ "runs": repeats, "longest_s": all_s });
        return pretty(&value);
    }
    let all = Span(Duration::from_secs(all_s.round() as u64));
    Ok(format!(
        "{description}\n  repeated  {repeats} runs, one after the other, each with the budget above: at most {all} in total"
    ))
}

/// Returns the longest duration of all series of a plan, in seconds.
pub(super) fn longest_total_s(plan: &Plan) -> f64 {
    plan.series().iter().map(|one| longest_s(&one.plan)).sum()
}

/// Describes a plan and the contents of its data files (`contents`), as text or as JSON.
///
/// # Errors
/// The description cannot be written as JSON.
pub fn description(plan: &Plan, contents: &[FileContents], json: bool) -> Result<String> {
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
            value["longest_s"] = longest_total_s(plan).into();
        }
        return pretty(&value);
    }
    let text = match &series[..] {
        // The rows of a matrix are listed together.
        _ if !plan.rows.is_empty() => one_series(plan, &preview(plan)),
        [only] if only.variant.is_none() => one_series(plan, &preview(plan)),
        several => several_series(plan, several),
    };
    Ok(text + &bounds::text(plan) + &files::text(contents))
}

/// Returns the longest duration of a plan with one series, including the steps after the search, in seconds.
fn longest_s(plan: &Plan) -> f64 {
    let soak = plan.search.confirm.map_or(0.0, |t| t.0.as_secs_f64());
    preview(plan).longest_s + soak + peak_s(plan) + after_search::longest_s(plan)
}

/// Returns the longest duration of the peak step after the search, in seconds.
fn peak_s(plan: &Plan) -> f64 {
    let Some(peak) = plan.search.peak else { return 0.0 };
    let (settle, measure) =
        (peak.settle.unwrap_or(plan.step.settle), peak.measure.unwrap_or(plan.step.measure));
    (settle.0 + measure.0 + plan.step.tail() + plan.step.drain.0).as_secs_f64()
}

/// Describes the peak step; empty if the plan has none.
fn peak(plan: &Plan) -> String {
    plan.search.peak.map_or_else(String::new, |peak| {
        let settle = peak.settle.unwrap_or(plan.step.settle);
        let measure = peak.measure.unwrap_or(plan.step.measure);
        format!(
            "\n  peak      after the search, {} requests in flight: {settle} settling + {measure} measured",
            peak.concurrency
        )
    })
}

/// Describes a plan with several series: what each would run, and the time of all.
fn several_series(plan: &Plan, series: &[Series]) -> String {
    let names: Vec<&str> = series.iter().map(|s| s.name.as_str()).collect();
    let mut out = format!(
        "valid plan: {}\n  server    {}\n{}{}  series    {}: {}\n",
        plan.name,
        plan.measured_server(),
        protocol::lines(&plan.server),
        hardware(plan),
        series.len(),
        names.join("; ")
    );
    let loads: Vec<String> = series.iter().map(|s| load(&s.plan, &preview(&s.plan))).collect();
    let variants = series.iter().any(|s| s.variant.is_some());
    // Most variants differ only in their servers, so a load that all share is shown once.
    let alike = variants && loads.iter().all(|l| *l == loads[0]);
    for (one, load) in series.iter().zip(&loads) {
        out += &format!("{}\n{}", one.name, server_lines(one));
        if (&one.plan.server.tls, &one.plan.server.proxy) != (&plan.server.tls, &plan.server.proxy) {
            out += &network::lines(&one.plan.server);
        }
        if !alike {
            out += &format!("{load}\n");
        }
    }
    if alike {
        out += &format!("each series\n{}\n", loads[0]);
    }
    let all: f64 = series.iter().map(|s| longest_s(&s.plan)).sum();
    let all = Span(Duration::from_secs(all.round() as u64));
    let starts = start_count(series);
    let order = if plan.alternate.is_some() { "in turns" } else { "one after the other" };
    out + &format!("total\n  time      {} series, {order}: at most {all}{starts}", series.len())
}

/// Returns the fewest requests with which a step can show that the strictest percentile of the SLO is met: without a single miss, the
/// binomial bound at 95 % is ln 0.05 / ln p, times the assumed inflation.
fn least_to_meet(plan: &Plan) -> Option<f64> {
    let parts = plan.slo.as_slice().first()?.limit_groups();
    let share = parts
        .iter()
        .flat_map(|part| part.slo.limits())
        .map(|l| l.percentile.share())
        .max_by(f64::total_cmp)?;
    Some(INFLATION * 0.05_f64.ln() / share.ln())
}

/// Describes the levels whose window is too short for the verdict *meets*; `None` if there are none.
fn too_short(plan: &Plan, levels: &[Level]) -> Option<String> {
    let least = least_to_meet(plan)?;
    let expected =
        |l: &Level| requests_per_s(plan, *l).map(|r| r * plan.step.window(l.per_s()).as_secs_f64());
    let short_of: Vec<String> =
        levels.iter().filter(|l| expected(l).is_some_and(|n| n < least)).map(|l| short(l.value)).collect();
    (!short_of.is_empty()).then(|| {
        format!(
            "  note      to show that this SLO is met, a step needs about {} requests without a miss, until the sweep has \
             measured how misses cluster: {}{} can only be shown to fail; step.min-requests = {:.0} extends \
             steps, up to step.max-duration",
            hundreds(least),
            short_of.join(", "),
            levels.first().map_or("", |l| l.control.unit()),
            (least / 100.0).ceil() * 100.0
        )
    })
}

/// Rounds a count up to the next hundred and separates the last three digits, as in `4,800`.
fn hundreds(n: f64) -> String {
    let n = (n / 100.0).ceil() as u64 * 100;
    if n < 1_000 { n.to_string() } else { format!("{},{:03}", n / 1_000, n % 1_000) }
}

/// Describes a plan with one series, or a matrix.
fn one_series(plan: &Plan, p: &Preview) -> String {
    let protocol = protocol::lines(&plan.server);
    let server = format!("  server    {}\n{protocol}{}", plan.measured_server(), hardware(plan));
    format!("valid plan: {}\n{server}{}", plan.name, load(plan, p))
}

/// Describes the timeout of a request, its basis, and whether a timed-out request counts as an error.
fn timeout(plan: &Plan) -> String {
    let after = Span(plan.timeout());
    let why = match plan.timeout_basis() {
        TimeoutBasis::Given => {
            return format!("{after} per request (step.timeout); a request that takes longer is an error");
        }
        TimeoutBasis::Limits => "twice the longest answer that meets the SLO".into(),
        TimeoutBasis::Tokens { tokens, known } => format!(
            "twice {tokens} output tokens at {} each, {}",
            Span(PER_TOKEN),
            if known {
                "since no limit bounds them"
            } else {
                "since the plan does not set the answer length"
            }
        ),
        TimeoutBasis::Step => "the longest that a step may take".into(),
        TimeoutBasis::Least => "the shortest default".into(),
    };
    format!("{after} per request: {why}; a request that takes longer is cancelled and is not an error")
}

/// Describes the load of a plan with one series: requests, levels and times.
fn load(plan: &Plan, p: &Preview) -> String {
    let span = |s: f64| Span(Duration::from_secs(s.round() as u64)).to_string();
    let mut out = format!(
        "  workload  {}\n{}  SLO       {}\n  timeout   {}\n",
        if plan.rows.is_empty() { plan.workload.to_string() } else { "one per row".into() },
        classes_and_conversations(plan),
        plan.slo.summary(),
        timeout(plan)
    );
    if !plan.rows.is_empty() {
        return out + &matrix_rows(plan, p);
    }
    if let Mode::Adaptive(a) = &plan.search.mode {
        return out + &adaptive(plan, a) + &after_search::text(plan) + &peak(plan);
    }
    let ramp = matches!(plan.search.mode, Mode::Ramp(_));
    let more = match (p.open_ended, ramp) {
        (true, _) => ", …, until the search stops the ramp",
        (false, true) => ", unless the search stops the ramp earlier",
        (false, false) => "",
    };
    let list: Vec<String> = p.steps.iter().map(|s| short(s.level)).collect();
    let control = p.steps.first().map_or("", |s| s.control.unit());
    let up_to = if ramp && !p.open_ended { "up to " } else { "" };
    out += &format!("  steps     {up_to}{}: {}{control}{more}\n", p.steps.len(), list.join(", "));
    out += &format!("            each {} settling + {} measured\n", plan.step.settle, windows(plan, p));
    match p.requests {
        Some(n) => {
            out += &format!(
                "  requests  about {n} in these steps, plus {} for warm-up\n",
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
            "            up to {n} windows per level (step.window), each drained before the next and judged together\n"
        );
    }
    out += &format!("  time      about {} if requests are short, at most {}", span(least), span(p.longest_s));
    let levels: Vec<Level> = p.steps.iter().map(|s| Level { control: s.control, value: s.level }).collect();
    out += &after_search::text(plan);
    out += &peak(plan);
    if let Some(note) = too_short(plan, &levels) {
        out += &format!("\n{note}");
    }
    out
}

/// Describes the rows of a matrix and their total time.
fn matrix_rows(plan: &Plan, p: &Preview) -> String {
    let mut out = String::new();
    for (i, row) in plan.series().iter().enumerate() {
        let (levels, w) = (levels(&row.plan).0, &row.plan.workload);
        let closed = levels.first().is_some_and(|l| l.control == Control::Concurrency);
        let (level, sends) =
            (levels.first().map(Level::to_string), if closed { w.closed() } else { w.to_string() });
        let head = if i == 0 { "rows" } else { "" };
        out += &format!("  {head:9} {}: {}, {sends}\n", row.name, level.unwrap_or_default());
    }
    let with_reference = plan.rows.iter().filter(|r| !r.unloaded()).count();
    out += &format!(
        "            each {} settling + {} measured; {with_reference} of them follow a reference step of the same length with one request at a \
         time\n",
        plan.step.settle,
        windows(plan, p)
    );
    out + &format!("  time      at most {}", Span(Duration::from_secs(p.longest_s.round() as u64)))
}

/// Describes the classes of a mix and the conversations, one per line; empty for single requests of one kind.
fn classes_and_conversations(plan: &Plan) -> String {
    let (w, mut lines) = (&plan.workload, Vec::new());
    for (class, kind) in w.classes().iter().zip(w.kinds()) {
        let limits = class.slo.as_ref().map_or("the limits of [slo]".to_owned(), crate::slo::Slo::summary);
        let share = short(100.0 * kind.share);
        lines.push(format!("class {}: {share} % of the arrivals, {}; {limits}", class.name, kind.prompts()));
    }
    if w.control() == Control::Sessions {
        let settle = plan.step.settle.0;
        let think = Duration::from_secs_f64(w.think_s().round());
        let think_time = match (w.thinks_as_recorded(), think.is_zero()) {
            (true, true) => "as recorded".to_owned(),
            (true, false) => format!("{} in total, partly as recorded", Span(think)),
            (false, _) => format!("{} in total", Span(think)),
        };
        lines.push(format!(
            "{} requests per session on average; think time {think_time}",
            short(w.per_level())
        ));
        if settle < think {
            lines.push(format!(
                "note: the last turn of a session is due about {} after its first, so step.settle = {} is too short to reach the \
                 steady mix of turns{}",
                Span(think),
                Span(settle),
                if matches!(plan.search.mode, Mode::Adaptive(_)) { " (the adaptive search settles longer)" } else { "" }
            ));
        }
    }
    lines.into_iter().map(|line| format!("            {line}\n")).collect()
}

/// Describes the adaptive search, and the lowest level that it can judge.
fn adaptive(plan: &Plan, a: &Adaptive) -> String {
    let control = plan.workload.control();
    let unit = control.unit();
    let (levels, limit) = match a.over {
        Over::Rate => {
            (open_levels(control), plan.search.max_rate.map(|r| format!(", never above {r}{unit}")))
        }
        Over::Concurrency => {
            ("concurrencies", Some(format!(", never above {} (max-in-flight)", plan.step.max_in_flight)))
        }
    };
    let width = short(100.0 * a.width.get());
    let soak =
        plan.search.confirm.map(|t| format!(", then a soak of {t} at the safe rate")).unwrap_or_default();
    let mut out = format!(
        "  steps     chosen by the search{}: one request at a time, then {levels} that triple until one misses the\n\
         \x20           SLO, then levels near the limit until its 90 % interval is within {width} % of it{soak}\n\
         \x20 requests  as many as the server takes, plus {} for warm-up\n  time      at most {}",
        limit.unwrap_or_default(),
        plan.server.warmup_requests,
        a.budget
    );
    if let Some(length) = plan.search.confirm {
        out += &format!(", plus {length} for the soak");
    }
    let lowest = plan.searcher().ok().and_then(|s| s.terms()).map(|t| t.lowest);
    if let (Over::Rate, Some(lowest)) = (a.over, lowest) {
        out += &format!(
            "\n  note      this time is too short to judge {} below {}{unit}; a server with a limit below about {}{unit}\n\
             \x20           gets a wide interval",
            open_levels(control),
            short(lowest),
            short(10.0 * lowest)
        );
    }
    out
}

/// Names the levels of an open loop: speeds of a trace, or rates.
fn open_levels(control: Control) -> &'static str {
    if control == Control::TraceScale { "speeds" } else { "rates" }
}

/// Returns the measured window of the steps, or the shortest and the longest if they differ.
fn windows(plan: &Plan, p: &Preview) -> String {
    let span = |s: f64| Span(Duration::from_secs(s.round() as u64)).to_string();
    let least = p.steps.iter().map(|s| s.window_s).min_by(f64::total_cmp);
    let most = p.steps.iter().map(|s| s.window_s).max_by(f64::total_cmp);
    match (least, most) {
        (Some(a), Some(b)) if b - a > 0.5 => format!("{} to {}", span(a), span(b)),
        _ => Span(plan.step.measure.0.max(Duration::from_secs_f64(least.unwrap_or(0.0)))).to_string(),
    }
}
