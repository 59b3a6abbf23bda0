//! The vocabulary shared by pages, terminals and charts: numbers and their units, names of limits, levels and answers,
//! and sentences made from facts. Files of this folder import from one another by name, never from here.

mod answer;
mod bottleneck;
mod caveat;
pub(crate) mod class_limit;
mod client;
mod comparison;
mod cost;
mod estimate;
mod evidence;
mod figures;
pub(crate) mod finding;
mod headlines;
pub(crate) mod latency_part;
mod levels;
mod limits;
pub(crate) mod messages;
mod names;
mod offline;
mod preempted;
mod reason;
mod refused;
mod remedy;
mod series_names;
mod support;
pub(crate) mod units;

pub(crate) use answer::{AnswerSentences, evidence_of, headline, sentences};
pub(crate) use bottleneck::bottleneck;
pub(crate) use caveat::{CaveatWords, Context, caveat};
pub(crate) use client::{client_in_short, client_lines};
pub(crate) use comparison::{comparison, gate_reason, remark, unsigned_percent};
pub use comparison::{figure_title, signed_percent};
pub(crate) use cost::{cost_limit, cost_verdict, step_cost};
pub(crate) use estimate::{assumptions, ends};
pub(crate) use evidence::{measured, why};
pub(crate) use figures::{
    Amount, PER_GPU, REQUESTS, basis, capacity, caveats, good_requests, goodput_cell, in_short, joint_target,
    knee, price, safe_basis,
};
pub use finding::advice;
pub(crate) use headlines::{
    NAME, brief_answer, brief_variant, headline_of_levels, headline_of_matrix, peak_of, with_origin,
};
pub(crate) use levels::{level, noun, step_level};
pub(crate) use limits::{binding, binding_in_short, limit, limit_that_binds, slo};
pub(crate) use names::{
    date, lower, mixed, moment, plural, requests, several_tiers, slo_name, steps_of, subject, tier_of, whose,
    workers, workload,
};
pub(crate) use offline::not_capacity;
pub(crate) use preempted::preempted;
pub(crate) use reason::ended;
pub use reason::reason;
pub(crate) use remedy::remedy;
pub(crate) use series_names::{IN_A_PLOT, IN_A_TABLE, short_names};
pub(crate) use support::{chance_clause, flat_clause, scatter_clause};
pub(crate) use units::{
    capital, count, figure, latency, level_number, list, percent, precise, span, tenths, thousands, value_of,
};

#[cfg(test)]
mod tests;
