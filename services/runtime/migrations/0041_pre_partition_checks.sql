-- Reads all rows, and stops nobody from writing meanwhile.
-- depends: 0040_pre_partition_bounds

ALTER TABLE platform.run_events VALIDATE CONSTRAINT before_partitions;
ALTER TABLE platform.decisions VALIDATE CONSTRAINT before_partitions;
