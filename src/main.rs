//! Parse, run, exit code.

use clap::Parser;
use std::io::Write;
use std::process::ExitCode;

fn main() -> ExitCode {
    goodput::redact::install_panic_hook();
    let cli = match goodput::cli::Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // Where standard output is closed nobody reads the help.
            let _ = told.print();
            // A mistake on the command line is an error like others: 2 is an answer.
            return if told.use_stderr() { ExitCode::from(1) } else { ExitCode::SUCCESS };
        }
    };
    match goodput::run(&cli) {
        Ok(code) => code,
        Err(error) => {
            // Nothing is left to tell where standard error is closed as well.
            // What a server or a file said is part of it.
            let said = goodput::report::escape::shown(&format!("error: {error:#}\n"));
            let _ = goodput::redact::Stderr.write_all(said.as_bytes());
            ExitCode::from(1)
        }
    }
}
