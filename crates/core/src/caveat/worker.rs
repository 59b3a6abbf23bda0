//! The reasons why a worker, one of several load machines, spoilt a step.

use crate::named_enum;

named_enum! {
    /// The reason why a worker spoilt a step, from the gravest to the slightest: of several faulty workers, the one with the
    /// gravest is named.
    #[derive(Hash, PartialOrd, Ord)]
    pub enum WorkerFault {
        /// It stopped answering.
        Lost = "lost",
        /// It stood still and answered later.
        Frozen = "frozen",
        /// Another process answered in its name.
        Replaced = "replaced",
        /// Records of its requests are missing, or damaged.
        RecordsMissing = "records-missing",
        /// It reported requests that are not its own by the plan, or some of them twice.
        OtherRequests = "other-requests",
        /// It did not accept the step.
        Refused = "refused",
        /// It ran out of file descriptors or ports, or reached its limit of requests in flight.
        ClientLimit = "client-limit",
        /// It started more than 10 ms after the common start.
        LateStart = "late-start",
        /// Its clock drifted by more than 2 ms against the leader's.
        UnstableClock = "unstable-clock",
        /// It sent its requests so late that the verdict of the step says nothing about the server.
        Late = "late",
    }
}
