//! Marks of steps, by their verdict.

use super::canvas::{Canvas, Point};
use super::hue::rgb;
use goodput_stats::stats::step::{Step, Verdict};
use plotters::style::{RGBColor, WHITE};

/// The mark of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Shown to meet the SLO.
    Meets,
    /// Too few requests to decide.
    Undecided,
    /// Shown to fail.
    Fails,
    /// Its backlog is shown to grow: its latencies depend on how long it ran.
    Overloaded,
    /// The client was the limit.
    Invalid,
}

impl Mark {
    /// All marks, in the order of the legend.
    pub(crate) const ALL: [Self; 5] =
        [Self::Meets, Self::Undecided, Self::Fails, Self::Overloaded, Self::Invalid];

    /// Returns the mark of a step.
    pub(crate) fn of(step: &Step) -> Self {
        Self::by(step, step.verdict)
    }

    /// Returns the mark of a step for the verdict on one of its limits.
    pub(crate) fn by(step: &Step, verdict: Verdict) -> Self {
        match (step.verdict, verdict) {
            (Verdict::Invalid, _) | (_, Verdict::Invalid) => Self::Invalid,
            _ if step.stable == Some(false) => Self::Overloaded,
            (_, Verdict::Meets) => Self::Meets,
            (_, Verdict::Undecided) => Self::Undecided,
            (_, Verdict::Fails) => Self::Fails,
        }
    }

    /// Returns the words of the legend.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Meets => "step meets the SLO",
            Self::Undecided => "undecided",
            Self::Fails => "fails",
            Self::Overloaded => "overloaded: backlog grew, no steady latency",
            Self::Invalid => "invalid: tells nothing",
        }
    }

    /// Returns the words of the legend in a chart that judges each limit separately.
    pub(crate) const fn words_of_limit(self) -> &'static str {
        match self {
            Self::Meets => "limit shown to be met",
            Self::Fails => "shown to be missed",
            Self::Overloaded => "overloaded: backlog grew",
            Self::Undecided | Self::Invalid => self.words(),
        }
    }

    /// Draws it: a circle of radius `r`, and the others with similar weight.
    pub(crate) fn draw(self, c: &mut Canvas, at: Point, r: f64, colour: RGBColor) {
        match self {
            Self::Meets => {
                c.disc(at, r + 1.2, WHITE);
                c.disc(at, r, colour);
            }
            Self::Undecided => {
                c.disc(at, r, colour);
                c.disc(at, r - 1.6, WHITE);
            }
            Self::Fails => {
                cross(c, at, r + 1.0, 5.2, WHITE);
                cross(c, at, r, 3.0, colour);
            }
            Self::Overloaded => {
                cross(c, at, r + 0.8, 4.8, colour);
                cross(c, at, r - 0.3, 2.2, WHITE);
            }
            Self::Invalid => {
                let grey = rgb(0x8a8a8a);
                let corner = |k: f64| {
                    [(at.0, at.1 - k), (at.0 + k * 0.95, at.1 + k * 0.7), (at.0 - k * 0.95, at.1 + k * 0.7)]
                };
                c.polygon(&corner(r + 1.6), grey.into());
                c.polygon(&corner(r - 1.3), WHITE.into());
            }
        }
    }
}

fn cross(c: &mut Canvas, (x, y): Point, r: f64, width: f64, colour: RGBColor) {
    c.stroke((x - r, y - r), (x + r, y + r), width, colour);
    c.stroke((x - r, y + r), (x + r, y - r), width, colour);
}

#[cfg(test)]
mod tests {
    use super::*;
    use goodput_run::fixture;
    use goodput_stats::stats::step::Abort;

    #[test]
    fn a_backlog_that_grew_outranks_what_a_limit_shows() {
        let mut step = fixture::found().steps.swap_remove(0);
        assert_eq!(Mark::of(&step), Mark::Meets);
        step.stable = Some(false);
        for verdict in [Verdict::Meets, Verdict::Undecided, Verdict::Fails] {
            assert_eq!(Mark::by(&step, verdict), Mark::Overloaded);
        }
    }

    #[test]
    fn a_step_that_fails_by_far_is_no_overload() {
        let mut step = fixture::found().steps.swap_remove(9);
        step.abort = Some(Abort::Gross);
        for stable in [Some(true), None] {
            step.stable = stable;
            assert_eq!(Mark::of(&step), Mark::Fails, "{stable:?}");
        }
    }
}
