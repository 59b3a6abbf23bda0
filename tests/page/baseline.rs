//! What a page looks like from far away: its beginning as a grid of shades, held against a baseline. It tells a chart that is missing, a
//! column that fell below another, or colours that did not turn; it does not tell one word from another.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

/// Columns and rows of the grid.
const GRID: (usize, usize) = (24, 40);
/// Height of the part that counts, as a multiple of the width of the window.
const PART: f64 = 1.6;
/// Largest mean difference between two grids, in shades of sixteen: other fonts and line breaks move less.
const MOST: f64 = 0.9;

/// Holds the beginning of a page against its baseline, `tests/fixtures/pages/NAME.txt`. With `GOODPUT_PAGE_BASELINE` the baseline is written
/// instead.
pub(crate) fn hold(name: &str, png: &[u8]) {
    let seen = grid(png);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/pages/{name}.txt"));
    if std::env::var_os("GOODPUT_PAGE_BASELINE").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text(&seen)).unwrap();
        return;
    }
    let wanted = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let wanted: Vec<u8> = wanted.chars().filter_map(|c| c.to_digit(16)).map(|d| d as u8).collect();
    assert_eq!(wanted.len(), seen.len(), "{}", path.display());
    let apart: f64 = wanted.iter().zip(&seen).map(|(a, b)| f64::from(a.abs_diff(*b))).sum();
    let mean = apart / seen.len() as f64;
    assert!(
        mean <= MOST,
        "{name} looks different from {}, by {mean:.2} shades on average; now it is\n{}",
        path.display(),
        text(&seen)
    );
}

/// Returns the mean shade of each cell: 0 for black, 15 for white.
fn grid(png: &[u8]) -> Vec<u8> {
    let mut decoder = png::Decoder::new(std::io::Cursor::new(png));
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    let (width, bytes) = (info.width as usize, info.color_type.samples());
    let height = ((width as f64 * PART) as usize).min(info.height as usize);
    let (columns, rows) = GRID;
    let shade = |column: usize, row: usize| {
        let (x0, x1) = (column * width / columns, (column + 1) * width / columns);
        let (y0, y1) = (row * height / rows, (row + 1) * height / rows);
        let of = |x: usize, y: usize| {
            let at = (y * width + x) * bytes;
            pixels[at..at + bytes.min(3)].iter().map(|v| u64::from(*v)).sum::<u64>() / bytes.min(3) as u64
        };
        let sum: u64 = (y0..y1).flat_map(|y| (x0..x1).map(move |x| (x, y))).map(|(x, y)| of(x, y)).sum();
        let n = ((x1 - x0) * (y1 - y0)).max(1) as u64;
        (sum / n / 16) as u8
    };
    (0..rows)
        .flat_map(|row| (0..columns).map(move |column| (column, row)))
        .map(|(c, r)| shade(c, r))
        .collect()
}

fn text(grid: &[u8]) -> String {
    let mut text = String::new();
    for row in grid.chunks(GRID.0) {
        for shade in row {
            write!(text, "{shade:x}").unwrap();
        }
        text.push('\n');
    }
    text
}
