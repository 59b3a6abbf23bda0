//! The columns of `steps.csv` on the cores of this machine.

use super::{Cells, Row};
use anyhow::Result;
use goodput_stats::stats::step::HostLoad;

/// Adds the cells of a step.
pub(super) fn host_cells(c: &mut Cells, host: Option<&HostLoad>) {
    c.opt("host_cores", host.map(|h| h.cores));
    c.opt("host_busy", host.map(|h| h.busy));
    c.opt("host_server", host.and_then(|h| h.server));
    c.opt("host_others", host.and_then(|h| h.others));
    c.opt("host_steal", host.map(|h| h.steal));
    c.opt("host_waiting", host.and_then(|h| h.waiting));
}

/// Reads the cells of a step; folders of earlier versions have none.
pub(super) fn read_host(row: &Row<'_>) -> Result<Option<HostLoad>> {
    let share = |name: &str| row.opt_late::<f64>(name);
    let known = (row.opt_late::<u32>("host_cores")?, share("host_busy")?, share("host_steal")?);
    let (server, others, waiting) = (share("host_server")?, share("host_others")?, share("host_waiting")?);
    let (Some(cores), Some(busy), Some(steal)) = known else { return Ok(None) };
    Ok(Some(HostLoad { cores, busy, server, others, steal, waiting }))
}
