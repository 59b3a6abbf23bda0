//! Reads `--model SPEC`: a built-in name, a `config.json`, or figures.

use crate::fit::{Known, Served, read_config};
use crate::plan::reworded;
use crate::roofline::{Model, Precision};
use anyhow::{Context, Result, anyhow, bail};
use std::fs;
use std::path::Path;

/// Returns the model that a specification means, with its weights in another format if one is given.
pub(super) fn read(spec: &str, precision: Option<Precision>) -> Result<Served> {
    if spec.contains('=') {
        return figures(spec, precision);
    }
    let path = Path::new(spec);
    if path.is_dir() {
        return config(&path.join("config.json"), precision);
    }
    if path.extension().is_some_and(|e| e.eq_ignore_ascii_case("json")) || path.is_file() {
        return config(path, precision);
    }
    let known = Known::find(spec).with_context(|| {
        format!(
            "it is neither a built-in model nor a file; built-in models: {}; any other by its config.json, or as \
             parameters=8B,layers=32,kv-heads=8,head-size=128",
            Known::names()
        )
    })?;
    Served::known(known, precision).map_err(anyhow::Error::msg)
}

fn config(path: &Path, precision: Option<Precision>) -> Result<Served> {
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    // `models/qwen3-8b/config.json` is known by its folder.
    let folder = path.parent().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = folder.unwrap_or_else(|| path.display().to_string());
    read_config(name, &text, precision).map_err(|e| anyhow!("{}: {e}", path.display()))
}

/// Reads `KEY=VALUE,KEY=VALUE,…` with the keys of a plan's `[model]`.
fn figures(spec: &str, precision: Option<Precision>) -> Result<Served> {
    let mut text = String::new();
    let mut has_format = false;
    for part in spec.split(',').filter(|part| !part.trim().is_empty()) {
        let (key, value) = part.split_once('=').with_context(|| format!("{part:?}: write KEY=VALUE"))?;
        let (key, value) = (key.trim(), value.trim());
        let is_format = ["precision", "bytes-per-parameter"].contains(&key);
        if is_format && precision.is_some() {
            bail!("--precision and {key} say the same: keep one");
        }
        has_format |= is_format;
        let is_number = value.parse::<f64>().is_ok_and(f64::is_finite);
        let value = if is_number { value.to_owned() } else { format!("{value:?}") };
        text += &format!("{key} = {value}\n");
    }
    let mut table: toml::Table = text.parse().map_err(|e: toml::de::Error| anyhow!(reworded(e.message())))?;
    if !has_format {
        let format = precision.unwrap_or(Precision::Bf16);
        table
            .insert("precision".into(), toml::Value::try_from(format).context("failed to write the format")?);
    }
    let model = table.try_into::<Model>().map_err(|e| anyhow!(reworded(e.message())))?;
    of_figures("the given model".into(), model)
}

/// Returns a model of given figures.
pub(super) fn of_figures(name: String, model: Model) -> Result<Served> {
    Served::given(name, model).context(
        "the size of the KV cache is missing: add layers, kv-heads and head-size (num_hidden_layers, num_key_value_heads and head_dim of \
         its config.json)",
    )
}
