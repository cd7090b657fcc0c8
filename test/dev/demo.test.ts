import { expect, it, onTestFinished } from 'vitest';
import { configureDemoEndpoints } from '../../src/dev/demo.ts';
import { loadDemoState } from '../../src/dev/demo-state.ts';
import { listEndpoints } from '../../src/projections/catalog/queries.ts';
import { describeWithPostgres } from '../support/postgres/test-database.ts';
import { CAUSE, configureEndpoint, openTestInstallation } from '../support/service/installation.ts';

describeWithPostgres('the endpoints of the demo', () => {
  it('replace none that has the name of one, but is of a partner', async () => {
    const installation = await openTestInstallation();
    onTestFinished(() => installation.close());
    const partner = { host: 'sftp.bank.example', username: 'us', password: 'a password' };
    await configureEndpoint(installation, { ...partner, name: 'bank', protocol: 'sftp' });
    await installation.commands.catchUp('catalog');
    const state = await loadDemoState('/nowhere');
    for (const server of Object.values(state.servers)) server.port = 22;
    const configuring = configureDemoEndpoints(installation, state, CAUSE);
    await expect(configuring).rejects.toMatchObject({ code: 'precondition_failed' });
    await installation.commands.catchUp('catalog');
    expect(await listEndpoints(installation.sql)).toMatchObject([
      { name: 'bank', settings: { host: 'sftp.bank.example' } },
    ]);
  });
});
