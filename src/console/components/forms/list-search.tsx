import { useLocation } from 'preact-iso/router';
import { urlOf } from '../../api/client.ts';
import { SearchField } from './search-field.tsx';

/** The search of a list whose address takes `q`. A search begins with the first page. */
export function ListSearch({ placeholder }: { placeholder: string }) {
  const { path, query, route } = useLocation();
  const search = (text: string) =>
    route(urlOf(path, { query: { ...query, q: text.trim(), offset: undefined } }));
  return (
    <search>
      <form class="filters" onSubmit={(event) => event.preventDefault()}>
        <SearchField
          label="Search"
          value={query.q ?? ''}
          placeholder={placeholder}
          onSearch={search}
        />
      </form>
    </search>
  );
}
