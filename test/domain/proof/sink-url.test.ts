import { describe, expect, it } from 'vitest';
import { sinkKindOf } from '../../../src/domain/proof/sink-url.ts';

describe('the URL of a sink of checkpoints', () => {
  it.each([
    ['file:///mnt/audit', 'folder'],
    ['file:///', null],
    ['file://host/mnt/audit', null],
    ['s3://archive/checkpoints/', 'endpoint'],
    ['sftp://archive', 'endpoint'],
    ['sftp://user:secret@archive/', null],
    ['s3://archive/?versionId=1', null],
    ['s3:///checkpoints/', null],
    ['https://witness.example.com/add-checkpoint', 'witness'],
    ['http://localhost:8080/', 'witness'],
    ['http://witness.example.com/', null],
    ['https://witness.example.com/?token=a', null],
    ['ftp://files/checkpoints', null],
    ['checkpoints', null],
  ])('%s names %s', (url, kind) => {
    expect(sinkKindOf(url)).toBe(kind);
  });
});
