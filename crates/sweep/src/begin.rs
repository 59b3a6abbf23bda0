//! Before the first step of a plan with variants: the first server that can be made ready.

use super::ending::Ending;
use super::machine::warn_of_descriptors;
use super::prepare::Prepared;
use super::variant::Servers;
use anyhow::Result;
use goodput_core::caveat::Caveat;
use goodput_load::client::way;
use goodput_load::load::host::Host;
use goodput_plan::{Plan, Series};
use goodput_run::rundir::{Meta, Run, Writer, json};
use goodput_stats::search::Next;
use goodput_stats::stats::step::Step;
use goodput_workload::traffic::Traffic;

/// What is written of a sweep before its first server is ready.
pub(super) struct Folder<'a> {
    pub(super) plan: &'a Plan,
    pub(super) plan_toml: &'a str,
    pub(super) writer: &'a Writer,
    pub(super) meta: &'a Meta,
    pub(super) steps: &'a [Step],
}

impl Folder<'_> {
    fn write(&self, servers: &Servers, ending: Option<&Ending>) -> Result<()> {
        let mut meta = Meta { variants: servers.runs.clone(), ..self.meta.clone() };
        meta.noted.extend(ending.and_then(Ending::caveat).map(Caveat::from));
        let noted = meta.noted.clone();
        let (toml, steps) = (self.plan_toml.to_owned(), self.steps.to_vec());
        let run = Run::assemble(self.plan, toml, meta, steps, Vec::new(), noted)?;
        self.writer.result(&json::result(&run))
    }
}

/// Makes the first server ready that can be, of the series that have something left to measure; `None` where there is none.
pub(super) async fn first_ready(
    series: &[Series],
    servers: &mut Servers,
    folder: &Folder<'_>,
    (traffic, host, ending): (&Traffic, &Host, &Ending),
) -> Result<Option<Prepared>> {
    let interrupt = &ending.token();
    folder.write(servers, None)?;
    for one in in_order(series, folder.steps) {
        if interrupt.is_cancelled() {
            break;
        }
        let search = one.plan.searcher().map_err(anyhow::Error::msg)?;
        if servers.is_over(one) || search.next(&one.name, folder.steps) == Next::Done {
            continue;
        }
        let ready = servers.begin(one, (traffic, series), host, interrupt).await?;
        folder.write(servers, Some(ending))?;
        if ready.is_some() {
            return Ok(ready);
        }
    }
    folder.write(servers, Some(ending))?;
    Ok(None)
}

/// Before anything is sent: what this machine and the way to the server may lack, warnings of both, nothing of a server that is simulated in
/// process and in time.
///
/// # Errors
/// A file of TLS cannot be used, or a proxy is of a kind that cannot be.
pub(super) fn look_around(plan: &Plan, series: &[Series], virtual_time: bool) -> Result<()> {
    if virtual_time {
        return Ok(());
    }
    warn_of_descriptors(plan);
    series.iter().try_for_each(|one| way::check(&one.plan.server))?;
    for warning in way::warnings_of(series) {
        tracing::warn!("warning: {warning}");
    }
    Ok(())
}

/// The series in the order in which they are measured: those that were begun first, so that the steps of each stand together.
pub(super) fn in_order<'a>(series: &'a [Series], steps: &[Step]) -> Vec<&'a Series> {
    let mut all: Vec<&Series> = series.iter().collect();
    all.sort_by_key(|one| one.variant.is_some() && !steps.iter().any(|s| s.series == one.name));
    all
}
