use super::*;

#[test]
fn modes_have_the_models_names() {
    for (mode, id) in cpumon_model::CpuTimes::MODES.iter().zip(MODE_0..) {
        assert_eq!(properties(id).called, Some(&*format!("{mode} time of a CPU")));
    }
}

#[test]
fn a_description_comes_back() {
    for (kind, prefix, min) in [
        (ColumnKind::Fixed, 0, 64),
        (ColumnKind::Prefixed, 6, 30),
        (ColumnKind::Text, 5, 0),
        (ColumnKind::Folded, 7, 1),
    ] {
        let column = ColumnDescription { id: 9, kind, prefix, min, zero_is_apart: prefix == 6, unit: 7 };
        assert_eq!(ColumnDescription::from_bytes(column.to_bytes()), Some(column));
    }
    assert_eq!(ColumnDescription::from_bytes([1, 1 << 2, 0]), None, "a fixed width has no prefix");
    assert_eq!(ColumnDescription::from_bytes([1, 0xa0, 0x0f]), None, "more than 64 bits");
}
