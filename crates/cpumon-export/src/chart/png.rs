//! Renders SVG as PNG with resvg and the font that is embedded here, so the bytes are the same on every machine, whatever
//! fonts it has.

use std::sync::{Arc, OnceLock};

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

/// Renders a document of this crate.
pub(super) fn pixels(document: &str) -> Result<Vec<u8>, ExportError> {
    let options = Options { font_family: FAMILY.to_owned(), fontdb: fonts(), ..Options::default() };
    let failed = |reason: String| ExportError::Picture { reason };
    let tree = Tree::from_str(document, &options).map_err(|error| failed(error.to_string()))?;
    let size = tree.size().to_int_size().scale_by(SCALE).ok_or_else(|| failed("no size".into()))?;
    let mut pixmap =
        Pixmap::new(size.width(), size.height()).ok_or_else(|| failed("too many pixels".into()))?;
    resvg::render(&tree, Transform::from_scale(SCALE, SCALE), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| failed(error.to_string()))
}
