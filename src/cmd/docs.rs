//! `completions` and `man`: documentation generated from the command line.

use crate::cli::{Cli, CompletionsArgs};
use crate::cmd::print_line;
use anyhow::{Context, Result};
use clap::CommandFactory;

/// Prints the completions for a shell.
pub(crate) fn completions(args: &CompletionsArgs) -> Result<()> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "goodput", &mut text);
    print_line(String::from_utf8(text).context("the completions are not UTF-8")?.trim_end())
}

/// Prints the manual page, including every subcommand.
pub(crate) fn man() -> Result<()> {
    let mut command = Cli::command();
    command.build();
    let mut text = Vec::new();
    clap_mangen::Man::new(command.clone()).render(&mut text).context("failed to write the manual page")?;
    for sub in command.get_subcommands().filter(|c| c.get_name() != "help") {
        let page = clap_mangen::Man::new(sub.clone());
        page.render_name_section(&mut text).context("failed to write the manual page")?;
        page.render_synopsis_section(&mut text).context("failed to write the manual page")?;
        page.render_options_section(&mut text).context("failed to write the manual page")?;
        page.render_extra_section(&mut text).context("failed to write the manual page")?;
    }
    print_line(String::from_utf8(text).context("the manual page is not UTF-8")?.trim_end())
}
