//! `init`: a commented plan to start from.

use crate::cli::InitArgs;
use crate::cmd::say;
use anyhow::{Context, Result, bail};

/// The plan that `init` writes.
const TEMPLATE: &str = include_str!("init.toml");

/// Writes the plan; a file that is there is kept unless `--force`.
pub(crate) fn init(args: &InitArgs) -> Result<()> {
    if args.plan.exists() && !args.force {
        bail!("{} is there already: choose another name, or replace it with --force", args.plan.display());
    }
    std::fs::write(&args.plan, TEMPLATE)
        .with_context(|| format!("failed to write {}", args.plan.display()))?;
    say(&format!(
        "wrote {0}: set server.url and the SLO, then\n  goodput check {0}\n  goodput sweep {0}",
        args.plan.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn the_template_is_a_plan() {
        Plan::parse(TEMPLATE).unwrap();
    }
}
