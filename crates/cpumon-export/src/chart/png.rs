//! Renders SVG as PNG with resvg and the font that is embedded here, so the bytes are the same on every machine, whatever
//! fonts it has.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::{Options, Tree, fontdb};

use crate::ExportError;

/// Pixels of the PNG for each pixel of the SVG.
const SCALE: f32 = 2.0;
const FAMILY: &str = "Inter";

/// The embedded font, and no other.
fn fonts() -> Arc<fontdb::Database> {
    static FONTS: OnceLock<Arc<fontdb::Database>> = OnceLock::new();
    Arc::clone(FONTS.get_or_init(|| {
        let mut fonts = fontdb::Database::new();
        fonts.load_font_data(include_bytes!("font/Inter-chart.ttf").to_vec());
        fonts.set_sans_serif_family(FAMILY);
        Arc::new(fonts)
    }))
}

/// Renders a document of this crate. One at a time: the largest picture has 4800 x 4800 pixels, 92 MB.
pub(super) fn pixels(document: &str) -> Result<Vec<u8>, ExportError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let options = Options { font_family: FAMILY.to_owned(), fontdb: fonts(), ..Options::default() };
    let failed = |reason: String| ExportError::Picture { reason };
    let tree = Tree::from_str(document, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| failed("no size".into()))?;
    let mut pixmap =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| failed("too many pixels".into()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    encode(pixmap).map_err(|error| failed(error.to_string()))
}

/// As `Pixmap::encode_png`, but without its copy of all pixels.
fn encode(pixmap: Pixmap) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, pixmap.width(), pixmap.height());
    encoder.set_color(png::ColorType::Rgba);
    encoder.set_depth(png::BitDepth::Eight);
    let mut writer = encoder.write_header()?;
    writer.write_image_data(&pixmap.take_demultiplied())?;
    writer.finish()?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use resvg::tiny_skia::Color;

    use super::*;

    #[test]
    fn pixels_are_encoded_as_the_renderer_does_it() {
        let mut pixmap = Pixmap::new(7, 5).unwrap();
        pixmap.fill(Color::from_rgba8(200, 100, 50, 128));
        assert_eq!(encode(pixmap.clone()).unwrap(), pixmap.encode_png().unwrap());
    }
}
