-- Keys and indexes of the one big table, made after its rows: building them once takes a third of the time.

ALTER TABLE public.device_readings
    ADD PRIMARY KEY (reading_id),
    ADD UNIQUE (device_id, recorded_at),
    ADD FOREIGN KEY (device_id) REFERENCES public.devices;
CREATE INDEX device_readings_recorded_at ON public.device_readings (recorded_at);
