//! The steps as curves: which are joined, in which hue, and with which marks.

use super::canvas::{Canvas, Point};
use crate::level::Control;
use crate::rundir::Run;
use crate::stats::step::{Abort, Step, Verdict};
use plotters::style::{RGBColor, WHITE};

/// Three shades of one hue, dark to light, and the shade in which the light one is still legible as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hue {
    /// For p99 and for a line that stands alone.
    pub(super) dark: RGBColor,
    /// For p90.
    pub(super) middle: RGBColor,
    /// For p50.
    pub(super) light: RGBColor,
    /// For text about `light`.
    pub(super) light_text: RGBColor,
}

/// One hue per series; told apart by people who see no red or no green, and by lightness in print.
const HUES: [Hue; 4] = [
    hue([0x08306b, 0x3a87c8, 0x93c4e4, 0x4f9ccb]),
    hue([0x8c2d04, 0xec7014, 0xfec44f, 0xc98a0c]),
    hue([0x3f007d, 0x807dba, 0xbcbddc, 0x8683bd]),
    hue([0x00441b, 0x41ab5d, 0xa1d99b, 0x5aa86a]),
];

/// The colours of the series of that number.
pub(super) const fn hue_of(series: usize) -> Hue {
    HUES[series % HUES.len()]
}

const fn hue([dark, middle, light, light_text]: [u32; 4]) -> Hue {
    Hue { dark: rgb(dark), middle: rgb(middle), light: rgb(light), light_text: rgb(light_text) }
}

/// A colour written as in HTML.
pub(super) const fn rgb(hex: u32) -> RGBColor {
    RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
}

/// The steps of one series, in the order in which they are joined.
#[derive(Debug)]
pub(super) struct Curve<'a> {
    /// Name of the series.
    pub(super) series: &'a str,
    /// Its colours.
    pub(super) hue: Hue,
    /// Its steps.
    pub(super) steps: Vec<&'a Step>,
}

/// The curves of a run, in the order in which their series first appear.
pub(super) fn curves(run: &Run) -> Vec<Curve<'_>> {
    let mut out: Vec<Curve<'_>> = Vec::new();
    for step in &run.steps {
        match out.iter_mut().find(|c| c.series == step.series) {
            Some(c) => c.steps.push(step),
            None => {
                let hue = hue_of(out.len());
                out.push(Curve { series: &step.series, hue, steps: vec![step] });
            }
        }
    }
    for c in &mut out {
        c.steps.sort_by(|a, b| {
            // Offered rates reach the server, so steps lie by what it achieved; a closed loop may bend back.
            let key =
                |s: &Step| if s.level.control == Control::Rate { s.achieved_rate } else { s.level.value };
            key(a).total_cmp(&key(b))
        });
    }
    out
}

/// Whether a step's latencies are those of a steady server: only these are joined to a curve.
pub(super) fn steady(step: &Step) -> bool {
    !step.overloaded() && step.verdict != Verdict::Invalid
}

/// How a step is marked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mark {
    /// Shown to meet the SLO.
    Meets,
    /// Too few requests to tell.
    Undecided,
    /// Shown to fail.
    Fails,
    /// Failed while its backlog grew, or stopped early: its latencies depend on how long it ran.
    Overloaded,
    /// The client was the limit.
    Invalid,
}

impl Mark {
    /// All of them, in the order of the legend.
    pub(super) const ALL: [Self; 5] =
        [Self::Meets, Self::Undecided, Self::Fails, Self::Overloaded, Self::Invalid];

    /// The mark of a step.
    pub(super) fn of(step: &Step) -> Self {
        match step.verdict {
            Verdict::Meets => Self::Meets,
            Verdict::Undecided => Self::Undecided,
            Verdict::Fails if step.stable == Some(false) || step.abort == Some(Abort::Gross) => {
                Self::Overloaded
            }
            Verdict::Fails => Self::Fails,
            Verdict::Invalid => Self::Invalid,
        }
    }

    /// What the legend says.
    pub(super) const fn words(self) -> &'static str {
        match self {
            Self::Meets => "step meets the SLO",
            Self::Undecided => "undecided",
            Self::Fails => "fails",
            Self::Overloaded => "fails: overloaded, no steady latency",
            Self::Invalid => "invalid: client was the limit",
        }
    }

    /// Draws it; a circle of `r`, and the others of like weight.
    pub(super) fn draw(self, c: &mut Canvas, at: Point, r: f64, colour: RGBColor) {
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
