import fastify from 'fastify';
import { connect } from '../../src/adapters/postgres/connect.ts';

// The peer of the API: inserts one row, selects one row or a page of rows, and does nothing else.
// Its argument is the URL of the database. It prints its own URL.
const sql = connect(process.argv[2] as string, { max: 20 });
await sql`
  create table rows (id bigint generated always as identity primary key,
      created_at timestamptz not null default now(), body jsonb not null)`;

const app = fastify();
app.post('/rows', async (request, reply) => {
  const [row] = await sql`
      insert into rows (body) values (${sql.json(request.body as never)})
      returning id::text, created_at`;
  return reply.code(201).send(row);
});
app.get(
  '/rows',
  () => sql`select id::text, created_at, body from rows order by rows.id desc limit 20`,
);
app.get<{ Params: { id: string } }>('/rows/:id', async ({ params }) => {
  const [row] = await sql`select id::text, created_at, body from rows where id = ${params.id}`;
  return row;
});
console.log(await app.listen({ port: 0, host: '127.0.0.1' }));
