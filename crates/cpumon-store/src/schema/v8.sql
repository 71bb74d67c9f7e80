-- Schema version 8: which processes were there, idle ones too. Meaning of each column: docs/store.md.

CREATE TABLE process_list (
    host_id INTEGER NOT NULL,
    end_wall_ns INTEGER NOT NULL,
    boot_id INTEGER NOT NULL,
    processes BLOB NOT NULL,
    PRIMARY KEY (host_id, end_wall_ns, boot_id)
) STRICT, WITHOUT ROWID;
