//! The report as data: sections of blocks, made of typed text and tables of typed cells. The renderers convert it into
//! Markdown, HTML and text for a terminal, and escape text from outside; nothing here is escaped.

mod section;
mod table;
mod text;

pub use section::{Advice, Block, Bullet, Card, Document, Entry, Kind, Picture, Section};
pub use table::{Cell, Column, Field, Mark, Place, Priority, Setting, Table, UNKNOWN};
pub use text::{Span, Text, code, emphasis, plain, strong};
