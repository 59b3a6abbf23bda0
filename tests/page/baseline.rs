//! What a page looks like from far away: its beginning as a grid of how much ink each cell has, held against a baseline. It tells a chart that
//! is missing, a column that fell below another, or colours that did not turn; it does not tell one word from another. Other fonts break other
//! lines: a baseline holds for pages whose text is as wide as its own.

use crate::browser::Browser;
use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::PathBuf;

/// Columns and rows of the grid.
const GRID: (usize, usize) = (12, 24);
/// Height of the part that counts, as a multiple of the width of the window.
const PART: f64 = 1.8;
/// Largest difference between two grids, as a share of the ink of the baseline.
const MOST: f64 = 0.15;
/// Least difference of a pixel from the ground that counts as ink.
const INK: u64 = 24;

/// Width of a text in the fonts of a page, in px.
const FONTS: &str = "(() => { const c = document.createElement('canvas').getContext('2d'); \
     c.font = getComputedStyle(document.body).font; return c.measureText('The quick brown fox jumps 0123456789').width })()";

/// A picture from far away.
struct Grid {
    /// Brightness of the ground: 0 for black, 15 for white.
    ground: u8,
    /// Square root of the share of each cell that has ink, from 0 to 15.
    ink: Vec<u8>,
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/pages/{name}.txt"))
}

/// Holds the beginning of a page against its baseline, `tests/fixtures/pages/NAME.txt`. With `GOODPUT_PAGE_BASELINE` the baseline is written
/// instead.
pub(crate) fn hold(browser: &mut Browser, name: &str, png: &[u8]) {
    let fonts = browser.eval(FONTS).as_f64().unwrap();
    if std::env::var_os("GOODPUT_PAGE_BASELINE").is_some() {
        fs::create_dir_all(path(name).parent().unwrap()).unwrap();
        fs::write(path(name), format!("{fonts:.2}\n{}", text(&grid(png)))).unwrap();
        return;
    }
    let Some(apart) = distance(fonts, name, png) else { return };
    assert!(
        apart <= MOST,
        "{name} looks different from its baseline, by {apart:.2} of its ink; now it is\n{}",
        text(&grid(png))
    );
}

/// Asserts that a picture would not pass for the baseline.
pub(crate) fn differs(browser: &mut Browser, name: &str, png: &[u8]) {
    let fonts = browser.eval(FONTS).as_f64().unwrap();
    let Some(apart) = distance(fonts, name, png) else { return };
    assert!(apart > MOST, "{name} passes for its baseline, {apart:.2} of its ink apart");
}

/// Returns how far a picture is from a baseline, as a share of the baseline's ink; infinite if its ground has another brightness, and `None`
/// if it has other fonts.
fn distance(fonts: f64, name: &str, png: &[u8]) -> Option<f64> {
    let wanted = fs::read_to_string(path(name)).unwrap_or_else(|e| panic!("{}: {e}", path(name).display()));
    let (own_fonts, wanted) = wanted.split_once('\n').unwrap();
    if (own_fonts.parse::<f64>().unwrap() / fonts - 1.0).abs() > 0.002 {
        let said = format!("{name}: the baseline is of other fonts, and was not compared\n");
        std::io::stderr().write_all(said.as_bytes()).ok();
        return None;
    }
    let mut wanted = wanted.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8);
    let (ground, ink): (u8, Vec<u8>) = (wanted.next().unwrap(), wanted.collect());
    let seen = grid(png);
    assert_eq!(ink.len(), seen.ink.len(), "{}", path(name).display());
    if ground.abs_diff(seen.ground) > 1 {
        return Some(f64::INFINITY);
    }
    let apart: f64 = ink.iter().zip(&seen.ink).map(|(a, b)| f64::from(a.abs_diff(*b))).sum();
    Some(apart / ink.iter().map(|v| f64::from(*v)).sum::<f64>().max(1.0))
}

fn grid(png: &[u8]) -> Grid {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let (width, bytes) = (info.width as usize, info.color_type.samples());
    let height = ((width as f64 * PART) as usize).min(info.height as usize);
    let at = |x: usize, y: usize| {
        let at = (y * width + x) * bytes;
        let colours = &pixels[at..at + bytes.min(3)];
        colours.iter().map(|v| u64::from(*v)).sum::<u64>() / colours.len() as u64
    };
    // Nothing is written at the very edge.
    let ground = at(2, 2);
    let (columns, rows) = GRID;
    let ink = |column: usize, row: usize| {
        let (x0, x1) = (column * width / columns, (column + 1) * width / columns);
        let (y0, y1) = (row * height / rows, (row + 1) * height / rows);
        let inked = (y0..y1)
            .flat_map(|y| (x0..x1).map(move |x| (x, y)))
            .filter(|(x, y)| at(*x, *y).abs_diff(ground) >= INK);
        let share = inked.count() as f64 / ((x1 - x0) * (y1 - y0)).max(1) as f64;
        (15.0 * share.sqrt()).round() as u8
    };
    let ink = (0..rows).flat_map(|row| (0..columns).map(move |column| (column, row))).map(|(c, r)| ink(c, r));
    Grid { ground: (ground / 16) as u8, ink: ink.collect() }
}

fn text(grid: &Grid) -> String {
    let mut text = format!("{:x}\n", grid.ground);
    for row in grid.ink.chunks(GRID.0) {
        for ink in row {
            write!(text, "{ink:x}").unwrap();
        }
        text.push('\n');
    }
    text
}
