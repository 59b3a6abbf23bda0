//! The legend, limited to the elements that are drawn.

use super::boundary::{KNEE_SHADE, OTHER, SAFE};
use super::canvas::{Align, Canvas, Point, Rect, Type};
use super::fit::shade;
use super::frame::GAP;
use super::heads::ellipsis;
use super::hue::{GOOD, GREEN, GREEN_TEXT, KNEE, hue_of, rgb};
use super::mark::Mark;
use plotters::style::{Color, RGBColor};

/// One entry of the legend.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Entry {
    /// A kind of step.
    Step(Mark, &'static str),
    /// A series, by its colour and its name.
    Series(RGBColor, String),
    /// The line of the answer.
    Line(String),
    /// The band of the answer.
    Band(String),
    /// The line at the safe rate.
    Safe(String),
    /// The lines of the other tiers.
    OtherTier,
    /// A fitted curve and its band.
    Fit(&'static str),
    /// The estimate of the limit over time: a line along a band.
    Path(&'static str),
    /// The safe rate in a chart whose levels run upwards.
    SafeLevel(String),
    /// The line at an untested knee.
    Knee,
    /// The line and the band of a knee that a test supports.
    TestedKnee,
    /// Good requests.
    Good(&'static str),
    /// A sentence about the whole chart.
    Say(String),
}

/// Distance from the left end of an entry to its words.
const SAMPLE: f64 = 16.0;

/// Returns an entry for each kind of mark that is drawn, in a fixed order.
pub(crate) fn marks(drawn: impl Iterator<Item = Mark>, words: fn(Mark) -> &'static str) -> Vec<Entry> {
    let drawn: Vec<Mark> = drawn.collect();
    let all = Mark::ALL.into_iter().filter(|m| drawn.contains(m));
    all.map(|m| Entry::Step(m, words(m))).collect()
}

/// Arranges entries in rows that fit between two edges.
pub(crate) fn rows(entries: Vec<Entry>, left: f64, right: f64) -> Vec<Vec<Entry>> {
    let mut rows: Vec<Vec<Entry>> = Vec::new();
    let mut x = f64::INFINITY;
    for entry in entries {
        // A sentence is cut if it is too long even for a separate row.
        let entry = match entry {
            Entry::Say(text) => Entry::Say(ellipsis(&Type::bold(11.5, rgb(0x222222)), &text, right - left)),
            other => other,
        };
        let width = entry.width();
        if x + width > right {
            rows.push(Vec::new());
            x = left;
        }
        x += width + GAP;
        if let Some(row) = rows.last_mut() {
            row.push(entry);
        }
    }
    rows
}

impl Entry {
    fn words(&self) -> &str {
        match self {
            Self::Step(_, text) | Self::Good(text) | Self::Fit(text) | Self::Path(text) => text,
            Self::Series(_, text)
            | Self::Line(text)
            | Self::Band(text)
            | Self::Safe(text)
            | Self::SafeLevel(text)
            | Self::Say(text) => text,
            Self::OtherTier => "goodput of another tier",
            Self::Knee => "knee",
            Self::TestedKnee => "knee, 90 % interval",
        }
    }

    fn face(&self) -> Type {
        let ink = rgb(0x222222);
        if matches!(self, Self::Say(_)) { Type::bold(11.5, ink) } else { Type::book(11.5, ink) }
    }

    /// Returns its width with its sample, in logical pixels.
    pub(crate) fn width(&self) -> f64 {
        let sample = if matches!(self, Self::Say(_)) { 0.0 } else { SAMPLE };
        sample + self.face().width(self.words())
    }

    /// Draws it from its left end on a baseline.
    pub(crate) fn draw(&self, c: &mut Canvas, (x, y): Point, colour: RGBColor) {
        let middle = (x + 5.0, y - 4.0);
        match self {
            Self::Step(mark, _) => mark.draw(c, middle, 4.4, colour),
            Self::Series(own, _) => c.stroke((x - 1.0, middle.1), (x + 11.5, middle.1), 3.4, *own),
            Self::Line(_) => c.stroke((middle.0, y + 1.5), (middle.0, y - 9.5), 2.0, GREEN),
            Self::OtherTier => c.stroke((middle.0, y + 1.5), (middle.0, y - 9.5), OTHER, GREEN),
            Self::Band(_) => c.fill(&Rect { x, y: y - 9.5, w: 11.0, h: 11.0 }, GREEN.mix(0.26)),
            Self::Safe(_) => c.dashes([(middle.0, y + 1.5), (middle.0, y - 9.5)], 1.6, SAFE, GREEN_TEXT),
            Self::Fit(_) => {
                c.fill(&Rect { x: x - 1.0, y: y - 9.5, w: 12.5, h: 11.0 }, shade(hue_of(0)));
                c.stroke((x - 1.0, middle.1), (x + 11.5, middle.1), 2.2, hue_of(0).middle);
            }
            Self::Path(_) => {
                c.fill(&Rect { x: x - 1.0, y: y - 9.5, w: 12.5, h: 11.0 }, GREEN.mix(0.18));
                c.stroke((x - 1.0, middle.1), (x + 11.5, middle.1), 2.0, GREEN);
            }
            Self::SafeLevel(_) => {
                c.dashes([(x - 2.0, middle.1), (x + 11.5, middle.1)], 1.6, SAFE, GREEN_TEXT)
            }
            Self::Knee => c.dashes([(middle.0, y + 1.5), (middle.0, y - 9.5)], 1.3, (1.6, 2.6), KNEE),
            Self::TestedKnee => {
                c.fill(&Rect { x, y: y - 9.5, w: 11.0, h: 11.0 }, KNEE.mix(2.0 * KNEE_SHADE));
                c.dashes([(middle.0, y + 1.5), (middle.0, y - 9.5)], 1.3, (1.6, 2.6), KNEE);
            }
            Self::Good(_) => c.fill(&Rect { x: x + 1.0, y: y - 8.0, w: 8.0, h: 8.0 }, GOOD.into()),
            Self::Say(_) => {}
        }
        let words = if matches!(self, Self::Say(_)) { x } else { x + SAMPLE };
        c.text((words, y), Align::Left, &self.face(), self.words());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_fit_and_hold_every_entry() {
        let entries: Vec<Entry> = (0..7).map(|i| Entry::Line(format!("entry number {i}"))).collect();
        let rows = rows(entries.clone(), 10.0, 300.0);
        assert!(rows.len() > 2);
        for row in &rows {
            let width: f64 = row.iter().map(|e| e.width() + GAP).sum();
            assert!(10.0 + width - GAP <= 300.0);
        }
        assert_eq!(rows.concat(), entries);
    }

    #[test]
    fn marks_that_are_not_drawn_have_no_entry() {
        let entries = marks([Mark::Fails, Mark::Meets, Mark::Fails].into_iter(), Mark::words);
        assert_eq!(entries, [Mark::Meets, Mark::Fails].map(|m| Entry::Step(m, m.words())));
    }
}
