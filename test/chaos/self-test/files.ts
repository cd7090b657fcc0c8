import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  AbortMultipartUploadCommand,
  CreateMultipartUploadCommand,
  S3Client,
} from '@aws-sdk/client-s3';
import type { Damage } from './damage.ts';
import type { SmallRun } from './small-run.ts';

const at = (run: SmallRun, path: string) => join(run.destination.root, path);

/** Replaces the content of a file, or removes the file. */
function replace(path: string, content: string | null): Damage['files'] {
  return (run) => {
    const before = readFileSync(at(run, path));
    if (content === null) rmSync(at(run, path));
    else writeFileSync(at(run, path), content);
    return () => writeFileSync(at(run, path), before);
  };
}

/** Adds a file. */
function put(path: (run: SmallRun) => string, content: string): Damage['files'] {
  return (run) => {
    const file = at(run, path(run));
    writeFileSync(file, content);
    return () => rmSync(file);
  };
}

const beginUpload: Damage['files'] = async ({
  s3: { endpointUrl, region, accessKeyId, secretAccessKey },
}) => {
  const client = new S3Client({
    endpoint: endpointUrl,
    region,
    credentials: { accessKeyId, secretAccessKey },
    forcePathStyle: true,
  });
  const begun = { Bucket: 'bucket', Key: 'in/begun' };
  const { UploadId } = await client.send(new CreateMultipartUploadCommand(begun));
  return async () => {
    await client.send(new AbortMultipartUploadCommand({ ...begun, UploadId }));
    client.destroy();
  };
};

export const FILE_DAMAGES: Damage[] = [
  {
    what: 'a file is cut short',
    finds: 'files.content',
    names: () => 'in/plain',
    files: replace('in/plain', 'cut short'),
  },
  {
    what: 'a file is another of the same size',
    finds: 'files.content',
    names: () => 'in/plain',
    files: replace('in/plain', 'x'.repeat(1_000)),
  },
  {
    what: 'a file is missing',
    finds: 'files.content',
    names: () => 'in/plain',
    files: replace('in/plain', null),
  },
  {
    what: 'a file is the one of a transfer that lost',
    finds: 'files.content',
    names: () => 'in/twice',
    files(run) {
      const [before, older] = [
        readFileSync(at(run, 'in/twice')),
        readFileSync(join(run.source.root, 'once')),
      ];
      writeFileSync(at(run, 'in/twice'), older);
      return () => writeFileSync(at(run, 'in/twice'), before);
    },
  },
  {
    what: 'a part file is left',
    finds: 'files.leftover',
    names: () => '.part',
    files: put((run) => `in/.plain.${run.ids.plain}.clm_01M80YCGCNVRRAZ3GW9X96KGKT.part`, 'part'),
  },
  {
    what: 'a file that was set aside is left',
    finds: 'files.leftover',
    names: () => '.old',
    files: put((run) => `in/.plain.${run.ids.plain}.clm_01M80YCGCNVRRAZ3GW9X96KGKT.old`, 'old'),
  },
  {
    what: 'a failed transfer has left part of a file under its name',
    finds: 'files.unexpected',
    names: () => 'in/missing',
    files: put(() => 'in/missing', 'half'),
  },
  {
    what: 'a cancelled transfer has left a file',
    finds: 'files.unexpected',
    names: () => 'in/cancelled',
    files: put(() => 'in/cancelled', 'x'.repeat(1_000)),
  },
  {
    what: 'a file that must stay was replaced',
    finds: 'files.content',
    names: () => 'kept',
    files: replace('kept', 'replaced'),
  },
  {
    what: 'a file that must stay is gone',
    finds: 'files.content',
    names: () => 'kept',
    files: replace('kept', null),
  },
  {
    what: 'a marker is missing',
    finds: 'files.after',
    names: () => 'in/batch/one.done',
    files: replace('in/batch/one.done', null),
  },
  {
    what: 'a source is there that was deleted',
    finds: 'files.after',
    names: () => 'destination-in-deleted',
    files(run) {
      const path = join(run.source.root, 'destination-in-deleted');
      writeFileSync(path, 'it is back');
      return () => rmSync(path);
    },
  },
  {
    what: 'an upload to S3 is unfinished',
    finds: 'files.leftover',
    names: () => 'begun',
    files: beginUpload,
  },
];
