//! Names of systemd units, which stand in the same field as those of containers.

/// Whether a text is the name of a systemd unit (`systemd.unit(5)`) and not of a container.
#[must_use]
pub fn is_unit(text: &str) -> bool {
    [".service", ".scope", ".slice", ".socket", ".mount", ".swap"].iter().any(|end| text.ends_with(end))
}
