-- Who is signed in to the Admin Console.
create table work.console_sessions (
  -- all that is kept of the cookie
  token_sha256 text primary key,
  -- the key that was signed in with: the session ends with it
  key_id text not null,
  -- whose transfers and webhooks the session looks at
  account_id text not null,
  created_at timestamptz not null default now(),
  used_at timestamptz not null default now()
);
