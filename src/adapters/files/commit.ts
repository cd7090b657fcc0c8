import type { CommitProof, DestinationFile } from './port.ts';

/** Commits for a caller without a lease, which always may write. Throws as `commit` does. */
export async function commitAlways(
  file: DestinationFile,
  whole: Parameters<DestinationFile['commit']>[0],
): Promise<CommitProof> {
  for (;;) {
    const proof = await file.commit(whole);
    if (proof !== null) return proof;
  }
}
