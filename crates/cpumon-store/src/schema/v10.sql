-- Schema version 10: how each interval came in, 0 where it was not recorded. Meaning of each column: docs/store.md.

ALTER TABLE interval ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;
ALTER TABLE chunk ADD COLUMN trust INTEGER NOT NULL DEFAULT 0;
