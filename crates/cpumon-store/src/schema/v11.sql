-- Schema version 11: what each host takes, by which retention chooses, and hosts that are to be removed. Meaning of each column:
-- docs/store.md.

ALTER TABLE chunk ADD COLUMN bytes INTEGER
    AS (length(meta) + length(processes) + length(threads) + length(sched)) VIRTUAL;
CREATE INDEX chunk_host ON chunk (host_id, last_received_wall_ns, trust, bytes);
CREATE INDEX chunk_boot ON chunk (host_id, boot_id, last_end_wall_ns);

CREATE TABLE forget (
    host_id INTEGER PRIMARY KEY
) STRICT;
