import { isUnanswered } from '../../api/client.ts';
import { Name } from '../../components/values/names.tsx';
import { Status } from '../../components/values/status.tsx';
import type { Check, Finding } from './checks.ts';

/** Shows what needs attention, the worst first; if nothing does, says what was checked. */
export function Attention({ checks }: { checks: Check[] }) {
  const findings = checks
    .flatMap((check) => (check.part?.data ? check.findings : []))
    .toSorted((a, b) => Number(b.tone === 'bad') - Number(a.tone === 'bad'));
  const failed = checks.filter(({ part }) => part?.error && !isUnanswered(part.error.problem));
  const missing = checks.filter((check) => !check.part?.data && !failed.includes(check));
  const fine = checks.filter(({ part, findings }) => part?.data && findings.length === 0);

  return (
    <section class="attention" aria-labelledby="attention" aria-busy={missing.length > 0}>
      {/* The times in what is shown change with every look, and would be read again each time. */}
      <p class="visually-hidden" role="status">
        {missing.length === 0 && inBrief(findings)}
      </p>
      <h2 id="attention">{findings.length > 0 ? 'Needs attention' : 'State'}</h2>
      {findings.map((finding) => (
        <Notice key={finding.title} finding={finding} />
      ))}
      {/* One store that is away fails many checks, for the same reason. */}
      {[...Map.groupBy(failed, ({ part }) => part?.error?.message)].map(([message, alike]) => {
        const names = LISTED.format(alike.map(({ name }) => name));
        return (
          <div key={message} class="notice warning">
            <p>
              <strong>Waybill could not check {names}.</strong> {message}
            </p>
            <button
              type="button"
              onClick={() => {
                for (const { part } of alike) part?.reload();
              }}
            >
              {alike.length === 1 ? `Check ${names} again` : 'Check again'}
            </button>
          </div>
        );
      })}
      {missing.length > 0 && (
        <p class="notice muted">Checking {missing.map(({ name }) => name).join(', ')} …</p>
      )}
      {fine.length > 0 && (
        <div class="notice good">
          {fine.length === checks.length && <Status tone="good">All is well</Status>}
          <p>{fine.map((check) => check.fine).join(' ')}</p>
        </div>
      )}
    </section>
  );
}

const LISTED = new Intl.ListFormat('en-GB');
const WORDS = { bad: 'Problem', warning: 'Warning' } as const;
const KINDS = { bad: 'danger', warning: 'warning' } as const;

/** Returns what a screen reader reads when it changes. */
function inBrief(findings: Finding[]): string {
  if (findings.length === 0) return 'Nothing needs attention';
  return findings.map(({ tone, title }) => `${WORDS[tone]}: ${title}`).join('. ');
}

function Notice({ finding: { tone, title, items, link } }: { finding: Finding }) {
  return (
    <div class={`notice finding ${KINDS[tone]}`}>
      <div>
        <h3>
          <Status tone={tone}>{WORDS[tone]}</Status> {title}
        </h3>
        {items.length > 0 && (
          <ul>
            {items.map(({ name, href, detail }) => (
              <li key={name}>
                {href ? (
                  <a href={href}>
                    <Name of={name} />
                  </a>
                ) : (
                  <strong>
                    <Name of={name} />
                  </strong>
                )}{' '}
                {detail}
              </li>
            ))}
          </ul>
        )}
      </div>
      <a class="button" href={link.href}>
        {link.label}
      </a>
    </div>
  );
}
