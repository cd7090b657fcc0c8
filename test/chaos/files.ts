import { createHash } from 'node:crypto';
import { type Random, randomFrom } from './random.ts';

/** One file that every source has. */
export interface SourceFile {
  path: string;
  size: number;
  sha256: string;
}

const KiB = 1 << 10;
const MiB = 1 << 20;

/** Sizes, and how many of a thousand transfers use each. */
const SIZES: { weight: number; least: number; most: number; files: number }[] = [
  { weight: 40, least: 0, most: 0, files: 1 },
  { weight: 20, least: 1, most: 1, files: 1 },
  { weight: 560, least: 2, most: 64 * KiB, files: 8 },
  { weight: 250, least: 64 * KiB, most: MiB, files: 4 },
  { weight: 90, least: MiB, most: 6 * MiB, files: 3 },
  { weight: 30, least: 8 * MiB, most: 24 * MiB, files: 2 },
  { weight: 8, least: 48 * MiB, most: 64 * MiB, files: 1 },
  { weight: 2, least: 200 * MiB, most: 200 * MiB, files: 1 },
];
/** Sizes at the end of a piece or of a chunk, where mistakes are likely. */
const EDGES = [256 * KiB, 4 * MiB, 8 * MiB];
const ONE_IN_TEN_MANY_BYTES = [' ', 'ä', '%', '#'];

export interface SourceFiles {
  /** The content of each file, generated when it is needed. */
  each(): Generator<SourceFile & { content: Buffer }>;
  /** Returns the file for a transfer, of at most `most` bytes. Large files are rare. */
  choose(random: Random, most?: number): SourceFile;
  /** Generates a further file of this size, which the sources do not have yet. */
  make(size: number): SourceFile & { content: Buffer };
  contentOf(file: SourceFile): Buffer;
  largest: SourceFile;
}

/** The files of each source endpoint. They follow from the seed. */
export function sourceFiles(seed: number): SourceFiles {
  const random = randomFrom(seed, 'source files');
  const all: (SourceFile & { weight: number; seed: number })[] = [];
  for (const { weight, least, most, files } of SIZES) {
    for (let n = 0; n < files; n++) add(random.whole(least, most), weight / files);
  }
  for (const size of EDGES) for (const around of [size - 1, size, size + 1]) add(around, 1);
  for (const file of all) file.sha256 = digest(contentOf(file));

  function add(size: number, weight: number): void {
    const odd = random.chance(0.1) ? random.pick(ONE_IN_TEN_MANY_BYTES) : '';
    all.push({
      path: `outbox/${all.length}${odd}-${size}.bin`,
      size,
      sha256: '',
      weight,
      seed: random.whole(0, 255),
    });
  }

  const largest = all.reduce((one, other) => (other.size > one.size ? other : one));

  return {
    largest,
    *each() {
      for (const file of all) yield { ...file, content: contentOf(file) };
    },
    contentOf({ path }) {
      const file = all.find((one) => one.path === path);
      if (file === undefined) throw new RangeError(`no source has ${path}`);
      return contentOf(file);
    },
    make(size) {
      const content = contentOf({ size, seed: size % 256 });
      return { path: '', size, sha256: digest(content), content };
    },
    choose(random, most = Number.POSITIVE_INFINITY) {
      const possible = all.filter(({ size }) => size <= most);
      const drawn = random.next() * possible.reduce((sum, { weight }) => sum + weight, 0);
      let passed = 0;
      const chosen = possible.find(({ weight }) => {
        passed += weight;
        return drawn < passed;
      });
      const { path, size, sha256 } = chosen ?? (possible[0] as SourceFile);
      return { path, size, sha256 };
    },
  };
}

function digest(content: Buffer): string {
  return createHash('sha256').update(content).digest('hex');
}

/**
 * Returns bytes that identify their place: no two pieces of a file, and no two files, are alike.
 */
function contentOf({ size, seed }: { size: number; seed: number }): Buffer {
  const content = Buffer.alloc(size, seed);
  for (let at = 0; at + 8 <= size; at += 512) content.writeDoubleLE(at + seed / 256, at);
  return content;
}
