-- Schema version 14: limits of control groups and pressure in the sums of a host, NULL where not known. Meaning of each column:
-- docs/store.md.

ALTER TABLE host_minute ADD COLUMN cgroups BLOB;
ALTER TABLE host_hour ADD COLUMN cgroups BLOB;
