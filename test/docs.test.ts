import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, relative } from 'node:path';
import { describe, expect, it } from 'vitest';
import { filesWithLongTests } from '../scripts/long-tests.ts';
import { ATTEMPT_WITHIN_MS } from '../src/adapters/webhooks/send.ts';
import { SHORTEST_HOURS } from '../src/cli/log/retention.ts';
import { parseConfig } from '../src/config.ts';
import { MAX_ITEMS } from '../src/contract/batches/requests.ts';
import { flowRequest } from '../src/contract/flows/requests.ts';
import { PROBLEMS } from '../src/contract/problems.ts';
import { BULK_LIMIT } from '../src/contract/transfers/bulk.ts';
import { PAYLOADS } from '../src/contract/webhooks/payloads.ts';
import {
  CONSUMER_SLOW_SECONDS,
  EXPIRING_SOON_DAYS,
  FLOW_LATE_MS,
  RECENT_HOURS,
  SEVERITY,
  WAITED_MINUTES,
} from '../src/domain/attention.ts';
import { IDEMPOTENCY_HOURS } from '../src/domain/idempotency.ts';
import { SESSION_HOURS, SESSION_IDLE_MINUTES } from '../src/domain/session.ts';
import { TRANSFER_ERRORS } from '../src/domain/transfers/errors.ts';
import { WAITING_REASONS } from '../src/domain/transfers/waiting-for.ts';
import { DELIVERED_KEPT_DAYS, FAILED_KEPT_DAYS } from '../src/domain/webhook.ts';

const ROOT = join(import.meta.dirname, '..');
const DOCUMENTS = [
  ...['README.md', 'CONTRIBUTING.md', 'SECURITY.md'],
  ...globSync('{docs,docs/decisions,bench}/*.md', { cwd: ROOT }),
];

describe.each(DOCUMENTS)('%s', (document) => {
  it('links to existing files and headings', () => {
    const links = [...textOf(document).matchAll(/\]\(([^)\s]+)\)/g)].map(
      ([, link]) => link as string,
    );
    expect(links.filter((link) => isBroken(document, link))).toEqual([]);
  });

  it('names existing files of the project', () => {
    const named = [
      ...textOf(document).matchAll(/`((?:src|test|bench|docs|scripts|bin)\/[\w./-]+)`/g),
    ].map(([, path]) => path as string);
    expect(named.filter((path) => !existsSync(join(ROOT, path)))).toEqual([]);
  });
});

describe('why a transfer waits', () => {
  it.each([
    ['docs/clients.md', 'Watch', '| `reason` |'],
    ['docs/operators.md', 'A transfer does not move', '| `waiting for` |'],
  ])('is all in %s, in the order in which it is shown', (document, heading, start) => {
    const documented = tableUnder(document, heading, start).map(([reason]) => reason);
    expect(documented).toEqual(WAITING_REASONS.map((reason) => `\`${reason}\``));
  });
});

describe('how long an Idempotency-Key holds', () => {
  it.each([
    ['README.md', `however often you send it within ${IDEMPOTENCY_HOURS} hours`],
    ['docs/clients.md', `For ${IDEMPOTENCY_HOURS} hours the request is carried out once`],
    ['docs/compliance.md', `an \`Idempotency-Key\` | ${IDEMPOTENCY_HOURS} hours |`],
    ['docs/operators.md', `gets its first answer for ${IDEMPOTENCY_HOURS} hours`],
    ['docs/operators.md', `At least ${SHORTEST_HOURS} hours must have passed`],
  ])('is in %s: %s', (document, sentence) => {
    expect(textOf(document).replaceAll('\n', ' ')).toContain(sentence);
  });
});

describe('how long a session of the console lasts', () => {
  it.each([
    ['docs/operators.md', `after ${SESSION_IDLE_MINUTES} minutes without use`],
    ['docs/operators.md', `after ${SESSION_HOURS} hours, at sign-out`],
    ['docs/roles.md', `sessions last up to ${SESSION_HOURS} hours`],
  ])('is in %s: %s', (document, sentence) => {
    expect(textOf(document).replaceAll('\n', ' ')).toContain(sentence);
  });
});

describe('how long deliveries are kept', () => {
  const [delivered, failed] = [DELIVERED_KEPT_DAYS, FAILED_KEPT_DAYS];
  it.each([
    [
      'docs/clients.md',
      `successful deliveries for ${delivered} days and failed ones for ${failed}`,
    ],
    ['docs/compliance.md', `| ${delivered} days, failed ones ${failed} days |`],
    ['docs/operators.md', `| ${delivered} days; ${failed} days if it failed |`],
    ['docs/operators.md', `delivered ones for ${delivered} days, failed ones for ${failed} days`],
  ])('is in %s: %s', (document, sentence) => {
    expect(textOf(document).replaceAll('\n', ' ')).toContain(sentence);
  });
});

describe('src', () => {
  it('writes no number of days as words: sentences have the constant', () => {
    const sources = globSync('src/**/*.{ts,tsx}', { cwd: ROOT }).filter(
      (file) => !file.startsWith('src/console/api/'),
    );
    const found = sources.flatMap((file) => {
      const code = textOf(file).replaceAll(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, '');
      // A choice in a form says what its value is.
      const sentences = code.replaceAll(/\['\w+', '[^']+'\]/g, '');
      return [...sentences.matchAll(/\b(?:\d+|seven|thirty) days\b/g)].map(
        ([words]) => `${words} in ${file}`,
      );
    });
    expect(found).toEqual([]);
  });
});

describe('the number of files that one request may name', () => {
  it.each([
    `| \`items\` | 1 to ${inDigits(MAX_ITEMS)} of`,
    `One request creates up to ${inDigits(MAX_ITEMS)} transfers`,
    `| \`ids\` | 1 to ${inDigits(BULK_LIMIT)} transfers`,
    `oldest first, at most ${inDigits(BULK_LIMIT)}.`,
  ])('is in docs/clients.md: %s', (sentence) => {
    expect(textOf('docs/clients.md').replaceAll('\n', ' ')).toContain(sentence);
  });
});

describe('when Waybill retries', () => {
  const { transferRetryDelays, webhookRetryDelays } = parseConfig({});
  const seconds = inWords(transferRetryDelays.map((ms) => `${ms / 1_000} s`));
  const minutes = `after ${inWords(webhookRetryDelays.map((ms) => `${ms / 60_000}`))} minutes`;
  const answer = `2xx within ${ATTEMPT_WITHIN_MS / 1_000} seconds`;
  const documentation = 'src/http/openapi/payload-documentation.ts';
  it.each([
    ['docs/clients.md', `after ${seconds}, unless the operator set other delays`],
    ['docs/clients.md', minutes],
    ['docs/clients.md', answer],
    ['docs/receivers.md', minutes],
    ['docs/receivers.md', answer],
    [documentation, minutes],
    [documentation, answer],
    ['README.md', `up to ${inWord(webhookRetryDelays.length)} retries`],
  ])('is in %s: %s', (document, sentence) => {
    expect(textOf(document).replaceAll('\n', ' ')).toContain(sentence);
  });
});

describe('README.md', () => {
  it('shows a flow on its first screen', () => {
    const screen = textOf('README.md').split('\n').slice(0, 30).join('\n');
    const [, flow = ''] = /^```json\n(.+?)\n```$/ms.exec(screen) ?? [];
    expect(flowRequest.parse(JSON.parse(flow))).toMatchObject({ trigger: { every: '5m' } });
  });
});

describe('CONTRIBUTING.md', () => {
  it('lists every file with long tests', () => {
    const listed = tableUnder('CONTRIBUTING.md', 'Run one test', '| File |');
    expect(listed.map(([file]) => file)).toEqual(filesWithLongTests().map((file) => `\`${file}\``));
  });
});

describe.each(['docs/architecture.md', 'docs/where-to-change.md'])('%s', (document) => {
  const text = textOf(document);

  it('names existing files, also without their folder', () => {
    const files = globSync('{src,test,scripts,bench}/**/*.*', { cwd: ROOT });
    const names = new Set(files.map((file) => basename(file)));
    const named = [...text.matchAll(/`([\w-]+\.(?:tsx?|sql))`/g)].map(([, name]) => name as string);
    expect(named.filter((name) => !names.has(name))).toEqual([]);
  });

  it('names functions, types, constants and fields that their files declare', () => {
    const declares = (file: string, name: string) =>
      new RegExp(
        `\\b(?:function\\*?|const|interface|type|class) ${name}\\b|\\b${name}\\b\\??\\s*[:(]`,
      ).test(textOf(file));
    const places = text.matchAll(
      /((?:`\w+`(?:, | and | or )?)+)(?: \([^)]*\))? (?:in|of) `((?:src|test|scripts)\/[\w./-]+\.tsx?)`/g,
    );
    const missing = [...places].flatMap(([, names = '', file = '']) =>
      [...names.matchAll(/`(\w+)`/g)]
        .map(([, name = '']) => name)
        .filter((name) => !declares(file, name))
        .map((name) => `${name} in ${file}`),
    );
    expect(missing).toEqual([]);
  });
});

describe('docs/where-to-change.md', () => {
  const rows = textOf('docs/where-to-change.md')
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split('|').slice(1, -1));

  it('says each place in a few words, what is longer in a list of steps', () => {
    const wordsOf = (cell: string) => cell.trim().split(/\s+/).length;
    expect(rows.flat().filter((cell) => wordsOf(cell) > 20)).toEqual([]);
  });

  it('names a file in each row', () => {
    const isHeading = (cell: string) => [' Start here ', ' Place '].includes(cell);
    const places = rows.map(([, place = '']) => place).filter((cell) => !isHeading(cell));
    expect(places.filter((cell) => !/`[^`]*[/.][^`]*`/.test(cell))).toEqual([]);
  });
});

describe('docs/clients.md', () => {
  it('says when a key expires soon', () => {
    expect(textOf('docs/clients.md')).toContain(
      `| ${EXPIRING_SOON_DAYS} days before an API key expires, once |`,
    );
  });

  it('lists every error of a transfer, with its effect and remedy', () => {
    const rows = Object.entries(TRANSFER_ERRORS).map(([code, { retryable, advice }]) => [
      `\`${code}\``,
      retryable ? 'yes' : 'no',
      advice,
    ]);
    expect(tableUnder('docs/clients.md', 'Errors of transfers')).toEqual(rows);
  });

  it('lists every error of a request, with its status and title', () => {
    const rows = Object.entries(PROBLEMS).map(([code, { status, title }]) => [
      String(status),
      `\`${code}\``,
      title,
    ]);
    expect(tableUnder('docs/clients.md', 'Errors of requests')).toEqual(rows);
  });

  it('lists every event type of webhooks, with its data', () => {
    const six = Object.keys(PAYLOADS['transfer.created'].shape).slice(0, 6);
    expect(textOf('docs/clients.md')).toContain(
      `The six: ${six.map((field) => `\`${field}\``).join(', ')}.`,
    );
    const fieldsOf = (cell: string) => [
      ...(cell.startsWith('the six') ? six : []),
      ...(cell.match(/\w+(?=`)/g) ?? []),
    ];
    const rows = tableUnder('docs/clients.md', 'Webhooks', '| `type` |').map(([type, , data]) => [
      type,
      fieldsOf(data as string).toSorted(),
    ]);
    const payloads = Object.entries(PAYLOADS).map(([type, { shape }]) => [
      `\`${type}\``,
      Object.keys(shape).toSorted(),
    ]);
    expect(rows).toEqual(payloads);
  });
});

describe('docs/operators.md', () => {
  it('lists the rules of what needs attention, with their severities', () => {
    const documented = tableUnder('docs/operators.md', 'What needs attention').map(
      ([, severity]) => severity,
    );
    expect(documented).toEqual(Object.values(SEVERITY));
  });

  it.each([
    `created in the last ${RECENT_HOURS} hours`,
    `created more than ${WAITED_MINUTES} minutes ago`,
    `due for more than ${inWord(FLOW_LATE_MS / 60_000)} minutes`,
    `has not processed is ${CONSUMER_SLOW_SECONDS} s old`,
    `accepted for less than ${inWord(EXPIRING_SOON_DAYS)} days`,
    `active API key expires within ${inWord(EXPIRING_SOON_DAYS)} days`,
    `whose host key expires within ${inWord(EXPIRING_SOON_DAYS)} days`,
    `announces keys that expire within ${inWord(EXPIRING_SOON_DAYS)} days`,
    `marks keys that expire within ${inWord(EXPIRING_SOON_DAYS)} days`,
    `is appended ${inWord(EXPIRING_SOON_DAYS)} days before the end`,
  ])('says when something needs attention: %s', (sentence) => {
    expect(textOf('docs/operators.md').replaceAll(/\n */g, ' ')).toContain(sentence);
  });

  it('lists every metric, and no other', () => {
    const source = ['src/metrics.ts', 'src/http/metrics.ts'].map(textOf).join();
    const names = [...source.matchAll(/'(waybill_\w+)'/g)].map(([, name]) => name as string);
    const documented = tableUnder('docs/operators.md', 'Metrics').map(([name]) =>
      name?.replaceAll('`', ''),
    );
    expect(documented.toSorted()).toEqual(names.toSorted());
  });

  it('quotes log lines that exist', () => {
    const source = globSync('src/**/*.ts', { cwd: ROOT }).map(textOf).join();
    const quoted = tableUnder('docs/operators.md', 'Log lines').map(
      ([line]) => /^`(.+)`/.exec(line as string)?.[1] ?? '',
    );
    expect(quoted.filter((line) => !source.includes(`'${line}`))).toEqual([]);
  });
});

function textOf(file: string): string {
  return readFileSync(join(ROOT, file), 'utf8');
}

/** Such as `seven`. */
function inWord(number: number): string {
  return ['no', 'one', 'two', 'three', 'four', 'five', 'six', 'seven', 'eight'][number] ?? '';
}

function inDigits(number: number): string {
  return number.toLocaleString('en');
}

function inWords(items: string[]): string {
  return new Intl.ListFormat('en-GB').format(items);
}

/** External links are not followed: a test needs no network. */
function isBroken(document: string, link: string): boolean {
  if (/^[a-z]+:/.test(link)) return false;
  const [path, heading] = link.split('#');
  const target = path ? relative(ROOT, join(ROOT, dirname(document), path)) : document;
  if (!existsSync(join(ROOT, target))) return true;
  return heading !== undefined && !headingsOf(target).includes(heading);
}

/** The anchors of headings, as GitHub builds them. */
function headingsOf(document: string): string[] {
  const headings = textOf(document).matchAll(/^#{1,6} (.+)$/gm);
  return [...headings].map(([, text]) =>
    (text as string)
      .toLowerCase()
      .replace(/[^\p{L}\p{N}\s_-]/gu, '')
      .replaceAll(' ', '-'),
  );
}

/**
 * Returns the cells of the last table of a section that starts with this text, without its two
 * heading rows.
 */
function tableUnder(document: string, heading: string, start = '| '): string[][] {
  const section =
    textOf(document)
      .split(/^## /m)
      .find((text) => text.startsWith(`${heading}\n`)) ?? '';
  const table = section.split('\n\n').findLast((block) => block.startsWith(start)) ?? '';
  const rows = table.trim().split('\n').slice(2);
  return rows.map((row) =>
    row
      .split('|')
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}
