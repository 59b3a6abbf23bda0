//! Which requests a limit judges: those of one class of a mix, or those of all classes without limits of their own.

use super::Slo;
pub use crate::key::{ALL, limit_key, limit_percentile, split_limit_key};

/// SLO of one class of a mix. It replaces the plan's limits for the class's requests, in every tier.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSlo {
    /// Index of the class in the mix.
    pub class: u16,
    /// Name of the class.
    pub name: String,
    /// Its limits, resolved.
    pub slo: Slo,
}

/// The limits of a tier that judge the same requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LimitGroup<'a> {
    /// The limits.
    pub slo: &'a Slo,
    /// The class that the limits belong to; `None` for the plan's limits.
    class: Option<&'a ClassSlo>,
    /// All classes with limits of their own.
    classes: &'a [ClassSlo],
}

impl<'a> LimitGroup<'a> {
    /// Returns the class name in files: the class's, or [`ALL`].
    pub fn class(&self) -> &'a str {
        self.class.map_or(ALL, |class| &class.name)
    }

    /// Returns true if these limits judge requests of the class with this index.
    pub fn judges(&self, class: u16) -> bool {
        match self.class {
            Some(judged) => judged.class == class,
            None => self.classes.iter().all(|c| c.class != class),
        }
    }

    /// Returns the index of the class that the limits belong to; `None` for the plan's limits.
    pub fn class_index(&self) -> Option<u16> {
        self.class.map(|class| class.class)
    }

    /// Returns the indices of the classes with limits of their own.
    pub fn classes_with_limits(&self) -> Vec<u16> {
        self.classes.iter().map(|c| c.class).collect()
    }

    /// Returns true if these limits judge every request: no class has limits of its own.
    pub fn judges_all(&self) -> bool {
        self.classes.is_empty()
    }

    /// Returns the name of a limit that is unique within the tier: `ttft.p99`, `short/ttft.p99`.
    pub fn key(&self, limit: &str) -> String {
        limit_key(self.class(), limit)
    }

    /// Adds the class, if any, to a limit's text: `p99 TTFT ≤ 200 ms of class short`.
    pub fn title(&self, limit: &str) -> String {
        self.class.map_or_else(|| limit.to_owned(), |class| format!("{limit} of class {}", class.name))
    }
}

impl Slo {
    /// Groups the limits by the requests they judge: the tier's limits, unless every class replaces them, then those of
    /// each class.
    pub fn limit_groups(&self) -> Vec<LimitGroup<'_>> {
        let group = |slo, class| LimitGroup { slo, class, classes: &self.classes };
        let tier = (self.has_limits() || self.classes.is_empty()).then(|| group(self, None));
        tier.into_iter().chain(self.classes.iter().map(|c| group(&c.slo, Some(c)))).collect()
    }

    /// Returns true if the tier sets a limit; limits of classes do not count.
    pub fn has_limits(&self) -> bool {
        !self.limits().is_empty() || self.error_rate.is_some()
    }

    /// Returns true if any class of the mix has limits of its own.
    pub fn has_class_limits(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Iterates over the tier's limits and then those of each class.
    pub(super) fn with_classes(&self) -> impl Iterator<Item = &Slo> {
        std::iter::once(self).chain(self.classes.iter().map(|c| &c.slo))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slo::Metric;
    use std::time::Duration;

    fn slo(text: &str) -> Slo {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn keys_combine_class_and_limit() {
        for (class, limit, want) in [
            ("all", "ttft.p99", "ttft.p99"),
            ("short", "ttft.p99.9", "short/ttft.p99.9"),
            ("a.b", "error-rate", "a.b/error-rate"),
        ] {
            assert_eq!(limit_key(class, limit), want);
            assert_eq!(split_limit_key(want), (class, limit));
            assert_eq!(Metric::of_limit(want), Metric::of_limit(limit));
        }
    }

    #[test]
    fn a_class_with_its_own_limits_is_judged_by_them_alone() {
        let class = ClassSlo { class: 1, name: "short".into(), slo: slo("ttft.p99 = \"200ms\"") };
        let tier = Slo { classes: vec![class], ..slo("ttft.p99 = \"5s\"\ntpot.p99 = \"50ms\"") };
        let groups = tier.limit_groups();
        let judged: Vec<_> = groups.iter().map(|p| (p.class(), [0, 1, 2].map(|c| p.judges(c)))).collect();
        assert_eq!(judged, [("all", [true, false, true]), ("short", [false, true, false])]);
        assert_eq!(
            (groups[1].key("ttft.p99"), groups[0].key("ttft.p99")),
            ("short/ttft.p99".into(), "ttft.p99".into())
        );
        assert_eq!(tier.smallest(Metric::Ttft), Some(Duration::from_millis(200)), "classes included");
        assert_eq!(tier.summary(), "p99 TTFT ≤ 5 s, p99 TPOT ≤ 50 ms; class short: p99 TTFT ≤ 200 ms");
        let only = Slo { classes: tier.classes.clone(), ..Slo::default() };
        assert_eq!(only.limit_groups().iter().map(LimitGroup::class).collect::<Vec<_>>(), ["short"]);
        assert!((only.joint_target() - 0.99).abs() < 1e-12 && only.problem().is_none());
        assert!(slo("").limit_groups().len() == 1 && slo("").problem().is_some());
    }
}
