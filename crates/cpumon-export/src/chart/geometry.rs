//! Places on a picture, in pixels from the top left corner.

#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// The point at `x`, `y`.
pub(super) fn at(x: f64, y: f64) -> Point {
    Point { x, y }
}

#[derive(Copy, Clone, Debug, Default, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn right(&self) -> f64 {
        self.left + self.width
    }

    pub(super) fn bottom(&self) -> f64 {
        self.top + self.height
    }
}
