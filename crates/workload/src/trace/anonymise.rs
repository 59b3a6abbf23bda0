//! Writing a trace with nothing but times, lengths and salted block ids.

use super::requests::Hashing;
use super::{Begin, Format, Trace, TraceRow};
use anyhow::{Context, Result, bail};
use flate2::Compression;
use flate2::write::GzEncoder;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Writes the window of a trace as JSONL that [`Trace::open`] reads without settings: `timestamp` in seconds from the
/// first request, `input_length`, `output_length` if known, and with `hashing` the prompts' blocks as salted
/// `hash_ids`. Of conversations only the order of follow-ups is written; no text, date or model. Compresses with gzip
/// if the name ends in `.gz`. Returns the number of requests written.
///
/// # Errors
///
/// The trace has no blocks, or of another size than asked for; it cannot be read; or the file cannot be written.
pub fn anonymise(trace: &Trace, hashing: Option<&Hashing>, out: &Path) -> Result<u64> {
    let block_tokens = trace.block_tokens();
    if let Some(hashing) = hashing {
        let name = trace.source().file.display();
        match block_tokens {
            None => {
                bail!("{name} has no prefix blocks, and no text to make them from: remove --prefix-blocks")
            }
            Some(n) if n != hashing.block_tokens() => {
                bail!("{name} has prefix blocks of {n} tokens: set --prefix-blocks {n}")
            }
            Some(_) => {}
        }
    }
    let failed = || format!("failed to write {}", out.display());
    if same_file(&trace.source().file, out) {
        bail!("{} is the trace itself: write to another file", out.display());
    }
    // Renamed into place once complete, so that an incomplete file is never read.
    let folder = out.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let part = tempfile::NamedTempFile::new_in(folder).with_context(failed)?;
    let file = BufWriter::new(part.as_file());
    let rows = if out.extension().is_some_and(|e| e == "gz") {
        let mut encoder = GzEncoder::new(file, Compression::default());
        let rows = write(trace, hashing, &mut encoder).with_context(failed)?;
        encoder.finish().and_then(|mut f| f.flush()).with_context(failed)?;
        rows
    } else {
        let mut file = file;
        let rows = write(trace, hashing, &mut file).with_context(failed)?;
        file.flush().with_context(failed)?;
        rows
    };
    make_readable(part.as_file());
    part.persist(out).with_context(failed)?;
    Ok(rows)
}

/// Gives a temporary file, which only its owner can read, the usual permissions.
fn make_readable(file: &File) {
    use std::os::unix::fs::PermissionsExt;
    // If that fails, the file is still readable by its owner.
    let _ = file.set_permissions(std::fs::Permissions::from_mode(0o644));
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
}

fn write(trace: &Trace, hashing: Option<&Hashing>, out: &mut impl Write) -> Result<u64> {
    let mut replay = trace.replay(Begin::First);
    let arrivals = trace.summary().arrivals();
    // Block ids of a log are salted already.
    let salted = hashing.map(|h| (h, trace.format() == Format::Requests));
    for number in 0..arrivals {
        let Some(replayed) = replay.next() else { break };
        // A conversation with follow-ups is named by the number of its first request.
        let session = (!replayed.follow_ups.is_empty()).then_some(number);
        write_row(out, &replayed.row, "timestamp", session, salted)?;
        for row in &replayed.follow_ups {
            write_row(out, row, "delay", session, salted)?;
        }
    }
    match replay.error() {
        Some(e) => bail!("{e:#}"),
        None => Ok(trace.summary().rows),
    }
}

/// Writes a row with its time in the field `time`.
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
        let ids = row.blocks.iter().map(|id| if already { *id } else { hashing.salted(*id) });
        let ids: Vec<String> = ids.map(|id| id.to_string()).collect();
        write!(out, ",\"block_tokens\":{},\"hash_ids\":[{}]", hashing.block_tokens(), ids.join(","))?;
    }
    Ok(out.write_all(b"}\n")?)
}
