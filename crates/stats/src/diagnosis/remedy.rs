//! Advice that can be tried: settings with the values to set.

use super::advice::Advice;
use super::settings::Value;

/// Settings to change together, as one remedy.
#[derive(Debug, Clone, PartialEq)]
pub struct Remedy {
    /// Name of the remedy, which is also that of the variant that tries it: `max-num-seqs=64`.
    pub name: String,
    /// The flags or keys, each with its value.
    pub changes: Vec<(&'static str, Value)>,
}

impl Remedy {
    /// Returns the remedy of an advice; `None` for one that names no value, or a flag of an engine that is a guess.
    pub fn of(advice: &Advice) -> Option<Self> {
        let flag = advice.flag.filter(|flag| !flag.is_guess)?;
        let to = advice.to.as_ref()?;
        let with = to.with.iter().map(|(flag, value)| (flag.name, value.clone()));
        let changes: Vec<(&'static str, Value)> =
            std::iter::once((flag.name, to.value.clone())).chain(with).collect();
        let name = changes.iter().map(|(flag, value)| name(flag, value)).collect::<Vec<_>>().join(" ");
        Some(Self { name, changes })
    }
}

/// Returns a setting with its value: `max-num-seqs=64`. It is part of a file name.
fn name(flag: &str, value: &Value) -> String {
    let last = flag.split(' ').next().unwrap_or(flag).rsplit('.').next().unwrap_or(flag);
    let value = match value {
        Value::Count(n) => n.to_string(),
        Value::Share(share) => share.to_string(),
        Value::Switch(true) => "on".into(),
        Value::Switch(false) => "off".into(),
        Value::Word(word) => word.to_string(),
    };
    format!("{}={value}", last.trim_start_matches('-'))
}
