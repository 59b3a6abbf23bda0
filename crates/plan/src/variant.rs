//! `[[variant]]`: the same sweep on another server, or on the same one started otherwise.

use super::{MAIN, secret};
use goodput_core::endpoint::BaseUrl;
use goodput_core::secrets::query_holds_secret;
use goodput_core::units::Span;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;

/// One variant of a plan: a series of its name, on a server of its own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "RawVariant", into = "RawVariant")]
pub struct Variant {
    /// Its name: of the series, and of the server's log.
    pub name: String,
    /// What of the plan is otherwise: dotted keys, as for `--set`.
    pub set: toml::Table,
    /// Where its server is, if not where the plan says.
    pub url: Option<BaseUrl>,
    /// How its server is started, if it is.
    pub start: Option<Start>,
    /// Each knob of the grid that it is a point of, and its value; empty where it is none.
    pub knobs: Vec<(String, String)>,
}

/// How the server of a variant is started and stopped.
#[derive(Clone, PartialEq)]
pub struct Start {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables beside those of this process.
    pub env: BTreeMap<String, String>,
    /// Answers with a status of 200 once the server is ready; by default `/health`, or `/v1/models` where there is none.
    pub ready_url: Option<ReadyUrl>,
    /// How long it may take to be ready.
    pub timeout: Span,
    /// How long it may take to end once it is asked to.
    pub stop_timeout: Span,
    /// Where it is started, if not here.
    pub working_directory: Option<PathBuf>,
    /// How long nothing is done after it was stopped.
    pub cool_down: Span,
}

impl fmt::Debug for Start {
    /// As it may be written down.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Start({:?}, {:?}, ", self.shown(), secret::hidden_env(&self.command, &self.env))?;
        write!(f, "{:?}, {:?}, {:?}, ", self.ready_url, self.timeout, self.stop_timeout)?;
        write!(f, "{:?}, {:?})", self.working_directory, self.cool_down)
    }
}

/// A whole URL, or a path on the server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
pub struct ReadyUrl(String);

impl ReadyUrl {
    /// The address that is asked, where it is not the server's, and the path.
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
            return Err("ready-url has something like a key or a token in its query, or user:password@, which would end up in files: leave it out".into());
        }
        if url.0.starts_with('/') || whole() {
            return Ok(url);
        }
        // Not quoted: it may hold a password.
        Err("ready-url is a path on the server, \"/health\", or a whole URL, \"http://127.0.0.1:9000/ready\", without user:password@".into())
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

/// The table as written.
#[derive(Clone, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct RawVariant {
    /// What the variant is called: in reports, and as the name of its log.
    name: String,
    /// Where its server listens, if not where `[server]` says.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<BaseUrl>,
    /// The server's command, a word each: started, waited for, measured and stopped. `${NAME}` is filled in from the environment and written nowhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<Vec<String>>,
    /// The page that answers with success once the server is ready; `/health` and `/v1/models` where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    ready_url: Option<ReadyUrl>,
    /// The longest time that the server may take until it is ready; ten minutes where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout: Option<Span>,
    /// How long the server has to end by itself before it is killed; 30 s where it is left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_timeout: Option<Span>,
    /// Where the command is started, as seen from the plan's folder.
    #[serde(skip_serializing_if = "Option::is_none")]
    working_directory: Option<PathBuf>,
    /// A pause after the server has ended, before the next one is started.
    #[serde(skip_serializing_if = "Option::is_none")]
    cool_down: Option<Span>,
    /// Variables of the command's environment, beside those of this process.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    env: BTreeMap<String, String>,
    /// What of the plan is otherwise for this variant: keys as with `--set`, quoted (`"server.model" = "…"`), or as tables.
    #[serde(default, skip_serializing_if = "toml::Table::is_empty")]
    #[schemars(with = "serde_json::Map<String, serde_json::Value>")]
    set: toml::Table,
}

/// The keys that say how a server is started, as they stand in a table.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RawStart {
    pub(super) command: Option<Vec<String>>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) ready_url: Option<ReadyUrl>,
    pub(super) timeout: Option<Span>,
    pub(super) stop_timeout: Option<Span>,
    pub(super) working_directory: Option<PathBuf>,
    pub(super) cool_down: Option<Span>,
}

impl RawStart {
    /// What the keys come to; the error is without the name of the table.
    pub(super) fn start(self) -> Result<Option<Start>, String> {
        let Some(command) = self.command else {
            let given = [
                ("env", !self.env.is_empty()),
                ("ready-url", self.ready_url.is_some()),
                ("timeout", self.timeout.is_some()),
                ("stop-timeout", self.stop_timeout.is_some()),
                ("working-directory", self.working_directory.is_some()),
                ("cool-down", self.cool_down.is_some()),
            ];
            let odd = given.into_iter().find(|(_, is)| *is);
            return odd.map_or(Ok(None), |(key, _)| {
                Err(format!("{key} is of use only where a server is started: give it a command = [\"vllm\", \"serve\", …], or leave {key} out"))
            });
        };
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            return Err(
                "command is empty: it is the program and its arguments, [\"vllm\", \"serve\", …]".into()
            );
        }
        if let Some(name) = self.env.keys().find(|name| name.is_empty() || name.contains(['=', '\0'])) {
            let name = name.split('=').next().unwrap_or_default();
            return Err(format!("env has a name that begins with {name:?}: a variable has a name without ="));
        }
        let timeout = self.timeout.unwrap_or(Start::TIMEOUT);
        if timeout.0.is_zero() {
            return Err("timeout is zero: no server is ready within it".into());
        }
        Ok(Some(Start {
            command,
            env: self.env,
            ready_url: self.ready_url,
            timeout,
            stop_timeout: self.stop_timeout.unwrap_or(Start::STOP),
            working_directory: self.working_directory,
            cool_down: self.cool_down.unwrap_or(Span::secs(0)),
        }))
    }

    /// The keys of what they came to, without secrets.
    pub(super) fn shown(start: Option<Start>) -> Self {
        let Some(s) = start else { return Self::default() };
        Self {
            command: Some(secret::hidden_command(&s.command, &s.env)),
            env: secret::hidden_env(&s.command, &s.env),
            ready_url: s.ready_url,
            timeout: Some(s.timeout),
            stop_timeout: Some(s.stop_timeout),
            working_directory: s.working_directory,
            cool_down: Some(s.cool_down),
        }
    }
}

impl TryFrom<RawVariant> for Variant {
    type Error = String;
    fn try_from(raw: RawVariant) -> Result<Self, String> {
        let of = |problem: String| format!("[[variant]] {}: {problem}", raw.name);
        if let Some(problem) = name_problem(&raw.name) {
            return Err(of(problem));
        }
        let keys = RawStart {
            command: raw.command,
            env: raw.env,
            ready_url: raw.ready_url,
            timeout: raw.timeout,
            stop_timeout: raw.stop_timeout,
            working_directory: raw.working_directory,
            cool_down: raw.cool_down,
        };
        let start = keys.start().map_err(of)?;
        Ok(Self { name: raw.name, set: raw.set, url: raw.url, start, knobs: Vec::new() })
    }
}

impl From<Variant> for RawVariant {
    fn from(v: Variant) -> Self {
        let s = RawStart::shown(v.start);
        Self {
            name: v.name,
            url: v.url,
            command: s.command,
            ready_url: s.ready_url,
            timeout: s.timeout,
            stop_timeout: s.stop_timeout,
            working_directory: s.working_directory,
            cool_down: s.cool_down,
            env: s.env,
            set: v.set,
        }
    }
}

/// What is wrong with the name of a variant, if anything: it is that of a file as well.
pub(super) fn name_problem(name: &str) -> Option<String> {
    let odd = |c: char| c.is_control() || "/\\:*?\"<>|".contains(c);
    if name.trim().is_empty() || name == MAIN {
        return Some("a variant needs a name of its own".into());
    }
    if name.trim() != name || name.starts_with(['.', '-']) || name.len() > 100 || name.contains(odd) {
        return Some(
            "its name is that of its log as well: at most 100 letters, without / \\ : * ? \" < > | and no blank, dot or dash at its beginning"
                .into(),
        );
    }
    None
}

impl Start {
    /// Large models take minutes to load.
    pub const TIMEOUT: Span = Span::secs(600);
    /// A server that is asked to end first finishes what it has.
    pub const STOP: Span = Span::secs(30);

    /// The command and its environment as they are started, `${NAME}` filled in from the environment, and the secrets in them.
    ///
    /// # Errors
    /// A variable is not set, or the plan is that of a run folder, where no secret is kept.
    pub fn filled(&self, from: impl Fn(&str) -> Option<String>) -> Result<Filled, String> {
        let mut known = Vec::new();
        let mut filled = |text: &String| fill(text, &from, &mut known);
        let command = self.command.iter().map(&mut filled).collect::<Result<Vec<_>, _>>()?;
        // Of the variables that it names, those of its arguments.
        let exposed = !known.is_empty() || !secret::all(&command, &BTreeMap::new()).is_empty();
        let mut env = BTreeMap::new();
        for (name, value) in &self.env {
            env.insert(name.clone(), fill(value, &from, &mut known)?);
        }
        if command.iter().chain(env.values()).any(|text| text.contains(secret::HIDDEN)) {
            return Err(format!(
                "its command or env has {} in the place of a secret, which no run folder keeps: write ${{NAME}} into the plan and set \
                 NAME in the environment",
                secret::HIDDEN
            ));
        }
        let mut secrets = secret::all(&command, &env);
        secrets.extend(known);
        secrets.sort_unstable();
        secrets.dedup();
        Ok(Filled { command, env, secrets, exposed })
    }

    /// From now on its secrets are left out of every message and file; those of the environment, once it is filled in.
    pub(super) fn keep_secrets(&self) {
        secret::keep_out(&self.command, &self.env);
    }

    /// The command as it may be shown.
    pub fn shown(&self) -> Vec<String> {
        secret::hidden_command(&self.command, &self.env)
    }
}

/// A command that is ready to be started. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Filled {
    /// The program and its arguments.
    pub command: Vec<String>,
    /// Variables beside those of this process.
    pub env: BTreeMap<String, String>,
    /// What may be written nowhere.
    pub secrets: Vec<String>,
    /// Whether one of them stands in the command, where everyone on the machine can read it.
    pub exposed: bool,
}

impl fmt::Debug for Filled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Filled({} secrets)", self.secrets.len())
    }
}

/// A text with every `${NAME}` filled in; the values that are secrets are added to `known`.
fn fill(
    text: &str,
    from: &impl Fn(&str) -> Option<String>,
    known: &mut Vec<String>,
) -> Result<String, String> {
    let (mut out, mut rest, mut values) = (String::new(), text, Vec::new());
    while let Some(at) = rest.find("${") {
        let after = &rest[at + 2..];
        let name = after.split('}').next().filter(|name| name.len() < after.len() && is_name(name));
        let Some(name) = name else {
            out.push_str(&rest[..at + 2]);
            rest = after;
            continue;
        };
        let value = from(name).ok_or_else(|| {
            format!("its command or env names ${{{name}}}, which is not set: export {name} before the sweep")
        })?;
        out.push_str(&rest[..at]);
        out.push_str(&value);
        values.push((name, value));
        rest = &after[name.len() + 1..];
    }
    out.push_str(rest);
    // A port or the name of a model is none, and stays as it is in logs.
    let secret = values.into_iter().filter(|(name, value)| secret::filled_in(name, value, &out));
    known.extend(secret.map(|(_, value)| value));
    Ok(out)
}

/// Whether a text is the name of a variable.
fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

impl Variant {
    /// What it is called in messages.
    pub(super) fn title(&self) -> String {
        if self.knobs.is_empty() {
            format!("[[variant]] {}", self.name)
        } else {
            format!("[grid] at {}", self.name)
        }
    }

    /// What stands in the line of the plan where it begins.
    pub(super) fn place(&self) -> String {
        if self.knobs.is_empty() { format!("\"{}\"", self.name) } else { "[grid".to_owned() }
    }
}

#[cfg(test)]
#[path = "variant_tests.rs"]
mod tests;
