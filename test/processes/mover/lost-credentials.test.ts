import { expect, it, onTestFinished } from 'vitest';
import { accessTo } from '../../../src/processes/endpoints/open-endpoint.ts';
import { describeWithPostgres } from '../../support/postgres/test-database.ts';
import {
  configureEndpoint,
  openTestInstallation,
  submit,
  untilStatus,
} from '../../support/service/installation.ts';
import { startRoles } from '../../support/service/roles.ts';

const REASON = /no longer has the credentials of this endpoint: replace them/;

describeWithPostgres('an endpoint whose credentials are not in the vault', () => {
  it('fails its transfers and its tests with what to do', async () => {
    const installation = await openTestInstallation();
    const roles = await startRoles(installation);
    onTestFinished(async () => {
      await roles.stop();
      await installation.close();
    });
    const request = { name: 'lost', protocol: 'ftps', host: '127.0.0.1', username: 'u' };
    await configureEndpoint(installation, { ...request, password: 'p' });
    await installation.sql`delete from work.vault`;
    const id = await submit(installation, 'ftps://lost/a', 'ftps://lost/b');
    expect(await untilStatus(installation, id, ['completed', 'failed'])).toMatchObject({
      status: 'failed',
      facts: {
        error: {
          code: 'auth_failed',
          phase: 'source_sign_in',
          message: expect.stringMatching(REASON),
          attempts: 1,
        },
      },
    });
    const [endpoint] = await installation.commands.endpoints();
    await expect(accessTo(installation.vault, endpoint!)).rejects.toMatchObject({
      code: 'endpoint_failed',
      message: expect.stringMatching(REASON),
    });
  });
});
