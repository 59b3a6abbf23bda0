//! `capacity`: calculates how many GPUs a demand needs and what they cost.

use crate::capacity::demand::Demand;
use crate::capacity::fleet::{Replica, Reserve};
use crate::capacity::sizing::{Candidate, ItemsOfRequest, Sizing, ranked};
use crate::capacity::{Hardware, Volume, profile, trace};
use crate::cli::CapacityArgs;
use crate::cmd::{pretty, print_line, print_result, warn_if_unprinted};
use crate::report::charts;
use crate::report::render::markdown;
use crate::report::sections::capacity::candidate::{HardwareOverrides, of_run};
use crate::report::sections::capacity::refused::Refused;
use crate::report::sections::capacity::{Capacity, brief, json, page, schema};
use crate::rundir;
use crate::units::{Positive, short};
use crate::workload::trace::{Columns, Trace, TraceSource};
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Sizes the fleet, writes the files of `--out` and prints the answer. Returns exit code 3 if no candidate has a rate, 2 if none stays
/// within the cost limit.
pub(crate) fn capacity(args: &CapacityArgs) -> Result<ExitCode> {
    if args.schema {
        return print_line(&pretty(&schema())?).map(|()| ExitCode::SUCCESS);
    }
    let reserve = Reserve { headroom: args.headroom, spares: args.spare_replicas };
    let (candidates, refused) = candidates(args)?;
    let demand = demand(args, daily_volume(args, &candidates)?)?;
    let sized = candidates.into_iter().map(|c| Sizing::of(c, &demand, &reserve)).collect();
    let c = Capacity { demand, reserve, all: ranked(sized), refused, explain: args.explain };
    check(args, &c)?;
    let files = match &args.out {
        Some(dir) => {
            write(&c, dir).with_context(|| format!("failed to write the capacity into {}", dir.display()))?
        }
        None => Vec::new(),
    };
    warn_if_unprinted(print_result(args.json, &json(&c), || brief(&c, &files)));
    Ok(ExitCode::from(match (c.all.is_empty(), c.cost_kept()) {
        (true, _) => 3,
        (false, Some(false)) => 2,
        (false, Some(true) | None) => 0,
    }))
}

/// Rejects options that would have no effect.
fn check(args: &CapacityArgs, c: &Capacity) -> Result<()> {
    let any = |of: fn(&Sizing) -> bool| c.all.is_empty() || c.all.iter().any(of);
    if args.energy_price.is_some() {
        let unknown = c.all.iter().filter(|s| s.candidate.goodput.watts.is_none());
        let unknown: Vec<&str> = unknown.map(|s| s.candidate.name.as_str()).collect();
        if !unknown.is_empty() {
            bail!(
                "--energy-price needs the power of a GPU, which is unknown for {}: add --watts, or hardware.watts to the plan of the run",
                unknown.join(", ")
            );
        }
    }
    if args.max_cost_per_mtok.is_some() && !any(|s| s.cost_limit.is_some()) {
        bail!(
            "--max-cost-per-mtok needs the price of a GPU and the length of answers: add --price-per-hour and --output-tokens, or \
             hardware.price-per-hour to the plan of the run"
        );
    }
    if args.currency.is_some() && !any(|s| s.at_goodput.cost.is_some()) {
        bail!("--currency labels prices, but there is no price: add --price-per-hour");
    }
    Ok(())
}

/// Returns the requests per day, if they were given, by themselves or in items.
fn daily_volume(args: &CapacityArgs, candidates: &[Candidate]) -> Result<Option<Volume>> {
    let Some(items) = args.daily_items else { return Ok(args.daily_volume) };
    let mut sizes = Vec::with_capacity(candidates.len());
    for c in candidates {
        let size = c.items.with_context(|| {
            format!(
                "--daily-items: the requests of {} are no texts, documents or images: give --daily-volume",
                c.name
            )
        })?;
        sizes.push((size, &c.name));
    }
    let Some(((first, name), others)) = sizes.split_first() else {
        bail!("--daily-items needs a run, which tells how many items a request has: give --daily-volume");
    };
    if let Some((other, other_name)) = others.iter().find(|(other, _)| !is_alike(first, other)) {
        bail!(
            "--daily-items: a request of {name} has {} {}, and one of {other_name} {} {}: size them one by one",
            short(first.per_request),
            first.item.plural(),
            short(other.per_request),
            other.item.plural()
        );
    }
    Volume::try_from(items.get() / first.per_request).map(Some).map_err(anyhow::Error::msg)
}

/// Returns true if requests have the same items, and as many of them but for chance.
fn is_alike(a: &ItemsOfRequest, b: &ItemsOfRequest) -> bool {
    a.item == b.item && (a.per_request / b.per_request - 1.0).abs() < 0.05
}

fn demand(args: &CapacityArgs, daily_volume: Option<Volume>) -> Result<Demand> {
    let scaled = |shape: Demand| match daily_volume {
        Some(volume) => shape.scaled_to(volume),
        None => shape,
    };
    if let Some(path) = &args.profile {
        let text = fs::read_to_string(path)
            .with_context(|| format!("failed to read the profile {}", path.display()))?;
        return profile::read(&text, &path.display().to_string()).map(scaled).map_err(anyhow::Error::msg);
    }
    if let Some(path) = &args.trace {
        let trace = Trace::open_for_rewrite(&source(args, path)?, None)?;
        return trace::of(&trace, args.peak_window.map(|w| w.0.as_secs_f64())).map(scaled);
    }
    if let Some(rate) = args.rate {
        return Ok(Demand::of_rate(rate.get(), args.peak_to_mean));
    }
    let volume =
        daily_volume.context("the demand is missing: add --daily-volume, --rate, --profile or --trace")?;
    Ok(Demand::of_volume(volume, args.peak_to_mean))
}

fn source(args: &CapacityArgs, path: &Path) -> Result<TraceSource> {
    let mut columns = Columns::default();
    for given in &args.trace_columns {
        let (key, name) =
            given.split_once('=').ok_or_else(|| anyhow!("--trace-column {given}: write KEY=NAME"))?;
        columns.set(key, name).map_err(|e| anyhow!("--trace-column {given}: {e}"))?;
    }
    let source = TraceSource {
        format: args.trace_format,
        window: args.trace_window,
        columns,
        unit: args.trace_unit,
        skip_bad_rows: args.skip_bad_rows,
        ..TraceSource::of(path)
    };
    source.check().map_err(anyhow::Error::msg)?;
    if args.peak_window.is_some_and(|w| w.0.is_zero()) {
        bail!("--peak-window is zero: write a length, such as 1m");
    }
    Ok(source)
}

/// Returns the candidates that can serve the demand, and the answers that cannot with their reasons.
fn candidates(args: &CapacityArgs) -> Result<(Vec<Candidate>, Vec<Refused>)> {
    let given = HardwareOverrides {
        gpus_per_replica: args.gpus_per_replica,
        price_per_hour: args.price_per_hour,
        currency: args.currency.clone(),
        watts: args.watts,
        energy_price: args.energy_price,
        max_cost_per_mtok: args.max_cost_per_mtok,
        output_tokens: args.output_tokens,
    };
    if args.goodput.is_some() {
        return Ok((vec![given_rate(args, &given)?], Vec::new()));
    }
    let (mut usable, mut refused) = (Vec::new(), Vec::new());
    let runs: Vec<(PathBuf, Option<&str>)> =
        args.runs.iter().map(|run| rundir::folder_and_part(run)).collect();
    for (dir, select) in &runs {
        let run = rundir::read(dir)?;
        let (candidates, others) = of_run(&run, (&name(dir, &runs), dir), *select, &given)?;
        usable.extend(candidates);
        refused.extend(others);
    }
    Ok((usable, refused))
}

/// Returns the last component of a run folder's path if it is unique among the runs, else the whole path.
fn name(dir: &Path, all: &[(PathBuf, Option<&str>)]) -> String {
    let last = |dir: &Path| dir.file_name().map(|n| n.to_string_lossy().into_owned());
    let unique = all.iter().filter(|(other, _)| other != dir).all(|(other, _)| last(other) != last(dir));
    last(dir).filter(|_| unique).unwrap_or_else(|| dir.display().to_string())
}

/// Returns the candidate of `--goodput`: a given rate, with nothing measured.
fn given_rate(args: &CapacityArgs, given: &HardwareOverrides) -> Result<Candidate> {
    let rate = args.goodput.context("--goodput is missing")?.get();
    if let Some(safe) = args.safe_rate.filter(|safe| safe.get() > rate) {
        bail!("--safe-rate {safe} is above --goodput {rate}: lower it; the safe rate is at most the goodput");
    }
    let hardware = given.over(&Hardware::default());
    let goodput = Replica {
        rate,
        gpus: hardware.gpus_per_replica(),
        output_tokens: given.output_tokens.map(Positive::get),
        price_per_hour: hardware.price_per_hour.map(Positive::get),
        watts: hardware.watts.map(Positive::get),
        energy_price: hardware.energy_price.map(Positive::get),
    };
    Ok(Candidate {
        name: "the given rate".into(),
        gpu: None,
        goodput,
        safe: args.safe_rate.map(|safe| Replica { rate: safe.get(), ..goodput }),
        basis: if args.safe_rate.is_some() { "the goodput" } else { "as given" }.into(),
        currency: hardware.currency,
        max_cost_per_mtok: hardware.max_cost_per_mtok.map(Positive::get),
        measured: None,
        notes: vec!["The rate was given with --goodput; its SLO and workload are unknown.".into()],
        moved: Vec::new(),
        items: None,
    })
}

/// Writes Markdown, JSON and charts into `dir`, each file atomically, and returns their paths. Removes an earlier chart if there is none now.
///
/// Charts go to capacity-charts/ because `dir` may be a run folder, whose charts/ has a file of the same name.
fn write(c: &Capacity, dir: &Path) -> Result<Vec<PathBuf>> {
    let charts = dir.join("capacity-charts");
    let slides = charts.join("slides");
    let drawn = (!c.all.is_empty()).then(|| charts::of_capacity(c)).transpose()?;
    rundir::no_link(&charts)?;
    if drawn.is_some() {
        rundir::make_folder(&slides)?;
    } else {
        fs::create_dir_all(dir).with_context(|| format!("failed to create the folder {}", dir.display()))?;
    }
    let pictures = [charts.join("capacity.png"), charts.join("capacity.svg"), slides.join("capacity.png")];
    let text = pretty(&json(c))? + "\n";
    let mut files = vec![
        (dir.join("capacity.md"), markdown::render(&page(c, drawn.is_some())).into_bytes()),
        (dir.join("capacity.json"), text.into_bytes()),
    ];
    match drawn {
        Some(drawn) => {
            files.extend(pictures.into_iter().zip([drawn.png, drawn.svg.into_bytes(), drawn.slide]))
        }
        None => remove(&pictures, &[&slides, &charts])?,
    }
    for (path, bytes) in &files {
        rundir::replace(path, bytes)?;
    }
    Ok(files.into_iter().map(|(path, _)| path).collect())
}

/// Removes files, if they exist, and then the folders that are empty.
fn remove(files: &[PathBuf], folders: &[&Path]) -> Result<()> {
    folders.iter().try_for_each(|folder| rundir::no_link(folder))?;
    for file in files {
        match fs::remove_file(file) {
            Err(e) if e.kind() != ErrorKind::NotFound => {
                return Err(e).with_context(|| format!("failed to remove {}", file.display()));
            }
            _ => {}
        }
    }
    for folder in folders {
        // Fails if the folder holds anything else, which then stays.
        let _ = fs::remove_dir(folder);
    }
    Ok(())
}
