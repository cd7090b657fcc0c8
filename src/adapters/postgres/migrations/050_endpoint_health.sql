-- What probes and transfers have last seen of each endpoint. The log says when one was lost; this says what led to it.
create table work.endpoint_health (
  endpoint_id text primary key,
  -- in a row, each of them ended by the other
  failures integer not null,
  successes integer not null,
  last_success_at timestamptz,
  last_probe_at timestamptz,
  -- how long the last probe took, failed or not
  latency_ms integer,
  -- host key or certificate that was last shown
  fingerprint text,
  -- code and message of what was last seen; null where that was in order
  error jsonb
);
