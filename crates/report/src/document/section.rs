//! Documents, their sections, and the blocks that these are made of.

use super::table::{Mark, Table};
use super::text::Text;

/// A report.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Document {
    /// The answer in one line.
    pub title: Text,
    /// The answers at a glance, for pages that have a first view.
    pub cards: Vec<Card>,
    /// What stands below the title, before any section.
    pub lead: Vec<Block>,
    /// The sections in their order.
    pub sections: Vec<Section>,
}

/// An answer at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// Whose answer it is where there are several.
    pub whose: String,
    /// Its status in words, behind its sign.
    pub status: String,
    /// Whether it is good.
    pub mark: Mark,
    /// What the figure is called.
    pub label: String,
    /// The figure.
    pub value: String,
    /// Its unit; empty where it has none.
    pub unit: String,
    /// What is to be known beside it: names and values.
    pub facts: Vec<(String, String)>,
}

/// The sections that reports have. What they are called, and which of them pages fold, is told of the kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// What was asked, and of what.
    Question,
    /// What was found.
    Answer,
    /// Variants beside one another.
    Variants,
    /// Levels or variants with the evidence for each.
    Decisions,
    /// Series beside one another.
    Comparison,
    /// A cold and a warm cache.
    CachePair,
    /// A mix beside its classes.
    Mixing,
    /// Why the search ended.
    Stopped,
    /// What the answer amounts to.
    Capacity,
    /// What moves the answer.
    Sensitivity,
    /// Recovery from a surge.
    Recovery,
    /// Causes, and what to change.
    Why,
    /// What to read with care.
    Caveats,
    /// Pictures.
    Charts,
    /// Every step.
    Steps,
    /// Misses of each limit.
    Limits,
    /// Percentiles of each metric.
    Percentiles,
    /// The goodput by a factor on the limits.
    Scale,
    /// Tokens, lengths and cost of each step.
    Throughput,
    /// The hardware's floor.
    Roofline,
    /// Lengths of what was sent.
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
    /// The server's own counters.
    ServerView,
    /// One of several series.
    Series,
    /// What the server is.
    Server,
    /// How to measure it again.
    Reproduce,
    /// The plan's free text.
    Notes,
    /// A section without a kind of its own: its title says what it is.
    Other,
}

impl Kind {
    /// The title of a section of this kind; empty where each has its own.
    pub const fn title(self) -> &'static str {
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
            Self::ServerView => "The server's own view",
            Self::Server => "The server",
            Self::Reproduce => "How to reproduce",
            Self::Notes => "Notes",
            Self::Series | Self::Other => "",
        }
    }

    /// Returns true if a section says what an answer rests on in full: a page folds it until somebody asks.
    pub const fn is_detail(self) -> bool {
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
                | Self::ServerView
                | Self::Steps
        )
    }
}

/// A title with what stands below it.
#[derive(Debug, Clone, PartialEq)]
pub struct Section {
    /// Which section it is.
    pub kind: Kind,
    /// Its title, in one line; may be empty on a terminal, where a blank line parts sections as well.
    pub title: Text,
    /// What stands below the title.
    pub blocks: Vec<Block>,
    /// Sections of this one, as those of a series.
    pub parts: Vec<Section>,
}

impl Section {
    /// Returns a section with the title of its kind.
    pub fn new(kind: Kind, blocks: Vec<Block>) -> Self {
        Self { kind, title: kind.title().into(), blocks, parts: Vec::new() }
    }

    /// Returns a section with a title of its own.
    pub fn titled(title: impl Into<Text>, blocks: Vec<Block>) -> Self {
        Self { kind: Kind::Other, title: title.into(), blocks, parts: Vec::new() }
    }

    /// Returns true if there is nothing to say.
    pub fn is_empty(&self) -> bool {
        self.blocks.iter().all(Block::is_empty) && self.parts.iter().all(Self::is_empty)
    }
}

/// A statement with what to do about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Advice {
    /// What is to be known.
    pub text: Text,
    /// What to do; empty where there is nothing.
    pub advice: Text,
}

/// What stands before a line of an outline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bullet {
    /// Nothing.
    None,
    /// Its number.
    Number(usize),
    /// An arrow: what to do.
    Arrow,
    /// A bar: a line quoted from elsewhere.
    Bar,
}

/// A line with others below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What stands before it.
    pub bullet: Bullet,
    /// The line.
    pub text: Text,
    /// The lines below it.
    pub below: Vec<Self>,
}

impl Entry {
    /// Returns a line with nothing below it.
    pub fn new(bullet: Bullet, text: impl Into<Text>) -> Self {
        Self { bullet, text: text.into(), below: Vec::new() }
    }

    /// Returns a line without a bullet.
    pub fn line(text: impl Into<Text>) -> Self {
        Self::new(Bullet::None, text)
    }

    /// Puts lines below this one.
    #[must_use]
    pub fn over(self, below: Vec<Self>) -> Self {
        Self { below, ..self }
    }
}

/// A chart in its place; it is drawn apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Picture {
    /// The path of its PNG, from where the report lies.
    pub path: String,
    /// What it shows.
    pub caption: String,
    /// What it shows of this run: the answer in one line.
    pub alternative: String,
}

/// What a section is made of.
#[derive(Debug, Clone, PartialEq)]
pub enum Block {
    /// A paragraph.
    Paragraph(Text),
    /// A heading within a section.
    Heading(Text),
    /// Items without an order.
    List(Vec<Text>),
    /// Lines, each with others below it.
    Outline(Vec<Entry>),
    /// What the signs and words of a table mean.
    Legend(Vec<Text>),
    /// Names, each with what it is.
    Facts(Vec<(Text, Text)>),
    /// What to read with care, each with what to do.
    Caveats(Vec<Advice>),
    /// What must be seen before anything else.
    Warning(Text),
    /// A table.
    Table(Table),
    /// Text of several lines that stand as they are.
    Code {
        /// Its language, as `toml`; `text` where it has none.
        language: &'static str,
        /// The lines.
        text: String,
    },
    /// A chart.
    Picture(Picture),
    /// Blocks that are folded away below a line.
    Folded {
        /// The line.
        summary: Text,
        /// The blocks.
        blocks: Vec<Block>,
    },
}

impl Block {
    /// Returns a paragraph.
    pub fn paragraph(text: impl Into<Text>) -> Self {
        Self::Paragraph(text.into())
    }

    /// Returns the text of a paragraph.
    pub const fn text(&self) -> Option<&Text> {
        match self {
            Self::Paragraph(text) => Some(text),
            _ => None,
        }
    }

    /// Returns true if there is nothing to show.
    pub fn is_empty(&self) -> bool {
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
