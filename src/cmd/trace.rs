//! `trace`: describes a recorded trace as text and charts, or anonymises it.

use crate::cli::TraceArgs;
use crate::cmd::print_result;
use crate::report::charts;
use crate::report::sections::trace as report;
use crate::rundir;
use crate::workload::trace::{Columns, Hashing, Trace, TraceSource, anonymise};
use anyhow::{Context, Result, anyhow};
use std::fs::{self, File};
use std::io::Read;

/// Reads the trace, writes the requested files and prints the description.
pub(crate) fn trace(args: &TraceArgs) -> Result<()> {
    let source = source(args)?;
    let hashing = hashing(args)?;
    let read = if args.anonymise.is_some() { Trace::open_for_rewrite } else { Trace::describe };
    let trace = read(&source, hashing.clone())?;
    if let Some(out) = &args.anonymise {
        let rows = anonymise(&trace, hashing.as_ref(), out)?;
        let what = if hashing.is_some() {
            "times, lengths and salted ids of prefix blocks"
        } else {
            "times and lengths"
        };
        tracing::info!("wrote {}: {rows} requests with {what} only", out.display());
    }
    if let Some(dir) = &args.out {
        let (png, svg) = charts::of_trace(&trace)?;
        fs::create_dir_all(dir).with_context(|| format!("failed to create the folder {}", dir.display()))?;
        for (name, bytes) in [("trace.png", png.as_slice()), ("trace.svg", svg.as_bytes())] {
            rundir::replace(&dir.join(name), bytes)?;
        }
        tracing::info!("charts: {0}/trace.png, {0}/trace.svg", dir.display());
    }
    print_result(args.json, &report::json(&trace), || report::brief(&trace))
}

fn source(args: &TraceArgs) -> Result<TraceSource> {
    let mut columns = Columns::default();
    for given in &args.columns {
        let (key, name) = given.split_once('=').ok_or_else(|| anyhow!("--column {given}: write KEY=NAME"))?;
        columns.set(key, name).map_err(|e| anyhow!("--column {given}: {e}"))?;
    }
    let block_tokens = args.block_tokens.map(|n| n.get().try_into()).transpose();
    let source = TraceSource {
        format: args.format,
        window: args.window,
        columns,
        unit: args.unit,
        block_tokens: block_tokens.map_err(|e: String| anyhow!("--block-tokens: {e}"))?,
        skip_bad_rows: args.skip_bad_rows,
        ..TraceSource::of(&args.file)
    };
    source.check().map_err(anyhow::Error::msg)?;
    Ok(source)
}

/// Returns the hashing of prefix blocks; `None` without `--prefix-blocks`.
fn hashing(args: &TraceArgs) -> Result<Option<Hashing>> {
    let Some(tokens) = args.prefix_blocks else { return Ok(None) };
    let salt = match &args.salt {
        Some(salt) => salt.clone().into_bytes(),
        None => {
            let mut random = vec![0; 32];
            let read = File::open("/dev/urandom").and_then(|mut f| f.read_exact(&mut random));
            read.context("failed to draw a random salt; choose one with --salt")?;
            random
        }
    };
    Ok(Some(Hashing::new(tokens.get(), &salt)))
}
