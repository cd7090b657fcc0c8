import { timeLimit } from '../../adapters/files/abort.ts';
import { OtherService } from '../../adapters/files/http/other-service.ts';
import { FileError, type FileStep } from '../../adapters/files/port.ts';
import type { EndpointTestStep } from '../../contract/endpoints/answers.ts';
import { hasFolders } from '../../domain/endpoints/endpoint.ts';
import type { EndpointSettings } from '../../domain/protocols/index.ts';
import { TRANSFER_ERRORS, type TransferErrorCode } from '../../domain/transfers/errors.ts';

/** Where each step fails, and within which time. The probe file may need longer on a slow line. */
const STEPS: Record<EndpointTestStep, { at: FileStep; limitMs: number }> = {
  resolve: { at: 'connect', limitMs: 30_000 },
  via: { at: 'connect', limitMs: 30_000 },
  connect: { at: 'connect', limitMs: 30_000 },
  sign_in: { at: 'sign_in', limitMs: 30_000 },
  list: { at: 'open', limitMs: 30_000 },
  write: { at: 'transfer', limitMs: 60_000 },
  rename: { at: 'commit', limitMs: 60_000 },
  read: { at: 'transfer', limitMs: 60_000 },
  remove: { at: 'commit', limitMs: 60_000 },
};

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

export interface StepOptions {
  /** Replaces the time limit of each step. */
  limitMs?: number;
  /** Aborts the running step, which then has no result, and those that would follow. */
  stop?: AbortSignal;
}

/** Creates the function that runs the steps of a test. `record` gets each result. */
export function createStep(
  settings: EndpointSettings,
  record: (result: StepResult) => void,
  { limitMs, stop }: StepOptions = {},
): Step {
  return async (step, work, describe) => {
    const began = performance.now();
    const { at, limitMs: ownLimitMs } = STEPS[step];
    const ms = () => Math.round(performance.now() - began);
    try {
      stop?.throwIfAborted();
      const limit = timeLimit(limitMs ?? ownLimitMs, at);
      const result = await work(stop ? AbortSignal.any([stop, limit]) : limit);
      record({ step, ms: ms(), ok: true, detail: describe(result) });
      return result;
    } catch (error) {
      if (stop?.aborted) throw error;
      const { shownCode: code, message } =
        error instanceof FileError
          ? error
          : { shownCode: 'internal_error' as const, message: String(error) };
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
