//! The vocabulary shared by pages, terminals and charts: numbers and their units, names of limits, levels and answers,
//! and sentences made from facts. Files of this folder import from one another by name, never from here.

mod answer;
mod bottleneck;
mod caveat;
mod client;
mod comparison;
mod cost;
mod estimate;
mod evidence;
mod figures;
pub mod finding;
mod headlines;
mod levels;
mod limits;
mod names;
mod offline;
mod preempted;
mod reason;
mod refused;
mod support;
pub mod units;

pub(crate) use answer::remedy;
pub use answer::{Said, evidence_of, headline, sentences};
pub use bottleneck::bottleneck;
pub use caveat::{CaveatWords, Context, caveat};
pub use client::{client_in_short, client_lines};
pub use comparison::{comparison, figure_title, gate_reason, remark, signed_percent, unsigned_percent};
pub use cost::{cost_limit, cost_verdict, step_cost};
pub(crate) use estimate::ends;
pub use estimate::{assumptions, numbers, soak};
pub use evidence::{deciding, measured, why};
pub use figures::{
    Amount, PER_GPU, REQUESTS, basis, capacity, caveats, good_requests, goodput_cell, in_short, joint_target,
    knee, price, safe_basis,
};
pub(crate) use headlines::{NAME, brief_variant, headline_of_levels, headline_of_matrix, peak_of};
pub use levels::{level, many, noun, step_level};
pub use limits::{binding, binding_in_short, limit, slo};
pub use names::{
    date, lower, mixed, moment, plural, requests, several_tiers, slo_name, steps_of, subject, tier_of, whose,
    workload,
};
pub use offline::not_capacity;
pub(crate) use preempted::preempted;
pub(crate) use reason::ended;
pub use reason::reason;
pub use support::{chance_clause, flat_clause, scatter_clause};
pub use units::{
    capital, count, figure, latency, level_number, list, percent, precise, span, tenths, thousands,
};

#[cfg(test)]
mod tests;
