//! Variants of image files: pixels that differ slightly and take as long to send and to decode.
//!
//! Servers recognise an image that they have seen by its decoded pixels. Metadata would not make it a new one.

use super::header::quantization;
use super::{Image, ImageFormat};
use rand::{Rng, RngExt};
use rand_chacha::ChaCha8Rng;
use std::io::Cursor;

/// Number of entries of each quantization table that are changed.
const CHANGED_ENTRIES: usize = 20;
/// Least entry of a quantization table that a change by one alters by an eighth at most.
const COARSE: u16 = 8;
/// Number of bits of a PNG's pixels that are random.
const NONCE_BITS: usize = 128;

/// Returns a variant of a file that depends on the random numbers.
///
/// # Errors
/// It cannot be decoded, or has nothing to change; the message begins with a verb, so that it can follow the name of the file.
pub(super) fn vary(format: ImageFormat, file: Vec<u8>, rng: &mut ChaCha8Rng) -> Result<Image, String> {
    let bytes = match format {
        ImageFormat::Jpeg => vary_jpeg(file, rng)?,
        ImageFormat::Png => vary_png(&file, rng).map_err(|e| format!("cannot be decoded: {e}"))?,
    };
    Ok(Image { media_type: format.media_type(), bytes })
}

/// Changes the quantization tables of a JPEG file: a factor of each frequency, in all blocks of the image. The compressed data and the size
/// of the file remain.
fn vary_jpeg(mut file: Vec<u8>, rng: &mut ChaCha8Rng) -> Result<Vec<u8>, String> {
    let tables = quantization(&file);
    if tables.is_empty() {
        return Err("is a JPEG file without quantization tables".into());
    }
    for table in tables {
        let (head, entries) = file[table].split_first_mut().expect("a table has 65 bytes or more");
        let is_wide = *head >> 4 > 0;
        let mut values: Vec<u16> = if is_wide {
            entries.as_chunks().0.iter().map(|bytes| u16::from_be_bytes(*bytes)).collect()
        } else {
            entries.iter().map(|byte| u16::from(*byte)).collect()
        };
        vary_table(&mut values, if is_wide { u16::MAX } else { u16::from(u8::MAX) }, rng);
        if is_wide {
            let all = entries.as_chunks_mut().0.iter_mut();
            all.zip(values).for_each(|(bytes, value)| *bytes = value.to_be_bytes());
        } else {
            entries.iter_mut().zip(values).for_each(|(byte, value)| *byte = value as u8);
        }
    }
    Ok(file)
}

/// Changes entries of a quantization table by at most one. The lowest frequencies occur in any image; those with small entries come last,
/// since they would change most. The first entry is the brightness of blocks, and is left as it is.
fn vary_table(values: &mut [u16], most: u16, rng: &mut ChaCha8Rng) {
    let mut order: Vec<usize> = (1..values.len()).filter(|at| values[*at] > 0).collect();
    order.sort_by_key(|at| std::cmp::Reverse(values[*at].min(COARSE)));
    for at in order.into_iter().take(CHANGED_ENTRIES) {
        let value = values[at];
        values[at] = rng.random_range(value.max(2) - 1..=value.saturating_add(1).min(most));
    }
}

/// Changes the lowest bits of the first pixels of a PNG file. Palettes are expanded, and metadata are left out.
fn vary_png(file: &[u8], rng: &mut ChaCha8Rng) -> Result<Vec<u8>, String> {
    let mut decoder = png::Decoder::new(Cursor::new(file));
    // Palettes, fewer than 8 bits and transparent colours become samples of 8 bits.
    decoder.set_transformations(png::Transformations::EXPAND);
    let mut reader = decoder.read_info().map_err(|e| e.to_string())?;
    let mut pixels = vec![0; reader.output_buffer_size().ok_or("it has too many pixels")?];
    let frame = reader.next_frame(&mut pixels).map_err(|e| e.to_string())?;
    pixels.truncate(frame.buffer_size());
    change_pixels(&mut pixels, frame.color_type, frame.bit_depth, rng);
    let mut out = Vec::with_capacity(file.len() + file.len() / 4);
    let mut encoder = png::Encoder::new(&mut out, frame.width, frame.height);
    encoder.set_color(frame.color_type);
    encoder.set_depth(frame.bit_depth);
    // Twice as fast as the default, for 2 % more bytes.
    encoder.set_compression(png::Compression::Fast);
    let written = encoder.write_header().and_then(|mut writer| writer.write_image_data(&pixels));
    written.map_err(|e| e.to_string())?;
    Ok(out)
}

/// Changes colours of the first pixels that can be seen, by one of 256 levels at most.
fn change_pixels(pixels: &mut [u8], color: png::ColorType, depth: png::BitDepth, rng: &mut ChaCha8Rng) {
    // Many servers decode 16 bits to the upper 8.
    let sample = if depth == png::BitDepth::Sixteen { 2 } else { 1 };
    let has_alpha = matches!(color, png::ColorType::GrayscaleAlpha | png::ColorType::Rgba);
    let colors = color.samples() - usize::from(has_alpha);
    // Transparent colours vanish where a server decodes to RGB.
    let is_seen = |pixel: &[u8]| !has_alpha || pixel[colors * sample] >= 128;
    let seen = pixels.chunks_exact_mut(color.samples() * sample).filter(|pixel| is_seen(pixel));
    let samples = seen.flat_map(|pixel| pixel[..colors * sample].chunks_exact_mut(sample));
    let mut nonce = [0; NONCE_BITS / 8];
    rng.fill_bytes(&mut nonce);
    let bits = nonce.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1));
    samples.zip(bits).for_each(|(sample, bit)| sample[0] ^= bit);
}

#[cfg(test)]
mod tests;
