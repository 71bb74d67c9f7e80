-- Schema version 5: run-delay histograms in the sums, NULL where not known. Meaning of each column: docs/store.md.

ALTER TABLE host_minute ADD COLUMN run_delays BLOB;
ALTER TABLE host_hour ADD COLUMN run_delays BLOB;
ALTER TABLE process_minute ADD COLUMN run_delays BLOB;
ALTER TABLE process_hour ADD COLUMN run_delays BLOB;
