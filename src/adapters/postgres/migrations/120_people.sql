-- People who sign in through an OpenID Connect provider.
alter table work.console_sessions
  -- null for the session of a person
  alter column key_id drop not null,
  -- the rest is null for the session of a key
  -- subject, name and email of the person, and the provider's page to sign out
  add column person jsonb,
  -- who the person is in events
  add column actor text,
  -- the roles of the person: [{role, account}]
  add column roles jsonb,
  -- the scopes of these roles in the selected account
  add column scopes text[],
  -- the record of the vault that holds the provider's tokens
  add column tokens_record text,
  -- when the provider last confirmed the roles
  add column confirmed_at timestamptz;
