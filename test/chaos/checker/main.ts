import { check } from './check.ts';

const [folder] = process.argv.slice(2);
if (folder === undefined) {
  console.error('Usage: bin/node test/chaos/checker/main.ts FOLDER');
  process.exit(2);
}
const { findings, figures } = await check(folder);
for (const { check: name, subject, detail } of findings)
  console.log(`${name}: ${subject}: ${detail}`);
for (const [name, value] of Object.entries(figures)) console.log(`${name.padEnd(24)} ${value}`);
console.log(findings.length === 0 ? 'No findings' : `${findings.length} findings`);
process.exitCode = findings.length === 0 ? 0 : 1;
