/** Letters that are written from right to left. */
const RIGHT_TO_LEFT =
  /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/**
 * Controls, and signs that reorder or hide text: `invoice\u202efdp.exe` would look like a PDF. The
 * zero-width joiner and non-joiner are in ordinary names.
 */
const UNSEEN = /(?![\u200c\u200d])[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/** Returns the name of a file as it is on its server, with what a reader would not see encoded. */
export function seen(name: string): string {
  return name.replace(UNSEEN, (sign) => encodeURIComponent(sign));
}

/**
 * A name that others chose. Its letters do not reorder what is beside it, such as a number, and its
 * ending stays at its right.
 */
export function Name({ of }: { of: string }) {
  return <bdi dir="ltr">{seen(of)}</bdi>;
}

/** A path or a URI. Its folders stay in their order, whatever letters they have. */
export function Path({ of }: { of: string }) {
  if (!RIGHT_TO_LEFT.test(of)) return <>{seen(of)}</>;
  return (
    <bdi dir="ltr">
      {of.split('/').map((segment, index) => (
        <>
          {index > 0 && '/'}
          <Name of={segment} />
        </>
      ))}
    </bdi>
  );
}

/** Returns a name for a sentence, as `Name` does for an element. */
export function isolated(name: string): string {
  return RIGHT_TO_LEFT.test(name) ? `\u2066${seen(name)}\u2069` : seen(name);
}
