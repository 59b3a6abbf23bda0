use super::*;
use crate::images::Header;
use crate::seed::{Purpose, stream};

/// Pixels of a decoded file.
#[derive(Debug, PartialEq)]
struct Decoded {
    width: usize,
    height: usize,
    samples: Vec<u8>,
}

fn rng(id: u64) -> ChaCha8Rng {
    let mut rng = stream(1, "main", 1, Purpose::Pixels);
    rng.set_stream(id);
    rng
}

fn fixture(name: &str) -> Vec<u8> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/fixtures/images/");
    std::fs::read(format!("{folder}{name}")).unwrap()
}

fn decoded(file: &[u8]) -> Decoded {
    if Header::of(file).unwrap().format == ImageFormat::Jpeg {
        let mut decoder = zune_jpeg::JpegDecoder::new(Cursor::new(file));
        let samples = decoder.decode().unwrap();
        let (width, height) = decoder.dimensions().unwrap();
        return Decoded { width, height, samples };
    }
    let mut decoder = png::Decoder::new(Cursor::new(file));
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().unwrap();
    let mut samples = vec![0; reader.output_buffer_size().unwrap()];
    let frame = reader.next_frame(&mut samples).unwrap();
    Decoded { width: frame.width as usize, height: frame.height as usize, samples }
}

/// Returns the number of samples that differ, and their mean and largest difference.
fn difference(one: &Decoded, other: &Decoded) -> (usize, f64, u8) {
    assert_eq!((one.width, one.height, one.samples.len()), (other.width, other.height, other.samples.len()));
    let all: Vec<u8> = one.samples.iter().zip(&other.samples).map(|(a, b)| a.abs_diff(*b)).collect();
    let sum: f64 = all.iter().map(|d| f64::from(*d)).sum();
    let most = all.iter().copied().max().unwrap();
    (all.iter().filter(|d| **d > 0).count(), sum / all.len() as f64, most)
}

/// Returns a picture of waves and noise as JPEG.
fn waves(quality: u8) -> Vec<u8> {
    let mut noise = rng(99);
    let mut pixels = Vec::new();
    for y in 0..64_i32 {
        for x in 0..96_i32 {
            let wave = 60.0 * (f64::from(x) / 9.0).sin() + 50.0 * (f64::from(y * x) / 700.0).cos();
            let grey = (128.0 + wave) as i32 + noise.random_range(-6..=6);
            pixels.extend([grey, grey - 20, grey + 10].map(|level| level.clamp(0, 255) as u8));
        }
    }
    let mut out = Vec::new();
    let encoder = jpeg_encoder::Encoder::new(&mut out, quality);
    encoder.encode(&pixels, 96, 64, jpeg_encoder::ColorType::Rgb).unwrap();
    out
}

/// Rows: the file, and the largest mean and single difference of samples between two variants.
#[test]
fn variants_of_a_jpeg_differ_in_their_pixels_and_hardly() {
    for (name, file, mean, most) in [
        ("fixture", fixture("photo.jpg"), 1.0, 32),
        ("quality 50", waves(50), 3.0, 16),
        ("quality 75", waves(75), 1.0, 8),
        ("quality 90", waves(90), 1.0, 8),
        ("quality 95", waves(95), 1.0, 8),
        ("quality 100", waves(100), 15.0, 80),
    ] {
        let variant = |id| vary(ImageFormat::Jpeg, file.clone(), &mut rng(id)).unwrap().bytes;
        let all: Vec<Vec<u8>> = (0..40).map(variant).collect();
        assert_eq!(all[7], variant(7), "{name}: deterministic");
        let original = decoded(&file);
        for (at, one) in all.iter().enumerate() {
            assert_eq!(one.len(), file.len(), "{name}");
            let changed = one.iter().zip(&file).filter(|(a, b)| a != b).count();
            assert!((10..=3 * CHANGED_ENTRIES).contains(&changed), "{name}: {changed} bytes");
            let one = decoded(one);
            let others = all[..at].iter().map(|other| decoded(other));
            for other in others.chain([decoded(&file)]) {
                let (n, by, largest) = difference(&one, &other);
                assert!(n > 100, "{name}: {n} samples differ");
                assert!(by < mean && largest <= most, "{name}: by {by} on average, {largest} at most");
            }
            assert_eq!(original.width, one.width);
        }
    }
}

/// Cases: entries of a table, its largest entry, and the indexes that may change.
#[test]
fn a_change_of_a_table_is_small_and_valid() {
    let falling: Vec<u16> = (0..64).map(|at| 64 - at).collect();
    let rising: Vec<u16> = (1..=64).collect();
    let mut zeros = vec![0; 64];
    zeros[9] = 1;
    for (values, most, range) in [
        (falling, 255, 1..=20),
        (rising, 255, 7..=26),
        (vec![1; 64], 255, 1..=20),
        (vec![255; 64], 255, 1..=20),
        (vec![u16::MAX; 64], u16::MAX, 1..=20),
        (zeros, 255, 9..=9),
    ] {
        for id in 0..50 {
            let mut changed = values.clone();
            vary_table(&mut changed, most, &mut rng(id));
            for (at, (new, old)) in changed.iter().zip(&values).enumerate() {
                assert!(new.abs_diff(*old) <= 1 && *new <= most && (*new > 0 || *old == 0), "{at}: {new}");
                assert!(new == old || range.contains(&at), "{at} of {range:?}");
            }
        }
    }
}

#[test]
fn a_table_of_16_bits_is_varied_too() {
    let table = [vec![0x10], [1, 0].repeat(64)].concat();
    let head = [&[0xff, 0xd8, 0xff, 0xdb, 0, 131][..], &table, &[0xff, 0xda, 0, 2]].concat();
    let variant = vary(ImageFormat::Jpeg, head.clone(), &mut rng(1)).unwrap().bytes;
    let values = |file: &[u8]| -> Vec<u16> {
        file[7..135].as_chunks().0.iter().map(|bytes| u16::from_be_bytes(*bytes)).collect()
    };
    assert!(values(&head).iter().all(|value| *value == 256));
    assert!(values(&variant).iter().all(|value| value.abs_diff(256) <= 1));
    assert_ne!(values(&variant), values(&head));
    let error = vary(ImageFormat::Jpeg, b"\xff\xd8\xff\xda\0\x02".to_vec(), &mut rng(1)).unwrap_err();
    assert!(error.contains("without quantization tables"), "{error}");
}

/// Encodes pixels as PNG.
fn png_of(color: png::ColorType, depth: png::BitDepth, pixels: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut encoder = png::Encoder::new(&mut out, 32, 16);
    encoder.set_color(color);
    encoder.set_depth(depth);
    if color == png::ColorType::Indexed {
        encoder.set_palette((0..48).collect::<Vec<u8>>());
        encoder.set_trns(vec![255, 255, 0]);
    }
    encoder.write_header().and_then(|mut writer| writer.write_image_data(pixels)).unwrap();
    out
}

#[test]
fn variants_of_a_png_differ_by_single_levels() {
    use png::{BitDepth, ColorType};
    let pixels = |n: usize| (0..n).map(|at| (at % 251) as u8).collect::<Vec<u8>>();
    for (color, depth, bytes, expanded) in [
        (ColorType::Rgb, BitDepth::Eight, 3 * 512, (ColorType::Rgb, BitDepth::Eight)),
        (ColorType::Rgba, BitDepth::Eight, 4 * 512, (ColorType::Rgba, BitDepth::Eight)),
        (ColorType::Rgb, BitDepth::Sixteen, 6 * 512, (ColorType::Rgb, BitDepth::Sixteen)),
        (
            ColorType::GrayscaleAlpha,
            BitDepth::Sixteen,
            4 * 512,
            (ColorType::GrayscaleAlpha, BitDepth::Sixteen),
        ),
        (ColorType::Grayscale, BitDepth::Eight, 512, (ColorType::Grayscale, BitDepth::Eight)),
        (ColorType::Grayscale, BitDepth::One, 64, (ColorType::Grayscale, BitDepth::Eight)),
        (ColorType::Indexed, BitDepth::Four, 256, (ColorType::Rgba, BitDepth::Eight)),
    ] {
        let file = png_of(color, depth, &pixels(bytes));
        let variant = |id| vary(ImageFormat::Png, file.clone(), &mut rng(id)).unwrap().bytes;
        let (one, other) = (variant(1), variant(2));
        assert_eq!(one, variant(1), "{color:?}: deterministic");
        let info = png::Decoder::new(Cursor::new(&one)).read_info().unwrap().info().clone();
        assert_eq!((info.color_type, info.bit_depth), expanded);
        let (original, one, other) = (decoded(&file), decoded(&one), decoded(&other));
        for pair in [(&one, &other), (&one, &original)] {
            let (n, _, most) = difference(pair.0, pair.1);
            assert!((20..=NONCE_BITS).contains(&n) && most == 1, "{color:?}: {n} samples by {most}");
        }
        let low: Vec<usize> =
            (0..one.samples.len()).filter(|at| one.samples[*at] != other.samples[*at]).collect();
        match depth {
            BitDepth::Sixteen => assert!(low.iter().all(|at| at % 2 == 0), "the upper byte of samples"),
            _ => assert!(low.iter().all(|at| *at < 2 * NONCE_BITS * 4), "at the beginning: {low:?}"),
        }
    }
}

#[test]
fn transparent_pixels_and_alpha_stay_as_they_are() {
    let mut pixels = vec![9; 4 * 512];
    pixels.chunks_exact_mut(4).enumerate().for_each(|(at, pixel)| pixel[3] = if at < 100 { 0 } else { 255 });
    let file = png_of(png::ColorType::Rgba, png::BitDepth::Eight, &pixels);
    let variant = decoded(&vary(ImageFormat::Png, file, &mut rng(3)).unwrap().bytes);
    assert_eq!(variant.samples[..400], pixels[..400]);
    let alpha = |samples: &[u8]| samples.iter().skip(3).step_by(4).copied().collect::<Vec<u8>>();
    assert_eq!(alpha(&variant.samples), alpha(&pixels));
    assert_ne!(variant.samples, pixels);
}

#[test]
fn the_palette_of_a_png_is_expanded() {
    let file = fixture("map.png");
    let (original, variant) =
        (decoded(&file), decoded(&vary(ImageFormat::Png, file, &mut rng(1)).unwrap().bytes));
    let (n, _, most) = difference(&original, &variant);
    assert!((20..=NONCE_BITS).contains(&n) && most == 1, "{n} samples by {most}");
}

#[test]
fn a_damaged_file_is_refused_when_it_is_varied() {
    let file = fixture("map.png");
    let error = vary(ImageFormat::Png, file[..file.len() / 2].to_vec(), &mut rng(1)).unwrap_err();
    assert!(error.contains("cannot be decoded"), "{error}");
}
