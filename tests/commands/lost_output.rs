//! Commands whose standard output and standard error cannot be written: a full disk, a closed descriptor, a pipe whose reader has gone.

use crate::common::{goodput, result};
use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};
use tempfile::tempdir;

/// A place that loses what is written to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sink {
    /// Every write fails with ENOSPC.
    Full,
    /// The descriptor is closed.
    Closed,
    /// Every write fails with EPIPE.
    BrokenPipe,
}

impl Sink {
    const ALL: [Self; 3] = [Self::Full, Self::Closed, Self::BrokenPipe];

    fn stdio(self) -> Stdio {
        match self {
            Self::Full => OpenOptions::new().write(true).open("/dev/full").unwrap().into(),
            // The shell of `exit_code` closes it.
            Self::Closed => Stdio::null(),
            Self::BrokenPipe => {
                let (reader, writer) = std::io::pipe().unwrap();
                drop(reader);
                writer.into()
            }
        }
    }
}

/// Runs the command with one of its output streams or both lost. Returns the exit code: 101 after a panic.
fn exit_code(arguments: &[&str], out: Option<Sink>, err: Option<Sink>) -> i32 {
    let close = |sink: Option<Sink>, closed| if sink == Some(Sink::Closed) { closed } else { "" };
    let script = format!("exec \"$@\" {} {}", close(out, ">&-"), close(err, "2>&-"));
    let program = goodput();
    let mut command = Command::new("sh");
    command
        .args(["-c", &script, "sh"])
        .arg(program.get_program())
        .args(arguments)
        .env_remove("OPENAI_API_KEY");
    command.stdin(Stdio::null());
    command.stdout(out.map_or_else(Stdio::null, Sink::stdio));
    command.stderr(err.map_or_else(Stdio::null, Sink::stdio));
    command.status().unwrap().code().unwrap()
}

/// Every rate fails, so that the verdict has an exit code of its own, 2, and a panic or an error is told from it.
const SWEEP: [&str; 6] =
    ["sweep", "demo-virtual", "--virtual-time", "--set", "search.rates=[15, 16]", "--set=step.measure=60s"];

#[test]
fn a_sweep_finishes_without_standard_output_and_standard_error() {
    for sink in Sink::ALL {
        let dir = tempdir().unwrap();
        let run = dir.path().join("run");
        let out = ["--out", run.to_str().unwrap()];
        assert_eq!(exit_code(&[&SWEEP[..], &out].concat(), Some(sink), Some(sink)), 2, "{sink:?}");
        assert_eq!(result(&run)["goodput"]["status"], "none", "{sink:?}");
        assert!(run.join("report.html").is_file() && run.join("report.md").is_file(), "{sink:?}");
        let resumed = ["sweep", "--json", "--resume", run.to_str().unwrap()];
        assert_eq!(exit_code(&resumed, Some(sink), Some(sink)), 2, "{sink:?}");
    }
}

/// Row: the arguments, the exit code, and that on a full disk. The results of the first commands are in files, or in the exit code; those of
/// the others are on standard output alone, so that a full disk is an error there, and never a panic.
#[test]
fn other_commands_carry_on_too() {
    let dir = tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    let (run, plan, latencies) = (path("run"), path("plan.toml"), path("latencies"));
    assert_eq!(exit_code(&[&SWEEP[..], &["--out", &run]].concat(), None, None), 2);
    let latency = ["latency", "--simulated", "a40-qwen3-0.6b", "--virtual-time", "--concurrency", "1"];
    let latency = [&latency[..], &["--out", &latencies]].concat();
    for (arguments, code, on_full) in [
        (&["report", &run][..], 0, 0),
        (&["init", &plan, "--force"], 0, 0),
        (&["compare", &run, &run, "--json", "--gate", "ttft.p50 <= 5%"], 0, 0),
        (&["compare", &run, &run, "--gate", "ttft.p50 <= -90%"], 2, 2),
        (&[&latency[..], &["--force"]].concat(), 0, 0),
        (&["check", "demo"], 0, 1),
        (&["man"], 0, 1),
        (&["fit", "--model", "llama-3.1-8b", "--gpu", "A10"], 0, 1),
        (&["check", "no-such-plan"], 1, 1),
    ] {
        for sink in Sink::ALL {
            let want = if sink == Sink::Full { on_full } else { code };
            assert_eq!(exit_code(arguments, Some(sink), Some(sink)), want, "{arguments:?}, {sink:?}");
            assert_eq!(
                exit_code(arguments, None, Some(sink)),
                code,
                "{arguments:?}, only standard error, {sink:?}"
            );
        }
    }
    assert!(Path::new(&plan).is_file());
}
