//! The servers of variants: how each is come by, and how many are started.

use crate::plan::{Series, Variant};

/// How the server of a variant is come by; empty where the plan has none.
pub(super) fn started(series: &Series) -> String {
    let Some(variant) = &series.variant else { return String::new() };
    let mut out = format!("  server    {}\n", series.plan.measured_server().to_string());
    if let Some(start) = &variant.start {
        let at =
            start.working_directory.as_ref().map(|p| format!(", in {}", p.display())).unwrap_or_default();
        let env: Vec<&str> = start.env.keys().map(String::as_str).collect();
        let env = if env.is_empty() { String::new() } else { format!(", with {}", env.join(", ")) };
        out += &format!("            started by: {}{at}{env}\n", start.shown().join(" "));
        let cool = if start.cool_down.0.is_zero() {
            String::new()
        } else {
            format!(", {} to cool down", start.cool_down)
        };
        out += &format!("            {} to be ready, {} to end{cool}\n", start.timeout, start.stop_timeout);
    }
    if !variant.set.is_empty() {
        out += &format!(
            "  set       {}\n",
            variant.set.iter().map(|(k, v)| format!("{k} = {v}")).collect::<Vec<_>>().join(", ")
        );
    }
    out
}

/// How many servers are started, to be said behind the time that the steps take.
pub(super) fn starts(series: &[Series]) -> String {
    let mut commands: Vec<&Variant> =
        series.iter().filter_map(|s| s.variant.as_ref()).filter(|v| v.start.is_some()).collect();
    commands.dedup_by_key(|v| &v.name);
    match commands.len() {
        0 => String::new(),
        1 => ", and the start of a server".into(),
        n => format!(", and the starts of {n} servers, one after the other"),
    }
}
