-- Which of those who watch a run elsewhere also ask for what its models say while they say it.
-- depends: 0080_pre_decided

ALTER TABLE platform.watches ADD COLUMN chunks boolean NOT NULL DEFAULT false;
