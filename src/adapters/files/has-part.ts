import type { Connections } from './dispose.ts';
import type { Names } from './names.ts';
import { partBeside } from './part-name.ts';
import type { FileError, FileStep, PartOptions } from './port.ts';

/** Does what `hasPart` of the port says. Throws FileError. */
export async function hasPartOn<Connection>(
  pool: Connections<Connection>,
  namesOn: (connection: Connection) => Names,
  fileError: (error: unknown, step: FileStep, path: string) => FileError,
  path: string,
  { transferId, part, signal }: PartOptions,
): Promise<boolean> {
  const beside = partBeside(path, transferId, part);
  try {
    const type = await pool.use(signal, 'verify', (connection) =>
      namesOn(connection).typeOf(beside),
    );
    return type !== null;
  } catch (error) {
    throw fileError(error, 'verify', path);
  }
}
