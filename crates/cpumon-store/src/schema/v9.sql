-- Schema version 9: the newest interval of a boot without a walk over those of the host's other boots.

CREATE INDEX interval_boot ON interval (host_id, boot_id, end_wall_ns);
