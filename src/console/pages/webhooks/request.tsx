import type { DeliveryDetail } from '../../api/api-types.ts';
import { CopyButton } from '../../components/values/copy-button.tsx';

/** Shows what the last attempt sent: headers and body, and a command that sends the same. */
export function Request({ delivery: { request, body } }: { delivery: DeliveryDetail }) {
  return (
    <section class="card" aria-label="Request">
      <header class="page-header">
        <h2>Request</h2>
        {request && (
          <div>
            <CopyButton text={curlOf(request, body)} what="as curl" named />
          </div>
        )}
      </header>
      {request ? (
        <>
          <h3>Headers</h3>
          <pre>
            <code>
              {Object.entries(request.headers)
                .map(([name, value]) => `${name}: ${value}`)
                .join('\n')}
            </code>
          </pre>
          <p class="hint">
            Headers of the last attempt, signed with the webhook’s present secret. Receivers reject
            a signature that is older than five minutes.
          </p>
        </>
      ) : (
        <p class="muted">No headers: nothing was sent yet, or the webhook or its secret is gone.</p>
      )}
      <h3>Body</h3>
      <pre>
        <code>{readable(body)}</code>
      </pre>
    </section>
  );
}

/** Indents the JSON; the sent bytes have no line breaks. */
function readable(body: string): string {
  return JSON.stringify(JSON.parse(body), null, 2);
}

/** Returns a command for a shell that sends the same request. Leaves out credentials of the URL. */
function curlOf({ url, headers }: NonNullable<DeliveryDetail['request']>, body: string): string {
  const target = new URL(url);
  target.username = '';
  target.password = '';
  const lines = [
    `curl ${quoted(target.href)}`,
    ...Object.entries(headers).map(([name, value]) => `  -H ${quoted(`${name}: ${value}`)}`),
    `  --data-raw ${quoted(body)}`,
  ];
  return lines.join(' \\\n');
}

/** Quotes a text for POSIX shells. */
function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
