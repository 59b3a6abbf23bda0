//! The servers of variants: addresses, start commands, and the number of starts.

use crate::plan::{Series, Variant};

/// Describes the server of a variant and how it is started; empty if the plan has no variants.
pub(super) fn server_lines(series: &Series) -> String {
    let Some(variant) = &series.variant else { return String::new() };
    let mut out = format!("  server    {}\n", series.plan.measured_server());
    if let Some(start) = variant.start() {
        let folder =
            start.working_directory.as_ref().map(|p| format!(", in {}", p.display())).unwrap_or_default();
        let env: Vec<&str> = start.env.keys().map(String::as_str).collect();
        let env = if env.is_empty() { String::new() } else { format!(", with {}", env.join(", ")) };
        out += &format!("            started by: {}{folder}{env}\n", start.shown().join(" "));
        let cool_down = if start.cool_down.0.is_zero() {
            String::new()
        } else {
            format!(", then a pause of {}", start.cool_down)
        };
        out += &format!(
            "            up to {} to become ready, up to {} to stop{cool_down}\n",
            start.timeout, start.stop_timeout
        );
    }
    if !variant.set.is_empty() {
        out += &format!(
            "  set       {}\n",
            variant.set.iter().map(|(k, v)| format!("{k} = {v}")).collect::<Vec<_>>().join(", ")
        );
    }
    out
}

/// Returns the number of server starts as a suffix to the time of the steps; empty if none is started.
pub(super) fn start_count(series: &[Series]) -> String {
    let mut commands: Vec<&Variant> =
        series.iter().filter_map(|s| s.variant.as_ref()).filter(|v| v.start().is_some()).collect();
    commands.dedup_by_key(|v| &v.name);
    match commands.len() {
        0 => String::new(),
        1 => ", plus the start of one server".into(),
        n => format!(", plus the starts of {n} servers, one after the other"),
    }
}
