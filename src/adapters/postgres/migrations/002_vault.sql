-- Secrets. Each record is encrypted with a data key of its own, which is wrapped by the key-encryption key `key_id`.
create table work.vault (
  id text collate "C" primary key,
  purpose text not null,
  key_id text not null,
  wrapped_key bytea not null,
  ciphertext bytea not null,
  created_at timestamptz not null default now()
);
create index vault_key_id on work.vault (key_id);

-- A known text sealed with every key-encryption key in use, so that a wrong key is refused at start.
create table work.vault_check (
  key_id text collate "C" primary key,
  sealed bytea not null
);
