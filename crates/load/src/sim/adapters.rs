//! The LoRA adapters of the simulated server, which are requested by name like a model: loaded and unloaded as with vLLM.

use super::rules::{Page, Refusal, TEXT};
use goodput_engine::config::Adapters;
use http::StatusCode;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Path that loads an adapter.
pub(super) const LOAD: &str = "/v1/load_lora_adapter";
/// Path that unloads one.
pub(super) const UNLOAD: &str = "/v1/unload_lora_adapter";

/// The adapters of a server, and whether the weights of each are loaded.
#[derive(Debug, Default)]
pub(super) struct AdapterStore {
    load_time: Duration,
    loaded: Mutex<BTreeMap<String, bool>>,
}

/// A change of the adapters that a request asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AdapterCall {
    Load,
    Unload,
}

/// The body of such a request.
#[derive(Deserialize)]
struct Order {
    lora_name: Option<String>,
    lora_path: Option<String>,
}

impl AdapterCall {
    /// Returns the call of a path.
    pub(super) fn of_path(path: &str) -> Option<Self> {
        match path {
            LOAD => Some(Self::Load),
            UNLOAD => Some(Self::Unload),
            _ => None,
        }
    }
}

impl AdapterStore {
    pub(super) fn new(adapters: &Adapters) -> Self {
        let loaded = adapters.names.iter().map(|name| (name.clone(), false)).collect();
        Self { load_time: adapters.load_time.0, loaded: Mutex::new(loaded) }
    }

    fn loaded(&self) -> MutexGuard<'_, BTreeMap<String, bool>> {
        // The map stays valid after a panic.
        self.loaded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the names of the adapters.
    pub(super) fn names(&self) -> Vec<String> {
        self.loaded().keys().cloned().collect()
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.loaded().contains_key(name)
    }

    /// Returns how long a request waits for the weights of its adapter, which are loaded from now on.
    pub(super) fn wait_for(&self, name: Option<&str>) -> Duration {
        let mut all = self.loaded();
        let Some(loaded) = name.and_then(|name| all.get_mut(name)) else { return Duration::ZERO };
        if std::mem::replace(loaded, true) { Duration::ZERO } else { self.load_time }
    }

    /// Loads or unloads an adapter. Returns the answer, and the time that it takes.
    pub(super) fn call(
        &self,
        call: AdapterCall,
        base: &str,
        body: &[u8],
    ) -> Result<(Page, Duration), Refusal> {
        let order: Order = serde_json::from_slice(body).map_err(|e| Refusal::unreadable(&e))?;
        let refuse = |message: &str| Err(Refusal::bad(None, message.into()));
        let name = order.lora_name.filter(|name| !name.is_empty());
        let said = |name: &str, done: &str| {
            let text = format!("Success: LoRA adapter '{name}' {done} successfully.");
            Page::new(StatusCode::OK, TEXT, text)
        };
        match (call, name) {
            (AdapterCall::Load, None) => refuse("Both 'lora_name' and 'lora_path' must be provided."),
            (AdapterCall::Load, Some(_)) if order.lora_path.as_deref().unwrap_or_default().is_empty() => {
                refuse("Both 'lora_name' and 'lora_path' must be provided.")
            }
            (AdapterCall::Load, Some(name)) if name == base => {
                refuse(&format!("The lora adapter '{name}' conflicts with a served base model."))
            }
            (AdapterCall::Load, Some(name)) => match self.loaded().insert(name.clone(), true) {
                None => Ok((said(&name, "added"), self.load_time)),
                Some(_) => refuse(&format!(
                    "The lora adapter '{name}' has already been loaded. If you want to load the adapter in place, set 'load_inplace' to True."
                )),
            },
            (AdapterCall::Unload, None) => {
                refuse("'lora_name' needs to be provided to unload a LoRA adapter.")
            }
            (AdapterCall::Unload, Some(name)) => match self.loaded().remove(&name) {
                Some(_) => Ok((said(&name, "removed"), Duration::ZERO)),
                None => Err(Refusal {
                    status: StatusCode::NOT_FOUND,
                    kind: "NotFoundError",
                    param: None,
                    message: format!("The lora adapter '{name}' cannot be found."),
                }),
            },
        }
    }

    /// Formats the adapters as further entries of the list of models, each after a comma.
    pub(super) fn cards(&self, base_json: &str, created: u64) -> String {
        let card = |name: &String| {
            let name = super::rules::json_string(name);
            format!(
                r#",{{"id":{name},"object":"model","created":{created},"owned_by":"goodput","root":{name},"parent":{base_json},"max_model_len":null,"permission":[]}}"#
            )
        };
        self.names().iter().map(card).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_core::units::Span;

    fn store() -> AdapterStore {
        AdapterStore::new(&Adapters { names: vec!["sql".into()], load_time: Span::secs(3) })
    }

    #[test]
    fn the_first_request_of_an_adapter_waits_for_its_weights() {
        let store = store();
        for (name, seconds) in [(None, 0), (Some("base"), 0), (Some("sql"), 3), (Some("sql"), 0)] {
            assert_eq!(store.wait_for(name), Duration::from_secs(seconds), "{name:?}");
        }
    }

    #[test]
    fn adapters_are_loaded_and_unloaded() {
        let store = store();
        let call = |call, body: &str| {
            store
                .call(call, "base", body.as_bytes())
                .map(|(page, time)| (page.body.into_owned(), time))
                .map_err(|e| (e.status.as_u16(), e.message))
        };
        let chat = r#"{"lora_name":"chat","lora_path":"/x"}"#;
        let (text, time) = call(AdapterCall::Load, chat).unwrap();
        assert_eq!(
            (text.as_str(), time),
            ("Success: LoRA adapter 'chat' added successfully.", Duration::from_secs(3))
        );
        assert_eq!(store.wait_for(Some("chat")), Duration::ZERO);
        for (which, body, status, part) in [
            (AdapterCall::Load, chat, 400, "already been loaded"),
            (AdapterCall::Load, r#"{"lora_name":"x"}"#, 400, "must be provided"),
            (AdapterCall::Load, r#"{"lora_name":"base","lora_path":"/x"}"#, 400, "base model"),
            (AdapterCall::Unload, r#"{"lora_name":"x"}"#, 404, "cannot be found"),
            (AdapterCall::Unload, "{}", 400, "needs to be provided"),
            (AdapterCall::Unload, "no JSON", 400, ""),
        ] {
            let (got, message) = call(which, body).unwrap_err();
            assert!(got == status && message.contains(part), "{body}: {got} {message}");
        }
        call(AdapterCall::Unload, chat).unwrap();
        assert_eq!(store.names(), ["sql"]);
    }
}
