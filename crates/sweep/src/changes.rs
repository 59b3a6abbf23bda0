//! Checks that a resumed sweep uses the plan and the server that it began with.

use anyhow::{Result, bail};
use goodput_core::caveat::{Caveat, ServerCaveat, SweepCaveat};
use goodput_plan::Plan;
use goodput_run::rundir::{Meta, changed};
use goodput_stats::server::facts::{ChangedSetting, Facts};
use std::path::Path;

/// Compares a plan with the one that a run was made with. Returns a caveat with one line per difference, or `None` if
/// there is none.
/// Folders of earlier versions have no record of their plan and pass.
///
/// # Errors
/// The recorded plan cannot be read; or the plans differ and `force` is not set. The message has one line per
/// difference.
pub(super) fn check_plan(dir: &Path, earlier: &Meta, now: &Plan, force: bool) -> Result<Option<Caveat>> {
    let Some(then) = &earlier.plan else { return Ok(None) };
    let differences = changed::differences(then, now)?;
    if differences.is_empty() {
        return Ok(None);
    }
    if !force {
        let lines: Vec<String> = differences.iter().map(ToString::to_string).collect();
        bail!(
            "the plan of {} has changed since the run began:\n  {}\nrestore plan.toml, start a new sweep, or continue with --force",
            dir.display(),
            lines.join("\n  ")
        );
    }
    Ok(Some(Caveat::Sweep(SweepCaveat::PlanChanged { differences })))
}

/// Returns the settings that servers report differently than before, each server compared with its earlier facts.
pub(super) fn of_facts(then: &[Facts], now: &[Facts]) -> Vec<ChangedSetting> {
    let mut all: Vec<ChangedSetting> = Vec::new();
    for (at, was) in then.iter().enumerate() {
        // Identical servers share one entry.
        let own: Vec<&Facts> = match &was.servers[..] {
            [] => now.get(at).into_iter().collect(),
            named => now.iter().filter(|n| n.servers.iter().any(|url| named.contains(url))).collect(),
        };
        for changed in own.into_iter().flat_map(|is| is.changed(was)) {
            if !all.contains(&changed) {
                all.push(changed);
            }
        }
    }
    all
}

/// Returns the differences of a server that has one address for the whole sweep.
pub(super) fn of_server(earlier: &Meta, now: &Meta) -> Vec<ChangedSetting> {
    let own = [
        // As text: folders of earlier versions have nothing else.
        ("server", earlier.server.to_string(), now.server.to_string()),
        ("model", earlier.model.clone(), now.model.clone()),
        ("workload", earlier.workload.to_string(), now.workload.to_string()),
        ("SLO", earlier.slo.clone(), now.slo.clone()),
        ("seed", earlier.seed.to_string(), now.seed.to_string()),
    ];
    let changed = own.into_iter().filter(|(_, was, is)| was != is);
    let changed =
        changed.map(|(what, was, is)| ChangedSetting { what: what.into(), was, is, memory_dependent: false });
    changed.chain(of_facts(&earlier.facts, &now.facts)).collect()
}

/// Records the changes as caveats.
///
/// # Errors
/// A setting has changed that does not vary with free memory, and `force` is not set. The message has one line per
/// change.
pub(super) fn check(changed: Vec<ChangedSetting>, force: bool, noted: &mut Vec<Caveat>) -> Result<()> {
    if !force && changed.iter().any(|c| !c.memory_dependent) {
        let lines: Vec<String> =
            changed.iter().map(|c| format!("{} was {} and is {}", c.what, c.was, c.is)).collect();
        bail!(
            "the server has changed since the run began:\n  {}\nrestore it, start a new sweep, or continue with --force",
            lines.join("\n  ")
        );
    }
    noted.extend(
        changed
            .into_iter()
            .map(|c| Caveat::Server(ServerCaveat::ServerChanged { what: c.what, was: c.was, is: c.is })),
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(url: &str, version: &str, blocks: &str) -> Facts {
        Facts {
            servers: vec![url.into()],
            version: Some(version.into()),
            max_model_len: Some(4096),
            flags: [("num_gpu_blocks".to_owned(), blocks.to_owned())].into(),
            ..Facts::default()
        }
    }

    #[test]
    fn each_server_is_compared_with_itself() {
        let then = [facts("a", "1", "100"), facts("b", "2", "100")];
        let now = [facts("b", "2", "100"), facts("a", "1", "90")];
        let changed = of_facts(&then, &now);
        assert!(changed.len() == 1 && changed[0].memory_dependent, "{changed:?}");
        let mut noted = Vec::new();
        check(changed, false, &mut noted).unwrap();
        assert_eq!(
            noted,
            [Caveat::Server(ServerCaveat::ServerChanged {
                what: "num_gpu_blocks".into(),
                was: "100".into(),
                is: "90".into()
            })],
            "what was left of its memory is another each time"
        );
    }

    #[test]
    fn another_server_is_refused_with_every_difference() {
        let mut longer = facts("a", "2", "100");
        longer.max_model_len = Some(8192);
        let changed = of_facts(&[facts("a", "1", "100")], &[longer]);
        let e = check(changed.clone(), false, &mut Vec::new()).unwrap_err().to_string();
        assert!(
            e.contains("\n  version was 1 and is 2\n  max_model_len was 4096 and is 8192\n")
                && e.contains("--force"),
            "{e}"
        );
        let mut noted = Vec::new();
        check(changed, true, &mut noted).unwrap();
        assert_eq!(noted.len(), 2);
    }
}
