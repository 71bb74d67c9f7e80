-- Schema version 19: page faults in the sums of processes and threads; NULL where they were not measured. Meaning: docs/store.md.

ALTER TABLE process_minute ADD COLUMN minor_faults INTEGER;
ALTER TABLE process_minute ADD COLUMN major_faults INTEGER;
ALTER TABLE process_hour ADD COLUMN minor_faults INTEGER;
ALTER TABLE process_hour ADD COLUMN major_faults INTEGER;
ALTER TABLE thread_hour ADD COLUMN minor_faults INTEGER;
ALTER TABLE thread_hour ADD COLUMN major_faults INTEGER;
