import { accountOption } from '../program/parse.ts';

export const ACCOUNT_OPTION = accountOption('webhooks');
export const JSON_OPTION = ['--json', 'one JSON document'] as const;
