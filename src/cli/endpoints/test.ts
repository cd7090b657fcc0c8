import { openFileEndpoint } from '../../adapters/files/open.ts';
import { acceptHostKey } from '../../commands/endpoints.ts';
import { type Endpoint, hasHostKey } from '../../domain/endpoints/endpoint.ts';
import { type AnnouncedHostKey, hostKeysOf } from '../../domain/protocols/host-keys.ts';
import type { Installation } from '../../installation.ts';
import { createKeyRecorder } from '../../processes/endpoints/announced-keys.ts';
import { openCredentials } from '../../processes/endpoints/credentials.ts';
import {
  type EndpointTest,
  noteSignIn,
  testEndpoint,
} from '../../processes/endpoints/endpoint-test.ts';
import type { StepResult } from '../../processes/endpoints/test-step.ts';
import { EXIT } from '../program/exit-codes.ts';
import { createPrintQueue, note, print, printJson } from '../program/output.ts';
import { operator } from '../program/session.ts';
import { failUntilVerdict, terminal } from '../program/terminal.ts';
import { addressOf } from './show.ts';

export interface TestOptions {
  acceptHostKey?: boolean;
  json?: boolean;
}

/**
 * Tests an endpoint and prints the steps as they happen. Accepts the host key that the server
 * presents, if the options say so. Throws Stopped, after the removal of the probe file, if the user
 * stops it.
 */
export async function testAndPrint(
  installation: Installation,
  configured: Endpoint,
  options: TestOptions,
): Promise<void> {
  failUntilVerdict();
  const { commands, sql, vault, store, logger } = installation;
  const { name } = configured;
  const credentials = await openCredentials(vault, configured);
  const lines = createPrintQueue();
  using stop = terminal().stopSignal();
  const onStep = (step: StepResult) => {
    if (!options.json) lines.add(() => printStep(step));
  };
  const runTest = async (definition: Endpoint) => {
    const endpoint = await openFileEndpoint(definition, credentials);
    const tested = { settings: definition.settings, endpoint };
    const test = await testEndpoint(tested, onStep, { stop });
    stop.throwIfAborted();
    return test;
  };
  if (!options.json) await print(`${name} at ${addressOf(configured.settings)}`);

  let accepted = false;
  let tested = configured;
  let result = await runTest(tested);
  if (options.acceptHostKey && result.fingerprint !== null && isNewKey(result)) {
    const { endpoint_id } = configured;
    const { state } = await acceptHostKey(commands, endpoint_id, result.fingerprint, operator());
    tested = state;
    accepted = true;
    const news = `The host key ${result.fingerprint} is accepted from now on`;
    if (!options.json) lines.add(() => print(news));
    result = await runTest(tested);
  }
  await noteSignIn(sql, tested, result).catch((error: unknown) =>
    logger.warn({ err: error }, 'the result of an endpoint test could not be recorded'),
  );
  await createKeyRecorder({ store, logger })(configured, result.announced, operator());
  if (result.ok) terminal().exitCode = EXIT.done;
  await lines.printed();
  if (options.json) await printJson({ name, accepted, ...result });
  else if (isNewKey(result)) {
    note(
      '  No password was sent. Compare the key with your partner, then accept it: ' +
        `waybill endpoints test ${name} --accept-host-key`,
    );
  } else if (!options.json) noteNewHostKeys(configured, result.announced);
}

/** Notes the announced keys that are not accepted, and how to accept them. */
function noteNewHostKeys({ name, settings }: Endpoint, announced: AnnouncedHostKey[]): void {
  const accepted = hasHostKey(settings) ? hostKeysOf(settings).map(({ sha256 }) => sha256) : [];
  for (const { sha256, key_type, verified_by } of announced) {
    if (accepted.includes(sha256) || !accepted.includes(verified_by)) continue;
    note(
      `  The verified server has announced another host key: ${key_type} ${sha256}\n` +
        `  To accept it: waybill endpoints accept-host-key ${name} ${sha256}`,
    );
  }
}

/** Returns true if the server itself, not a jump host, presented a key that is not accepted. */
function isNewKey(result: EndpointTest): boolean {
  const failure = failureOf(result);
  return failure?.step === 'connect' && failure.code === 'host_key_mismatch';
}

function failureOf({ steps }: EndpointTest) {
  const last = steps.at(-1);
  return last?.ok === false ? last : null;
}

function printStep(result: StepResult): Promise<void> {
  const line =
    `${result.ok ? 'ok  ' : 'FAIL'}  ${result.step.padEnd(8)}  ` +
    `${`${result.ms} ms`.padStart(9)}  `;
  return print(
    result.ok ? line + result.detail : `${line}${result.message}\n      ${result.advice}`,
  );
}
