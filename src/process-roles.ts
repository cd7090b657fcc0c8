/** The parts of the service. A process runs one or more of them. */
export const PROCESS_ROLES = ['api', 'projector', 'mover', 'webhooks', 'monitor'] as const;
export type ProcessRole = (typeof PROCESS_ROLES)[number];
