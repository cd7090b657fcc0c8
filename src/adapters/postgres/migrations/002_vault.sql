-- Key-encryption keys in use, each with a known text sealed by it, so that a wrong key is refused at start.
create table work.vault_keys (
  id text collate "C" primary key,
  check_value bytea not null
);

-- Secrets. Each record is encrypted with a data key of its own, which is wrapped by a key-encryption key.
create table work.vault (
  id text collate "C" primary key,
  purpose text not null,
  key_id text collate "C" not null references work.vault_keys (id),
  wrapped_key bytea not null,
  ciphertext bytea not null,
  created_at timestamptz not null default now()
);
create index vault_key_id on work.vault (key_id);
create index vault_created_at on work.vault (created_at);
