import type { ComponentChildren } from 'preact';
import type { Flow, TransferErrorCode } from '../../api/api-types.ts';
import { reasonOf } from '../../api/error-reasons.ts';
import { MarkedText } from '../../components/values/marked-text.tsx';
import { Time } from '../../components/values/time.tsx';
import { EndpointLink } from '../transfers/endpoint-link.tsx';

type Failing = NonNullable<Flow['failing']>;

interface Props {
  failing: Failing;
  /** The folder. */
  uri: string | undefined;
  /** What Waybill does about it. */
  children?: ComponentChildren;
}

/** Says why the folder of a flow or a batch cannot be listed, and what to do. */
export function FailingFolder({ failing: { since, error }, uri, children }: Props) {
  return (
    <section class="notice danger">
      <h2>Its folder cannot be listed</h2>
      <p role="alert">
        {error.folder && <code>{error.folder}</code>} {error.message} (<code>{error.code}</code>)
      </p>
      <p>
        <MarkedText>{adviceOn(error)}</MarkedText>
      </p>
      {uri && <EndpointLink of={uri} />}
      {/* Outside of the alert: screen readers would read it again whenever its minutes change. */}
      <p class="muted">
        {children && <>{children}. </>}First failed <Time at={since} />
      </p>
    </section>
  );
}

/** Returns what to do. A folder that is not there is no file whose transfer can be retried. */
function adviceOn({ code }: Failing['error']): string {
  return code === 'source_not_found'
    ? 'Create the folder, or create a flow with the right path, letter case included.'
    : reasonOf(code as TransferErrorCode).advice;
}
