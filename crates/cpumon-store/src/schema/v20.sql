-- Schema version 20: waits by who ended them in the sums of a host, NULL where not known. Meaning of each column: docs/store.md.

ALTER TABLE host_minute ADD COLUMN waits_for BLOB;
ALTER TABLE host_hour ADD COLUMN waits_for BLOB;
