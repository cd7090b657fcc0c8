alter table work.cleanups
  -- Size of the delivered file of a completed transfer. A file of another size that the transfer has
  -- set aside is the older one. Null if unknown.
  add column size_bytes bigint,
  -- True if an earlier clean-up may have removed the parts. That none is left then does not show that
  -- one of them got its name.
  add column repeated boolean not null default false;
