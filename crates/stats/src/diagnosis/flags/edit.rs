//! Command lines of engines with a flag changed.

use super::super::settings::Value;
use super::Flags;
use super::spelling::{Form, Spelling};

impl Flags {
    /// Returns a command line with a flag set to a value, in place of the value that it had. `flag` is named as in advice.
    /// `None` if no argument of the command sets it: a key of a configuration file, a shell's own command line, a choice of
    /// files.
    pub fn with_flag(self, command: &[String], flag: &str, value: &Value) -> Option<Vec<String>> {
        let is_script = |pair: &[String]| pair[0].ends_with("sh") && pair[1].starts_with('-');
        if command.windows(2).any(is_script) {
            return None;
        }
        let spelling = self.spellings().iter().find(|s| s.advised == flag)?;
        let name = spelling.advised.split(' ').next()?;
        let mut words = without(command, spelling);
        match (spelling.form, value) {
            (Form::Count | Form::Share | Form::Word(_), Value::Count(_) | Value::Share(_)) => {
                words.extend([name.to_owned(), value.toml()?]);
            }
            // Some settings take several flags: `--cache-type-k q8_0 --cache-type-v q8_0`.
            (Form::Word(_), Value::Word(_)) if spelling.advised.contains(' ') => {
                words.extend(spelling.advised.split(' ').map(str::to_owned));
            }
            (Form::Word(_), Value::Word(word)) => words.extend([name.to_owned(), word.to_string()]),
            (Form::On, Value::Switch(true)) => words.push(name.to_owned()),
            (Form::On, Value::Switch(false)) if spelling.on_by_default => {
                words.push(format!("--no-{}", name.trim_start_matches('-')));
            }
            (Form::On, Value::Switch(false)) | (Form::Off, Value::Switch(true)) => {}
            // Advised as `no --disable-x`: the flag itself turns it off.
            (Form::Off, Value::Switch(false)) => {
                words.extend(spelling.names.first().map(|name| (*name).to_owned()))
            }
            // Other engines take further flags of drafting, which are wrong without this one.
            (Form::OnWith, Value::Switch(false)) if self == Self::Vllm => {}
            (Form::Count | Form::Share, Value::Word(_) | Value::Switch(_))
            | (Form::Word(_), Value::Switch(_))
            | (Form::On | Form::Off, Value::Count(_) | Value::Share(_) | Value::Word(_))
            | (Form::OnWith | Form::Sizes | Form::Elsewhere, _) => return None,
        }
        Some(words)
    }
}

/// Returns the command without the flag, its value and its negation.
fn without(command: &[String], spelling: &Spelling) -> Vec<String> {
    let takes_value = match spelling.form {
        Form::Count | Form::Share | Form::Word(_) | Form::OnWith | Form::Sizes => true,
        Form::On | Form::Off | Form::Elsewhere => false,
    };
    let is_it = |word: &str| {
        let word = word.replace('_', "-");
        spelling
            .names
            .iter()
            .map(|name| name.replace('_', "-"))
            .any(|name| word == name || word.strip_prefix("--no-") == Some(name.trim_start_matches('-')))
    };
    let mut words = Vec::new();
    let mut rest = command.iter();
    while let Some(word) = rest.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        match (is_it(name), word.contains('=')) {
            (false, _) => words.push(word.clone()),
            (true, false) if takes_value => drop(rest.next()),
            (true, _) => {}
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_replaces_its_former_value() {
        let vllm = "vllm serve m --max-num-seqs 8 --no-enable-prefix-caching --port 80";
        for (flags, command, flag, value, wanted) in [
            (
                Flags::Vllm,
                vllm,
                "--max-num-seqs",
                Value::Count(64),
                Some("vllm serve m --no-enable-prefix-caching --port 80 --max-num-seqs 64"),
            ),
            (
                Flags::Vllm,
                "vllm serve m --max-num-seqs=8",
                "--max-num-seqs",
                Value::Count(64),
                Some("vllm serve m --max-num-seqs 64"),
            ),
            (
                Flags::Vllm,
                vllm,
                "--enable-prefix-caching",
                Value::Switch(true),
                Some("vllm serve m --max-num-seqs 8 --port 80 --enable-prefix-caching"),
            ),
            (
                Flags::Vllm,
                "vllm serve m",
                "--gpu-memory-utilization",
                Value::Share(0.95),
                Some("vllm serve m --gpu-memory-utilization 0.95"),
            ),
            (
                Flags::Vllm,
                "vllm serve m --speculative-config {} --port 80",
                "--speculative-config",
                Value::Switch(false),
                Some("vllm serve m --port 80"),
            ),
            (Flags::Sglang, "sglang serve", "--speculative-algorithm", Value::Switch(false), None),
            (Flags::Vllm, "sh -c vllm", "--max-num-seqs", Value::Count(64), None),
            (Flags::Vllm, vllm, "--max-num-seqs", Value::Switch(true), None),
            (Flags::Vllm, vllm, "--parallel", Value::Count(64), None),
            (
                Flags::LlamaCpp,
                "llama-server -np 4 -c 8192",
                "--parallel",
                Value::Count(8),
                Some("llama-server -c 8192 --parallel 8"),
            ),
        ] {
            let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
            let got = flags.with_flag(&words, flag, &value).map(|words| words.join(" "));
            assert_eq!(got.as_deref(), wanted, "{command} {flag} {value:?}");
        }
    }
}
