import type { CommandDeps } from '../../commands/deps.ts';
import type { Cause } from '../../commands/handle.ts';
import { ensureSigningKey } from '../../commands/log.ts';
import { DomainError } from '../../domain/errors.ts';
import { LogChanged } from '../../domain/proof/log-changed.ts';
import type { CheckpointSigned } from '../../domain/proof/signed-checkpoint.ts';
import { latestCheckpoint } from '../../projections/proof/queries.ts';
import { type SignerDeps, signIfNeeded } from './signer.ts';

export interface CheckpointDeps extends Omit<SignerDeps, 'logger' | 'locks'> {
  commands: Pick<CommandDeps, 'catchUp'>;
}

/**
 * Signs everything that the log holds now, and returns the checkpoint. Returns the last one if
 * nothing happened since. Throws `unavailable` if the tree cannot catch up with the log, and
 * LogChanged.
 */
export async function checkpointNow(deps: CheckpointDeps, cause: Cause): Promise<CheckpointSigned> {
  // First of all, so that the checkpoint covers the event that names its key.
  await ensureSigningKey(deps, cause);
  if (!(await deps.commands.catchUp('proof')))
    throw new DomainError(
      'unavailable',
      'The tree does not have all events of the log yet; try again in a moment',
    );
  const signed = await signIfNeeded(deps, cause);
  // The caller may read what it signed.
  await deps.commands.catchUp('proof');
  if (signed !== null) return signed;
  // Another process signed at the same time, or nothing happened since the last checkpoint.
  const last = await latestCheckpoint(deps.sql);
  if (last === null) throw new LogChanged('the log has no event that a checkpoint could cover');
  const { revision: _, ...checkpoint } = last;
  return checkpoint;
}
