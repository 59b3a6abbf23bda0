//! Advice that can be tried: settings with the values to set.

use super::advice::Advice;
use super::settings::{Origin, Settings, Value};

/// Beginning of the keys of a simulated server.
const SIMULATED: &str = "server.simulated.";

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

    /// Returns true if all changes are keys of a simulated server.
    pub fn is_simulated(&self) -> bool {
        self.changes.iter().all(|(flag, _)| flag.starts_with(SIMULATED))
    }

    /// Returns the command that starts a server with these changes; `None` for one whose flags cannot be changed, such as a
    /// script.
    pub fn command(&self, command: &[String]) -> Option<Vec<String>> {
        let flags = Settings::default().read_command(command, Origin::CommandLine)?;
        let change = |command: Vec<String>, (flag, value): &(&'static str, Value)| {
            flags.with_flag(&command, flag, value)
        };
        self.changes.iter().try_fold(command.to_vec(), change)
    }
}

/// Returns a setting with its value: `max-num-seqs=64`. It is part of a file name.
fn name(flag: &str, value: &Value) -> String {
    // Some flags are advised as `leave out --enforce-eager`.
    let word = flag.split(' ').find(|word| word.starts_with('-')).or(flag.split(' ').next()).unwrap_or(flag);
    let last = word.rsplit('.').next().unwrap_or(word);
    let value = match value {
        Value::Count(n) => n.to_string(),
        Value::Share(share) => share.to_string(),
        Value::Switch(true) => "on".into(),
        Value::Switch(false) => "off".into(),
        Value::Word(word) => word.to_string(),
    };
    // The flag that is left out turns the setting off.
    let value = if flag.starts_with("leave out ") { "left-out".into() } else { value };
    format!("{}={value}", last.trim_start_matches('-'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remedy_is_named_by_its_flag() {
        for (flag, value, wanted) in [
            ("server.simulated.max-num-seqs", Value::Count(64), "max-num-seqs=64"),
            ("--gpu-memory-utilization", Value::Share(0.95), "gpu-memory-utilization=0.95"),
            ("leave out --disable-radix-cache", Value::Switch(true), "disable-radix-cache=left-out"),
            ("--kv-cache-dtype", Value::Word("fp8".into()), "kv-cache-dtype=fp8"),
        ] {
            assert_eq!(name(flag, &value), wanted);
        }
    }
}
