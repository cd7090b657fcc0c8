import type { Command } from 'commander';
import { limitBandwidth } from '../../commands/endpoints.ts';
import { bandwidth } from '../../contract/endpoints/bandwidth.ts';
import {
  type Bandwidth,
  type BandwidthWindow,
  DAYS,
  limitAt,
} from '../../domain/endpoints/bandwidth.ts';
import type { Endpoint } from '../../domain/endpoints/endpoint.ts';
import { DomainError, fieldError } from '../../domain/errors.ts';
import type { Installation } from '../../installation.ts';
import { print, printJson } from '../program/output.ts';
import { parseRequest } from '../program/parse.ts';
import { operator, withInstallation } from '../program/session.ts';

type Find = (installation: Installation, name: string) => Promise<Endpoint>;

interface Options {
  window?: string[];
  json?: boolean;
}

/** Adds `endpoints limit`. */
export function addLimitCommand(endpoints: Command, find: Find): void {
  endpoints
    .command('limit')
    .description('limit the bandwidth of all transfers of an endpoint together, or show the limit')
    .argument('<name>', 'of the endpoint')
    .argument(
      '[rate]',
      'bytes per second, such as 5MB or 512KiB; `none` removes the limit and its windows',
    )
    .option(
      '--window <window>',
      'a time with another limit, such as "mon-fri 08:00-18:00 Europe/Berlin 1MB"; may be repeated',
      (window: string, before: string[] = []) => [...before, window],
    )
    .option('--json', 'one JSON document')
    .action(async (name: string, rate: string | undefined, { window = [], json }: Options) => {
      const wanted = rate === undefined ? undefined : limitOf(rate, window);
      if (wanted === undefined && window.length > 0)
        throw new DomainError(
          'validation_failed',
          '--window needs a rate for the other times, such as 5MB or none',
        );
      const limit = await withInstallation(async (installation) => {
        const endpoint = await find(installation, name);
        if (wanted === undefined) return endpoint.bandwidth ?? null;
        await limitBandwidth(installation.commands, endpoint.endpoint_id, wanted, operator());
        return wanted;
      });
      if (json)
        await printJson({ name, bandwidth: limit, bandwidth_now: limitAt(limit, new Date()) });
      else await print(inWords(name, limit));
    });
}

/** Throws `validation_failed`. */
function limitOf(rate: string, windows: string[]): Bandwidth | null {
  if (rate === 'none' && windows.length === 0) return null;
  return parseRequest(
    bandwidth,
    {
      bytes_per_second: bytesIn(rate, 'rate'),
      windows: windows.map((text, index) => windowOf(text, `windows[${index}]`)),
    },
    'The limit',
  );
}

const UNITS = { b: 1, kb: 1e3, mb: 1e6, gb: 1e9, kib: 2 ** 10, mib: 2 ** 20, gib: 2 ** 30 };

function bytesIn(text: string, field: string): number | null {
  if (text === 'none') return null;
  const [, number, unit = 'b'] = /^(\d+(?:\.\d+)?)([kmg]i?b|b)?$/i.exec(text) ?? [];
  if (number === undefined) throw fieldError(field, `must be such as 5MB, 512KiB or none: ${text}`);
  return Math.round(Number(number) * UNITS[unit.toLowerCase() as keyof typeof UNITS]);
}

/** Parses `[DAYS] FROM-TO [ZONE] RATE`. */
function windowOf(text: string, field: string) {
  const [, days, from, to, zone, rate = ''] =
    /^(?:([a-z,-]+) +)?([\d:]+)-([\d:]+)(?: +(\S+))? +(\S+)$/i.exec(text.trim()) ?? [];
  if (from === undefined)
    throw fieldError(field, `must be such as "mon-fri 08:00-18:00 Europe/Berlin 1MB": ${text}`);
  return {
    ...(days && { days: days.toLowerCase().split(',').flatMap(daysOf) }),
    from,
    to,
    ...(zone && { time_zone: zone }),
    bytes_per_second: bytesIn(rate, field),
  };
}

/** Returns the days of `mon-fri`, or `mon` itself. */
function daysOf(range: string): string[] {
  const [first, last = first] = range.split('-') as [string, string?];
  const [from, to] = [first, last].map((day) => (DAYS as readonly string[]).indexOf(day as string));
  if (from === undefined || to === undefined || from < 0 || to < 0) return [range];
  const count = ((to - from + DAYS.length) % DAYS.length) + 1;
  return Array.from({ length: count }, (_, i) => DAYS[(from + i) % DAYS.length] as string);
}

function inWords(name: string, limit: Bandwidth | null): string {
  if (!limit) return `${name} has no limit`;
  return [
    `${name}: ${rateOf(limit.bytes_per_second)}`,
    ...limit.windows.map(
      ({ days, from, to, time_zone, bytes_per_second }: BandwidthWindow) =>
        `  ${days.join(',')} ${from}-${to} ${time_zone}: ${rateOf(bytes_per_second)}`,
    ),
    `now: ${rateOf(limitAt(limit, new Date()))}`,
  ].join('\n');
}

function rateOf(bytesPerSecond: number | null): string {
  return bytesPerSecond === null ? 'no limit' : `${bytesPerSecond} bytes/s`;
}
