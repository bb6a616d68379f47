-- What the harbour's services are watched by. Made by tables.py.

CREATE TABLE public.deployments (
    deployment_id integer PRIMARY KEY,
    service       text NOT NULL,
    version       text NOT NULL,
    deployed_at   timestamptz NOT NULL,
    deployed_by   text NOT NULL,
    summary       text NOT NULL
);
COMMENT ON TABLE public.deployments IS 'Versions of services that went live.';
CREATE INDEX deployments_by_time ON public.deployments (deployed_at);

CREATE TABLE public.service_metrics (
    service     text NOT NULL,
    metric      text NOT NULL,
    recorded_at timestamptz NOT NULL,
    value       double precision NOT NULL,
    PRIMARY KEY (service, metric, recorded_at)
);
COMMENT ON TABLE public.service_metrics IS 'Measurements of services, every ten minutes.';
COMMENT ON COLUMN public.service_metrics.metric IS 'error_rate and cpu_percent, disk_used_percent in percent; latency_ms; requests_per_s; db_connections in use; auth_failures a minute';
