import { describeCronYears } from './cron-years.ts';

describeCronYears(true);
