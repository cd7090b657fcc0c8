import { cp, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

const ROOT = join(import.meta.dirname, '..', '..');
const COPIED = ['src', 'bin', 'scripts', 'test/fifth-protocol', 'package.json'];

/** Copies the service's source and adds these two lines for a fifth protocol. */
export interface Copy {
  folder: string;
  /** Lists the facts of the protocol. */
  addFacts(): Promise<void>;
  /** Loads its adapter. */
  addAdapter(): Promise<void>;
  remove(): Promise<void>;
}

export const OPEN = 'src/adapters/files/open.ts';

export async function copyService(): Promise<Copy> {
  const folder = await mkdtemp(join(tmpdir(), 'waybill-fifth-'));
  for (const name of COPIED)
    await cp(join(ROOT, name), join(folder, name), { recursive: true, preserveTimestamps: true });
  for (const name of ['node_modules', 'dist']) await symlink(join(ROOT, name), join(folder, name));

  async function edit(file: string, before: string, after: string): Promise<void> {
    const source = await readFile(join(folder, file), 'utf8');
    if (!source.includes(before)) throw new Error(`${file} has no line: ${before}`);
    await writeFile(join(folder, file), source.replace(before, after));
  }

  return {
    folder,
    addFacts: () =>
      edit(
        'src/domain/protocols/index.ts',
        'export const PROTOCOLS = [sftp, ftps, s3, azure] as const;',
        "import { memory } from '../../../test/fifth-protocol/memory.ts';\n" +
          'export const PROTOCOLS = [sftp, ftps, s3, azure, memory] as const;',
      ),
    addAdapter: () =>
      edit(
        OPEN,
        '  azure: async () =>',
        "  memory: async () => (await import('../../../test/fifth-protocol/memory/endpoint.ts'))" +
          '.createMemoryEndpoint,\n  azure: async () =>',
      ),
    remove: () => rm(folder, { recursive: true }),
  };
}
