//! The report as data: sections of blocks, made of typed text and tables of typed cells. The renderers convert it into
//! Markdown, HTML and text for a terminal, and escape text from outside; nothing here is escaped.

mod cell;
mod section;
mod table;
mod text;

pub(crate) use cell::{Cell, Mark, UNKNOWN};
pub use section::Document;
pub(crate) use section::{Advice, Block, Bullet, Card, Entry, Kind, Picture, Section};
pub(crate) use table::{Column, Field, Place, Priority, Setting, Table};
pub(crate) use text::{Span, Text, code, emphasis, plain, strong};
