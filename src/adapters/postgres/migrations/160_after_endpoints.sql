-- Where the next step of a transfer works, and why its last try failed. A worker takes only so many
-- steps of one endpoint at a time. The endpoint is '' until a worker has read the stream.
alter table work.after_steps
  add column endpoint_id text collate "C" not null default '',
  add column error jsonb;
