//! Requests to several models or LoRA adapters of one server: `[workload] model = { choices = […], weights = […] }`.

use super::config::{Class, Source};
use super::conversation::Conversation;
use goodput_core::checked;
use goodput_core::units::{NonEmpty, Positive};
use serde::{Deserialize, Serialize};

/// Largest number of models that requests are spread over. Each is a class, with statistics of its own.
const MOST_MODELS: usize = 256;

/// The models that requests are spread over.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(remote = "Self", rename_all = "kebab-case", deny_unknown_fields)]
pub struct ModelChoices {
    /// Names of models or LoRA adapters, as the server lists them.
    pub choices: NonEmpty<String>,
    /// A weight for each choice, in the same order; its share of the requests (conversations) is its weight divided by the sum of all. By
    /// default all have the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weights: Option<Vec<Positive>>,
}

checked!(ModelChoices);

/// Error for a trace.
const OF_TRACE: &str = "[workload] model spreads requests over models, but those of a trace all go to server.model: leave model out";

/// Error for a mix without a class to spread.
const NAMED_BY_CLASSES: &str =
    "[workload] model has no effect, since every [[workload.class]] names its own: leave one of them out";

impl ModelChoices {
    fn check(&self) -> Result<(), String> {
        let n = self.choices.len();
        if n > MOST_MODELS {
            return Err(format!("choices has {n} models: at most {MOST_MODELS} are supported"));
        }
        if let Some(weights) = self.weights.as_ref().filter(|weights| weights.len() != n) {
            return Err(format!(
                "weights has {} numbers for {n} choices: write one for each, or leave weights out",
                weights.len()
            ));
        }
        if self.choices.iter().any(|model| model.trim().is_empty()) {
            return Err("choices has an empty name: write the name of a model that the server lists".into());
        }
        let twice = self.choices.iter().enumerate().find(|(i, model)| self.choices[..*i].contains(model));
        twice.map_or(Ok(()), |(_, model)| {
            Err(format!("choices names {model:?} twice: give it a higher weight instead"))
        })
    }

    fn weight(&self, at: usize) -> f64 {
        self.weights.as_ref().and_then(|weights| weights.get(at)).map_or(1.0, |weight| weight.get())
    }

    fn sum_of_weights(&self) -> f64 {
        (0..self.choices.len()).map(|at| self.weight(at)).sum()
    }

    /// Splits requests into a class for each model; the classes of a mix, unless they name a model themselves, likewise.
    ///
    /// # Errors
    /// The requests are a trace, or every class names a model.
    pub(crate) fn spread(
        &self,
        source: Source,
        conversation: Option<Conversation>,
    ) -> Result<Source, String> {
        let mut all = Vec::new();
        match source {
            Source::Trace(_) => {
                return Err(OF_TRACE.into());
            }
            Source::Prompts(prompts) => {
                let (name, model, slo, body) = (String::new(), None, None, toml::Table::new());
                // The classes then have the weights as written.
                let weight = Positive::try_from(self.sum_of_weights())?;
                all = self.split(&Class { name, weight, model, prompts, conversation, slo, body })?;
            }
            Source::Mix(classes) if classes.iter().all(|class| class.model.is_some()) => {
                return Err(NAMED_BY_CLASSES.into());
            }
            Source::Mix(classes) => {
                for class in classes.iter() {
                    match class.model {
                        Some(_) => all.push(class.clone()),
                        None => all.extend(self.split(class)?),
                    }
                }
            }
        }
        NonEmpty::try_from(all).map(Source::Mix)
    }

    /// Splits a class into one for each model, whose weights add up to its own.
    fn split(&self, class: &Class) -> Result<Vec<Class>, String> {
        let part = class.weight.get() / self.sum_of_weights();
        let prefix = if class.name.is_empty() { String::new() } else { format!("{}.", class.name) };
        let one = |(at, model): (usize, &String)| {
            Ok(Class {
                name: format!("{prefix}{}", class_name(model)),
                weight: Positive::try_from(part * self.weight(at))?,
                model: Some(model.clone()),
                ..class.clone()
            })
        };
        self.choices.iter().enumerate().map(one).collect()
    }
}

/// Returns the name of a model as that of a class, which may only have certain characters.
fn class_name(model: &str) -> String {
    model.chars().map(|c| if c.is_alphanumeric() || "-_.".contains(c) { c } else { '-' }).collect()
}

#[cfg(test)]
mod tests {
    use crate::config::Workload;

    const PROMPTS: &str = "prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 2 }\n";

    fn parse(text: &str) -> Result<Workload, String> {
        toml::from_str(text).map_err(|e: toml::de::Error| e.message().to_owned())
    }

    fn shares(workload: &Workload) -> Vec<(String, Option<String>, f64)> {
        let kinds = workload.kinds();
        let one = |(class, kind): (&crate::config::Class, &crate::kind::Kind<'_>)| {
            (class.name.clone(), class.model.clone(), kind.share)
        };
        workload.classes().iter().zip(&kinds).map(one).collect()
    }

    #[test]
    fn requests_are_spread_over_models_by_weight() {
        let models = "model = { choices = [\"base\", \"org/sql\"], weights = [3, 1] }\n";
        let turns = "conversation = { turns.fixed = 3, input-tokens.fixed = 4, think.fixed = \"1s\" }\n";
        let workload = parse(&format!("{models}{turns}{PROMPTS}")).unwrap();
        let want = [("base", Some("base"), 0.75), ("org-sql", Some("org/sql"), 0.25)]
            .map(|(name, model, share)| (name.to_owned(), model.map(str::to_owned), share));
        assert_eq!(shares(&workload), want);
        assert!(
            workload.classes().iter().all(|class| class.conversation.is_some()),
            "a conversation stays with its model"
        );
        let written = toml::to_string(&workload).unwrap();
        assert_eq!(parse(&written).unwrap(), workload, "{written}");
        let equal = parse(&format!("model.choices = [\"a\", \"b\", \"c\", \"d\"]\n{PROMPTS}")).unwrap();
        assert!(shares(&equal).iter().all(|(_, _, share)| (share - 0.25).abs() < 1e-12));
    }

    #[test]
    fn classes_keep_their_shares_and_their_own_model() {
        let class = |name: &str, weight: u32, more: &str| {
            format!("[[class]]\nname = \"{name}\"\nweight = {weight}\n{more}{PROMPTS}")
        };
        let text = format!(
            "model.choices = [\"x\", \"y\"]\n{}{}",
            class("chat", 3, ""),
            class("code", 1, "model = \"coder\"\n")
        );
        let all = shares(&parse(&text).unwrap());
        let names: Vec<_> =
            all.iter().map(|(name, model, share)| (&name[..], model.as_deref().unwrap(), *share)).collect();
        assert_eq!(names, [("chat.x", "x", 0.375), ("chat.y", "y", 0.375), ("code", "coder", 0.25)]);
    }

    #[test]
    fn what_cannot_be_spread_is_refused() {
        let own = format!("[[class]]\nname = \"a\"\nweight = 1\nmodel = \"m\"\n{PROMPTS}");
        for (text, part) in [
            (
                "model.choices = [\"a\"]\ntrace = { file = \"t\", format = \"mooncake\" }".to_owned(),
                "of a trace",
            ),
            (format!("model.choices = [\"a\"]\n{own}"), "every [[workload.class]] names its own"),
            (format!("model.choices = []\n{PROMPTS}"), "empty"),
            (format!("model.choices = [\"a\", \"a\"]\n{PROMPTS}"), "twice"),
            (format!("model.choices = [\"a\", \" \"]\n{PROMPTS}"), "empty name"),
            (format!("model = {{ choices = [\"a\", \"b\"], weights = [1] }}\n{PROMPTS}"), "1 numbers for 2"),
            (format!("model = {{ choices = [\"a\"], weights = [0] }}\n{PROMPTS}"), "0"),
            (format!("model.choices = [\"a/b\", \"a-b\"]\n{PROMPTS}"), "two classes are called"),
        ] {
            let error = parse(&text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
