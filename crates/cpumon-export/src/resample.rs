//! Adds up the intervals of one host into windows, e.g. of a minute. The sums are exact.

use cpumon_model::Interval;
use cpumon_query::IntervalSum;

use crate::ExportError;

/// Adds up intervals. A window holds the intervals that *end* in it; a restart of the host begins a new one.
pub(crate) struct Resampler {
    window_ns: i128,
    current: Option<(i128, IntervalSum)>,
}

type Visit<'v> = dyn FnMut(&Interval) -> Result<(), ExportError> + 'v;

impl Resampler {
    pub fn new(window_ns: u64) -> Self {
        Self { window_ns: i128::from(window_ns.max(1)), current: None }
    }

    /// Takes the next interval; calls `visit` with a window that is complete.
    pub fn push(&mut self, interval: &Interval, visit: &mut Visit<'_>) -> Result<(), ExportError> {
        // Windows include their end: an interval that ends exactly there belongs to the window before the border.
        let window = (i128::from(interval.end.wall_ns) - 1).div_euclid(self.window_ns);
        match &mut self.current {
            Some((at, merged)) if *at == window && merged.continues(interval) => merged.add(interval),
            current => {
                let before = current.replace((window, IntervalSum::new(interval)));
                if let Some((_, merged)) = before {
                    visit(&merged.finish())?;
                }
            }
        }
        Ok(())
    }

    /// Calls `visit` with the last window.
    pub fn finish(self, visit: &mut Visit<'_>) -> Result<(), ExportError> {
        self.current.map_or(Ok(()), |(_, merged)| visit(&merged.finish()))
    }
}
