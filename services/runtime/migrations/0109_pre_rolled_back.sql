-- depends: 0107_pre_threads_by_age

-- The run that took a run's steps out of their thread's state.
ALTER TABLE platform.runs ADD COLUMN rolled_back_by uuid;
