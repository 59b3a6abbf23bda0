//! A trace without anything but times and lengths.

use super::requests::Hashing;
use super::{Begin, Format, Trace, TraceRow};
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the window of a trace as JSONL that [`Trace::open`] reads without further words: `timestamp` in seconds from the first
/// request, `input_length`, `output_length` where it is known, and with `hashing` the blocks of prompts as `hash_ids`, renamed
/// under its salt. Nothing else of the trace is written: no text, no date, no model, and of conversations which request
/// follows which. Gzip where the name ends in `.gz`. Returns how many requests were written.
///
/// # Errors
///
/// The trace has no blocks, or of another size than asked for; it cannot be read; the file cannot be written.
pub fn anonymise(trace: &Trace, hashing: Option<&Hashing>, out: &Path) -> Result<u64> {
    let own = trace.block_tokens();
    if let Some(hashing) = hashing {
        let name = trace.source().file.display();
        match own {
            None => {
                bail!("{name} has no prefix blocks, and no text to make them from: leave --prefix-blocks out")
            }
            Some(own) if own != hashing.block_tokens() => {
                bail!("{name} has prefix blocks of {own} tokens: write --prefix-blocks {own}")
            }
            Some(_) => {}
        }
    }
    let named = || format!("failed to write {}", out.display());
    if same_file(&trace.source().file, out) {
        bail!("{} is the trace itself: write into another file", out.display());
    }
    // Beside its place first, so that no half of it is taken for the whole.
    let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = tempfile::NamedTempFile::new_in(folder).with_context(named)?;
    let file = BufWriter::new(part.as_file());
    let rows = if out.extension().is_some_and(|e| e == "gz") {
        let mut encoder = GzEncoder::new(file, Compression::default());
        let rows = write(trace, hashing, &mut encoder).with_context(named)?;
        encoder.finish().and_then(|mut f| f.flush()).with_context(named)?;
        rows
    } else {
        let mut file = file;
        let rows = write(trace, hashing, &mut file).with_context(named)?;
        file.flush().with_context(named)?;
        rows
    };
    readable(part.as_file());
    part.persist(out).with_context(named)?;
    Ok(rows)
}

/// A temporary file is for its owner alone; this one is to be read as other files are.
fn readable(file: &File) {
    use std::os::unix::fs::PermissionsExt;
    // Where that is not allowed, the file is still there for its owner.
    let _ = file.set_permissions(std::fs::Permissions::from_mode(0o644));
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn write(trace: &Trace, hashing: Option<&Hashing>, out: &mut impl Write) -> Result<u64> {
    let mut replay = trace.replay(Begin::First);
    let arrivals = trace.summary().arrivals();
    // Those of a log are under the salt already.
    let salted = hashing.map(|h| (h, trace.format() == Format::Requests));
    for number in 0..arrivals {
        let Some(replayed) = replay.next() else { break };
        // A conversation has the number of its first request for a name, where others follow that one.
        let session = (!replayed.further.is_empty()).then_some(number);
        write_row(out, &replayed.row, "timestamp", session, salted)?;
        for row in &replayed.further {
            write_row(out, row, "delay", session, salted)?;
        }
    }
    match replay.error() {
        Some(e) => bail!("{e:#}"),
        None => Ok(trace.summary().rows),
    }
}

/// A row whose time is called `time`.
fn write_row(
    out: &mut impl Write,
    row: &TraceRow,
    time: &str,
    session: Option<u64>,
    salted: Option<(&Hashing, bool)>,
) -> Result<()> {
    let at = row.at;
    write!(
        out,
        "{{\"{time}\":{}.{:09},\"unit\":\"s\",\"input_length\":{}",
        at.as_secs(),
        at.subsec_nanos(),
        row.input_tokens
    )?;
    if let Some(n) = row.output_tokens {
        write!(out, ",\"output_length\":{n}")?;
    }
    if let Some(session) = session {
        write!(out, ",\"session_id\":{session}")?;
    }
    if let Some((hashing, already)) = salted {
        let ids = row.blocks.iter().map(|id| if already { *id } else { hashing.renamed(*id) });
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        write!(out, ",\"block_tokens\":{},\"hash_ids\":[{}]", hashing.block_tokens(), ids.join(","))?;
    }
    Ok(out.write_all(b"}\n")?)
}
