-- depends: 0109_pre_rolled_back

-- Whether what LangChain's callbacks tell in a run is kept with its events.
ALTER TABLE platform.runs ADD COLUMN callback_events boolean NOT NULL DEFAULT false;
