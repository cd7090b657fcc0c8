/** picomatch 4.0.7 does not end for some globs with so many. */
const BACKSLASHES = /\\{4}/;
const CLOSING = { '[': ']', '{': '}', '(': ')' } as const;
type Opening = keyof typeof CLOSING;

/**
 * Returns what is wrong with a glob, as text that follows its name; null if nothing. The matcher
 * takes an incomplete glob for another name, or for one that no file has.
 */
export function objectionToGlob(glob: string): string | null {
  if (BACKSLASHES.test(glob))
    return 'has more than three backslashes in a row: Waybill copies no file with a backslash in its name';
  const open: { sign: Opening; matters: boolean }[] = [];
  for (let i = 0; i < glob.length; i++) {
    const sign = glob[i] as string;
    if (sign === '\\') {
      i++;
      if (i === glob.length)
        return 'ends in a backslash that escapes nothing: write \\\\ for the character itself';
    } else if (sign === '"') i = endOfQuote(glob, i);
    else if (sign === '[') {
      i = endOfClass(glob, i);
      if (i >= glob.length) return unclosed('[');
    } else if (sign === '{' || sign === '(')
      // A single ( is a character of names. It begins a group only after one of these.
      open.push({ sign, matters: sign === '{' || /[?*+@!]/.test(glob[i - 1] ?? '') });
    else if (sign === '}' || sign === ')') close(open, sign);
  }
  const first = open.find(({ matters }) => matters);
  return first ? unclosed(first.sign) : objectionToSlashes(glob);
}

/** The paths that a glob is compared with neither begin nor end with a slash. */
function objectionToSlashes(glob: string): string | null {
  if (/^!?\//.test(glob))
    return 'begins with a slash, which no path below the folder does: leave it out';
  if (glob.endsWith('/'))
    return 'ends in a slash, which no path of a file does: write ** after it for all files below';
  return null;
}

function unclosed(sign: Opening): string {
  return `has a ${sign} without a ${CLOSING[sign]}: write \\${sign} for the character itself`;
}

function close(open: { sign: Opening }[], closing: string): void {
  const last = open.findLastIndex(({ sign }) => CLOSING[sign] === closing);
  if (last >= 0) open.splice(last, 1);
}

/** Returns the place of the quote that ends one. The glob may end before. */
function endOfQuote(glob: string, start: number): number {
  let i = start + 1;
  while (i < glob.length && glob[i] !== '"') i += glob[i] === '\\' ? 2 : 1;
  return i;
}

/** Returns the place of the ] that ends a class of characters. The glob may end before. */
function endOfClass(glob: string, start: number): number {
  let i = start + 1;
  if (glob[i] === '^') i++;
  // A ] at the start is one of the characters.
  if (glob[i] === ']') i++;
  while (i < glob.length && glob[i] !== ']') {
    const named = /^\[:[a-z]+:\]/.exec(glob.slice(i))?.[0];
    i += named?.length ?? (glob[i] === '\\' ? 2 : 1);
  }
  return i;
}
