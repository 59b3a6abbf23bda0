//! Whose requests a limit is about: those of one class of a mix, or those of every class without limits of its own.

use super::Slo;
pub use crate::key::{ALL, key, split};

/// The limits of one class of a mix, which judge its requests in the place of the plan's, in every tier.
#[derive(Debug, Clone, PartialEq)]
pub struct ClassSlo {
    /// Index of the class in the mix.
    pub class: u16,
    /// Its name.
    pub name: String,
    /// Its limits, resolved.
    pub slo: Slo,
}

/// Limits of a tier that are about the same requests.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Part<'a> {
    /// The limits.
    pub slo: &'a Slo,
    /// The class that they are of; `None` where they are the plan's.
    own: Option<&'a ClassSlo>,
    /// Every class with limits of its own.
    classes: &'a [ClassSlo],
}

impl<'a> Part<'a> {
    /// The class in files: its name, or [`ALL`].
    pub fn class(&self) -> &'a str {
        self.own.map_or(ALL, |own| &own.name)
    }

    /// Whether requests of the class with this index are judged by these limits.
    pub fn judges(&self, class: u16) -> bool {
        match self.own {
            Some(own) => own.class == class,
            None => self.classes.iter().all(|c| c.class != class),
        }
    }

    /// The index of the class that they are of, where they are not the plan's.
    pub fn index(&self) -> Option<u16> {
        self.own.map(|own| own.class)
    }

    /// The indices of the classes with limits of their own.
    pub fn others(&self) -> Vec<u16> {
        self.classes.iter().map(|c| c.class).collect()
    }

    /// Whether every request is judged by these limits: no class has any of its own.
    pub fn judges_all(&self) -> bool {
        self.classes.is_empty()
    }

    /// The name of one of its limits among those of all parts: `ttft.p99`, `short/ttft.p99`.
    pub fn key(&self, limit: &str) -> String {
        key(self.class(), limit)
    }

    /// A limit for people, with the class that it is of: `p99 TTFT ≤ 200ms of class short`.
    pub fn title(&self, limit: &str) -> String {
        self.own.map_or_else(|| limit.to_owned(), |own| format!("{limit} of class {}", own.name))
    }
}

impl Slo {
    /// The limits by the requests that they are about: the tier's own, unless they judge nobody, and those of each class that has any.
    pub fn parts(&self) -> Vec<Part<'_>> {
        let part = |slo, own| Part { slo, own, classes: &self.classes };
        let own = (self.is_any() || self.classes.is_empty()).then(|| part(self, None));
        own.into_iter().chain(self.classes.iter().map(|c| part(&c.slo, Some(c)))).collect()
    }

    /// Whether a limit of its own is set, those of classes aside.
    pub fn is_any(&self) -> bool {
        !self.limits().is_empty() || self.error_rate.is_some()
    }

    /// Whether any class of the mix has limits of its own.
    pub fn by_class(&self) -> bool {
        !self.classes.is_empty()
    }

    /// Its own limits and those of the classes, one after the other.
    pub(super) fn every(&self) -> impl Iterator<Item = &Slo> {
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
    fn a_key_names_class_and_limit() {
        for (class, limit, want) in [
            ("all", "ttft.p99", "ttft.p99"),
            ("short", "ttft.p99.9", "short/ttft.p99.9"),
            ("a.b", "error-rate", "a.b/error-rate"),
        ] {
            assert_eq!(key(class, limit), want);
            assert_eq!(split(want), (class, limit));
            assert_eq!(Metric::of_limit(want), Metric::of_limit(limit));
        }
    }

    #[test]
    fn a_class_with_limits_of_its_own_is_judged_by_them_alone() {
        let own = ClassSlo { class: 1, name: "short".into(), slo: slo("ttft.p99 = \"200ms\"") };
        let tier = Slo { classes: vec![own], ..slo("ttft.p99 = \"5s\"\ntpot.p99 = \"50ms\"") };
        let parts = tier.parts();
        let judged: Vec<_> = parts.iter().map(|p| (p.class(), [0, 1, 2].map(|c| p.judges(c)))).collect();
        assert_eq!(judged, [("all", [true, false, true]), ("short", [false, true, false])]);
        assert_eq!(
            (parts[1].key("ttft.p99"), parts[0].key("ttft.p99")),
            ("short/ttft.p99".into(), "ttft.p99".into())
        );
        assert_eq!(tier.smallest(Metric::Ttft), Some(Duration::from_millis(200)), "over all parts");
        assert_eq!(tier.summary(), "p99 TTFT ≤ 5s, p99 TPOT ≤ 50ms; class short: p99 TTFT ≤ 200ms");
        let only = Slo { classes: tier.classes.clone(), ..Slo::default() };
        assert_eq!(only.parts().iter().map(Part::class).collect::<Vec<_>>(), ["short"]);
        assert!((only.joint_target() - 0.99).abs() < 1e-12 && only.problem().is_none());
        assert!(slo("").parts().len() == 1 && slo("").problem().is_some());
    }
}
