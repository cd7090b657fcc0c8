import type { DeliveryRequest } from './send.ts';
import { type SigningSecrets, signatureHeaders } from './signature.ts';

/** What one attempt sends. */
export interface Attempted {
  url: string;
  event_id: string;
  body: string;
  /** When it begins, in milliseconds since 1970. */
  at: number;
}

/** Returns the request of an attempt. All headers that receivers may read are added here. */
export function deliveryRequest(
  { url, event_id, body, at }: Attempted,
  secrets: SigningSecrets,
): DeliveryRequest {
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'Waybill',
    ...signatureHeaders(secrets, event_id, Math.floor(at / 1_000), body),
  };
  return { url, headers, body };
}
