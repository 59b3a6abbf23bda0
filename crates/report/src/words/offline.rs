//! Why the figures of a closed loop or of a burst are no capacity.

use goodput_plan::Purpose;
use goodput_run::rundir::Run;
use goodput_run::rundir::offline::is_burst;

/// Returns the explanation why the figures of `goodput latency` or `goodput throughput` are no capacity.
pub(crate) fn not_capacity(run: &Run) -> &'static str {
    match run.purpose {
        Purpose::Throughput if is_burst(run) => {
            "This is not capacity: everything came at once, so that nearly all of it waited, and no limit on latency was kept. It tells how \
             fast a backlog is worked off. How many requests per second may come while latency stays within limits is what \
             goodput sweep finds."
        }
        Purpose::Throughput => {
            "This is not capacity: in a closed loop the next request waits until the server is done with one before it, and no limit on \
             latency was kept. Users do not wait for one another: at this rate their queue would grow without bound. How many requests per \
             second may come while latency stays within limits is what goodput sweep finds."
        }
        Purpose::Sensitivity => {
            "These steps are pairs at one rate with the rate or a property of the workload moved: the run folder that holds this one has what \
             they come to."
        }
        Purpose::Latency | Purpose::Goodput => {
            "This is not capacity: in a closed loop the next request waits until the server is done with one before it, so that no more ever \
             queue than are in flight, and no limit was kept at any rate. How many requests per second may come while latency stays \
             within limits is what goodput sweep finds."
        }
    }
}
