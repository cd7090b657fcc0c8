-- Another value whenever the checkpoint is created again: what was read of the consumer's rows
-- before then is no longer valid, even if the position is the same.
alter table work.checkpoints add column generation uuid not null default gen_random_uuid();
