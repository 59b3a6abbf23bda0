//! `init`: writes a commented plan to start from.

use crate::cli::InitArgs;
use crate::cmd::{print_line, warn_if_unprinted};
use anyhow::{Context, Result, bail};

/// Text of the plan.
const TEMPLATE: &str = include_str!("init.toml");

/// Writes the plan. Fails if the file exists, unless `--force` is given.
pub(crate) fn init(args: &InitArgs) -> Result<()> {
    if args.plan.exists() && !args.force {
        bail!("{} already exists: choose another name, or overwrite it with --force", args.plan.display());
    }
    std::fs::write(&args.plan, TEMPLATE)
        .with_context(|| format!("failed to write {}", args.plan.display()))?;
    warn_if_unprinted(print_line(&format!(
        "wrote {0}; set server.url and the SLO in it, then run\n  goodput check {0}\n  goodput sweep {0}",
        args.plan.display()
    )));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    #[test]
    fn the_template_parses() {
        Plan::parse(TEMPLATE).unwrap();
    }
}
