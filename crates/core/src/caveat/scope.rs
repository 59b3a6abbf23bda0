//! The scope of a caveat.

/// The scope of a caveat: its step, whether comparisons name it, and how long it lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Scope {
    /// The step that it is about; `None` where it is about the run or a series.
    pub step: Option<u32>,
    /// Runs with it differ for a reason that their figures do not show, so that comparisons must name it.
    pub weakens_comparison: bool,
    /// Its fate when the sweep is resumed.
    pub on_resume: OnResume,
}

/// The fate of a caveat when its sweep is resumed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnResume {
    /// It stays.
    Keep,
    /// It goes: it was about the end of the sweep, or is counted again.
    Drop,
    /// It stays if this step is not measured again.
    KeepWithStep(u32),
}

impl OnResume {
    /// Returns true if the caveat stays when the sweep is resumed at step `next`.
    pub const fn keeps(self, next: u32) -> bool {
        match self {
            Self::Keep => true,
            Self::Drop => false,
            Self::KeepWithStep(step) => step < next,
        }
    }
}

impl Scope {
    /// The run, in every comparison alike, and after a resumption too.
    pub(super) const RUN: Self = Self { step: None, weakens_comparison: false, on_resume: OnResume::Keep };

    /// Returns the scope of a caveat about one step.
    pub(super) const fn step(step: u32) -> Self {
        Self { step: Some(step), ..Self::RUN }
    }

    /// Returns the same scope for a caveat that comparisons must name.
    pub(super) const fn weakening(self) -> Self {
        Self { weakens_comparison: true, ..self }
    }

    /// Returns the same scope for a caveat that a resumed sweep drops.
    pub(super) const fn until_resumed(self) -> Self {
        Self { on_resume: OnResume::Drop, ..self }
    }

    /// Returns the same scope for a caveat that a resumed sweep drops with its step.
    pub(super) const fn until_measured_again(self) -> Self {
        let on_resume = match self.step {
            Some(step) => OnResume::KeepWithStep(step),
            None => OnResume::Keep,
        };
        Self { on_resume, ..self }
    }
}
