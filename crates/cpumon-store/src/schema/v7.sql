-- Schema version 7: the receiver's time line beside the devices' own clocks. Meaning of each column: docs/store.md.

ALTER TABLE interval ADD COLUMN wall_shift_ns INTEGER NOT NULL DEFAULT 0;
ALTER TABLE gap ADD COLUMN wall_shift_ns INTEGER NOT NULL DEFAULT 0;

-- How the clock of a boot was taken to be off, from a moment on; boots whose clock was right have no row.
CREATE TABLE clock_piece (
    boot_id INTEGER NOT NULL,
    from_boot_ns INTEGER NOT NULL,
    before_ns INTEGER NOT NULL,
    anchor_ns INTEGER NOT NULL,
    tolerance_ns INTEGER NOT NULL,
    PRIMARY KEY (boot_id, from_boot_ns)
) STRICT, WITHOUT ROWID;
