import postgres from 'postgres';

export type Sql = postgres.Sql;

/** A pool on the installation's database. Bigints come as text, and times as ISO 8601 in UTC. */
export function connect(url: string): Sql {
  return postgres(url, {
    max: 4,
    fetch_types: false,
    types: {
      timestamptz: {
        to: 1184,
        from: [1184],
        serialize: (value: string) => value,
        parse: (text: string) => new Date(text).toISOString(),
      },
    },
    connection: { application_name: 'chaos checker', TimeZone: 'UTC', DateStyle: 'ISO' },
    onnotice: () => {},
  }) as unknown as Sql;
}
