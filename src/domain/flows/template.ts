import { DomainError } from '../errors.ts';
import { encodePath, parseRequestedUri } from '../uri.ts';

/** What a template is filled with. */
export interface TemplateValues {
  flow: string;
  /** Path of the file below the folder of the flow, not encoded. */
  path: string;
  at: Date;
  time_zone: string;
}

const PLACEHOLDER = /\{([^{}]*)\}/g;
const DATE_PARTS = /yyyy|MM|dd|HH|mm|ss/g;
const PARTS = {
  yyyy: 'year',
  MM: 'month',
  dd: 'day',
  HH: 'hour',
  mm: 'minute',
  ss: 'second',
} as const;

/**
 * Returns the destination of a file. `{path}` is its path below the folder, `{name}` its last
 * segment, `{flow}` the name of the flow, and `{date:yyyy-MM-dd}` the time of the run. The path
 * follows a template that ends in a slash.
 */
export function destinationOf(template: string, values: TemplateValues): string {
  const whole = template.endsWith('/') ? `${template}{path}` : template;
  return whole.replace(PLACEHOLDER, (_, name: string) => fillIn(name, values));
}

/** Returns whether a destination has the path of its file: no other file of a run then shares it. */
export function keepsPath(template: string): boolean {
  return template.endsWith('/') || template.includes('{path}');
}

/** Returns the destination of some file. */
export function exampleOf(template: string): string {
  return destinationOf(template, {
    flow: 'flow',
    path: 'folder/name',
    at: new Date(0),
    time_zone: 'UTC',
  });
}

function fillIn(name: string, { flow, path, at, time_zone }: TemplateValues): string {
  switch (name) {
    case 'path':
      return encodePath(path);
    case 'name':
      return encodePath(path.slice(path.lastIndexOf('/') + 1));
    case 'flow':
      return encodeURIComponent(flow);
    default:
      return encodePath(dateIn(name.slice('date:'.length), at, time_zone));
  }
}

function dateIn(format: string, at: Date, timeZone: string): string {
  const parts = new Intl.DateTimeFormat('en-US', {
    timeZone,
    hourCycle: 'h23',
    year: 'numeric',
    month: '2-digit',
    day: '2-digit',
    hour: '2-digit',
    minute: '2-digit',
    second: '2-digit',
  }).formatToParts(at);
  return format.replace(DATE_PARTS, (part) => {
    const wanted = PARTS[part as keyof typeof PARTS];
    return (parts.find(({ type }) => type === wanted)?.value ?? '').padStart(part.length, '0');
  });
}

/** Returns what is wrong with a template, as text that follows its name; null if nothing. */
export function objectionToTemplate(template: string): { code: string; message: string } | null {
  const invalid = (message: string) => ({ code: 'validation_failed', message });
  for (const [, name = ''] of template.matchAll(PLACEHOLDER))
    if (!['path', 'name', 'flow'].includes(name) && !isDate(name))
      return invalid(
        `has the unknown placeholder {${name}}: use {path}, {name}, {flow} or {date:yyyy-MM-dd}`,
      );
  const start = /^[^:]*:\/\/[^/]*/.exec(template)?.[0] ?? '';
  if (/[{}]/.test(start)) return invalid('must not have a placeholder before its path');
  const filled = exampleOf(template);
  if (/[{}]/.test(filled))
    return invalid('must write { as %7B and } as %7D where they are part of a name');
  try {
    parseRequestedUri(filled, 'destination_uri');
    return null;
  } catch (error) {
    if (error instanceof DomainError) return { code: error.code, message: error.message };
    throw error;
  }
}

function isDate(name: string): boolean {
  if (!name.startsWith('date:')) return false;
  const format = name.slice('date:'.length);
  return format !== '' && !/[a-z]/i.test(format.replace(DATE_PARTS, ''));
}
