//! Parse, run, exit code.

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    let cli = goodput::cli::Cli::parse();
    match goodput::run(&cli) {
        Ok(code) => code,
        Err(error) => {
            // Nothing is left to tell where standard error is closed as well.
            let _ = writeln!(std::io::stderr(), "error: {error:#}");
            ExitCode::from(1)
        }
    }
}
