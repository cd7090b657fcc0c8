import { runBench } from './support/bench.ts';
import { loadAverage, printMachine } from './support/machine.ts';
import { parseOptions } from './support/options.ts';

const BENCHES: Record<string, () => Promise<{ run: Parameters<typeof runBench>[0] }>> = {
  sftp: () => import('./sftp.ts'),
  pairs: () => import('./pairs.ts'),
  log: () => import('./log.ts'),
  lag: () => import('./lag.ts'),
  http: () => import('./http.ts'),
  latency: () => import('./latency.ts'),
  webhooks: () => import('./webhooks.ts'),
  search: () => import('./search.ts'),
  proof: () => import('./proof.ts'),
};

const { names, options } = parseOptions(process.argv.slice(2));
const unknown = names.filter((name) => !Object.hasOwn(BENCHES, name));
if (names.length === 0 || unknown.length > 0) {
  console.error(
    'usage: npm run bench -- NAME... [--runs 5] [--profile] ..., with ' +
      `${Object.keys(BENCHES).join(', ')}; bench/README.md explains the options`,
  );
  process.exit(2);
}
printMachine();
for (const name of names) {
  const bench = await BENCHES[name]?.();
  if (bench) await runBench(bench.run, options);
}
console.log(`\nAt the end: ${loadAverage()}`);
