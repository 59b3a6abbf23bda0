//! Every chart of every case is drawn. Set `GOODPUT_CHART_DIR` to keep the pictures and look at them.

use super::raster::SCALE;
const PIXELS_PER_METRE: u32 = 11_339;
use super::frame::WIDTH;
use super::*;
use crate::report::fixture;

struct Picture {
    width: usize,
    rows: Vec<Vec<u8>>,
}

fn decode(bytes: &[u8], name: &str) -> Picture {
    let mut reader = png::Decoder::new(std::io::Cursor::new(bytes)).read_info().unwrap();
    let info = reader.info();
    let dims = info.pixel_dims.unwrap_or_else(|| panic!("{name}: no pHYs"));
    assert_eq!((dims.xppu, dims.yppu), (PIXELS_PER_METRE, PIXELS_PER_METRE), "{name}");
    assert_eq!(info.width, WIDTH * SCALE, "{name}");
    let (width, height) = (info.width as usize, info.height as usize);
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    reader.next_frame(&mut pixels).unwrap();
    assert!(height < 3 * width, "{name}: {height} rows");
    Picture { width, rows: pixels.chunks(width * 3).map(<[u8]>::to_vec).collect() }
}

impl Picture {
    /// Share of pixels within a band of rows (as shares of the height) that are not white.
    fn ink(&self, from: f64, to: f64) -> f64 {
        let at = |share: f64| (self.rows.len() as f64 * share) as usize;
        let rows = &self.rows[at(from)..at(to)];
        let inked = rows.iter().flat_map(|r| r.chunks(3)).filter(|p| p.iter().any(|c| *c < 240)).count();
        inked as f64 / (rows.len() * self.width) as f64
    }

    /// Whether something touches the outermost logical pixel: cut off text.
    fn touches_the_edge(&self) -> bool {
        let s = SCALE as usize;
        let n = self.rows.len();
        let dark = |p: &[u8]| p.iter().any(|c| *c < 240);
        self.rows.iter().enumerate().any(|(i, r)| {
            let sides = r[..3 * s].chunks(3).any(dark) || r[3 * (self.width - s)..].chunks(3).any(dark);
            sides || ((i < s || i >= n - s) && r.chunks(3).any(dark))
        })
    }
}

#[test]
fn every_chart_of_every_case_is_drawn() {
    let keep = std::env::var_os("GOODPUT_CHART_DIR").map(std::path::PathBuf::from);
    for (case, run) in fixture::cases() {
        for chart in CHARTS {
            let name = format!("{case}-{}", chart.name);
            let bytes = chart.png(&run).unwrap();
            if let Some(dir) = &keep {
                std::fs::write(dir.join(format!("{name}.png")), &bytes).unwrap();
            }
            let picture = decode(&bytes, &name);
            for band in [0.0, 0.25, 0.5, 0.75] {
                assert!(picture.ink(band, band + 0.25) > 0.002, "{name}: nothing from {band} on");
            }
            assert!(!picture.touches_the_edge(), "{name}: cut off");
        }
    }
}
