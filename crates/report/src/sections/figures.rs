//! The figures of the first answer for a terminal: the three goodputs, the knee, and the margins of client and server
//! to their limits.

use super::server;
use crate::document::{Block, Section};
use crate::words;
use goodput_run::rundir::Run;
use goodput_stats::search::answer::Answer;

/// Returns the figures as names with values.
pub(super) fn brief(run: &Run, a: &Answer) -> Section {
    let cell = |g| words::goodput_cell(a.control, g);
    let target = words::joint_target(run, a);
    let mut rows: Vec<(&str, String)> = vec![
        ("goodput", format!("{} · each limit on its own", cell(&a.goodput))),
        ("joint goodput", format!("{} · {target} of requests within all limits", cell(&a.joint_goodput))),
        (
            "good requests/s",
            format!("{} · due in the window and within all limits", words::good_requests(run, a)),
        ),
    ];
    rows.extend(words::knee(a).map(|k| ("knee", k)));
    rows.extend(words::client_in_short(run).map(|c| ("client", c)));
    rows.extend(server::in_short(run, a).map(|s| ("server", s)));
    rows.extend(words::cost_limit(run, a).map(|c| ("cost limit", c)));
    Section::titled(words::whose(run, a), vec![Block::facts(rows)])
}
