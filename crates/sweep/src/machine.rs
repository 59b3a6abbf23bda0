//! The limits of this machine on open files and ports.

use goodput_load::load::descriptors::{Descriptors, short_of_ports};
use goodput_plan::Plan;
use goodput_plan::server::Http;

/// Raises the limit of open files, and warns if the plan may need more open files or ports than there are.
pub(super) fn warn_of_descriptors(plan: &Plan) {
    let (limits, wanted) = (Descriptors::raise(), u64::from(plan.step.max_in_flight) + 64);
    if let Some(most) = limits.soft.filter(|n| *n < wanted && plan.server.http != Http::Two) {
        tracing::warn!(
            "warning: this process may open {most} files, fewer than [step] max-in-flight = {} can take connections: raise \
             the hard limit (`ulimit -Hn`, LimitNOFILE= of a service), or lower max-in-flight",
            plan.step.max_in_flight
        );
    }
    // Connections to a Unix socket use no port.
    let over_tcp = plan.server.target.urls().iter().filter(|url| url.socket().is_none()).count();
    if let Some(short) = short_of_ports(plan.step.max_in_flight, over_tcp)
        .filter(|_| over_tcp > 0 && plan.server.http != Http::Two)
    {
        tracing::warn!("warning: {short}");
    }
}
