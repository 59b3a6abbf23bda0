//! The `goodput` binary: parses the command line, runs the command and returns its exit code.

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    goodput::redact::install_panic_hook();
    let cli = match goodput::cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(usage) => {
            // A closed standard output has no reader for the help.
            let _ = usage.print();
            // clap exits with 2 on a usage error; here 2 is an answer, so it is 1, as for every other error.
            return if usage.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    match goodput::run(&cli) {
        Ok(code) => code,
        Err(error) => {
            // The message may quote a server or a file, so its control characters are escaped.
            let message = goodput::report::escape::shown(&format!("error: {error:#}\n"));
            // With standard error closed too, there is nowhere left to report to.
            let _ = goodput::redact::Stderr.write_all(message.as_bytes());
            ExitCode::from(1)
        }
    }
}
