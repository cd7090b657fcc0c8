import { OtherService } from '../../adapters/files/http/other-service.ts';
import { FileError } from '../../adapters/files/port.ts';
import { hasFolders } from '../../domain/endpoints/endpoint.ts';
import type { EndpointSettings } from '../../domain/protocols/index.ts';
import { TRANSFER_ERRORS, type TransferErrorCode } from '../../domain/transfers/errors.ts';

const STEP_LIMIT_MS = 60_000;

export type EndpointTestStep =
  | 'resolve'
  | 'via'
  | 'connect'
  | 'sign_in'
  | 'list'
  | 'write'
  | 'rename'
  | 'read'
  | 'remove';

export type StepResult = { step: EndpointTestStep; ms: number } & (
  | { ok: true; detail: string }
  | { ok: false; code: TransferErrorCode; message: string; advice: string }
);

/** Runs a step and records its result. Throws what the step throws. */
export type Step = <T>(
  step: EndpointTestStep,
  work: (signal: AbortSignal) => Promise<T>,
  describe: (result: T) => string,
) => Promise<T>;

/** Creates the function that runs the steps of a test. `record` gets each result. */
export function createStep(settings: EndpointSettings, record: (result: StepResult) => void): Step {
  return async (step, work, describe) => {
    const began = performance.now();
    const ms = () => Math.round(performance.now() - began);
    try {
      const result = await work(AbortSignal.timeout(STEP_LIMIT_MS));
      record({ step, ms: ms(), ok: true, detail: describe(result) });
      return result;
    } catch (error) {
      const { code, message } =
        error instanceof FileError
          ? error
          : { code: 'internal_error' as const, message: String(error) };
      const advice = adviceOn(step, error, code, settings);
      record({ step, ms: ms(), ok: false, code, message, advice });
      throw error;
    }
  };
}

/** What to do if the hop is to blame, not the server behind it. */
const ADVICE_ON_HOP: Partial<Record<TransferErrorCode, string>> = {
  auth_failed:
    "Check the user name and the password or key of `via`, then replace the endpoint's credentials.",
  host_key_mismatch:
    "Compare the jump host's key with the one that its administrator names, then add it to `host_keys` of `via`. No password was sent.",
  connection_failed:
    'Check host and port of `via`, that it runs, and that its rules allow a connection to the server.',
};

/** Returns what to do. At `list`, a missing path is the endpoint's base, not a transfer's file. */
function adviceOn(
  step: EndpointTestStep,
  error: unknown,
  code: TransferErrorCode,
  settings: EndpointSettings,
): string {
  if (error instanceof OtherService)
    return 'Check `endpoint_url`: it must be the address of the storage API, not of a web console.';
  const adviceOnHop = step === 'via' ? ADVICE_ON_HOP[code] : undefined;
  if (adviceOnHop) return adviceOnHop;
  if (step !== 'list' || code !== 'source_not_found') return TRANSFER_ERRORS[code].advice;
  return hasFolders(settings)
    ? "Create the folder on the server, or correct the endpoint's `base_path`."
    : TRANSFER_ERRORS.destination_not_found.advice;
}
