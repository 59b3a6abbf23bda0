//! The server that a variant or a grid starts: its settings, and the keys of the plan that give them.

use goodput_core::endpoint::BaseUrl;
use goodput_core::secrets::{
    MASK, is_secret_value, masked_command, masked_env, query_holds_secret, register_command,
    secrets_in_command,
};
use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// Defines a table of the plan that may start a server: the keys of the start command, between the table's own keys. `#[serde(flatten)]`
/// would lose the position of a mistake in the plan.
///
/// The table is read only if its `check(&self) -> Result<(), String>` passes. It is written, and formatted by `Debug`, with secrets masked.
macro_rules! server_table {
    ($(#[$meta:meta])* pub struct $name:ident { $($before:tt)* } $title:literal { $($after:tt)* }) => {
        $(#[$meta])*
        #[derive(Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
        #[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
        #[schemars(rename = $title)]
        pub struct $name {
            $($before)*
            /// URL or path that answers with success once the server is ready; `/health`, or else `/v1/models`, by default.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(super) ready_url: Option<$crate::ReadyUrl>,
            /// Maximum time until the server is ready; 10 minutes by default.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(super) timeout: Option<Span>,
            /// Time for the server to exit after SIGTERM, before it is killed; 30 s by default.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(super) stop_timeout: Option<Span>,
            /// Working directory of the command, relative to the plan's folder.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(super) working_directory: Option<PathBuf>,
            /// Pause after the server has stopped, before the next one starts.
            #[serde(skip_serializing_if = "Option::is_none")]
            pub(super) cool_down: Option<Span>,
            /// Environment variables of the command, in addition to those of goodput.
            #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
            pub(super) env: BTreeMap<String, String>,
            $($after)*
        }

        impl $name {
            /// Returns the settings to start the server; `None` if the table has no command.
            pub fn start(&self) -> Option<Start> {
                Some(Start {
                    command: self.command.clone()?,
                    env: self.env.clone(),
                    ready_url: self.ready_url.clone(),
                    timeout: self.timeout.unwrap_or(Start::TIMEOUT),
                    stop_timeout: self.stop_timeout.unwrap_or(Start::STOP_TIMEOUT),
                    working_directory: self.working_directory.clone(),
                    cool_down: self.cool_down.unwrap_or(Span::secs(0)),
                })
            }

            /// Checks the keys of the start command. The error does not name the table.
            fn check_start(&self) -> Result<(), String> {
                let given = [
                    ("env", !self.env.is_empty()),
                    ("ready-url", self.ready_url.is_some()),
                    ("timeout", self.timeout.is_some()),
                    ("stop-timeout", self.stop_timeout.is_some()),
                    ("working-directory", self.working_directory.is_some()),
                    ("cool-down", self.cool_down.is_some()),
                ];
                match (self.start(), given.into_iter().find(|(_, given)| *given)) {
                    (Some(start), _) => start.check(),
                    (None, None) => Ok(()),
                    (None, Some((key, _))) => Err(format!(
                        "{key} needs a command: add command = [\"vllm\", \"serve\", …], or leave {key} out"
                    )),
                }
            }
        }

        impl Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                let mut shown = self.clone();
                if let Some(command) = &self.command {
                    shown.command = Some(goodput_core::secrets::masked_command(command, &self.env));
                    shown.env = goodput_core::secrets::masked_env(command, &self.env);
                }
                // The inherent function that `remote = "Self"` derives.
                Self::serialize(&shown, to)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let mut table = Self::deserialize(from)?;
                table.check().map_err(serde::de::Error::custom)?;
                if let Some(start) = table.start() {
                    // The plan in a run folder has the defaults, which may differ in another version of goodput.
                    table.timeout = Some(start.timeout);
                    table.stop_timeout = Some(start.stop_timeout);
                    table.cool_down = Some(start.cool_down);
                }
                Ok(table)
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                write!(f, "{} {:?}", $title, toml::Table::try_from(self))
            }
        }
    };
}

pub(super) use server_table;

/// Settings to start and stop a server.
#[derive(Clone, PartialEq)]
pub struct Start {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub env: BTreeMap<String, String>,
    /// URL that answers with status 200 once the server is ready; `None` for `/health`, or else `/v1/models`.
    pub ready_url: Option<ReadyUrl>,
    /// Maximum time until the server is ready.
    pub timeout: Span,
    /// Maximum time until the server exits after SIGTERM.
    pub stop_timeout: Span,
    /// Working directory; `None` for that of this process.
    pub working_directory: Option<PathBuf>,
    /// Pause after the server has stopped.
    pub cool_down: Span,
}

impl fmt::Debug for Start {
    /// Formats the settings with secrets masked.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Start({:?}, {:?}, ", self.shown(), masked_env(&self.command, &self.env))?;
        write!(f, "{:?}, {:?}, {:?}, ", self.ready_url, self.timeout, self.stop_timeout)?;
        write!(f, "{:?}, {:?})", self.working_directory, self.cool_down)
    }
}

/// URL of the readiness check: a whole URL, or a path on the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ReadyUrl(String);

impl ReadyUrl {
    /// Returns the address, unless it is the server's own, and the path.
    pub fn parts(&self) -> (Option<BaseUrl>, String) {
        if self.0.starts_with('/') {
            return (None, self.0.clone());
        }
        let host = self.0.find("://").map_or(0, |at| at + 3);
        let path = self.0[host..].find('/').map_or(self.0.len(), |at| host + at);
        let (base, path) = self.0.split_at(path);
        (base.parse().ok(), if path.is_empty() { "/".to_owned() } else { path.to_owned() })
    }
}

impl TryFrom<String> for ReadyUrl {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        let url = Self(text.trim().to_owned());
        let whole = || {
            let http = ["http://", "https://"].iter().any(|s| url.0.starts_with(s));
            http && url.parts().0.is_some()
        };
        let page = if url.0.starts_with('/') { format!("http://localhost{}", url.0) } else { url.0.clone() };
        if url::Url::parse(&page).is_ok_and(|parsed| query_holds_secret(&parsed, &page)) {
            return Err("ready-url seems to contain a key or a token, or has user:password@, which would end up in files: leave it out".into());
        }
        if url.0.starts_with('/') || whole() {
            return Ok(url);
        }
        // The message does not quote the URL, which may contain a password.
        Err("ready-url is a path on the server, such as \"/health\", or a whole URL, such as \"http://127.0.0.1:9000/ready\", without user:password@".into())
    }
}

impl From<ReadyUrl> for String {
    fn from(url: ReadyUrl) -> Self {
        url.0
    }
}

impl fmt::Display for ReadyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Start {
    /// Default time until the server is ready; large models take minutes to load.
    pub(super) const TIMEOUT: Span = Span::secs(600);
    /// Default time to exit after SIGTERM, during which servers finish their open requests.
    pub(super) const STOP_TIMEOUT: Span = Span::secs(30);

    /// Checks the values. The error does not name the table.
    pub(super) fn check(&self) -> Result<(), String> {
        if self.command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(
                "command is empty: write the program and its arguments, [\"vllm\", \"serve\", …]".into()
            );
        }
        if let Some(name) = self.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let name = name.split('=').next().unwrap_or_default();
            return Err(format!(
                "env has a name that begins with {name:?}: names of variables must not be empty or contain ="
            ));
        }
        if self.timeout.0.is_zero() {
            return Err("timeout is zero: allow the server some time to become ready".into());
        }
        Ok(())
    }

    /// Replaces every `${NAME}` in the command and its environment by `variable(NAME)`, and collects the secrets.
    ///
    /// # Errors
    /// A variable is not set, or the plan comes from a run folder, where secrets are masked.
    pub fn expand(&self, variable: impl Fn(&str) -> Option<String>) -> Result<ReadyCommand, String> {
        let mut secret_values = Vec::new();
        let mut expanded = |text: &String| expand(text, &variable, &mut secret_values);
        let command = self.command.iter().map(&mut expanded).collect::<Result<Vec<_>, _>>()?;
        // So far, `secret_values` has only those of the arguments, which the process list shows.
        let exposed = !secret_values.is_empty() || !secrets_in_command(&command, &BTreeMap::new()).is_empty();
        let mut env = BTreeMap::new();
        for (name, value) in &self.env {
            env.insert(name.clone(), expand(value, &variable, &mut secret_values)?);
        }
        if command.iter().chain(env.values()).any(|text| text.contains(MASK)) {
            return Err(format!(
                "its command or env has {} in place of a secret, which run folders never contain: write ${{NAME}} into the plan and set \
                 NAME in the environment",
                MASK
            ));
        }
        let mut secrets = secrets_in_command(&command, &env);
        secrets.extend(secret_values);
        secrets.sort_unstable();
        secrets.dedup();
        Ok(ReadyCommand { command, env, secrets, exposed })
    }

    /// Registers the secrets in the command and its variables for redaction. Values of `${NAME}` are registered once they are expanded.
    pub(super) fn redact_secrets(&self) {
        register_command(&self.command, &self.env);
    }

    /// Returns the command with secrets masked.
    pub fn shown(&self) -> Vec<String> {
        masked_command(&self.command, &self.env)
    }
}

/// A command that is ready to start, with secrets in it. `Debug` shows only their number.
#[derive(Clone, PartialEq, Eq)]
pub struct ReadyCommand {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Environment variables in addition to those of this process.
    pub env: BTreeMap<String, String>,
    /// Secrets in `command` and `env`; never to be written.
    pub secrets: Vec<String>,
    /// True if an argument contains a secret, which every user of the machine can then see in the process list.
    pub exposed: bool,
}

impl fmt::Debug for ReadyCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadyCommand({} secrets)", self.secrets.len())
    }
}

/// Replaces every `${NAME}` in a text by `variable(NAME)`. Adds the values that are secrets to `secret_values`.
fn expand(
    text: &str,
    variable: &impl Fn(&str) -> Option<String>,
    secret_values: &mut Vec<String>,
) -> Result<String, String> {
    let (mut out, mut rest, mut values) = (String::new(), text, Vec::new());
    while let Some(at) = rest.find("${") {
        let after = &rest[at + 2..];
        let name = after.split('}').next().filter(|name| name.len() < after.len() && is_variable_name(name));
        let Some(name) = name else {
            out.push_str(&rest[..at + 2]);
            rest = after;
            continue;
        };
        let value = variable(name).ok_or_else(|| {
            format!("its command or env uses ${{{name}}}, which is not set: export {name} before the sweep")
        })?;
        out.push_str(&rest[..at]);
        out.push_str(&value);
        values.push((name, value));
        rest = &after[name.len() + 1..];
    }
    out.push_str(rest);
    // Harmless values, such as a port or a model name, stay readable in logs.
    let secret = values.into_iter().filter(|(name, value)| is_secret_value(name, value, &out));
    secret_values.extend(secret.map(|(_, value)| value));
    Ok(out)
}

/// Returns true if a text is a valid name of an environment variable.
pub(super) fn is_variable_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

#[cfg(test)]
#[path = "start_tests.rs"]
mod tests;
