import { saveCsv } from '../../../api/client.ts';
import { ActionButton } from '../../../components/dialogs/action-button.tsx';
import type { Filter, Order } from '../filter.ts';

/**
 * Downloads all transfers that match. Only the header Accept asks for CSV, so a link cannot. The
 * browser keeps the whole file, on disk if it is large, before it saves it.
 */
export function CsvButton({ filter, order }: { filter: Filter; order: Order }) {
  const query = { ...filter, sort: order };
  return (
    <ActionButton onAction={() => saveCsv('GET /v1/transfers', query, 'transfers.csv')}>
      Download CSV
    </ActionButton>
  );
}
