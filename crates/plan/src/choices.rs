//! Plans whose requests ask for several choices (`n` in a body): several answers to one prompt, generated at the same time.

use crate::Plan;
use crate::server::extras::choices_asked;
use goodput_core::endpoint::Api;
use std::num::NonZeroU8;
use std::sync::Arc;

impl Plan {
    /// Returns the number of choices that requests of a class ask for.
    pub fn choices(&self, class: u16) -> NonZeroU8 {
        // As with the other fields of a body, those of the class replace those of the server.
        match self.workload.classes().get(usize::from(class)) {
            Some(class) if class.body.contains_key("n") => choices_asked(&class.body),
            Some(_) | None => self.server.body.choices(),
        }
    }

    /// Returns the number of choices that requests of each class ask for, in order; of a plan without classes that of all.
    pub fn choices_by_class(&self) -> Arc<[NonZeroU8]> {
        let classes = u16::try_from(self.workload.classes().len()).unwrap_or(u16::MAX);
        (0..classes.max(1)).map(|class| self.choices(class)).collect()
    }

    /// Returns the mean number of choices that a request asks for.
    pub fn mean_choices(&self) -> f64 {
        if self.most_choices() == NonZeroU8::MIN {
            return 1.0;
        }
        let kinds = self.workload.kinds();
        let choices = self.choices_by_class();
        kinds.iter().zip(choices.iter()).map(|(kind, n)| kind.share * f64::from(n.get())).sum()
    }

    /// Returns the largest number of choices that a request asks for.
    pub fn most_choices(&self) -> NonZeroU8 {
        self.choices_by_class().iter().copied().max().unwrap_or(NonZeroU8::MIN)
    }

    /// Returns the reason why the API has no choices, if the plan asks for several.
    pub(super) fn choices_problem(&self) -> Option<String> {
        let (n, api) = (self.most_choices(), self.server.api);
        if n == NonZeroU8::MIN {
            return None;
        }
        match api {
            Api::Chat | Api::Completions => None,
            Api::Responses
            | Api::Messages
            | Api::Embeddings
            | Api::Rerank
            | Api::Score
            | Api::Pooling
            | Api::Classify
            | Api::Transcriptions
            | Api::Template => Some(format!(
                "body.n = {n}: [server] api = \"{}\" has no choices; leave n out, or write api = \"chat\" or \"completions\"",
                api.name()
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(server: &str, workload: &str) -> Result<Plan, String> {
        let text = format!(
            "name = \"x\"\nslo.ttft.p99 = \"1s\"\nsearch.rates = [1]\n{workload}\n[server]\nurl = \"http://h\"\n{server}"
        );
        Plan::from_text(&text).map_err(|e| e.to_string())
    }

    const ALL: &str = "workload.prompts.synthetic = { input-tokens.fixed = 5, output-tokens.fixed = 2 }";

    fn mix(body: &str) -> String {
        let class = |name: &str, body: &str| {
            format!(
                "[[workload.class]]\nname = \"{name}\"\nweight = 1\n{body}\n\
                 prompts.synthetic = {{ input-tokens.fixed = 5, output-tokens.fixed = 2 }}\n"
            )
        };
        class("a", "") + &class("b", body)
    }

    /// Rows: the server, the workload, and the choices of the first two classes.
    #[test]
    fn the_choices_of_a_class_replace_those_of_the_server() {
        for (server, workload, want) in [
            ("", ALL, [1, 1]),
            ("body.n = 4", ALL, [4, 4]),
            ("body.n = 4\napi = \"completions\"", ALL, [4, 4]),
            ("body.n = 4", &mix("body.n = 2"), [4, 2]),
            ("", &mix("body.n = 3"), [1, 3]),
            ("body.n = 3", &mix("body.n = 1"), [3, 1]),
            ("body.n = 32", ALL, [32, 32]),
        ] {
            let plan = plan(server, workload).unwrap();
            assert_eq!([0, 1].map(|class| plan.choices(class).get()), want, "{server} {workload}");
            assert_eq!(plan.most_choices().get(), want[0].max(want[1]));
            assert!((plan.mean_choices() - f64::from(want[0] + want[1]) / 2.0).abs() < 1e-12);
        }
    }

    #[test]
    fn choices_that_cannot_be_are_refused() {
        for (server, workload, said) in [
            ("body.n = 0", ALL, "from 1 to 32"),
            ("body.n = 33", ALL, "from 1 to 32"),
            ("body.n = -1", ALL, "from 1 to 32"),
            ("body.n = \"4\"", ALL, "from 1 to 32"),
            ("body.n = 1.5", ALL, "from 1 to 32"),
            ("body.best_of = 4", ALL, "body.best_of"),
            ("api = \"responses\"\nbody.n = 2", ALL, "\"responses\" has no choices"),
            ("api = \"messages\"\nbody.n = 2", ALL, "\"messages\" has no choices"),
            ("api = \"messages\"", &mix("body.n = 2"), "\"messages\" has no choices"),
            ("", &mix("body.n = 33"), "from 1 to 32"),
        ] {
            let problem = plan(server, workload).unwrap_err();
            assert!(problem.contains(said), "{server}: {problem}");
        }
        assert!(plan("api = \"messages\"\nbody.n = 1", ALL).is_ok());
    }
}
