//! Documents, their sections, and the blocks that these are made of.

use super::cell::Mark;
use super::table::Table;
use super::text::Text;

/// A report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// The answer in one line.
    pub(crate) title: Text,
    /// The answers as cards, for pages that start with an overview.
    pub(crate) cards: Vec<Card>,
    /// The blocks below the title, before any section.
    pub(crate) lead: Vec<Block>,
    /// The sections, in order.
    pub(crate) sections: Vec<Section>,
}

impl Document {
    /// Returns a document of sections alone, for a terminal.
    pub(crate) fn of(sections: Vec<Section>) -> Self {
        Self { sections, ..Self::default() }
    }
}

/// A summary card of one answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Card {
    /// Series, tier or class of the answer, if there are several answers.
    pub(crate) whose: String,
    /// Its status in words, shown after the mark.
    pub(crate) status: String,
    /// The mark of its status.
    pub(crate) mark: Mark,
    /// Label of the figure.
    pub(crate) label: String,
    /// The figure.
    pub(crate) value: String,
    /// Its unit; empty if it has none.
    pub(crate) unit: String,
    /// Secondary facts: names and values.
    pub(crate) facts: Vec<(String, String)>,
}

/// The kinds of sections. The kind determines the title, and if pages fold the section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Question and system under test.
    Question,
    /// Result.
    Answer,
    /// Variants side by side.
    Variants,
    /// Levels or variants with the evidence for each.
    Decisions,
    /// Series side by side.
    Comparison,
    /// A cold and a warm cache.
    CachePair,
    /// A mix compared with its classes.
    Mixing,
    /// Why the search ended.
    Stopped,
    /// Capacity and cost at the answer.
    Capacity,
    /// Sensitivity of the answer to the workload.
    Sensitivity,
    /// Recovery from a surge.
    Recovery,
    /// Causes, and recommended changes.
    Why,
    /// Caveats.
    Caveats,
    /// Pictures.
    Charts,
    /// Every step.
    Steps,
    /// Misses of each limit.
    Limits,
    /// Percentiles of each metric.
    Percentiles,
    /// The goodput as the limits are scaled.
    Scale,
    /// Tokens, lengths and cost of each step.
    Throughput,
    /// Measured latency compared with the hardware's lower bound.
    Roofline,
    /// Lengths of the requests sent.
    Sent,
    /// How much of a trace was replayed.
    Replayed,
    /// The classes of a mix.
    Classes,
    /// The turns of conversations.
    Turns,
    /// The replicas of a service.
    Replicas,
    /// Requests that failed.
    Failures,
    /// Checks of answers.
    Checks,
    /// The client's own limits.
    Client,
    /// The load machines, if several sent.
    Workers,
    /// The first requests to each model.
    FirstRequests,
    /// The server's own counters.
    ServerView,
    /// One of several series.
    Series,
    /// Hardware and software of the server.
    Server,
    /// How to repeat the measurement.
    Reproduce,
    /// The plan's free text.
    Notes,
    /// A section without a specific kind: its title describes it.
    Other,
}

impl Kind {
    /// Returns the title of a section of this kind; empty if each section has a different one.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::Question => "Question",
            Self::Answer => "Answer",
            Self::Variants => "Variants",
            Self::Decisions => "Accepted and rejected",
            Self::Comparison => "Comparison",
            Self::CachePair => "Cold and warm caches",
            Self::Mixing => "What mixing costs",
            Self::Stopped => "Why it stopped",
            Self::Capacity => "Capacity and cost",
            Self::Sensitivity => "What moves the answer",
            Self::Recovery => "Recovery from a surge",
            Self::Why => "Why, and what to change",
            Self::Caveats => "Caveats",
            Self::Charts => "Charts",
            Self::Steps => "Steps",
            Self::Limits => "Limits",
            Self::Percentiles => "Percentiles",
            Self::Scale => "Tighter and looser limits",
            Self::Throughput => "Throughput",
            Self::Roofline => "Against the hardware",
            Self::Sent => "What was sent",
            Self::Replayed => "What was replayed",
            Self::Classes => "By class",
            Self::Turns => "By turn",
            Self::Replicas => "Replicas",
            Self::Failures => "Failures",
            Self::Checks => "Answer checks",
            Self::Client => "The client",
            Self::Workers => "Load machines",
            Self::FirstRequests => "First requests",
            Self::ServerView => "The server's own view",
            Self::Server => "The server",
            Self::Reproduce => "How to reproduce",
            Self::Notes => "Notes",
            Self::Series | Self::Other => "",
        }
    }

    /// Returns true if a section holds detailed evidence: pages fold it until the reader opens it.
    pub(crate) const fn is_detail(self) -> bool {
        matches!(
            self,
            Self::Limits
                | Self::Percentiles
                | Self::Throughput
                | Self::Roofline
                | Self::Sent
                | Self::Replayed
                | Self::Checks
                | Self::Client
                | Self::Workers
                | Self::ServerView
                | Self::Steps
        )
    }
}

/// A title with the blocks below it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Section {
    /// Its kind.
    pub(crate) kind: Kind,
    /// Its title, in one line; may be empty on a terminal, where a blank line also separates sections.
    pub(crate) title: Text,
    /// The blocks below the title.
    pub(crate) blocks: Vec<Block>,
    /// Subsections, such as those of a series.
    pub(crate) parts: Vec<Section>,
}

impl Section {
    /// Returns a section with the title of its kind.
    pub(crate) fn new(kind: Kind, blocks: Vec<Block>) -> Self {
        Self { kind, title: kind.title().into(), blocks, parts: Vec::new() }
    }

    /// Returns a section with a custom title.
    pub(crate) fn titled(title: impl Into<Text>, blocks: Vec<Block>) -> Self {
        Self { kind: Kind::Other, title: title.into(), blocks, parts: Vec::new() }
    }

    /// Returns a section without a title.
    pub(crate) fn untitled(blocks: Vec<Block>) -> Self {
        Self::titled("", blocks)
    }

    /// Returns true if there is nothing to say.
    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.iter().all(Block::is_empty) && self.parts.iter().all(Self::is_empty)
    }
}

/// A statement with advice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Advice {
    /// The statement.
    pub(crate) text: Text,
    /// The advice; empty if there is none.
    pub(crate) advice: Text,
}

impl Advice {
    /// Returns a statement with advice, which may be empty.
    pub(crate) fn new(text: impl Into<Text>, advice: impl Into<Text>) -> Self {
        Self { text: text.into(), advice: advice.into() }
    }
}

/// The sign before a line of an outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bullet {
    /// Nothing.
    None,
    /// Its number.
    Number(usize),
    /// An arrow, which marks advice.
    Arrow,
    /// A bar, which marks a quoted line.
    Bar,
}

/// A line with others below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The sign before it.
    pub(crate) bullet: Bullet,
    /// The line.
    pub(crate) text: Text,
    /// The lines below it.
    pub(crate) below: Vec<Self>,
}

impl Entry {
    /// Returns a line with nothing below it.
    pub(crate) fn new(bullet: Bullet, text: impl Into<Text>) -> Self {
        Self { bullet, text: text.into(), below: Vec::new() }
    }

    /// Returns a line without a bullet.
    pub(crate) fn line(text: impl Into<Text>) -> Self {
        Self::new(Bullet::None, text)
    }

    /// Adds lines below this one.
    #[must_use]
    pub(crate) fn over(self, below: Vec<Self>) -> Self {
        Self { below, ..self }
    }
}

/// A reference to a chart, which is drawn separately.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Picture {
    /// The path of its PNG, relative to the report.
    pub(crate) path: String,
    /// Caption.
    pub(crate) caption: String,
    /// Alternative text: the answer of the run in one line.
    pub(crate) alternative: String,
}

/// A block of a section.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Block {
    /// A paragraph.
    Paragraph(Text),
    /// A heading within a section.
    Heading(Text),
    /// Items without an order.
    List(Vec<Text>),
    /// Lines, each with others below it.
    Outline(Vec<Entry>),
    /// Explanation of the signs and words of a table.
    Legend(Vec<Text>),
    /// Names with their values.
    Facts(Vec<(Text, Text)>),
    /// Caveats with advice.
    Caveats(Vec<Advice>),
    /// A warning that must be seen before anything else.
    Warning(Text),
    /// A table.
    Table(Table),
    /// Preformatted text of several lines.
    Code {
        /// Its language, such as `toml`; `text` if it has none.
        language: &'static str,
        /// The lines.
        text: String,
    },
    /// A chart.
    Picture(Picture),
    /// Blocks folded below a summary line.
    Folded {
        /// The line.
        summary: Text,
        /// The blocks.
        blocks: Vec<Block>,
    },
}

impl Block {
    /// Returns a paragraph.
    pub(crate) fn paragraph(text: impl Into<Text>) -> Self {
        Self::Paragraph(text.into())
    }

    /// Returns names with their values.
    pub(crate) fn facts(facts: impl IntoIterator<Item = (impl Into<Text>, impl Into<Text>)>) -> Self {
        Self::Facts(facts.into_iter().map(|(name, text)| (name.into(), text.into())).collect())
    }

    /// Returns paragraphs.
    pub(crate) fn paragraphs(texts: impl IntoIterator<Item = impl Into<Text>>) -> Vec<Self> {
        texts.into_iter().map(Self::paragraph).collect()
    }

    /// Returns items without an order.
    pub(crate) fn list(items: impl IntoIterator<Item = impl Into<Text>>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }

    /// Returns the text of a paragraph.
    pub(crate) const fn text(&self) -> Option<&Text> {
        match self {
            Self::Paragraph(text) => Some(text),
            _ => None,
        }
    }

    /// Returns true if there is nothing to show.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Self::Paragraph(text) | Self::Heading(text) | Self::Warning(text) => text.is_empty(),
            Self::List(items) | Self::Legend(items) => items.is_empty(),
            Self::Outline(entries) => entries.is_empty(),
            Self::Facts(facts) => facts.is_empty(),
            Self::Caveats(all) => all.is_empty(),
            Self::Table(table) => table.rows.is_empty(),
            Self::Code { text, .. } => text.trim().is_empty(),
            Self::Picture(_) => false,
            Self::Folded { blocks, .. } => blocks.iter().all(Self::is_empty),
        }
    }
}

impl From<Table> for Block {
    fn from(table: Table) -> Self {
        Self::Table(table)
    }
}
