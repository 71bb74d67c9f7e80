-- Schema version 16: traces that devices sent. Their files are beside the store. Meaning: docs/store.md.

CREATE TABLE trace (
    id INTEGER PRIMARY KEY,
    host_id INTEGER NOT NULL,
    hash BLOB NOT NULL,
    wall_ns INTEGER NOT NULL,
    first_wall_ns INTEGER NOT NULL,
    last_wall_ns INTEGER NOT NULL,
    received_wall_ns INTEGER NOT NULL,
    reason TEXT NOT NULL,
    bytes INTEGER NOT NULL,
    events INTEGER NOT NULL,
    lost INTEGER NOT NULL,
    UNIQUE (host_id, hash)
) STRICT;
CREATE INDEX trace_host ON trace (host_id, wall_ns);
