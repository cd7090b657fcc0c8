-- Batches whose folder cannot be listed now, and why. The listing is retried.
create table work.batch_listings (
  batch_id text primary key,
  since timestamptz not null default now(),
  code text not null,
  message text not null,
  folder text not null
);
